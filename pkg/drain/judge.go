package drain

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/fit"
)

// Fate says what a drain owes a pod.
type Fate int

const (
	// Go is a pod that must leave before its node may be terminated.
	Go Fate = iota
	// Stay is a pod that goes down with its node: nothing is sent, nothing is waited for.
	Stay
	// Leaving is a pod that is deleted already: it is waited for, and never evicted again.
	Leaving
	// Held is a pod that must leave but is not evicted: the request does not allow it, or its owner
	// asks to wait for its end.
	Held
)

// Reason is a short word for people and for machine output.
type Reason string

const (
	// ReasonDaemonSet is a pod of a DaemonSet: its controller tolerates the cordon and would bring
	// it back.
	ReasonDaemonSet Reason = "DaemonSet"
	// ReasonMirror is the API server's mirror of a static pod; only the kubelet can stop it.
	ReasonMirror Reason = "static"
	// ReasonFinished is a pod in phase Succeeded or Failed: nothing of it runs.
	ReasonFinished Reason = "finished"
	// ReasonUnmanaged is a pod without a controller: no one brings it back.
	ReasonUnmanaged Reason = "unmanaged"
	// ReasonTerminating is a pod whose deletion has begun.
	ReasonTerminating Reason = "terminating"
	// ReasonLost is a deleted pod on a node that has not been heard of for LostAfter: its kubelet
	// cannot confirm the end.
	ReasonLost Reason = "lost"
	// ReasonSkipped is a pod whose owner asks that drains leave it alone.
	ReasonSkipped Reason = "skipped"
	// ReasonCompletes is a pod whose owner asks that drains wait for its completion.
	ReasonCompletes Reason = "completes"
	// ReasonDoNotDisrupt is a pod whose owner asks autoscalers not to disrupt it; see Protection.
	ReasonDoNotDisrupt Reason = "do not disrupt"
)

// Label is how a pod's owner asks for another drain than the usual one. It is Cluster API's, and so
// are its values (cluster-api, PodDrainLabel and drainLabelFilter: upper and lower case are the
// same, and unknown values ask for nothing).
const Label = "cluster.x-k8s.io/drain"

// Wish is what Label asks for.
type Wish int

const (
	// NoWish is a pod without the label.
	NoWish Wish = iota
	// Skip asks that the pod be neither evicted nor waited for.
	Skip
	// WaitCompleted asks that the pod be not evicted but waited for.
	WaitCompleted
	// UnknownWish is a value that no one knows.
	UnknownWish
)

// WishOf reads the pod's label.
func WishOf(pod *corev1.Pod) Wish {
	value, ok := pod.Labels[Label]
	if !ok {
		return NoWish
	}
	switch strings.ToLower(value) {
	case "skip":
		return Skip
	case "wait-completed", "waitcompleted":
		return WaitCompleted
	default:
		return UnknownWish
	}
}

// DropWishes returns the pods without their Label, for a forecast of a cloud that does not look at it. The pods
// of the list are not changed.
func DropWishes(pods []*corev1.Pod) []*corev1.Pod {
	plain := slices.Clone(pods)
	for i, pod := range plain {
		if WishOf(pod) != NoWish {
			plain[i] = pod.DeepCopy()
			delete(plain[i].Labels, Label)
		}
	}
	return plain
}

// Annotations by which a pod's owner asks an autoscaler not to disrupt it: cluster-autoscaler's
// (its FAQ, "What types of pods can prevent CA from removing a node?") and Karpenter's (its
// reference of annotations). A duration, which Karpenter's may hold as well, asks for nothing here.
const (
	AnnotationSafeToEvict  = "cluster-autoscaler.kubernetes.io/safe-to-evict"
	AnnotationDoNotDisrupt = "karpenter.sh/do-not-disrupt"
)

// Protection is the annotation by which the pod's owner asks not to be disrupted, as key=value;
// empty without one.
func Protection(pod *corev1.Pod) string {
	switch {
	case pod.Annotations[AnnotationSafeToEvict] == "false":
		return AnnotationSafeToEvict + "=false"
	case pod.Annotations[AnnotationDoNotDisrupt] == "true":
		return AnnotationDoNotDisrupt + "=true"
	default:
		return ""
	}
}

// LostAfter is how long a node must have been NotReady before its deleted pods are no longer waited
// for.
const LostAfter = 5 * time.Minute

