package drain

import (
	"iter"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// firstStart limits how long after its start a pod may become ready for the first time. A pod that became ready later
// recovered from a failure.
const firstStart = 10 * time.Minute

// ReadyTime returns how long the pod took from its binding to a node until it was first ready. It returns false if
// the status no longer shows it. Objects contain times in whole seconds.
func ReadyTime(pod *corev1.Pod) (time.Duration, bool) {
	if pod.Status.StartTime == nil {
		return 0, false
	}
	bound, ready := pod.Status.StartTime.Time, time.Time{}
	for i := range pod.Status.Conditions {
		switch c := &pod.Status.Conditions[i]; {
		case c.Status != corev1.ConditionTrue || c.LastTransitionTime.IsZero():
		case c.Type == corev1.PodReady:
			ready = c.LastTransitionTime.Time
		case c.Type == corev1.PodScheduled && c.LastTransitionTime.Before(pod.Status.StartTime):
			bound = c.LastTransitionTime.Time // the kubelet noticed the pod only later
		}
	}
	took := ready.Sub(bound)
	return took, !ready.IsZero() && took >= 0 && took <= firstStart
}

// ReadyTimes returns the typical ReadyTime of each controller's pods, by the controller's UID. Controllers without a
// known time are missing.
func ReadyTimes(pods iter.Seq[*corev1.Pod]) map[types.UID]time.Duration {
	samples := map[types.UID][]time.Duration{}
	for pod := range pods {
		if took, known := ReadyTime(pod); known {
			samples[ControllerOf(pod)] = append(samples[ControllerOf(pod)], took)
		}
	}
	times := make(map[types.UID]time.Duration, len(samples))
	for owner, took := range samples {
		times[owner] = TypicalDuration(took, 0)
	}
	return times
}

// ControllerOf returns the UID of the pod's controller, or "" if it has none.
func ControllerOf(pod *corev1.Pod) types.UID {
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
		return owner.UID
	}
	return ""
}

// TypicalDuration returns a median that is more precise than the whole seconds of times in objects. The difference of
// two such times is wrong by up to a second. So all values within a second of the median may be the same time, and
// their mean is more precise. TypicalDuration sorts all. It returns otherwise if all is empty.
func TypicalDuration(all []time.Duration, otherwise time.Duration) time.Duration {
	if len(all) == 0 {
		return otherwise
	}
	slices.Sort(all)
	median, sum, n := all[(len(all)-1)/2], time.Duration(0), time.Duration(0)
	for _, took := range all {
		if (took - median).Abs() <= time.Second {
			sum, n = sum+took, n+1
		}
	}
	return (sum / n).Round(10 * time.Millisecond)
}

// Soonest is how long a pod takes to end if it exits as soon as it is signaled.
const Soonest = time.Second

// SoonestEnd returns how long after its deletion a pod ends if it exits on the signal. Its preStop hook runs first,
// within the grace period.
func SoonestEnd(pod *corev1.Pod) time.Duration {
	return min(preStopSleep(pod), GracePeriod(pod)) + Soonest
}

// LatestEnd returns how long after its deletion a pod ends if it must be killed.
func LatestEnd(pod *corev1.Pod) time.Duration { return max(GracePeriod(pod), SoonestEnd(pod)) }

// GracePeriod returns how long after its deletion a pod is killed.
func GracePeriod(pod *corev1.Pod) time.Duration {
	if s := pod.Spec.TerminationGracePeriodSeconds; s != nil {
		return time.Duration(*s) * time.Second
	}
	return corev1.DefaultTerminationGracePeriodSeconds * time.Second
}

// preStopSleep returns the longest sleep in the containers' preStop hooks, which run at the same time.
func preStopSleep(pod *corev1.Pod) time.Duration {
	longest := time.Duration(0)
	for i := range pod.Spec.Containers {
		if hooks := pod.Spec.Containers[i].Lifecycle; hooks != nil {
			longest = max(longest, HookSleep(hooks.PreStop))
		}
	}
	return longest
}
