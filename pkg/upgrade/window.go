package upgrade

import (
	"slices"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// window starts nodes while there is room for one more.
type window struct{ *draft }

func windowOf(d *draft) window { return window{d} }

// startMoreNodes starts nodes while the window has room (EKS E40; at most maxUnavailable between
// Draining and Removing).
func (d window) startMoreNodes() {
	for d.rec.Stopping == "" && !d.pausing && len(d.count.pending) > 0 && d.canStartNode(d.leastUnavailableCost()) {
		m := orderingOf(d.draft).chooseNextNode()
		if m == nil || !d.canStartNode(unavailableCost(m)) || (d.fencing && m.Node != nil && !d.isFencedByRun(m)) {
			return
		}
		d.startNode(m)
	}
}

// canStartNode reports whether one more node may be started: the window is not full, the group
// would not miss more than maxUnavailable nodes, and no batch is being waited for.
func (d window) canStartNode(price int) bool {
	req, busy := &d.rec.Request, d.rec.countInFlight()
	if req.BatchBarrier && busy > 0 && d.rec.Begun%req.Window == 0 {
		d.waiting = "the batch to end"
		return false
	}
	window, unavailable := req.Window, req.MaxUnavailable
	if unready := d.count.unready; unready > 0 {
		// Unready nodes that are not ours count as unavailable, but never bring the upgrade to a
		// halt.
		window, unavailable = max(1, window-unready), min(unavailable, max(1, unavailable-unready))
	}
	if busy >= window {
		return false
	}
	// Nodes that an autoscaler adds meanwhile serve, but they are not ours to spend: the books have
	// a say too.
	spent := d.w.Group.Sized && d.rec.Ledger.ConfirmedSurge()-d.rec.countDraining() <= -req.MaxUnavailable
	if spent || busy+price+d.countUnavailable() > unavailable {
		d.waitForReplacement()
		return false
	}
	return true
}

// unavailableCost is how many nodes that serve are lost with the start of the member: none if it is
// not Ready.
func unavailableCost(m *nodegroup.Member) int {
	if urgencyOf(m) < urgencies-1 {
		return 0
	}
	return 1
}

// leastUnavailableCost is that of the cheapest node which is left.
func (d window) leastUnavailableCost() int {
	if slices.ContainsFunc(d.count.pending, func(m *nodegroup.Member) bool { return unavailableCost(m) == 0 }) {
		return 0
	}
	return 1
}

// countUnavailable is how many nodes the group is short of what it would have without the upgrade;
// see ledger.Ledger.CountUnavailable.
func (d window) countUnavailable() int { return d.countUnavailableExcept(d.rec.countRemovedInFlight()) }

// countUnavailableExcept is the deficit but for so many of the nodes that we removed.
func (d window) countUnavailableExcept(excused int) int {
	if d.w.Group.Refill() == nodegroup.RefillByUser && !d.rec.Request.WaitReplacement {
		return 0
	}
	return d.bookKeeper().CountUnavailable(d.countNotServing()-excused)
}

func (d window) waitForReplacement() {
	d.waitForCloud("a replacement to be ready")
	since := d.rec.lastChange()
	deadline := since.Add(d.rec.Request.BootTimeout.Duration)
	if d.w.Group.Refill() == nodegroup.RefillByUser || d.rec.countInFlight() > 0 {
		return
	}
	if d.w.isDeadlinePassed(deadline) {
		d.stopUpgradeWith(NodeCreationFailure, surgeOf(d.draft).bootFailure(d.count.Usable+d.countUnavailable(), since))
		return
	}
	d.requeueAt(deadline)
}

// startNode begins a node's drain.
func (d window) startNode(m *nodegroup.Member) {
	n := NodeRecord{
		Instance: m.Instance.ID, Zone: d.rec.Ledger.ZoneOf(m.Zone()), State: NodeDraining,
		Batch: d.rec.Begun/d.rec.Request.Window + 1, Began: d.w.Now,
	}
	if m.Node != nil {
		n.UID = m.Node.UID
		n.Deadline = d.w.Now.Add(d.rec.Request.DrainTimeout.Duration)
	}
	d.rec.Begun++
	lifecycleOf(d.draft).startRecord(m, n)
	d.count.pending = slices.DeleteFunc(d.count.pending, func(p *nodegroup.Member) bool { return p == m })
	d.count.pendingIn[m.Zone()]--
	d.requeueAt(d.w.Now.Add(time.Second))
	lifecycleOf(d.draft).advanceNode(m.Name())
}

// countNotServing counts the members that were carried over to the way back and do not serve: what
// was added before may not have come up yet.
func (d window) countNotServing() (n int) {
	carried := d.rec.Ledger.Carried()
	for i := 0; i < len(d.w.Members) && n < carried; i++ {
		m := &d.w.Members[i]
		if _, ending := d.rec.findStarted(m); m.Outdated && m.Instance.State != nodegroup.InstanceLeaving && !m.IsReady() && !ending {
			n++
		}
	}
	return n
}
