package drain

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
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
	// Held is a pod that must leave but that the request does not allow to be evicted.
	Held
)

// Reason is a short word for people and for machine output.
type Reason string

const (
	// ReasonDaemonSet is a pod of a DaemonSet: its controller tolerates the cordon and would bring it back.
	ReasonDaemonSet Reason = "DaemonSet"
	// ReasonMirror is the API server's mirror of a static pod; only the kubelet can stop it.
	ReasonMirror Reason = "static"
	// ReasonFinished is a pod in phase Succeeded or Failed: nothing of it runs.
	ReasonFinished Reason = "finished"
	// ReasonUnmanaged is a pod without a controller: nobody brings it back.
	ReasonUnmanaged Reason = "unmanaged"
	// ReasonTerminating is a pod whose deletion has begun.
	ReasonTerminating Reason = "terminating"
	// ReasonLost is a deleted pod on a node that has not been heard of for LostAfter: its kubelet cannot confirm the end.
	ReasonLost Reason = "lost"
)

// LostAfter is how long a node must have been NotReady before its deleted pods are no longer waited for.
const LostAfter = 5 * time.Minute

const mirrorAnnotation = corev1.MirrorPodAnnotationKey

// Policy is what the request allows beyond the safe default.
type Policy struct {
	// EvictUnmanaged lets pods without a controller be evicted; they are not brought back by anybody.
	EvictUnmanaged bool
}

// Verdict is a Fate with the reason for it; the reason is empty for Go.
type Verdict struct {
	Fate   Fate
	Reason Reason
}

// Judge says what the drain owes the pod. nodeLost is true when the pod's node has been NotReady for LostAfter.
//
// The order follows kubectl drain's filters, except that a finished pod never
// stops a drain and that an emptyDir never does (semantics 4.1, cluster-api#12920).
func Judge(pod *corev1.Pod, policy Policy, nodeLost bool) Verdict {
	owner := metav1.GetControllerOfNoCopy(pod)
	switch {
	case pod.Annotations[mirrorAnnotation] != "":
		return Verdict{Stay, ReasonMirror}
	case pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed:
		return Verdict{Stay, ReasonFinished}
	case owner != nil && owner.Kind == "DaemonSet":
		return Verdict{Stay, ReasonDaemonSet}
	case pod.DeletionTimestamp != nil && nodeLost:
		return Verdict{Stay, ReasonLost}
	case pod.DeletionTimestamp != nil:
		return Verdict{Leaving, ReasonTerminating}
	case owner == nil && !policy.EvictUnmanaged:
		return Verdict{Held, ReasonUnmanaged}
	default:
		return Verdict{Fate: Go}
	}
}

// OwnerKind is the kind of the pod's controller, "" when it has none.
func OwnerKind(pod *corev1.Pod) string {
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
		return owner.Kind
	}
	return ""
}

// Ready is the pod's Ready condition, the only thing a budget counts (disruption.go, countHealthyPods).
func Ready(pod *corev1.Pod) bool {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == corev1.PodReady {
			return pod.Status.Conditions[i].Status == corev1.ConditionTrue
		}
	}
	return false
}

// Tolerates reports whether the pod tolerates the taint, by the comparison of core/v1.
func Tolerates(pod *corev1.Pod, taint corev1.Taint) bool {
	for i := range pod.Spec.Tolerations {
		if pod.Spec.Tolerations[i].ToleratesTaint(klog.Logger{}, &taint, false) {
			return true
		}
	}
	return false
}
