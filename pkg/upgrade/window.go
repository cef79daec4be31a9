package upgrade

import (
	"slices"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// startMore starts nodes while the window has room (EKS E40; at most maxUnavailable between
// Draining and Removing).
func (t *turn) startMore() {
	for t.rec.Stopping == "" && !t.pausing && len(t.count.pending) > 0 && t.room(t.leastPrice()) {
		m := t.nextNode()
		if m == nil || !t.room(price(m)) || (t.fencing && m.Node != nil && !t.isFenced(m)) {
			return
		}
		t.start(m)
	}
}

// room reports whether one more node may be started: the window is not full, the group would not
// miss more than maxUnavailable nodes, and no batch is being waited for.
func (t *turn) room(price int) bool {
	req, busy := &t.rec.Request, t.busy()
	if req.BatchBarrier && busy > 0 && t.rec.Begun%req.Window == 0 {
		t.waiting = "the batch to end"
		return false
	}
	window, unavailable := req.Window, req.MaxUnavailable
	if unready := t.count.unready; unready > 0 {
		// Unready nodes that are not ours count as unavailable, but never bring the upgrade to a
		// halt.
		window, unavailable = max(1, window-unready), min(unavailable, max(1, unavailable-unready))
	}
	if busy >= window {
		return false
	}
	// Nodes that an autoscaler adds meanwhile serve, but they are not ours to spend: the books have
	// a say too.
	spent := t.w.Group.Sized && t.rec.Ledger.landed()-t.draining() <= -req.MaxUnavailable
	if spent || busy+price+t.deficit() > unavailable {
		t.waitForReplacement()
		return false
	}
	return true
}

// price is how many nodes that serve are lost with the start of the member: none if it is not
// Ready.
func price(m *nodegroup.Member) int {
	if urgency(m) < urgencies-1 {
		return 0
	}
	return 1
}

// leastPrice is that of the cheapest node which is left.
func (t *turn) leastPrice() int {
	if slices.ContainsFunc(t.count.pending, func(m *nodegroup.Member) bool { return price(m) == 0 }) {
		return 0
	}
	return 1
}

// draining counts the started nodes whose termination is not on the books yet.
func (t *turn) draining() int {
	n := 0
	for _, r := range t.rec.Nodes {
		if inDrain(r.State) {
			n++
		}
	}
	return n
}

// busy counts the nodes between Draining and Removing. A termination that the cloud has begun
// counts no more: until its replacement is ready it is charged as a deficit.
func (t *turn) busy() int {
	busy := 0
	for _, n := range t.rec.Nodes {
		if inDrain(n.State) || (n.State == NodeRemoving && !n.Landed) {
			busy++
		}
	}
	return busy
}

// deficit is how many nodes the group is short of what it would have without the upgrade: those we
// removed minus the new ones fit for pods. It is negative while surge is to spare. It is never more
// than what the group's own size lacks, so that nodes an autoscaler took away, one of ours among
// them, are not waited for.
func (t *turn) deficit() int { return t.shortBut(t.busyRemoved()) }

// shortBut is the deficit but for so many of the nodes that we removed.
func (t *turn) shortBut(excused int) int {
	if t.w.Group.Refill() == nodegroup.RefillByUser && !t.rec.Request.WaitReplacement {
		return 0
	}
	removed := t.rec.Ledger.total(func(z ZoneLedger) int { return z.Removed - z.Carried })
	short := removed + t.absent() - excused - t.count.usable
	if !t.w.Group.Sized || !t.w.Group.IsFreshAfter(t.rec.Ledger.Changed) {
		return short // the sizes read may be older than what we did last
	}
	without := t.w.Group.Desired - t.rec.Ledger.landed() // its size were it not for us, as an autoscaler left it (EKS E61)
	return min(short, without-t.count.serving)
}

// busyRemoved counts the terminations of outdated nodes that busy counts already. A new node that
// is given back is none of those removed.
func (t *turn) busyRemoved() int {
	removed := 0
	for _, n := range t.rec.Nodes {
		if n.State == NodeRemoving && !n.Landed && !n.Added {
			removed++
		}
	}
	return removed
}

// over reports whether a limit on what the cloud does is over, as far as the cloud was read since:
// nobody knows what it did while this process slept or the cloud did not answer.
func (t *turn) over(deadline time.Time) bool {
	return !t.w.Now.Before(deadline) && !t.w.Group.Observed.Before(deadline)
}

// lastChange is since when nodes are waited for: the last change of ours that landed, or the
// phase's beginning after that.
func (t *turn) lastChange() time.Time {
	if t.rec.PhaseBegan.After(t.rec.Ledger.Changed) {
		return t.rec.PhaseBegan // it was stopped meanwhile
	}
	return t.rec.Ledger.Changed
}

func (t *turn) waitForReplacement() {
	t.waitForCloud("a replacement to be ready")
	since := t.lastChange()
	deadline := since.Add(t.rec.Request.BootTimeout.Duration)
	if t.w.Group.Refill() == nodegroup.RefillByUser || t.busy() > 0 {
		return
	}
	if t.over(deadline) {
		t.fail(NodeCreationFailure, t.bootFailure(t.count.usable+t.deficit(), since))
		return
	}
	t.wakeAt(deadline)
}

// start begins a node's drain.
func (t *turn) start(m *nodegroup.Member) {
	n := NodeRecord{
		Instance: m.Instance.ID, Zone: t.rec.Ledger.zone(m), State: NodeDraining,
		Batch: t.rec.Begun/t.rec.Request.Window + 1, Began: t.w.Now,
	}
	if m.Node != nil {
		n.UID = m.Node.UID
		n.Deadline = t.w.Now.Add(t.rec.Request.DrainTimeout.Duration)
	}
	t.rec.Begun++
	t.enlist(m, n)
	t.count.pending = slices.DeleteFunc(t.count.pending, func(p *nodegroup.Member) bool { return p == m })
	t.count.pendingIn[m.Zone()]--
	t.wakeAt(t.w.Now.Add(time.Second))
	t.drive(m.Name())
}
