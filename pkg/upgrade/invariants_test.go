package upgrade_test

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodemark"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
)

// invariants hold in every step of every upgrade (I1 to I10 of docs/rules.md).
type invariants struct {
	t tester
	// before is the group as it was found, and nodes its nodes.
	before nodegroup.Group
	nodes  map[string]*corev1.Node
	zones  map[string]int
	serves int
	// moved are the pods that were made to move, by the name they had at first, since the last
	// stop.
	moved     map[string]types.UID
	deadlines map[types.UID]time.Time
	reached   int
	back      bool
}

func newInvariants(t tester, d *driver) *invariants {
	w := d.world()
	v := &invariants{
		t: t, before: w.Group, nodes: map[string]*corev1.Node{}, zones: zonesOf(w), serves: serving(w, upgrade.Record{}),
		moved: map[string]types.UID{}, deadlines: map[types.UID]time.Time{},
	}
	for _, m := range w.Members {
		v.nodes[m.Name()] = m.Node
	}
	return v
}

func (v *invariants) check(w upgrade.World, step upgrade.Step) {
	v.t.Helper()
	for _, action := range step.Actions {
		v.checkAction(w, step.Record, action)
	}
	v.checkWindow(w, step.Record)
	v.checkSize(w, step.Record)
	v.checkRecord(w, step)
	if step.Record.Stopping != "" {
		clear(v.moved) // the nodes not started take pods again, which a later run moves once more
	}
	if again := upgrade.Next(w); !reflect.DeepEqual(again, step) {
		v.t.Errorf("the same world gives another step:\n%+v\n%+v", step, again)
	}
	if step.Finished && (len(step.Actions) > 0 || step.Record.Result == "") {
		v.t.Errorf("finished with %v to do and the result %q", step.Actions, step.Record.Result)
	}
	if !step.Finished && step.Wake.Before(w.Now) {
		v.t.Errorf("it wakes at %s, before %s", step.Wake, w.Now)
	}
}

func (v *invariants) checkAction(w upgrade.World, record upgrade.Record, action nodegroup.Action) {
	switch a := action.(type) {
	case nodegroup.Terminate:
		v.checkTermination(w, a)
	case upgrade.Evict:
		pod := v.checkPod(w, record, a.Node, a.UID)
		if pod == nil {
			return
		}
		if answer := drain.Predict(pod, w.Budgets, nil, w.EndingNamespaces[pod.Namespace]); !answer.Admitted() {
			v.t.Errorf("I5: the eviction of %s would be refused: %s", a.Pod, answer)
		}
	case upgrade.Delete:
		v.checkPod(w, record, a.Node, a.UID)
		if n := w.Record.Nodes[a.Node]; n.State != upgrade.NodeForcing || w.Now.Before(n.Deadline) {
			v.t.Errorf("E43: pod %s is deleted on node %s, which is %q until %s", a.Pod, a.Node, n.State, n.Deadline)
		}
	case upgrade.Fence:
		if m := find(w, a.Node); !m.Outdated {
			v.t.Errorf("I6: current node %s is fenced", a.Node)
		}
	}
}

// checkPod holds an eviction or deletion to a pod that is there, on a node that is being drained,
// and that was not moved before.
func (v *invariants) checkPod(w upgrade.World, record upgrade.Record, node string, uid types.UID) *corev1.Pod {
	m := find(w, node)
	i := slices.IndexFunc(m.Pods, func(p *corev1.Pod) bool { return p.UID == uid })
	if i < 0 {
		v.t.Errorf("I3: pod %s is not on node %s", uid, node)
		return nil
	}
	pod := m.Pods[i]
	if n := record.Nodes[node]; !m.Outdated || (n.State != upgrade.NodeDraining && n.State != upgrade.NodeForcing) {
		v.t.Errorf("I3: pod %s is sent from node %s, outdated %t, which is %q", pod.Name, node, m.Outdated, n.State)
	}
	if !m.Node.Spec.Unschedulable || !nodemark.HasTaint(m.Node, nodegroup.FenceTaint(w.Group.Provider)) {
		v.t.Errorf("E47: pod %s is sent from node %s, which is not fenced", pod.Name, node)
	}
	first := firstName(pod)
	if before, moved := v.moved[first]; moved && before != uid {
		v.t.Errorf("E62: pod %s is moved twice", pod.Name)
	}
	v.moved[first] = uid
	return pod
}

// firstName is what the simulated controllers make of a pod's name taken back: web-3 of web-3-r17.
func firstName(pod *corev1.Pod) string {
	name, _, _ := strings.Cut(pod.Name, "-r")
	return pod.Namespace + "/" + name
}

