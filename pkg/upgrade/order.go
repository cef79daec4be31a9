package upgrade

import (
	"cmp"
	"slices"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// maxCandidates is how many of the next nodes are weighed against each other when one may start.
// See docs/decisions/0008.
const maxCandidates = 32

// listCandidates are the pending members of which one is started next, in the order in which they
// would be started if nothing contended, except those that must wait. Instances without a node and nodes that are not Ready go
// first, since nothing useful is lost with them; then each time one of the zone with the most
// outdated nodes, so that zones end together; then by name.
func (c *memberCounts) listCandidates(zonal bool, mustWait func(*nodegroup.Member) bool) []*nodegroup.Member {
	type ranked struct {
		*nodegroup.Member
		left int
	}
	var order []ranked
	var seen [urgencies]zoneCounts
	for _, m := range c.pending {
		if c.turn != nil && m.Zone() != *c.turn {
			continue
		}
		before := seen[urgencyOf(m)].countsOf(m.Zone())
		if before.all < maxCandidates && !mustWait(m) {
			order = append(order, ranked{m, c.pendingIn[m.Zone()] - before.all})
		}
		before.all++
	}
	slices.SortFunc(order, func(a, b ranked) int {
		return cmp.Or(
			cmp.Compare(urgencyOf(a.Member), urgencyOf(b.Member)),
			cmp.Compare(b.left, a.left),
			cmp.Compare(a.Zone(), b.Zone()),
			cmp.Compare(a.Name(), b.Name()),
		)
	})
	var candidates []*nodegroup.Member
	for _, m := range order[:min(len(order), maxCandidates)] {
		if c.areInterchangeable(order[0].Member, m.Member, zonal) {
			candidates = append(candidates, m.Member)
		}
	}
	return candidates
}

// areInterchangeable reports whether contention may decide which of the two goes first. A group
// that replaces nodes by itself keeps its zones in balance only if they take turns.
func (c *memberCounts) areInterchangeable(a, b *nodegroup.Member, zonal bool) bool {
	if urgencyOf(a) != urgencyOf(b) {
		return false
	}
	return zonal || c.pendingIn[a.Zone()] == c.pendingIn[b.Zone()]
}

// urgencies is how many degrees of urgency there are.
const urgencies = 3

func urgencyOf(m *nodegroup.Member) int {
	switch {
	case m.Node == nil:
		return 0
	case !m.IsReady():
		return 1
	default:
		return 2
	}
}
