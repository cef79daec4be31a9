package upgrade

import (
	"cmp"
	"slices"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// maxCandidates is how many of the next nodes are weighed against each other when one may start.
// See docs/decisions/0008.
const maxCandidates = 32

// listCandidates returns the pending members that may be started now, in their preferred order.
// Members that do not serve come first, the most urgent before the others: no workload loses
// anything with them. The next one is always from the zone with the most outdated nodes, so that
// all zones finish at about the same time. Equal members are in the order of their names.
func (c *memberCounts) listCandidates(zonal bool, urgencyOf func(*nodegroup.Member) int, deferDrain func(*nodegroup.Member) bool) []*nodegroup.Member {
	type ranked struct {
		*nodegroup.Member
		urgency, left int
	}
	var order []ranked
	var seen [urgencies]zoneCounts
	for _, m := range c.pending {
		if c.turn != nil && m.Zone() != *c.turn {
			continue
		}
		urgency := urgencyOf(m)
		before := seen[urgency].countsOf(m.Zone())
		if before.all < maxCandidates && !deferDrain(m) {
			order = append(order, ranked{m, urgency, c.pendingIn[m.Zone()] - before.all})
		}
		before.all++
	}
	slices.SortFunc(order, func(a, b ranked) int {
		return cmp.Or(
			cmp.Compare(a.urgency, b.urgency),
			cmp.Compare(b.left, a.left),
			cmp.Compare(a.Zone(), b.Zone()),
			cmp.Compare(a.Name(), b.Name()),
		)
	})
	// Contention may decide between the first and others like it. A group that replaces nodes by
	// itself keeps its zones in balance only if they take turns.
	var candidates []*nodegroup.Member
	for _, m := range order[:min(len(order), maxCandidates)] {
		if first := order[0]; first.urgency == m.urgency && (zonal || c.pendingIn[first.Zone()] == c.pendingIn[m.Zone()]) {
			candidates = append(candidates, m.Member)
		}
	}
	return candidates
}

// urgencies is how many degrees of urgency there are.
const urgencies = 4

func (d *draft) urgencyOf(m *nodegroup.Member) int {
	switch {
	case m.Node == nil:
		return 0
	case !m.IsReady():
		return 1
	case d.rec.Ledger.Carried()+d.rec.Ledger.Replaced() > 0 && d.isArriving(m):
		return 2
	default:
		return 3
	}
}
