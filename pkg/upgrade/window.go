package upgrade

import (
	"slices"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// window starts nodes while there is room for one more.
type window struct{ *draft }

func windowOf(d *draft) window { return window{d} }

// startMore starts nodes while the window has room (EKS E40; at most maxUnavailable between
// Draining and Removing).
func (t window) startMore() {
	for t.rec.Stopping == "" && !t.pausing && len(t.count.pending) > 0 && t.canStartNode(t.leastUnavailableCost()) {
		m := orderingOf(t.draft).nextNode()
		if m == nil || !t.canStartNode(unavailableCost(m)) || (t.fencing && m.Node != nil && !t.isFenced(m)) {
			return
		}
		t.startNode(m)
	}
}

// canStartNode reports whether one more node may be started: the window is not full, the group would not
// miss more than maxUnavailable nodes, and no batch is being waited for.
func (t window) canStartNode(price int) bool {
	req, busy := &t.rec.Request, t.rec.countInFlight()
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
	spent := t.w.Group.Sized && t.rec.Ledger.confirmedSurge()-t.rec.countDraining() <= -req.MaxUnavailable
	if spent || busy+price+t.countUnavailable() > unavailable {
		t.waitForReplacement()
		return false
	}
	return true
}

// unavailableCost is how many nodes that serve are lost with the start of the member: none if it is not
// Ready.
func unavailableCost(m *nodegroup.Member) int {
	if urgencyOf(m) < urgencies-1 {
		return 0
	}
	return 1
}

// leastUnavailableCost is that of the cheapest node which is left.
func (t window) leastUnavailableCost() int {
	if slices.ContainsFunc(t.count.pending, func(m *nodegroup.Member) bool { return unavailableCost(m) == 0 }) {
		return 0
	}
	return 1
}

// countUnavailable is how many nodes the group is short of what it would have without the upgrade: those we
// removed minus the new ones fit for pods. It is negative while surge is to spare. It is never more
// than what the group's own size lacks, so that nodes an autoscaler took away, one of ours among
// them, are not waited for.
func (t window) countUnavailable() int { return t.countUnavailableExcept(t.rec.countRemovedInFlight()) }

// countUnavailableExcept is the deficit but for so many of the nodes that we removed.
func (t window) countUnavailableExcept(excused int) int {
	if t.w.Group.Refill() == nodegroup.RefillByUser && !t.rec.Request.WaitReplacement {
		return 0
	}
	removed := t.rec.Ledger.sumZones(func(z ZoneLedger) int { return z.Removed - z.Carried })
	short := removed + t.countNotServing() - excused - t.count.usable
	if !t.w.Group.Sized || !t.w.Group.IsFreshAfter(t.rec.Ledger.Changed) {
		return short // the sizes read may be older than what we did last
	}
	without := t.w.Group.Desired - t.rec.Ledger.confirmedSurge() // its size were it not for us, as an autoscaler left it (EKS E61)
	return min(short, without-t.count.serving)
}

func (t window) waitForReplacement() {
	t.waitForCloud("a replacement to be ready")
	since := t.rec.lastChange()
	deadline := since.Add(t.rec.Request.BootTimeout.Duration)
	if t.w.Group.Refill() == nodegroup.RefillByUser || t.rec.countInFlight() > 0 {
		return
	}
	if t.w.isDeadlinePassed(deadline) {
		t.stopWith(NodeCreationFailure, surgeOf(t.draft).bootFailure(t.count.usable+t.countUnavailable(), since))
		return
	}
	t.requeueAt(deadline)
}

// startNode begins a node's drain.
func (t window) startNode(m *nodegroup.Member) {
	n := NodeRecord{
		Instance: m.Instance.ID, Zone: t.rec.Ledger.zoneOf(m), State: NodeDraining,
		Batch: t.rec.Begun/t.rec.Request.Window + 1, Began: t.w.Now,
	}
	if m.Node != nil {
		n.UID = m.Node.UID
		n.Deadline = t.w.Now.Add(t.rec.Request.DrainTimeout.Duration)
	}
	t.rec.Begun++
	lifecycleOf(t.draft).startRecord(m, n)
	t.count.pending = slices.DeleteFunc(t.count.pending, func(p *nodegroup.Member) bool { return p == m })
	t.count.pendingIn[m.Zone()]--
	t.requeueAt(t.w.Now.Add(time.Second))
	lifecycleOf(t.draft).advanceNode(m.Name())
}

// countNotServing counts the members that were carried over to the way back and do not serve: what was added
// before may not have come up yet.
func (t window) countNotServing() (n int) {
	carried := t.rec.Ledger.sumZones(func(z ZoneLedger) int { return z.Carried })
	for i := 0; i < len(t.w.Members) && n < carried; i++ {
		m := &t.w.Members[i]
		if _, ending := t.rec.findStarted(m); m.Outdated && m.Instance.State != nodegroup.InstanceLeaving && !m.IsReady() && !ending {
			n++
		}
	}
	return n
}
