package simulate

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"path"
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

	assumed = append(assumed, t.learnBoot(spec), t.learnLeave(spec.Terminations))
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

// learnBoot sets how long a machine takes from its launch to a Ready node, and says so. A cloud that tells when machines
// were launched is believed before the nodes, which begin with joining.
func (t *Times) learnBoot(spec *Spec) string {
	if t.Boot != 0 {
		return fmt.Sprintf("a new node is ready %s after its launch: as given", t.Boot)
	}
	from, boots := "launch", bootTimes(spec.Nodes, func(n *corev1.Node) time.Time { return spec.Launched[path.Base(n.Spec.ProviderID)] })
	if len(boots) == 0 {
		from, boots = "joining", bootTimes(spec.Nodes, func(n *corev1.Node) time.Time { return n.CreationTimestamp.Time })
	}
	if t.Boot = typical(boots, defaultBoot); len(boots) == 0 {
		return fmt.Sprintf("a new node is ready %s after its launch: no node of the group tells", t.Boot)
	}
	return fmt.Sprintf("a new node is ready %s after its launch: what the group's nodes took from %s to readiness, the median of %d", t.Boot, from, len(boots))
}

// learnLeave sets how long a machine takes to go, and says so.
func (t *Times) learnLeave(terminations []time.Duration) string {
	if t.Leave == 0 && len(terminations) > 0 {
		t.Leave = typical(terminations, defaultLeave)
		return fmt.Sprintf("a machine is gone %s after its termination begins: as machines of the group were, the median of %d", t.Leave, len(terminations))
	}
	t.Leave = cmp.Or(t.Leave, defaultLeave)
	return fmt.Sprintf("a machine is gone %s after its termination begins", t.Leave)
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
	t.Ready = cmp.Or(t.Ready, defaultReady)
	otherwise := t.Ready
	medians := make(map[types.UID]time.Duration, len(samples))
	all := make([]time.Duration, 0, len(samples))
	for id, took := range samples {
		medians[id] = typical(took, otherwise)
		all = append(all, medians[id])
	}
	t.ReadyOf = func(pod *corev1.Pod) time.Duration {
		if took, known := medians[owner(pod)]; known {
			return took
		}
		return otherwise
	}
	if len(all) == 0 {
		return fmt.Sprintf("a pod is ready %s after its start: no pod tells", otherwise)
	}
	return fmt.Sprintf("a pod is ready after its start as its workload's pods were, the median of each: %s to %s for %d workloads, %s for %d others",
		slices.Min(all), slices.Max(all), len(all), otherwise, len(owners)-len(all))
}

// readyTime is how long the pod took from its binding to a node until it was ready first, as far as its status still tells.
func readyTime(pod *corev1.Pod) (time.Duration, bool) {
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

// bootTimes are how long the nodes took to be Ready, from a moment in the life of each; zero moments are unknown.
func bootTimes(nodes []*corev1.Node, from func(*corev1.Node) time.Time) []time.Duration {
	var all []time.Duration
	for _, node := range nodes {
		began := from(node)
		for i := range node.Status.Conditions {
			c := &node.Status.Conditions[i]
			took := c.LastTransitionTime.Sub(began)
			if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue && !began.IsZero() && took >= 0 && took <= firstBoot {
				all = append(all, took)
			}
		}
	}
	return all
}

// typical is the median, made finer than the whole seconds that objects write times in: of two such times the difference
// is off by up to a second either way, so that all that is no further from the median may stand for the same time, and
// their mean is nearer to it.
func typical(all []time.Duration, otherwise time.Duration) time.Duration {
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

// randomEnds draws, from seed and UID, the share of its grace period that a pod takes to end.
func randomEnds(seed uint64, share [2]float64) func(*corev1.Pod) time.Duration {
	return func(pod *corev1.Pod) time.Duration {
		id := fnv.New64a()
		id.Write([]byte(pod.UID)) // a hash returns no error
		drawn := share[0] + (share[1]-share[0])*rand.New(rand.NewPCG(seed, id.Sum64())).Float64()
		return time.Duration(drawn * float64(gracePeriod(pod)))
	}
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
