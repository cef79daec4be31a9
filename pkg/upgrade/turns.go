package upgrade

import (
	"maps"
	"slices"
)

// turns has the zones of a group be replaced one after the other.
type turns struct{ *draft }

// passTurn has the next zone have its turn when the nodes of the one before are replaced, and gives
// it all of the surge (GKE G13, G14). A group that launches where it likes would have uneven zones
// in the end: what was added in one would be given back by another.
func (d turns) passTurn() {
	if !d.rec.Request.TakesTurns() {
		return
	}
	if d.rec.Ledger.Zonal() || !d.w.Group.Sized {
		d.rec.Turn = d.chooseZone()
		d.count.turn = &d.rec.Turn
	}
	d.bookKeeper().GiveSurge(d.rec.Ledger.ZoneOf(d.rec.Turn))
}

// chooseZone is the zone whose turn it is: the same while it has outdated nodes, or lacks one of
// those that they are replaced by.
func (d turns) chooseZone() string {
	turn := d.rec.Turn
	if d.count.pendingIn[turn] > 0 {
		return turn
	}
	for _, name := range d.rec.startedNames() {
		n := d.rec.Nodes[name]
		if m := d.count.byName[name]; m != nil && (isInDrain(n.State) || (n.State == NodeRemoving && !n.Landed)) {
			return m.Zone() // the record may have been lost, and the turn with it
		}
	}
	if d.countLacking() > 0 || d.rec.Ledger.PendingLaunches() > 0 || len(d.count.pendingIn) == 0 {
		return turn
	}
	return slices.Min(slices.Collect(maps.Keys(d.count.pendingIn)))
}

// isTurnEnding reports whether the zone that has its turn is still to be waited for, and has no
// node to start any more.
func (d turns) isTurnEnding() bool {
	return d.count.turn != nil && d.count.pendingIn[*d.count.turn] == 0
}

// countLacking is how many nodes the group is short of before the next may be started. Where GKE
// does not wait for new Spot nodes they count as there once they are launched (GKE G23).
func (d turns) countLacking() int {
	lacking := d.countUnavailable()
	if d.launchesAhead() {
		lacking -= d.count.Fresh - d.count.Usable
	}
	return lacking
}

// launchesAhead reports whether new nodes are not waited for.
func (d turns) launchesAhead() bool { return d.w.Group.Spot && d.rec.Request.TakesTurns() }
