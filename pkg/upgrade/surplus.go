package upgrade

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// returnSurge terminates, with shrinking, the nodes we added that carry no pods a user would miss;
// the others stay and are owed.
func (d *decision) returnSurge() bool {
	if l := &d.rec.Ledger; l.ConfirmedSurge() > 0 && !d.w.Group.IsFreshAfter(l.Changed()) {
		d.askCloudOften("")
		return false // the reading may be too old to show them all
	}
	needed := false
	for _, m := range d.addedMembers() {
		switch {
		case !d.isSurplusNode(m):
			continue
		case d.claimReplacement(m):
			needed = true
			d.askCloudOften("")
			continue
		}
		zone := d.rec.Ledger.ZoneOf(m.Zone())
		n := record.NodeRecord{Instance: m.Instance.ID, Zone: zone, State: record.NodeRemoving, Began: d.w.Now, Terminated: d.w.Now, Shrink: true, Added: true}
		if m.Node != nil {
			n.UID = m.Node.UID
		}
		d.rec.Ledger.BookReturn(zone, d.w.Now)
		d.startRecord(m, n)
	}
	given := d.rec.Ledger.ConfirmedSurge()
	if d.driveReturns(); d.rec.Ledger.ConfirmedSurge() > given {
		d.requeueNow() // a node that was taken back may be owed now
		return false
	}
	return d.awaitRemovals() && (!needed || d.w.isDeadlinePassed(d.rec.LastChange().Add(d.rec.Request.BootTimeout.Duration)))
}

// isSurplusNode reports whether a new node is one to give back: idle, and beyond what its zone and
// the group had.
func (d *decision) isSurplusNode(m *nodegroup.Member) bool {
	if _, returning := d.rec.FindStarted(m); returning || m.Instance.ID == "" || carriesPods(m) || !d.bookKeeper().CanShrinkGroup() {
		return false
	}
	return d.rec.Ledger.OwesNode(d.rec.Ledger.ZoneOf(m.Zone()))
}

// claimReplacement reports whether a new node stands in for one that was taken and whose replacement
// is not fit for pods yet. One that is not needed it counts as gone.
func (d *decision) claimReplacement(m *nodegroup.Member) (needed bool) {
	if !d.w.isUsable(m, &d.rec) {
		return false
	}
	if d.countUnavailableExcept(0) >= 0 {
		return true
	}
	d.count.Usable--
	d.count.Serving--
	return false
}

// addedMembers are the new nodes, as far as they can be told: where the target moved, or a way back
// has not taken stock yet, any node may count as outdated or as new.
func (d *decision) addedMembers() []*nodegroup.Member {
	if d.w.Group.Wanted.ID != d.rec.Target.ID || (d.rec.Back && d.rec.Phase == record.PhaseSetup) {
		return nil
	}
	return d.rec.NewMembers(d.w.Members)
}

func (d *decision) driveReturns() {
	for _, name := range slices.Sorted(maps.Keys(d.rec.Nodes)) {
		if d.rec.Nodes[name].IsGivenBack() {
			d.driveReturn(name)
		}
	}
}

// driveReturn sees the termination of a node that is given back through; it is no replaced node.
// One that the group turns out to have still is kept, where it carries pods by now, the upgrade
// continues, or it is none of the new ones: then its termination was decided by an upgrade that is
// being undone.
func (d *decision) driveReturn(name string) {
	m := d.count.byName[name]
	n := d.rec.Nodes[name]
	attempt := d.lastAttempt(nodegroup.Terminate{Instance: n.Instance})
	if m == nil {
		d.forgetReturn(name, n, attempt)
		return
	}
	if !n.IsMachineOf(m) {
		d.keepInstance(name, n)
		return
	}
	unwanted := d.rec.Stopping != "" && !m.Outdated && !carriesPods(m) && !refusedToShrink(n, attempt)
	switch {
	case d.rec.Stopping != "" && m.Instance.State != nodegroup.InstanceLeaving && d.isRefused(nodegroup.Terminate{Instance: n.Instance}):
		d.addAction(nodegroup.Terminate{Instance: n.Instance, Node: name, Shrink: n.Shrink}) // to be named
	case unwanted || attempt.InFlight || isOnItsWayOut(n, attempt, m):
		d.followTermination(name, n, m)
	case d.terminationFailed(n, attempt, m):
		d.keepInstance(name, n)
	default:
		d.askCloudOften("") // whether it was asked for will show
		d.outstanding = true
	}
}

// forgetReturn ends the record of a node that was given back and that the group no longer shows.
func (d *decision) forgetReturn(name string, n record.NodeRecord, attempt nodegroup.Attempt) {
	switch {
	case !n.Landed && attempt.Outcome != nodegroup.OutcomeDone && !d.w.Group.IsFreshAfter(n.Terminated):
		d.askCloudOften("") // a reading from before it came up does not show it either
		d.outstanding = true
	case d.resolveTerminator(n):
		delete(d.rec.Nodes, name)
	}
}

// terminationFailed reports whether the termination of a node that is given back is known not to
// have happened: no one may ask for it again before a reading that is younger than the last time
// another actor can have asked.
func (d *decision) terminationFailed(n record.NodeRecord, attempt nodegroup.Attempt, m *nodegroup.Member) bool {
	if (attempt.Outcome == nodegroup.OutcomeLater && n.Shrink) || refusedToShrink(n, attempt) {
		return true
	}
	asked := n.Terminated
	if undoing := d.rec.Back || d.rec.Stopping == record.Aborted; undoing && d.rec.PhaseBegan.After(asked) {
		asked = d.rec.PhaseBegan // the one that is undone may have asked until then
	}
	return d.isStillInService(attempt, m, asked)
}

// keepInstance forgets the termination of a node that is there still. One that was drained is to be
// replaced again, and may not have our fence: the next step sees to both.
func (d *decision) keepInstance(name string, n record.NodeRecord) {
	d.undoShrink(n)
	if !n.Added {
		d.rec.Ledger.UnbookRemoval(n.Zone, n.Earlier)
		d.fencing = true
	}
	delete(d.rec.Nodes, name)
}

// keepSurvivingSurge ends what a stop began: of the new nodes that it was giving back, those that
// are still there are kept. It reports whether that is known of all.
func (d *decision) keepSurvivingSurge() bool {
	d.driveReturns()
	for _, n := range d.rec.Nodes {
		if n.IsGivenBack() && !n.Landed {
			d.askCloudOften("")
			return false
		}
	}
	return true
}

// carriesPods reports whether the node has pods that would have to be evicted.
func carriesPods(m *nodegroup.Member) bool {
	return slices.ContainsFunc(m.Pods, func(p *corev1.Pod) bool {
		return drain.Judge(p, drain.Policy{}, false).Fate != drain.Stay
	})
}
