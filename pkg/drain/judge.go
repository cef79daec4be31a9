package drain

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/fit"
)

// Fate is what a drain does with a pod.
type Fate int

const (
	// Go is a pod that must leave before its node may be terminated.
	Go Fate = iota
	// Stay is a pod that is terminated with its node. It is not evicted, and the drain does not wait for it.
	Stay
	// Leaving is a pod that is already deleted. The drain waits for it and does not evict it.
	Leaving
	// Held is a pod that must leave but is not evicted. Either the request does not allow the eviction, or the pod's
	// owner asks drains to wait until the pod ends.
	Held
)

// Reason is a short word for people and for machine output.
type Reason string

const (
	// ReasonDaemonSet is a pod of a DaemonSet. Its pods tolerate the cordon, so the controller would create it again
	// on the node.
	ReasonDaemonSet Reason = "DaemonSet"
	// ReasonMirror is the API server's mirror of a static pod. Only the kubelet can stop it.
	ReasonMirror Reason = "static"
	// ReasonFinished is a pod in phase Succeeded or Failed. None of its containers runs.
	ReasonFinished Reason = "finished"
	// ReasonUnmanaged is a pod without a controller. Nothing creates it again.
	ReasonUnmanaged Reason = "unmanaged"
	// ReasonTerminating is a pod whose deletion has begun.
	ReasonTerminating Reason = "terminating"
	// ReasonLost is a deleted pod on a node that has been NotReady for LostAfter. Its kubelet cannot confirm that the
	// pod has ended.
	ReasonLost Reason = "lost"
	// ReasonSkipped is a pod whose label asks drains to ignore it.
	ReasonSkipped Reason = "skipped"
	// ReasonCompletes is a pod whose label asks drains to wait until it completes.
	ReasonCompletes Reason = "completes"
	// ReasonDoNotDisrupt is a pod whose annotation asks autoscalers not to disrupt it; see Protection.
	ReasonDoNotDisrupt Reason = "do not disrupt"
)

// Label is the pod label with which a pod's owner changes how a drain treats the pod. The key and the values are
// Cluster API's (cluster-api, PodDrainLabel and drainLabelFilter). Upper and lower case are the same, and unknown
// values have no effect.
const Label = "cluster.x-k8s.io/drain"

// Wish is the value of a pod's Label.
type Wish int

const (
	// NoWish is a pod without the label.
	NoWish Wish = iota
	// Skip asks drains neither to evict the pod nor to wait for it.
	Skip
	// WaitCompleted asks drains to wait for the pod instead of evicting it.
	WaitCompleted
	// UnknownWish is any other value.
	UnknownWish
)

// WishOf returns the value of the pod's Label.
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

// DropWishes returns the pods without their Label, to forecast a cloud that ignores it. It does not change the pods
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

// Annotations with which a pod's owner asks an autoscaler not to disrupt the pod: cluster-autoscaler's (its FAQ,
// "What types of pods can prevent CA from removing a node?") and Karpenter's (its reference of annotations).
// Karpenter's may also have a duration as its value. A duration has no effect here.
const (
	AnnotationSafeToEvict  = "cluster-autoscaler.kubernetes.io/safe-to-evict"
	AnnotationDoNotDisrupt = "karpenter.sh/do-not-disrupt"
)

// Protection returns the annotation, as key=value, that asks not to disrupt the pod. It returns "" if there is none.
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

// LostAfter is how long a node must have been NotReady until drains no longer wait for its deleted pods.
const LostAfter = 5 * time.Minute

// Policy is how the request changes which pods are evicted.
type Policy struct {
	// EvictUnmanaged allows drains to evict pods without a controller. Nothing creates such a pod again.
	EvictUnmanaged bool
	// RespectDoNotDisrupt makes drains wait for pods with a Protection instead of evicting them.
	RespectDoNotDisrupt bool
	// IgnoreWishes makes drains evict pods whatever their Label is, like a cloud that drains nodes itself.
	IgnoreWishes bool
}

// wishOf returns the pod's Wish, or NoWish if the policy ignores wishes.
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

// Obstacle returns why the pod is not evicted. It is the zero Obstacle unless the verdict is Held.
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

// Judge returns what the drain does with the pod. isNodeLost is true when the pod's node has been NotReady for
// LostAfter.
//
// The order follows kubectl drain's filters, with two exceptions: neither a finished pod nor an emptyDir stops a
// drain (Kubernetes K12, cluster-api#12920).
func Judge(pod *corev1.Pod, policy Policy, nodeLost bool) Verdict {
	owner, wish := metav1.GetControllerOfNoCopy(pod), policy.wishOf(pod) // called once, because each step judges many pods
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

// reasonToStay returns why the pod stays until its node is terminated, or "" if the pod must leave.
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

// isFinished reports whether the pod has ended: its containers do not run and will not be started again.
func isFinished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// OwnerKind returns the kind of the pod's controller, or "" if the pod has none.
func OwnerKind(pod *corev1.Pod) string {
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
		return owner.Kind
	}
	return ""
}

// Ready reports whether the pod's Ready condition is true. A budget counts nothing else (disruption.go,
// countHealthyPods).
func Ready(pod *corev1.Pod) bool {
	c := conditionOf(pod, corev1.PodReady)
	return c != nil && c.Status == corev1.ConditionTrue
}

// conditionOf returns the pod's condition of the type, or nil if the pod has none.
func conditionOf(pod *corev1.Pod, of corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == of {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

// IsEvictedSince reports whether the eviction API evicted the pod at the time or later, in whole seconds. The API
// adds this condition before it deletes the pod (eviction.go, addConditionAndDeletePod). A pod that ends or is
// deleted in another way does not have the condition.
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
