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

// Times that are assumed if none was measured.
const (
	defaultBoot  = 2 * time.Minute
	defaultLeave = 30 * time.Second
	defaultReady = 10 * time.Second
	// firstBoot limits how long after its creation a node may become Ready for the first time. A node that became
	// Ready later recovered from a failure.
	firstBoot = 20 * time.Minute
)

// Estimate returns how long things take in the cluster, derived from the history that its pods and nodes show. It
// also returns the assumptions, one sentence each. Times that are set in the Spec are kept, including ReadyOf and
// Gone.
func Estimate(spec *Spec) (Times, []string) {
	t := spec.Times
	var assumed []string
	assume := func(format string, args ...any) { assumed = append(assumed, fmt.Sprintf(format, args...)) }

	assumed = append(assumed, t.learnBootTimes(spec), t.learnLeaveTime(spec.Terminations))
	if t.ReadyOf == nil {
		assumed = append(assumed, t.learnReadyTimes(spec.Pods))
	}
	if t.Gone == nil {
		t.Gone, t.GoneLatest = drain.SoonestEnd, drain.LatestEnd
		assume("a pod ends at the earliest %s after its preStop sleep, at the latest when its grace period is over", drain.Soonest)
	}
	for _, name := range resourcesMissingOnNewNodes(spec) {
		assume("new nodes have no %s, because no DaemonSet on the group's nodes provides it", name)
	}
	assume("during the upgrade no other process adds, removes or changes nodes or workloads; new nodes are like the group's nodes")
	return t, assumed
}

// learnBootTimes sets the time from a launch to a Ready node, and returns the assumption. If the cloud reports launch
// times, it uses these. Otherwise, it uses the creation of the nodes, which is later.
func (t *Times) learnBootTimes(spec *Spec) string {
	if t.Boot != 0 {
		return fmt.Sprintf("a new node is ready %s after its launch, as you set it", t.Boot)
	}
	from, boots := "launch", measureBootTimes(spec.Nodes, func(n *corev1.Node) time.Time {
		return spec.Launched[nodegroup.InfoOf(spec.Group.Provider).InstanceID(n)]
	})
	if len(boots) == 0 {
		from, boots = "joining", measureBootTimes(spec.Nodes, func(n *corev1.Node) time.Time { return n.CreationTimestamp.Time })
	}
	t.Boot = drain.TypicalDuration(boots, defaultBoot)
	switch {
	case len(boots) == 0:
		return fmt.Sprintf("a new node is ready %s after its launch (an assumption: the group's nodes do not show it)", t.Boot)
	case from == "joining" && t.Join > 0:
		t.Boot += t.Join
		return fmt.Sprintf("a new node is ready %s after its launch: it joins after %s (an assumption: the cloud reports no launches), and the group's nodes took %s from joining to readiness (median of %d)",
			t.Boot, t.Join, t.Boot-t.Join, len(boots))
	}
	return fmt.Sprintf("a new node is ready %s after its launch: the group's nodes took that long from %s to readiness (median of %d)", t.Boot, from, len(boots))
}

// learnLeaveTime sets how long a machine takes to terminate, and returns the assumption.
func (t *Times) learnLeaveTime(terminations []time.Duration) string {
	if t.Leave == 0 && len(terminations) > 0 {
		t.Leave = drain.TypicalDuration(terminations, defaultLeave)
		return fmt.Sprintf("a machine is gone %s after its termination begins: the group's machines took that long (median of %d)", t.Leave, len(terminations))
	}
	t.Leave = cmp.Or(t.Leave, defaultLeave)
	return fmt.Sprintf("a machine is gone %s after its termination begins", t.Leave)
}

// learnReadyTimes sets how long pods take to become ready, by workload, and returns the assumption.
func (t *Times) learnReadyTimes(pods []*corev1.Pod) string {
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
		return fmt.Sprintf("a pod is ready %s after its start (an assumption: no pod shows it)", otherwise)
	}
	text := fmt.Sprintf("pods become ready as fast as before: %s to %s, by workload", slices.Min(all), slices.Max(all))
	if untold := len(owners) - len(all); untold > 0 {
		text += fmt.Sprintf(", and %s where that is not known (%d of %d workloads)", otherwise, untold, len(owners))
	}
	return text
}

// measureBootTimes returns how long each node took to become Ready, counted from a time that from returns. It ignores
// nodes for which from returns the zero time.
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
