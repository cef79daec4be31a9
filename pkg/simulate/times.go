package simulate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// What is assumed where nothing was measured.
const (
	defaultBoot  = 2 * time.Minute
	defaultLeave = 30 * time.Second
	defaultReady = 10 * time.Second
	// firstBoot is how long after its beginning a node may become ready for that to be its boot:
	// later it recovered from something.
	firstBoot = 20 * time.Minute
)

// Estimate says how long things take in the cluster, from what its pods and nodes tell of their own
// past, and what that assumes, a sentence each. What the Spec's Times say stands, a ReadyOf and a
// Gone included.
func Estimate(spec *Spec) (Times, []string) {
	t := spec.Times
	var assumed []string
	assume := func(format string, args ...any) { assumed = append(assumed, fmt.Sprintf(format, args...)) }

	assumed = append(assumed, t.learnBootTimes(spec), t.learnLeave(spec.Terminations))
	if t.ReadyOf == nil {
		assumed = append(assumed, t.learnReady(spec.Pods))
	}
	if t.Gone == nil {
		t.Gone, t.GoneLatest = drain.SoonestEnd, drain.LatestEnd
		assume("a pod ends at the earliest %s after its preStop sleep, at the latest when its grace period is over", drain.Soonest)
	}
	for _, name := range unreportedResources(spec) {
		assume("new nodes have no %s: no pod of a DaemonSet runs on the group's nodes that would report it", name)
	}
	assume("nothing else adds, removes or changes nodes and workloads meanwhile; new nodes are like those of the group")
	return t, assumed
}

// learnBootTimes sets how long a machine takes from its launch to a Ready node, and says so. A
// cloud that tells when machines were launched is believed before the nodes, which begin with
// joining.
func (t *Times) learnBootTimes(spec *Spec) string {
	if t.Boot != 0 {
		return fmt.Sprintf("a new node is ready %s after its launch: as given", t.Boot)
	}
	from, boots := "launch", measureBootTimes(spec.Nodes, func(n *corev1.Node) time.Time {
		return spec.Launched[nodegroup.InfoOf(spec.Group.Provider).InstanceID(n)]
	})
	if len(boots) == 0 {
		from, boots = "joining", measureBootTimes(spec.Nodes, func(n *corev1.Node) time.Time { return n.CreationTimestamp.Time })
	}
	if t.Boot = drain.TypicalDuration(boots, defaultBoot); len(boots) == 0 {
		return fmt.Sprintf("a new node is ready %s after its launch: no node of the group tells", t.Boot)
	}
	return fmt.Sprintf("a new node is ready %s after its launch: what the group's nodes took from %s to readiness, the median of %d", t.Boot, from, len(boots))
}

// learnLeave sets how long a machine takes to go, and says so.
func (t *Times) learnLeave(terminations []time.Duration) string {
	if t.Leave == 0 && len(terminations) > 0 {
		t.Leave = drain.TypicalDuration(terminations, defaultLeave)
		return fmt.Sprintf("a machine is gone %s after its termination begins: as machines of the group were, the median of %d", t.Leave, len(terminations))
	}
	t.Leave = cmp.Or(t.Leave, defaultLeave)
	return fmt.Sprintf("a machine is gone %s after its termination begins", t.Leave)
}

// learnReady sets how long pods take to become ready, workload by workload, and says so.
func (t *Times) learnReady(pods []*corev1.Pod) string {
	owners := map[types.UID]bool{}
	for _, pod := range pods {
		owners[drain.ControllerOf(pod)] = true
	}
	t.Ready = cmp.Or(t.Ready, defaultReady)
	otherwise, medians := t.Ready, drain.ReadyTimes(slices.Values(pods))
	all := slices.Collect(maps.Values(medians))
	t.ReadyOf = func(pod *corev1.Pod) time.Duration {
		if took, known := medians[drain.ControllerOf(pod)]; known {
			return took
		}
		return otherwise
	}
	if len(all) == 0 {
		return fmt.Sprintf("a pod is ready %s after its start: no pod tells", otherwise)
	}
	text := fmt.Sprintf("pods become ready as fast as before: %s to %s, by workload", slices.Min(all), slices.Max(all))
	if untold := len(owners) - len(all); untold > 0 {
		text += fmt.Sprintf(", and %s where that is not known (%d of %d workloads)", otherwise, untold, len(owners))
	}
	return text
}

// measureBootTimes are how long the nodes took to be Ready, from a moment in the life of each; zero
// moments are unknown.
func measureBootTimes(nodes []*corev1.Node, from func(*corev1.Node) time.Time) []time.Duration {
	var all []time.Duration
	for _, node := range nodes {
		began := from(node)
		if began.IsZero() || !nodegroup.IsNodeReady(node) {
			continue
		}
		if took := nodegroup.ReadyCondition(node).LastTransitionTime.Sub(began); took >= 0 && took <= firstBoot {
			all = append(all, took)
		}
	}
	return all
}