func (v *invariants) checkTermination(w upgrade.World, a nodegroup.Terminate) {
	m := find(w, a.Node)
	for _, pod := range m.Pods {
		lost := pod.DeletionTimestamp != nil && nodegroup.IsSilent(m.Node) // nobody is there to end it
		if lost || drain.Judge(pod, drain.Policy{}, false).Fate == drain.Stay {
			continue
		}
		n := w.Record.Nodes[a.Node]
		forced := n.State == upgrade.NodeForcing || (n.State == upgrade.NodeRemoving && n.Reason != "") // asked for again
		if !m.Outdated {
			v.t.Errorf("current node %s is removed with pod %s on it", a.Node, pod.Name)
		} else if !forced {
			v.t.Errorf("I2: node %s is removed with pod %s on it", a.Node, pod.Name)
		}
	}
}

// checkWindow is I1, from both ends: how many nodes are being drained, and how many still serve.
func (v *invariants) checkWindow(w upgrade.World, record upgrade.Record) {
	req := record.Request
	busy, zones := 0, map[string]bool{}
	for _, n := range record.Nodes {
		if n.State == upgrade.NodeDraining || n.State == upgrade.NodeForcing || n.State == upgrade.NodeEmpty {
			busy++
			zones[n.Zone] = true
		}
	}
	if len(zones) > 1 && req.Like == "gke" && req.Strategy == upgrade.Surge {
		v.t.Errorf("G14: nodes of %d zones are in flight: %v", len(zones), zones)
	}
	if busy > req.Window && record.Phase != upgrade.PhaseDeleteBlue {
		v.t.Errorf("I1: %d nodes in flight, window %d", busy, req.Window)
	}
	if least := v.serves - req.MaxUnavailable; w.Group.Sized && req.Strategy != upgrade.AutoscaledBlueGreen && serving(w, record) < least {
		v.t.Errorf("I1: %d nodes serve, of %d at first, with %d allowed to be unavailable", serving(w, record), v.serves, req.MaxUnavailable)
	}
}

// serving counts the nodes that are Ready and not on their way out, fenced or not. New Spot nodes count when they
// are launched (GKE G23).
func serving(w upgrade.World, record upgrade.Record) int {
	n := 0
	for _, m := range w.Members {
		state := record.Nodes[m.Name()].State
		leaving := state != "" && state != upgrade.NodeQuarantined
		launched := w.Group.Spot && !m.Outdated && m.Instance.State != nodegroup.InstanceLeaving
		if (m.Node != nil && !leaving && m.HasStarted(nil)) || launched {
			n++
		}
	}
	return n
}

// checkSize is I9: what we add and take stays within bounds, on the books and in the group.
func (v *invariants) checkSize(w upgrade.World, record upgrade.Record) {
	req := record.Request
	if owed := record.Ledger.Contribution(); owed < -req.MaxUnavailable || owed > req.Surge {
		v.t.Errorf("I9: our contribution is %d, outside [-%d, %d]", owed, req.MaxUnavailable, req.Surge)
	}
	if req.Strategy == upgrade.AutoscaledBlueGreen {
		return // others change its size as they like
	}
	change := w.Group.Desired - v.before.Desired
	if record.Run != "" && (change < -req.MaxUnavailable || change > req.Surge) {
		v.t.Errorf("I9: the group changed by %d, outside [-%d, %d]", change, req.MaxUnavailable, req.Surge)
	}
}

// checkRecord is I8 and I10: no limit is extended, and phases only continue.
func (v *invariants) checkRecord(w upgrade.World, step upgrade.Step) {
	for name, n := range step.Record.Nodes {
		if n.Deadline.IsZero() || n.State == upgrade.NodeQuarantined || step.Record.Phase == upgrade.PhaseDeleteBlue || step.Record.Phase == upgrade.PhaseWait {
			continue
		}
		if first, known := v.deadlines[n.UID]; known && !n.Deadline.Equal(first) {
			v.t.Errorf("I8: the limit of node %s moved from %s to %s", name, first, n.Deadline)
		}
		v.deadlines[n.UID] = n.Deadline
	}
	if step.Record.Stopping == upgrade.PodEvictionFailure {
		clear(v.deadlines) // the same command gives the nodes their time again
	}
	phases := append([]upgrade.Phase{""}, upgrade.Phases(step.Record.Request.Strategy)...)
	if step.Record.Back {
		phases = append([]upgrade.Phase{""}, upgrade.Phases(upgrade.Surge)...)
	}
	if step.Record.Back && !v.back {
		v.back, v.reached = true, 0
		clear(v.moved) // what was moved to new nodes is moved back
	}
	reached := slices.Index(phases, step.Record.Phase)
	if reached < v.reached {
		v.t.Errorf("I10: phase %q after %q", step.Record.Phase, phases[v.reached])
	}
	v.reached = reached
}

