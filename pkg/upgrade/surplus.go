package upgrade

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// returnSurge terminates, with shrinking, the added nodes whose pods all end with their node. The others stay, and remain
// in the ledger.
func (d *decision) returnSurge() (done bool) {
	if l := &d.rec.Ledger; l.ConfirmedSurge() > 0 && !d.w.Group.IsFreshAfter(l.Changed()) {
		d.pollCloudSoon("")
		return false // the reading may be too old to show them all
	}
	needed := false
	for _, m := range d.addedMembers() {
		switch {
		case !d.isSurplusNode(m):
			continue
		case d.claimReplacement(m):
			needed = true
			d.pollCloudSoon("")
			continue
		}
		zone := d.rec.Ledger.ZoneOf(m.Zone())
		n := record.NodeRecord{Instance: m.Instance.ID, Zone: zone, State: record.NodeRemoving, Began: d.w.Now, Terminated: d.w.Now, Shrink: true, Added: true}
		if m.Node != nil {
			n.UID = m.Node.UID
		}
		d.rec.Ledger.BookReturn(zone, d.w.Now)
		d.addNodeRecord(m, n)
	}
	given := d.rec.Ledger.ConfirmedSurge()
	if d.followReturns(); d.rec.Ledger.ConfirmedSurge() > given {
		d.requeueNow() // a node whose termination did not happen may have to be given back again
		return false
	}
	return d.awaitRemovals() && (!needed || d.w.isDeadlinePassed(d.rec.LastChange().Add(d.rec.Request.BootTimeout.Duration)))
}

// isSurplusNode reports whether a new node should be given back: it is idle, and its zone and the group have more nodes
// than before.
func (d *decision) isSurplusNode(m *nodegroup.Member) bool {
	if _, returning := d.rec.StartedRecord(m); returning || m.Instance.ID == "" || carriesPods(m) || !d.bookKeeper().CanShrinkGroup() {
		return false
	}
	return d.rec.Ledger.OwesNode(d.rec.Ledger.ZoneOf(m.Zone()))
}

// claimReplacement reports whether the group needs the new node in place of a removed node whose replacement is not ready.
// If not, claimReplacement subtracts the node from the counts, so that the next call does not count on it.
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

// addedMembers returns the new nodes. It returns none while new nodes cannot be distinguished from old ones: after the
// target moved, or while a rollback has not carried over the ledger yet.
func (d *decision) addedMembers() []*nodegroup.Member {
	if d.w.Group.Wanted.ID != d.rec.Target.ID || (d.rec.Rollback && d.rec.Phase == record.PhaseSetup) {
		return nil
	}
	return d.rec.NewMembers(d.w.Members)
}

func (d *decision) followReturns() {
	for _, name := range slices.Sorted(maps.Keys(d.rec.Nodes)) {
		if d.rec.Nodes[name].IsGivenBack() {
			d.followReturn(name)
		}
	}
}

// followReturn follows the termination of a node that is given back. Such a node does not count as replaced. If the group
// still has the node, the node is kept in three cases: it has got pods, the upgrade continues, or it is outdated now
// because the upgrade that decided the termination is being undone.
func (d *decision) followReturn(name string) {
	m := d.count.byName[name]
	n := d.rec.Nodes[name]
	attempt := d.lastAttempt(nodegroup.Terminate{Instance: n.Instance})
	if m == nil {
		d.forgetReturn(name, n, attempt)
		return
	}
	if !n.MatchesMachineOf(m) {
		d.undoTermination(name, n)
		return
	}
	unwanted := d.rec.Stopping != "" && !m.Outdated && !carriesPods(m) && !wasShrinkRefused(n, attempt)
	switch {
	case d.rec.Stopping != "" && m.Instance.State != nodegroup.InstanceLeaving && d.isRefused(nodegroup.Terminate{Instance: n.Instance}):
		d.addAction(nodegroup.Terminate{Instance: n.Instance, Node: name, Shrink: n.Shrink}) // adds it to the refused actions that the report names
	case unwanted || attempt.InFlight || isMachineEnding(n, attempt, m):
		d.followTermination(name, n, m)
	case d.hasTerminationFailed(n, attempt, m):
		d.undoTermination(name, n)
	default:
		d.pollCloudSoon("") // later readings show whether the request was sent
		d.outstanding = true
	}
}

// forgetReturn removes the record of a given-back node that the group no longer shows.
func (d *decision) forgetReturn(name string, n record.NodeRecord, attempt nodegroup.Attempt) {
	switch {
	case !n.Landed && attempt.Outcome != nodegroup.OutcomeDone && !d.w.Group.IsFreshAfter(n.Terminated):
		d.pollCloudSoon("") // a reading from before the node existed does not show it either
		d.outstanding = true
	case d.resolveTerminator(n):
		delete(d.rec.Nodes, name)
	}
}

// hasTerminationFailed reports whether the termination of a node that is given back certainly did not happen. The reading
// must be newer than the last time at which any process can have sent the request.
func (d *decision) hasTerminationFailed(n record.NodeRecord, attempt nodegroup.Attempt, m *nodegroup.Member) bool {
	if (attempt.Outcome == nodegroup.OutcomeLater && n.Shrink) || wasShrinkRefused(n, attempt) {
		return true
	}
	asked := n.Terminated
	if undoing := d.rec.Rollback || d.rec.Stopping == record.Aborted; undoing && d.rec.PhaseBegan.After(asked) {
		asked = d.rec.PhaseBegan // the upgrade that is undone may have sent it until then
	}
	return d.isStillInService(attempt, m, asked)
}

// undoTermination forgets the termination of a node that still exists. A drained node must be replaced again, and may lack
// the fence. The next step handles both.
func (d *decision) undoTermination(name string, n record.NodeRecord) {
	d.undoShrink(n)
	if !n.Added {
		d.rec.Ledger.UnbookRemoval(n.Zone, n.Earlier)
		d.fencing = true
	}
	delete(d.rec.Nodes, name)
}

// cancelSurgeReturn keeps new nodes that a stop was giving back and that still exist. It reports whether the outcome
// is known for all of them.
func (d *decision) cancelSurgeReturn() bool {
	d.followReturns()
	for _, n := range d.rec.Nodes {
		if n.IsGivenBack() && !n.Landed {
			d.pollCloudSoon("")
			return false
		}
	}
	return true
}

// carriesPods reports whether the node has pods that a drain would have to evict.
func carriesPods(m *nodegroup.Member) bool {
	return slices.ContainsFunc(m.Pods, func(p *corev1.Pod) bool {
		return drain.Judge(p, drain.Policy{}, false).Fate != drain.Stay
	})
}
