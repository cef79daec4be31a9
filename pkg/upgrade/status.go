package upgrade

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// status sums the turn up for people.
func (t *turn) status() Status {
	g := &t.w.Group
	s := Status{
		Group: g.Name, Back: t.rec.Back, Phase: t.rec.Phase, Since: t.rec.PhaseBegan,
		Total: t.rec.Total, Replaced: t.rec.Replaced, Outdated: len(t.count.pending), Ready: t.count.ready,
		New: t.count.fresh, NewReady: t.count.usable,
		Owed: t.rec.Ledger.Contribution(), Desired: g.Desired, Max: g.Max,
		Zones: zoneSizes(t.count.zones), Waiting: t.waiting,
	}
	if why := t.unsupported(); why != "" && !t.rec.Ledger.Zonal {
		s.Note = "the group is made larger as a whole, because launches in a zone are refused: " + why
	}
	if t.w.Brief {
		return s
	}
	s.Nodes = make([]NodeStatus, 0, len(t.count.pending)+len(t.rec.Nodes))
	// Both are in order of name already; a large group would take longer to sort than all else
	// does.
	started := slices.Sorted(maps.Keys(t.rec.Nodes))
	for _, m := range t.count.pending {
		for len(started) > 0 && started[0] < m.Name() {
			s.Nodes, started = append(s.Nodes, t.startedStatus(started[0])), started[1:]
		}
		s.Nodes = append(s.Nodes, t.pendingStatus(m))
	}
	for _, name := range started {
		s.Nodes = append(s.Nodes, t.startedStatus(name))
	}
	return s
}

func (t *turn) pendingStatus(m *nodegroup.Member) NodeStatus {
	state := NodePending
	if t.rec.Run != "" && t.isFenced(m) {
		state = NodeFenced
	}
	return NodeStatus{Name: m.Name(), Zone: m.Zone(), State: state}
}

func (t *turn) startedStatus(name string) NodeStatus {
	n := t.rec.Nodes[name]
	status := NodeStatus{Name: name, Zone: n.Zone, State: n.State, Batch: n.Batch}
	if m := t.count.byName[name]; m != nil {
		view := t.view(m)
		status.Zone, status.Pods, status.Staying = m.Zone(), view.remaining(), view.staying
	}
	return status
}

// zoneSizes writes counts by zone as "a:4 b:2", zones in order.
func zoneSizes(zones map[string]int) string {
	parts := make([]string, 0, len(zones))
	for _, zone := range slices.Sorted(maps.Keys(zones)) {
		parts = append(parts, fmt.Sprintf("%s:%d", zone, zones[zone]))
	}
	return strings.Join(parts, " ")
}
