package drain

import (
	"cmp"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// IsFault reports whether a container that waits for the reason does not come up by itself, as
// kubelets name reasons (kubernetes, pkg/kubelet/container/sync_result.go and images/types.go).
func IsFault(reason string) bool {
	switch reason {
	case "CrashLoopBackOff", "ImagePullBackOff", "ErrImagePull", "ErrImageNeverPull", "InvalidImageName",
		"CreateContainerConfigError", "CreateContainerError", "RunContainerError", "PostStartHookError":
		return true
	}
	return false
}

// leastPatience is how long a pod may take to become ready, whatever is usual.
const leastPatience = 30 * time.Second

// Patience is how long a pod may take to become ready: twice as long as usual, and at least 30 s.
func Patience(usual time.Duration) time.Duration { return max(leastPatience, 2*usual) }

// Lateness tells why a pod that is not ready is late, "" when it is not yet: a container of it
// cannot come up, or it has taken twice as long as usual and at least 30 s, or no node was found
// for it within placing.
func Lateness(pod *corev1.Pod, usual, placing time.Duration, now time.Time) string {
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

// LateAt is when a pod that is bound to a node is late to be ready, if nothing happens before.
func LateAt(pod *corev1.Pod, usual time.Duration) time.Time {
	return placedAt(pod, conditionOf(pod, corev1.PodScheduled)).Add(Patience(usual))
}

// faultyContainer is a container of the pod that cannot come up, nil where all may.
func faultyContainer(pod *corev1.Pod) *corev1.ContainerStatus {
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range statuses {
			if waits := statuses[i].State.Waiting; waits != nil && IsFault(waits.Reason) {
				return &statuses[i]
			}
		}
	}
	return nil
}

// PlacedAt returns when the scheduler found a node for the pod, or when it was created if it does not tell.
func PlacedAt(pod *corev1.Pod) time.Time {
	scheduled := conditionOf(pod, corev1.PodScheduled)
	if scheduled == nil || scheduled.Status != corev1.ConditionTrue || scheduled.LastTransitionTime.IsZero() {
		return pod.CreationTimestamp.Time
	}
	return scheduled.LastTransitionTime.Time
}

// placedAt is when the pod was last known to begin: created, bound to its node or started there.
func placedAt(pod *corev1.Pod, scheduled *corev1.PodCondition) time.Time {
	began := pod.CreationTimestamp.Time
	if scheduled != nil && scheduled.Status == corev1.ConditionTrue && scheduled.LastTransitionTime.After(began) {
		began = scheduled.LastTransitionTime.Time
	}
	if pod.Status.StartTime != nil && pod.Status.StartTime.After(began) {
		began = pod.Status.StartTime.Time
	}
	return began
}

// IsRefused reports whether the scheduler found no node for the pod.
func IsRefused(pod *corev1.Pod) bool {
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

// DescribeFault says why the pod cannot become ready by itself: the scheduler finds no node for it, or a
// container of it cannot come up. It returns "" where the pod may.
func DescribeFault(pod *corev1.Pod) string {
	if IsRefused(pod) {
		return describeUnplaced(conditionOf(pod, corev1.PodScheduled))
	}
	if fault := faultyContainer(pod); fault != nil {
		return describeFault(fault)
	}
	return ""
}

// UnreadySince returns when a pod that is not ready began not to be: when its Ready condition became
// false or, where it has none yet, when the pod was made.
func UnreadySince(pod *corev1.Pod) time.Time {
	if ready := conditionOf(pod, corev1.PodReady); ready != nil && !ready.LastTransitionTime.IsZero() {
		return ready.LastTransitionTime.Time
	}
	return pod.CreationTimestamp.Time
}

// IsLiving reports whether the pod is to serve: it has not ended and is not being deleted.
func IsLiving(pod *corev1.Pod) bool { return isLiving(pod) }

// HasRestarted reports whether a container of the pod was started again.
func HasRestarted(pod *corev1.Pod) bool { return countRestarts(pod) > 0 }

// countRestarts counts how often containers of the pod were started again.
func countRestarts(pod *corev1.Pod) int {
	sum := 0
	for i := range pod.Status.ContainerStatuses {
		sum += int(pod.Status.ContainerStatuses[i].RestartCount)
	}
	return sum
}

// lastRun returns how long the container ran that ended last of the pod's; 0 if none ended, or if the pod does not tell.
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

// DescribeUnsettled says why the readiness of a pod does not count yet.
func DescribeUnsettled(pod *corev1.Pod, now time.Time) string {
	since := now.Sub(conditionOf(pod, corev1.PodReady).LastTransitionTime.Time).Round(time.Second)
	if n := countRestarts(pod); n > 0 {
		return fmt.Sprintf("it has been ready for only %s after %d restarts", since, n)
	}
	return fmt.Sprintf("it was not ready between, and has been for only %s", since)
}
