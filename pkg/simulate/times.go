package simulate

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// What is assumed where nothing was measured.
const (
	defaultBoot  = 2 * time.Minute
	defaultLeave = 30 * time.Second
	defaultReady = 10 * time.Second
	// soonest is how long a pod takes to end that ends as soon as it is told to.
	soonest = time.Second
	// firstStart is how long after its start a pod may become ready for that to be its start: later it recovered from something.
	firstStart = 10 * time.Minute
	// firstBoot is the same for nodes.
	firstBoot = 20 * time.Minute
)

// Estimate says how long things take in the cluster, from what its pods and nodes tell of their own past, and what
// that assumes, a sentence each. What the Spec's Times say stands, a ReadyOf and a Gone included.
func Estimate(spec *Spec) (Times, []string) {
	t := spec.Times
	var assumed []string
	assume := func(format string, args ...any) { assumed = append(assumed, fmt.Sprintf(format, args...)) }

	if boots := bootTimes(spec.Nodes); t.Boot != 0 {
		assume("a new node is ready %s after its launch: as given", t.Boot)
	} else if t.Boot = median(boots, defaultBoot); len(boots) > 0 {
		assume("a new node is ready %s after its launch: what the group's nodes took from joining to readiness, the median of %d", t.Boot, len(boots))
	} else {
		assume("a new node is ready %s after its launch: no node of the group tells", t.Boot)
	}
	if t.Leave == 0 {
		t.Leave = defaultLeave
	}
	assume("a machine is gone %s after its termination begins", t.Leave)
	if t.ReadyOf == nil {
		assumed = append(assumed, t.learnReady(spec.Pods))
	}
	if t.Gone == nil {
		t.Gone, t.GoneLatest = earliestEnd, latestEnd
		assume("a pod ends at the earliest %s after its preStop sleep, at the latest when its grace period is over", soonest)
	}
	assume("nobody else adds, removes or changes nodes and workloads meanwhile; new nodes are like those of the group")
	return t, assumed
}

// learnReady sets how long pods take to become ready, workload by workload, and says so.
func (t *Times) learnReady(pods []*corev1.Pod) string {
	samples := map[types.UID][]time.Duration{}
	owners := map[types.UID]bool{}
	for _, pod := range pods {
		id := owner(pod)
		owners[id] = true
		if took, ok := readyTime(pod); ok {
			samples[id] = append(samples[id], took)
		}
	}
	typical := t.Ready
	if typical == 0 {
		typical = defaultReady
	}
	t.Ready = typical
	medians := make(map[types.UID]time.Duration, len(samples))
	all := make([]time.Duration, 0, len(samples))
	for id, took := range samples {
		medians[id] = median(took, typical)
		all = append(all, medians[id])
	}
	t.ReadyOf = func(pod *corev1.Pod) time.Duration {
		if took, known := medians[owner(pod)]; known {
			return took
		}
		return typical
	}
	if len(all) == 0 {
		return fmt.Sprintf("a pod is ready %s after its start: no pod tells", typical)
	}
	return fmt.Sprintf("a pod is ready after its start as its workload's pods were, the median of each: %s to %s for %d workloads, %s for %d others",
		slices.Min(all), slices.Max(all), len(all), typical, len(owners)-len(all))
}

// readyTime is how long the pod took to become ready first, as far as its status still tells.
func readyTime(pod *corev1.Pod) (time.Duration, bool) {
	if pod.Status.StartTime == nil {
		return 0, false
	}
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			took := c.LastTransitionTime.Sub(pod.Status.StartTime.Time)
			return took, took >= 0 && took <= firstStart
		}
	}
	return 0, false
}

// bootTimes are how long the nodes took from joining to readiness.
func bootTimes(nodes []*corev1.Node) []time.Duration {
	var all []time.Duration
	for _, node := range nodes {
		for i := range node.Status.Conditions {
			c := &node.Status.Conditions[i]
			took := c.LastTransitionTime.Sub(node.CreationTimestamp.Time)
			if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue && !node.CreationTimestamp.IsZero() && took >= 0 && took <= firstBoot {
				all = append(all, took)
			}
		}
	}
	return all
}

// median is the lower one, so that it is a value that was seen.
func median(all []time.Duration, otherwise time.Duration) time.Duration {
	if len(all) == 0 {
		return otherwise
	}
	slices.Sort(all)
	return all[(len(all)-1)/2]
}

// earliestEnd is how long after its deletion a pod ends that obeys at once: its preStop hook runs first, within the grace period.
func earliestEnd(pod *corev1.Pod) time.Duration {
	return min(preStopSleep(pod), gracePeriod(pod)) + soonest
}

func latestEnd(pod *corev1.Pod) time.Duration { return max(gracePeriod(pod), earliestEnd(pod)) }

func gracePeriod(pod *corev1.Pod) time.Duration {
	if s := pod.Spec.TerminationGracePeriodSeconds; s != nil {
		return time.Duration(*s) * time.Second
	}
	return corev1.DefaultTerminationGracePeriodSeconds * time.Second
}

// preStopSleep is the longest sleep among the containers' preStop hooks, whose hooks run side by side.
func preStopSleep(pod *corev1.Pod) time.Duration {
	longest := time.Duration(0)
	for i := range pod.Spec.Containers {
		hooks := pod.Spec.Containers[i].Lifecycle
		switch {
		case hooks == nil || hooks.PreStop == nil:
		case hooks.PreStop.Sleep != nil:
			longest = max(longest, time.Duration(hooks.PreStop.Sleep.Seconds)*time.Second)
		case hooks.PreStop.Exec != nil:
			longest = max(longest, sleepIn(hooks.PreStop.Exec.Command))
		}
	}
	return longest
}

// sleepIn is the time of the first sleep in a command such as ["sleep", "15"] or ["sh", "-c", "sleep 15; nginx -s quit"].
func sleepIn(command []string) time.Duration {
	words := strings.FieldsFunc(strings.Join(command, " "), func(r rune) bool { return strings.ContainsRune(" \t\n;&|()", r) })
	for i := range len(words) - 1 {
		if words[i] != "sleep" && !strings.HasSuffix(words[i], "/sleep") {
			continue
		}
		if seconds, err := strconv.ParseFloat(strings.TrimSuffix(words[i+1], "s"), 64); err == nil && seconds >= 0 && seconds < 24*60*60 {
			return time.Duration(seconds * float64(time.Second))
		}
	}
	return 0
}
