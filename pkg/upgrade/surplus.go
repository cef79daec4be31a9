package upgrade

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// surplus gives back new nodes that were added for nothing.
type surplus struct{ *draft }

func surplusOf(d *draft) surplus { return surplus{d} }

// returnSurge terminates, with shrinking, the nodes we added that carry no pods a user would miss;
// the others stay and are owed.
func (t surplus) returnSurge() bool {
	if l := &t.rec.Ledger; l.confirmedSurge() > 0 && !t.w.Group.IsFreshAfter(l.Changed) {
		t.waitForCloud("")
		return false // the reading may be too old to show them all
	}
	needed := false
	for _, m := range t.addedMembers() {
		switch {
		case !t.isSurplus(m):
			continue
		case t.replacesMissing(m):
			needed = true
			t.waitForCloud("")
			continue
		}
		zone := t.rec.Ledger.zoneOf(m)
		n := NodeRecord{Instance: m.Instance.ID, Zone: zone, State: NodeRemoving, Began: t.w.Now, Terminated: t.w.Now, Shrink: true, Added: true}
		if m.Node != nil {
			n.UID = m.Node.UID
		}
		t.rec.Ledger.updateZone(zone, func(z *ZoneLedger) { z.Shrunk++ })
		t.rec.Ledger.Changed = t.w.Now
		lifecycleOf(t.draft).startRecord(m, n)
	}
	given := t.rec.Ledger.confirmedSurge()
	if t.driveReturns(); t.rec.Ledger.confirmedSurge() > given {
		t.requeueNow() // a node that was taken back may be owed now
		return false
	}
	return t.rec.noneInState(NodeRemoving) && (!needed || t.w.isDeadlinePassed(t.rec.lastChange().Add(t.rec.Request.BootTimeout.Duration)))
}

// isSurplus reports whether a new node is one to give back: idle, and beyond what its zone and the group
// had.
func (t surplus) isSurplus(m *nodegroup.Member) bool {
	if _, returning := t.rec.findStarted(m); returning || m.Instance.ID == "" || t.carriesPods(m) || !capacityOf(t.draft).canShrink() {
		return false
	}
	return t.rec.Ledger.Zones[t.rec.Ledger.zoneOf(m)].confirmedSurge() > 0 && t.rec.Ledger.confirmedSurge() > 0
}

// replacesMissing reports whether a new node stands in for one that was taken and whose replacement is not
// fit for pods yet. One that is not needed is counted as gone.
func (t surplus) replacesMissing(m *nodegroup.Member) bool {
	if !t.w.Group.IsUsable(m) {
		return false
	}
	if windowOf(t.draft).countUnavailableExcept(0) >= 0 {
		return true
	}
	t.count.usable--
	t.count.serving--
	return false
}

// addedMembers are the new nodes, as far as they can be told: where the target moved, or a way back has
// not taken stock yet, any node may count as outdated or as new.
func (t surplus) addedMembers() []*nodegroup.Member {
	if t.w.Group.Wanted.ID != t.rec.Target.ID || (t.rec.Back && t.rec.Phase == PhaseSetup) {
		return nil
	}
	return t.newMembers()
}

func (t surplus) driveReturns() {
	for _, name := range slices.Sorted(maps.Keys(t.rec.Nodes)) {
		if t.rec.Nodes[name].isGivenBack() {
			t.driveReturn(name)
		}
	}
}

// driveReturn sees the termination of a node that is given back through; it is no replaced node.
// One that the group turns out to have still is kept, where it carries pods by now, the upgrade
// goes on, or it is none of the new ones: then its termination was decided by an upgrade that is
// being undone.
func (t surplus) driveReturn(name string) {
	m := t.count.byName[name]
	n := t.rec.Nodes[name]
	attempt := t.lastAttempt(nodegroup.Terminate{Instance: n.Instance})
	if m == nil {
		t.forgetReturn(name, n, attempt)
		return
	}
	unwanted := t.rec.Stopping != "" && !m.Outdated && !t.carriesPods(m) && !refusedToShrink(n, attempt)
	switch {
	case unwanted || attempt.InFlight || isOnItsWayOut(n, attempt, m):
		removalOf(t.draft).followTermination(name, n, m)
	case t.terminationFailed(n, attempt, m):
		t.keepInstance(name, n)
	default:
		t.waitForCloud("") // whether it was asked for will show
	}
}

// forgetReturn ends the record of a node that was given back and that the group no longer shows.
func (t surplus) forgetReturn(name string, n NodeRecord, attempt nodegroup.Attempt) {
	switch {
	case !n.Landed && attempt.Outcome != nodegroup.OutcomeDone && !t.w.Group.IsFreshAfter(n.Terminated):
		t.waitForCloud("") // a reading from before it came up does not show it either
	case removalOf(t.draft).resolveTerminator(n):
		delete(t.rec.Nodes, name)
	}
}

// terminationFailed reports whether the termination of a node that is given back is known not to have
// happened: nobody may ask for it again before a reading that is younger than the last time
// somebody can have asked.
func (t surplus) terminationFailed(n NodeRecord, attempt nodegroup.Attempt, m *nodegroup.Member) bool {
	if (attempt.Outcome == nodegroup.OutcomeLater && n.Shrink) || refusedToShrink(n, attempt) {
		return true
	}
	asked := attempt.Ended
	if attempt.Begun.IsZero() {
		asked = n.Terminated
		if undoing := t.rec.Back || t.rec.Stopping == Aborted; undoing && t.rec.PhaseBegan.After(asked) {
			asked = t.rec.PhaseBegan // the one that is undone may have asked until then
		}
	}
	return m.Instance.State == nodegroup.InstanceInService && t.w.Group.IsFreshAfter(asked)
}

// keepInstance forgets the termination of a node that is there still.
func (t surplus) keepInstance(name string, n NodeRecord) {
	removalOf(t.draft).undoShrink(n)
	if !n.Added {
		t.rec.Ledger.updateZone(n.Zone, func(z *ZoneLedger) { z.Removed-- })
	}
	delete(t.rec.Nodes, name)
}

// keepSurge ends what a stop began: of the new nodes that it was giving back, those that are still
// there are kept. It reports whether that is known of all.
func (t surplus) keepSurge() bool {
	t.driveReturns()
	for _, n := range t.rec.Nodes {
		if n.isGivenBack() && !n.Landed {
			t.waitForCloud("")
			return false
		}
	}
	return true
}

// carriesPods reports whether the node has pods that would have to be evicted.
func (t surplus) carriesPods(m *nodegroup.Member) bool {
	return slices.ContainsFunc(m.Pods, func(p *corev1.Pod) bool {
		return drain.Judge(p, drain.Policy{}, false).Fate != drain.Stay
	})
}