// checkEnd holds what must be true of a group whose upgrade reached its goal.
func (v *invariants) checkEnd(w upgrade.World) {
	owed := w.Record.Ledger.Contribution()
	if w.Record.Result == upgrade.Succeeded && owed != 0 && w.Group.Sized {
		v.t.Errorf("it succeeded owing %d nodes", owed)
	}
	if want := v.before.Desired + owed; w.Group.Sized && w.Group.Desired != want {
		v.t.Errorf("the group's desired size is %d, want %d", w.Group.Desired, want)
	}
	if want := max(v.before.Max, w.Group.Desired); w.Group.Max != want {
		v.t.Errorf("the group's max is %d, want %d", w.Group.Max, want)
	}
	v.checkZones(w, owed)
	for _, m := range w.Members {
		state := w.Record.Nodes[m.Name()].State
		if m.Outdated && state != upgrade.NodeQuarantined && state != upgrade.NodeDrained {
			v.t.Errorf("node %s is outdated still, and %q", m.Name(), state)
		}
	}
}

// checkZones holds a group that nothing is owed to its zones, and one that could be rebalanced
// without harm to the processes it had.
func (v *invariants) checkZones(w upgrade.World, owed int) {
	zones := zonesOf(w)
	if w.Group.Zonal && owed == 0 && w.Group.Sized && !maps.Equal(zones, v.zones) {
		v.t.Errorf("E20: the zones are %v, and were %v", zones, v.zones)
	}
	least := max(1, apart(w.Record.Sizes.Zones, w.Group.Zones))
	if len(w.Group.Suspended) > 0 && apart(zones, w.Group.Zones) <= least {
		v.t.Errorf("%v are still suspended, with zones %v", w.Group.Suspended, zones)
	}
}

// apart is how many nodes one zone has more than another, at most.
func apart(sizes map[string]int, zones []string) int {
	most := 0
	for _, a := range zones {
		for _, b := range zones {
			most = max(most, sizes[a]-sizes[b])
		}
	}
	return most
}

// checkFailure holds an upgrade that gave up to the reasons there are: a node that cannot be
// drained, where that is no reason to force or skip it, new nodes that take longer to boot than
// they may, and pods that no node takes.
func (v *invariants) checkFailure(w upgrade.World, slow bool) {
	record := w.Record
	switch {
	case record.Result == upgrade.PodEvictionFailure && record.Request.OnTimeout == upgrade.Fail:
	case record.Result == upgrade.NodeCreationFailure && slow:
	case record.Result == upgrade.WorkloadUnhealthy && strings.Contains(record.Message, "no node takes it"): // the others come up
	default:
		v.t.Errorf("it ends with %q: %s", record.Result, record.Message)
	}
	if want := v.before.Desired + record.Ledger.Contribution(); w.Group.Desired != want {
		v.t.Errorf("the group's desired size is %d, want %d", w.Group.Desired, want)
	}
	if record.Phase == upgrade.PhaseScaleUp && (w.Group.Desired != v.before.Desired || w.Group.Max != v.before.Max) {
		v.t.Errorf("S5: the group is left at %d of %d, and was at %d of %d", w.Group.Desired, w.Group.Max, v.before.Desired, v.before.Max)
	}
}

// checkRest holds what must be true of a group whose upgrade came to rest, at its goal or before:
// every node that was not started is as it was.
func (v *invariants) checkRest(w upgrade.World) {
	for _, m := range w.Members {
		if _, started := w.Record.Nodes[m.Name()]; started || m.Node == nil || w.Record.Request.KeepFence {
			continue
		}
		before := v.nodes[m.Name()]
		if before == nil {
			before = &corev1.Node{}
			before.Labels = m.Node.Labels
		}
		same := before.Spec.Unschedulable == m.Node.Spec.Unschedulable &&
			equality.Semantic.DeepEqual(before.Spec.Taints, m.Node.Spec.Taints) &&
			equality.Semantic.DeepEqual(before.Labels, m.Node.Labels) && equality.Semantic.DeepEqual(before.Annotations, m.Node.Annotations)
		if !same {
			v.t.Errorf("I4: node %s, which was not started, is %+v %v", m.Name(), m.Node.Spec, m.Node.Annotations)
		}
	}
}

func zonesOf(w upgrade.World) map[string]int {
	zones := map[string]int{}
	for _, zone := range w.Group.Zones {
		zones[zone] = 0
	}
	for _, m := range w.Members {
		if m.Instance.State != nodegroup.InstanceLeaving {
			zones[m.Zone()]++
		}
	}
	return zones
}

func find(w upgrade.World, name string) nodegroup.Member {
	for _, m := range w.Members {
		if m.Name() == name {
			return m
		}
	}
	return nodegroup.Member{}
}
