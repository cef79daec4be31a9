package drain

import (
	"iter"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// firstStart is how long after its start a pod may become ready for that to be its start: later it
// recovered from something.
const firstStart = 10 * time.Minute

// ReadyTime is how long the pod took from its binding to a node until it was ready first, as far as
// its status still tells, to the second that objects write times in.
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
			bound = c.LastTransitionTime.Time // its kubelet took notice only later
		}
	}
	took := ready.Sub(bound)
	return took, !ready.IsZero() && took >= 0 && took <= firstStart
}

// ReadyTimes is the typical ReadyTime of each controller's pods, by the UID that Owner gives; those
// of which no pod tells are not there.
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

// ControllerOf is the UID of the pod's controller, "" without one.
func ControllerOf(pod *corev1.Pod) types.UID {
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
		return owner.UID
	}
	return ""
}

// TypicalDuration is the median, made finer than the whole seconds that objects write times in: of
// two such times the difference is off by up to a second either way, so that all that is no further
// from the median may stand for the same time, and their mean is nearer to it. It sorts all, and is
// otherwise where there are none.
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

// Soonest is how long a pod takes to end that ends as soon as it is told to.
const Soonest = time.Second

// SoonestEnd is how long after its deletion a pod ends that obeys at once: its preStop hook runs
// first, within the grace period.
func SoonestEnd(pod *corev1.Pod) time.Duration {
	return min(preStopSleep(pod), GracePeriod(pod)) + Soonest
}

// LatestEnd is how long after its deletion a pod ends that has to be killed.
func LatestEnd(pod *corev1.Pod) time.Duration { return max(GracePeriod(pod), SoonestEnd(pod)) }

// GracePeriod is how long after its deletion a pod is killed.
func GracePeriod(pod *corev1.Pod) time.Duration {
	if s := pod.Spec.TerminationGracePeriodSeconds; s != nil {
		return time.Duration(*s) * time.Second
	}
	return corev1.DefaultTerminationGracePeriodSeconds * time.Second
}

// preStopSleep is the longest sleep among the containers' preStop hooks, whose hooks run side by
// side.
func preStopSleep(pod *corev1.Pod) time.Duration {
	longest := time.Duration(0)
	for i := range pod.Spec.Containers {
		if hooks := pod.Spec.Containers[i].Lifecycle; hooks != nil {
			longest = max(longest, SleepIn(hooks.PreStop))
		}
	}
	return longest
}
