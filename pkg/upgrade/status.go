package upgrade

import (
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/ledger"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// summarizeStatus returns the step's status for people.
func (d *decision) summarizeStatus() record.Status {
	g := &d.w.Group
	s := record.Status{
		Group: g.Name, Rollback: d.rec.Rollback, Phase: d.rec.Phase, Since: d.rec.PhaseBegan,
		Total: d.rec.Total, Replaced: d.rec.Replaced, Drained: d.rec.CountDrained(), Outdated: len(d.count.pending), Owed: d.rec.Ledger.Contribution(),
		GroupCounts: &record.GroupCounts{Ready: d.count.ready, New: d.count.Fresh, NewReady: d.count.Usable, Desired: g.Desired, Max: g.Max},
		Zones:       formatZoneSizes(d.count.Zones), Waiting: d.waiting, Retried: d.retried,
	}
	if why := ledger.ZoneLaunchRefusal(d.w.Open); why != "" && !d.rec.Ledger.Zonal() {
		s.Note = "the upgrade makes the whole group larger, because launches in a zone are refused: " + why
	}
	for _, u := range d.unhealthy {
		s.Unhealthy = append(s.Unhealthy, u.Unhealthy)
	}
	if d.rec.Delegation != nil {
		s.Manager = d.managerName()
		for _, m := range d.count.pending {
			if d.isKeptByCloud(m) {
				s.Outdated--
			}
		}
	}
	if d.w.Brief {
		return s
	}
	s.Nodes = make([]record.NodeStatus, 0, len(d.count.pending)+len(d.rec.Nodes))
	// Both lists are sorted by name already. Sorting the nodes of a large group would take longer than the rest of the
	// step.
	started := slices.Sorted(maps.Keys(d.rec.Nodes))
	for _, m := range d.count.pending {
		for len(started) > 0 && started[0] < m.Name() {
			s.Nodes, started = append(s.Nodes, d.startedStatus(started[0])), started[1:]
		}
		s.Nodes = append(s.Nodes, d.pendingStatus(m))
	}
	for _, name := range started {
		s.Nodes = append(s.Nodes, d.startedStatus(name))
	}
	if d.rec.Delegation != nil {
		for _, m := range d.count.leaving {
			s.Nodes = append(s.Nodes, d.pendingStatus(m))
		}
		// An instance may have kept the name of a Node that is gone, so the order may be wrong.
		slices.SortFunc(s.Nodes, func(a, b record.NodeStatus) int { return strings.Compare(a.Name, b.Name) })
	}
	return s
}

func (d *decision) pendingStatus(m *nodegroup.Member) record.NodeStatus {
	state := record.NodePending
	switch {
	case d.rec.Run == "":
	case d.rec.Delegation != nil:
		return d.delegatedNodeStatus(m)
	case d.isFencedByRun(m):
		state = record.NodeFenced
	}
	return record.NodeStatus{Name: m.Name(), Zone: m.Zone(), State: state}
}

func (d *decision) startedStatus(name string) record.NodeStatus {
	n := d.rec.Nodes[name]
	status := record.NodeStatus{Name: name, Zone: n.Zone, State: n.State, Batch: n.Batch}
	if m := d.count.byName[name]; m != nil {
		view := d.classifyPodsOf(m)
		status.Zone, status.Pods, status.Staying = m.Zone(), view.countPodsLeft(), view.staying
		if m.Node != nil && nodegroup.IsSilent(m.Node) && status.Pods > 0 {
			status.Silent = describeUnreachable(m.Node)
		}
	}
	return status
}

// StatusWithoutCloud returns the status of an upgrade whose group cannot be read from its cloud, and the blocked pods. It
// reads only the record and the cluster: the nodes that were started, and the obstacles of their pods. It leaves out
// the counts and zones of the group. The view needs only the pods of Record.InFlightUIDs.
func StatusWithoutCloud(r *record.Record, view *drain.Snapshot, now time.Time) (record.Status, []drain.Blocked) {
	s := record.Status{
		Group: r.Request.Group, Rollback: r.Rollback, Phase: r.Phase, Since: r.PhaseBegan,
		Total: r.Total, Replaced: r.Replaced, Drained: r.CountDrained(), Outdated: r.CountUnstarted(), Owed: r.Ledger.Contribution(),
	}
	var blocked []drain.Blocked
	for _, name := range slices.Sorted(maps.Keys(r.Nodes)) {
		n := r.Nodes[name]
		status := record.NodeStatus{Name: name, Zone: n.Zone, State: n.State, Batch: n.Batch}
		for _, pod := range view.Pods[name] {
			verdict := drain.Judge(pod, r.Request.Policy(), false)
			if verdict.Fate == drain.Stay {
				status.Staying++
				continue
			}
			status.Pods++
			if o := drain.FindObstacle(pod, verdict, view.Budgets, view.EndingNamespaces); o.Kind != drain.NoObstacle && record.IsInDrain(n.State) {
				key := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
				blocked = append(blocked, drain.Blocked{Node: name, Pod: key, Obstacle: o, Since: now, Forces: r.Request.OnTimeout == record.Force})
			}
		}
		s.Nodes = append(s.Nodes, status)
	}
	return s, blocked
}
