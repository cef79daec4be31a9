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
		New: len(t.count.fresh), NewReady: t.count.usable,
		Owed: t.rec.Ledger.Contribution(), Desired: g.Desired, Max: g.Max,
		Zones: zoneSizes(t.count.zones), Waiting: t.waiting,
	}
	for _, m := range t.count.pending {
		state := NodePending
		if m.Node != nil && t.rec.Run != "" && t.fenced(m.Node) {
			state = NodeFenced
		}
		s.Nodes = append(s.Nodes, NodeStatus{Name: m.Name(), Zone: m.Zone(), State: state})
	}
	for name, n := range t.rec.Nodes {
		ns := NodeStatus{Name: name, Zone: n.Zone, State: n.State, Batch: n.Batch}
		if m := t.count.byName[name]; m != nil {
			view := t.view(m)
			ns.Zone, ns.Pods, ns.Staying = m.Zone(), view.remaining(), view.staying
		}
		s.Nodes = append(s.Nodes, ns)
	}
	slices.SortFunc(s.Nodes, func(a, b NodeStatus) int { return strings.Compare(a.Name, b.Name) })
	return s
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
