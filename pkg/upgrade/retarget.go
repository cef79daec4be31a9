package upgrade

import (
	"slices"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// retarget begins the books of the way to a target that moved. What was launched for the earlier
// target is outdated by now, but it serves: it is carried over as the nodes are that a rollback
// begins with. Nodes from before the upgrade that turn out to be current are none of those it
// launched. When a node came tells the two apart: not every provider names an older revision whole.
func (t *turn) retarget() {
	l := &t.rec.Ledger
	carried := map[string]int{}
	for i := range t.w.Members {
		m := &t.w.Members[i]
		switch launched := m.Node == nil || !m.Node.CreationTimestamp.Time.Before(t.rec.Started); {
		case t.rec.isEnding(m) || l.knows(m):
		case launched && m.Outdated:
			carried[l.zone(m)]++
		case !launched && !m.Outdated:
			l.Known = append(l.Known, m.Name())
		}
	}
	slices.Sort(l.Known)
	t.count = takeCensus(t.w, &t.rec)
	for zone, surge := range t.dealSurge() {
		l.change(zone, func(z *ZoneLedger) { z.Surge, z.Carried = surge, z.Carried+carried[zone] })
	}
	t.rec.Total = t.knownTotal()
	l.Moved = false
	if t.phase.givesBack {
		t.enter(PhaseSetup) // the surge was given back
	}
}

// knownTotal counts the nodes that are replaced, in flight, quarantined and still to be started.
func (t *turn) knownTotal() int {
	total := t.rec.Replaced + len(t.count.pending)
	for _, n := range t.rec.Nodes {
		if !n.Added && n.State != NodeDrained {
			total++
		}
	}
	return total
}

// isEnding reports whether the member is on its way out, or was given up.
func (r *Record) isEnding(m *nodegroup.Member) bool {
	n, started := r.started(m)
	return m.Instance.State == nodegroup.InstanceLeaving || (started && ending(n.State))
}
