package drain

import (
	"cmp"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// IsFaultReason reports whether a container that waits for the reason cannot start by itself. Kubelets name the reasons
// (kubernetes, pkg/kubelet/container/sync_result.go and images/types.go).
func IsFaultReason(reason string) bool {
	switch reason {
	case "CrashLoopBackOff", "ImagePullBackOff", "ErrImagePull", "ErrImageNeverPull", "InvalidImageName",
		"CreateContainerConfigError", "CreateContainerError", "RunContainerError", "PostStartHookError":
		return true
	}
	return false
}

// minPatience is the least time that a pod gets to become ready.
const minPatience = 30 * time.Second

// Patience returns how long a pod may take to become ready: twice its usual time, and at least 30 s.
func Patience(usual time.Duration) time.Duration { return max(minPatience, 2*usual) }

// WhyLate returns why an unready pod is late, or "". It is late if a container cannot start, if it takes longer than
// Patience, or if no node was found for it within placing.
func WhyLate(pod *corev1.Pod, usual, placing time.Duration, now time.Time) string {
	scheduled := conditionOf(pod, corev1.PodScheduled)
	switch fault := faultyContainer(pod); {
	case pod.Spec.NodeName == "" && now.Before(pod.CreationTimestamp.Add(placing)):
		return ""
	case pod.Spec.NodeName == "":
		return describeUnplaced(scheduled)
	case fault != nil:
		return describeFault(fault)
	case now.Before(LateAt(pod, usual)):
		return ""
	default:
		return fmt.Sprintf("it is not ready after %s", Patience(usual))
	}
}

// LateAt returns when a pod that is bound to a node will be late if nothing happens before.
func LateAt(pod *corev1.Pod, usual time.Duration) time.Time {
	return beganAt(pod, conditionOf(pod, corev1.PodScheduled)).Add(Patience(usual))
}

// faultyContainer returns a container of the pod that cannot start, or nil.
func faultyContainer(pod *corev1.Pod) *corev1.ContainerStatus {
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range statuses {
			if waits := statuses[i].State.Waiting; waits != nil && IsFaultReason(waits.Reason) {
				return &statuses[i]
			}
		}
	}
	return nil
}

// PlacedAt returns when the scheduler found a node for the pod, or when the pod was created if that is not known.
func PlacedAt(pod *corev1.Pod) time.Time {
	scheduled := conditionOf(pod, corev1.PodScheduled)
	if scheduled == nil || scheduled.Status != corev1.ConditionTrue || scheduled.LastTransitionTime.IsZero() {
		return pod.CreationTimestamp.Time
	}
	return scheduled.LastTransitionTime.Time
}

// beganAt returns when the pod was created, bound to its node or started there, whichever is the latest.
func beganAt(pod *corev1.Pod, scheduled *corev1.PodCondition) time.Time {
	began := pod.CreationTimestamp.Time
	if scheduled != nil && scheduled.Status == corev1.ConditionTrue && scheduled.LastTransitionTime.After(began) {
		began = scheduled.LastTransitionTime.Time
	}
	if pod.Status.StartTime != nil && pod.Status.StartTime.After(began) {
		began = pod.Status.StartTime.Time
	}
	return began
}

// IsUnschedulable reports whether the scheduler found no node for the pod.
func IsUnschedulable(pod *corev1.Pod) bool {
	scheduled := conditionOf(pod, corev1.PodScheduled)
	return pod.Spec.NodeName == "" && scheduled != nil && scheduled.Status == corev1.ConditionFalse
}

// IsGated reports whether the pod has scheduling gates: the scheduler ignores it on purpose (KEP-3521).
func IsGated(pod *corev1.Pod) bool {
	return pod.Spec.NodeName == "" && len(pod.Spec.SchedulingGates) > 0
}

func describeUnplaced(scheduled *corev1.PodCondition) string {
	if scheduled == nil {
		return "no node takes it"
	}
	return "no node takes it: " + cmp.Or(scheduled.Message, scheduled.Reason, "the scheduler does not say why")
}

func describeFault(container *corev1.ContainerStatus) string {
	text := fmt.Sprintf("container %s is in %s", container.Name, container.State.Waiting.Reason)
	if n := container.RestartCount; n > 0 {
		text += fmt.Sprintf(" after %d restarts", n)
	}
	return text
}

// DescribeFault returns why the pod cannot become ready by itself: no node takes it, or a container cannot start. It
// returns "" if it may.
func DescribeFault(pod *corev1.Pod) string {
	if IsUnschedulable(pod) {
		return describeUnplaced(conditionOf(pod, corev1.PodScheduled))
	}
	if fault := faultyContainer(pod); fault != nil {
		return describeFault(fault)
	}
	return ""
}

// UnreadySince returns since when an unready pod is not ready: when its Ready condition became false, or when it was
// created.
func UnreadySince(pod *corev1.Pod) time.Time {
	if ready := conditionOf(pod, corev1.PodReady); ready != nil && !ready.LastTransitionTime.IsZero() {
		return ready.LastTransitionTime.Time
	}
	return pod.CreationTimestamp.Time
}

// HasRestarted reports whether a container of the pod was restarted.
func HasRestarted(pod *corev1.Pod) bool { return countRestarts(pod) > 0 }

// countRestarts counts the restarts of the pod's containers.
func countRestarts(pod *corev1.Pod) int {
	sum := 0
	for i := range pod.Status.ContainerStatuses {
		sum += int(pod.Status.ContainerStatuses[i].RestartCount)
	}
	return sum
}

// lastRun returns how long the pod's last ended container ran; 0 if none ended or if that is not known.
func lastRun(pod *corev1.Pod) time.Duration {
	var last *corev1.ContainerStateTerminated
	for i := range pod.Status.ContainerStatuses {
		status := &pod.Status.ContainerStatuses[i]
		ended := cmp.Or(status.State.Terminated, status.LastTerminationState.Terminated)
		if ended != nil && (last == nil || ended.FinishedAt.After(last.FinishedAt.Time)) {
			last = ended
		}
	}
	if last == nil {
		return 0
	}
	return last.FinishedAt.Sub(last.StartedAt.Time)
}

// DescribeUnsettled returns why the readiness of a pod does not count yet.
func DescribeUnsettled(pod *corev1.Pod, now time.Time) string {
	since := now.Sub(conditionOf(pod, corev1.PodReady).LastTransitionTime.Time).Round(time.Second)
	if n := countRestarts(pod); n > 0 {
		return fmt.Sprintf("it has been ready for only %s after %d restarts", since, n)
	}
	return fmt.Sprintf("it was not ready for a while, and has been ready again for only %s", since)
}
