package drain

import (
	"iter"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// firstStart is the longest time to readiness that counts as a pod's first start. After more time the pod recovered from
// a failure.
const firstStart = 10 * time.Minute

// ReadyTime returns how long the pod took from its binding to a node until it was first ready, to the second. It returns
// false if the pod's status no longer shows that.
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
			bound = c.LastTransitionTime.Time // its kubelet noticed it later
		}
	}
	took := ready.Sub(bound)
	return took, !ready.IsZero() && took >= 0 && took <= firstStart
}

// ReadyTimes returns the typical ReadyTime of pods by their controller's UID. Controllers without a known time are
// omitted.
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

// ControllerOf returns the UID of the pod's controller, or "".
func ControllerOf(pod *corev1.Pod) types.UID {
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
		return owner.UID
	}
	return ""
}

// TypicalDuration returns the median of durations that are measured in whole seconds, with a better resolution. The
// difference of two such times is off by up to a second. So all durations within a second of the median may be the same
// time, and their mean is returned. It sorts all, and returns otherwise if all is empty.
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

// Soonest is how long a pod takes to end if it ends as soon as it gets SIGTERM.
const Soonest = time.Second

// SoonestEnd returns how long after its deletion a pod ends if it ends as soon as it gets SIGTERM. Its preStop hook runs
// first, within the grace period.
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

// preStopSleep returns the longest sleep in the containers' preStop hooks, which run in parallel.
func preStopSleep(pod *corev1.Pod) time.Duration {
	longest := time.Duration(0)
	for i := range pod.Spec.Containers {
		if hooks := pod.Spec.Containers[i].Lifecycle; hooks != nil {
			longest = max(longest, HookSleep(hooks.PreStop))
		}
	}
	return longest
}