// Policy is what the request allows beyond the safe default.
type Policy struct {
	// EvictUnmanaged lets pods without a controller be evicted; they are not brought back by
	// anybody.
	EvictUnmanaged bool
	// RespectDoNotDisrupt has pods with a Protection waited for.
	RespectDoNotDisrupt bool
	// IgnoreWishes has pods evicted whatever their Label asks for, as a cloud does that drains nodes itself.
	IgnoreWishes bool
}

// wishOf is what counts of the pod's label.
func (p Policy) wishOf(pod *corev1.Pod) Wish {
	if p.IgnoreWishes {
		return NoWish
	}
	return WishOf(pod)
}

// Verdict is a Fate with the reason for it; the reason is empty for Go.
type Verdict struct {
	Fate   Fate
	Reason Reason
}

// Obstacle is what keeps a pod of this verdict from being evicted; none unless it is Held.
func (v Verdict) Obstacle() Obstacle {
	switch v.Reason {
	case ReasonUnmanaged:
		return Obstacle{Kind: Unmanaged}
	case ReasonCompletes:
		return Obstacle{Kind: Completing}
	case ReasonDoNotDisrupt:
		return Obstacle{Kind: DoNotDisrupt}
	default:
		return Obstacle{}
	}
}

// Judge says what the drain owes the pod. isNodeLost is true when the pod's node has been NotReady
// for LostAfter.
//
// The order follows kubectl drain's filters, except that a finished pod never stops a drain and
// that an emptyDir never does (Kubernetes K12, cluster-api#12920).
func Judge(pod *corev1.Pod, policy Policy, nodeLost bool) Verdict {
	owner, wish := metav1.GetControllerOfNoCopy(pod), policy.wishOf(pod) // once: each step judges many pods
	if reason := reasonToStay(pod, owner, wish, nodeLost); reason != "" {
		return Verdict{Stay, reason}
	}
	switch {
	case pod.DeletionTimestamp != nil:
		return Verdict{Leaving, ReasonTerminating}
	case wish == WaitCompleted:
		return Verdict{Held, ReasonCompletes}
	case policy.RespectDoNotDisrupt && Protection(pod) != "":
		return Verdict{Held, ReasonDoNotDisrupt}
	case owner == nil && !policy.EvictUnmanaged:
		return Verdict{Held, ReasonUnmanaged}
	default:
		return Verdict{Fate: Go}
	}
}

// reasonToStay is why the pod goes down with its node; empty when it does not.
func reasonToStay(pod *corev1.Pod, owner *metav1.OwnerReference, wish Wish, nodeLost bool) Reason {
	switch {
	case pod.Annotations[corev1.MirrorPodAnnotationKey] != "":
		return ReasonMirror
	case isFinished(pod):
		return ReasonFinished
	case owner != nil && owner.Kind == "DaemonSet":
		return ReasonDaemonSet
	case wish == Skip:
		return ReasonSkipped
	case pod.DeletionTimestamp != nil && nodeLost:
		return ReasonLost
	default:
		return ""
	}
}

// isFinished reports whether nothing of the pod runs any more, and nothing will.
func isFinished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// OwnerKind is the kind of the pod's controller, "" when it has none.
func OwnerKind(pod *corev1.Pod) string {
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
		return owner.Kind
	}
	return ""
}

// Ready is the pod's Ready condition, the only thing a budget counts (disruption.go,
// countHealthyPods).
func Ready(pod *corev1.Pod) bool {
	c := conditionOf(pod, corev1.PodReady)
	return c != nil && c.Status == corev1.ConditionTrue
}

// conditionOf is the pod's condition of the type, nil when it has none.
func conditionOf(pod *corev1.Pod, of corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == of {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

// IsEvictedSince reports whether the pod was evicted at that time or later, in whole seconds: the
// eviction API says so on a pod before it deletes it (eviction.go, addConditionAndDeletePod). One
// that ends, or that is deleted by other means, does not have it.
func IsEvictedSince(pod *corev1.Pod, since time.Time) bool {
	since = since.Truncate(time.Second)
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue && c.Reason == "EvictionByEvictionAPI" &&
			!c.LastTransitionTime.Time.Before(since)
	})
}

// ToleratesTaint reports whether the pod tolerates the taint, by the comparison of core/v1.
func ToleratesTaint(pod *corev1.Pod, taint corev1.Taint) bool {
	return fit.Tolerates(pod.Spec.Tolerations, &taint)
}
