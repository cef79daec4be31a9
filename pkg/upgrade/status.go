package upgrade

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
)

// status sums the turn up for people.
func (t *turn) status() Status {
	g := &t.w.Group
	s := Status{
		Group: g.Name, Phase: t.rec.Phase, Since: t.rec.PhaseBegan,
		Total: t.rec.Total, Replaced: t.rec.Replaced, Outdated: len(t.count.pending), Ready: t.count.ready,
		New: t.count.fresh, NewReady: t.count.usable,
		Owed: t.rec.Ledger.Contribution(), Desired: g.Desired, Max: g.Max,
		Zones: zoneSizes(t.count.zones), Waiting: t.waiting,
	}
	if t.w.Brief {
		return s
	}
	s.Nodes = make([]NodeStatus, 0, len(t.count.pending)+len(t.rec.Nodes))
	// Both are in order of name already; a large group would take longer to sort than all else does.
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

func (t *turn) pendingStatus(m *Member) NodeStatus {
	state := NodePending
	if t.rec.Run != "" && t.fenced(m) {
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

// spending counts, by budget, the evictions that its status may not show yet, and those in flight. An eviction shows
// from the moment its pod was seen in status.disruptedPods.
func spending(w *World) (spent, inFlight drain.Spending) {
	spent, inFlight = drain.Spending{}, drain.Spending{}
	for _, a := range w.Open {
		evict, ok := a.Action.(Evict)
		if !ok || evict.Budget.Name == "" {
			continue
		}
		if a.InFlight {
			inFlight[evict.Budget]++
		}
		if hidden(w, evict, a) {
			spent[evict.Budget]++
		}
	}
	return spent, inFlight
}

// hidden reports whether an eviction may have spent budget that the status does not show.
func hidden(w *World, evict Evict, a Attempt) bool {
	pod := evict.podName()
	if shown, ok := w.Disrupted[pod]; ok && !shown.Before(a.Begun) {
		return false
	}
	switch {
	case a.InFlight:
		return true
	case a.Outcome == OutcomeDone, a.Outcome == OutcomeUnclear:
		return w.Now.Before(a.Ended.Add(statusLag))
	default:
		return false
	}
}
