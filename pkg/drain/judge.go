package drain

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/fit"
)

// Fate is what a drain does about a pod.
type Fate int

const (
	// Go is a pod that must be evicted before its node may be terminated.
	Go Fate = iota
	// Stay is a pod that ends with its node: the drain neither evicts it nor waits for it.
	Stay
	// Leaving is a pod that is already being deleted: the drain waits for it and does not evict it.
	Leaving
	// Held is a pod that must leave but is not evicted: the request forbids the eviction, or the pod's owner asks to wait for
	// the pod's end.
	Held
)

// Reason is a short word for people and for machine output.
type Reason string

const (
	// ReasonDaemonSet is a pod of a DaemonSet, whose controller tolerates the cordon and would recreate it.
	ReasonDaemonSet Reason = "DaemonSet"
	// ReasonMirror is the API server's mirror of a static pod. Only the kubelet can stop it.
	ReasonMirror Reason = "static"
	// ReasonFinished is a pod in phase Succeeded or Failed: it no longer runs.
	ReasonFinished Reason = "finished"
	// ReasonUnmanaged is a pod without a controller that would recreate it.
	ReasonUnmanaged Reason = "unmanaged"
	// ReasonTerminating is a pod whose deletion has begun.
	ReasonTerminating Reason = "terminating"
	// ReasonLost is a deleted pod on a node that has not been Ready for LostAfter: its kubelet cannot confirm the end.
	ReasonLost Reason = "lost"
	// ReasonSkipped is a pod whose label asks drains neither to evict it nor to wait for it.
	ReasonSkipped Reason = "skipped"
	// ReasonCompletes is a pod whose label asks drains to wait until it completes.
	ReasonCompletes Reason = "completes"
	// ReasonDoNotDisrupt is a pod whose annotation asks autoscalers not to disrupt it; see Protection.
	ReasonDoNotDisrupt Reason = "do not disrupt"
)

// Label is the label by which a pod's owner asks for another kind of drain. The label and its values are Cluster API's
// (cluster-api, PodDrainLabel and drainLabelFilter). Case is ignored, and unknown values have no effect.
const Label = "cluster.x-k8s.io/drain"

// Wish is the meaning of a pod's Label.
type Wish int

const (
	// NoWish is a pod without the label.
	NoWish Wish = iota
	// Skip asks the drain neither to evict the pod nor to wait for it.
	Skip
	// WaitCompleted asks the drain to wait for the pod's end instead of evicting it.
	WaitCompleted
	// UnknownWish is an unknown value.
	UnknownWish
)

// WishOf returns the meaning of the pod's label.
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

// DropWishes returns the pods without their Label, for a forecast of a cloud that ignores it. It does not change the pods
// of the list.
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

// Annotations by which a pod's owner asks an autoscaler not to disrupt it: cluster-autoscaler's (its FAQ, "What types of
// pods can prevent CA from removing a node?") and Karpenter's (its reference of annotations). Karpenter's may also have a
// duration, which has no effect here.
const (
	AnnotationSafeToEvict  = "cluster-autoscaler.kubernetes.io/safe-to-evict"
	AnnotationDoNotDisrupt = "karpenter.sh/do-not-disrupt"
)

// Protection returns the annotation by which the pod's owner asks not to be disrupted, as key=value, or "".
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

// LostAfter is how long a node must not have been Ready before a drain stops waiting for its deleted pods.
const LostAfter = 5 * time.Minute

// Policy is what the request allows beyond the safe defaults.
type Policy struct {
	// EvictUnmanaged allows the eviction of pods without a controller, which are not recreated.
	EvictUnmanaged bool
	// RespectDoNotDisrupt makes the drain wait for pods with a Protection.
	RespectDoNotDisrupt bool
	// IgnoreWishes evicts pods whatever their Label says, as a cloud does that drains nodes itself.
	IgnoreWishes bool
}

// wishOf returns the meaning of the pod's label under the policy.
func (p Policy) wishOf(pod *corev1.Pod) Wish {
	if p.IgnoreWishes {
		return NoWish
	}
	return WishOf(pod)
}

// Verdict is a Fate and its reason. The reason is empty for Go.
type Verdict struct {
	Fate   Fate
	Reason Reason
}

// Obstacle returns why a Held pod is not evicted, or the zero Obstacle for other pods.
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

// Judge returns what the drain does about the pod. nodeLost is true if the pod's node has not been Ready for LostAfter.
//
// The order follows kubectl drain's filters, with two exceptions: a finished pod and an emptyDir never stop a drain
// (Kubernetes K12, cluster-api#12920).
func Judge(pod *corev1.Pod, policy Policy, nodeLost bool) Verdict {
	owner, wish := metav1.GetControllerOfNoCopy(pod), policy.wishOf(pod) // looked up once, because each step judges many pods
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

// reasonToStay returns why the pod ends with its node, or "" if it must leave.
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

// isFinished reports whether the pod has ended for good.
func isFinished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// OwnerKind returns the kind of the pod's controller, or "".
func OwnerKind(pod *corev1.Pod) string {
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
		return owner.Kind
	}
	return ""
}

// Ready reports whether the pod's Ready condition is true, which is all that a budget counts (disruption.go,
// countHealthyPods).
func Ready(pod *corev1.Pod) bool {
	c := conditionOf(pod, corev1.PodReady)
	return c != nil && c.Status == corev1.ConditionTrue
}

// conditionOf returns the pod's condition of the type, or nil.
func conditionOf(pod *corev1.Pod, of corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == of {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

// IsEvictedSince reports whether the pod was evicted at that time or later, to the second. The eviction API sets a
// condition on the pod before it deletes it (eviction.go, addConditionAndDeletePod). Pods that end or are deleted in
// other ways do not have it.
func IsEvictedSince(pod *corev1.Pod, since time.Time) bool {
	since = since.Truncate(time.Second)
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue && c.Reason == "EvictionByEvictionAPI" &&
			!c.LastTransitionTime.Time.Before(since)
	})
}

// ToleratesTaint reports whether the pod tolerates the taint, by the rules of core/v1.
func ToleratesTaint(pod *corev1.Pod, taint corev1.Taint) bool {
	return fit.Tolerates(pod.Spec.Tolerations, &taint)
}
