package upgrade

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodemark"
)

// stop brings an upgrade to rest before its goal: nothing new is begun, nodes that were not started
// take pods again, suspended processes run again and, where no old node was touched yet, the surge
// is returned. What was started stays as it is, for the same command to go on with.
func (t *turn) stop() {
	if t.rec.Stopping == Aborted {
		t.undo()
		return
	}
	freed := t.freeHeld()
	rested := t.unfenceUnstarted() && freed
	rested = t.returnRoom() && rested
	rested = t.resume() && rested
	if rested {
		t.rec.Result, t.rec.Ended = t.rec.Stopping, t.w.Now
		t.rec.Message = notes(t.rec.Message, t.suspendedNote())
		t.finished = true
	}
}

// returnRoom gives back what was added where no old node was touched yet, and with it our raise of
// the maximum. It reports whether that is done. A request that is refused for good is not asked for
// again.
func (t *turn) returnRoom() bool {
	switch {
	case t.rec.Stopping == NodeCreationFailure && t.phase.untouched:
		return t.returnSurge() && t.lowerMax()
	case t.rec.Stopping == Failed && t.rec.Begun == 0 && t.rec.Ledger.landed() <= 0:
		return t.attempt(nodegroup.LowerMax{}).Outcome == nodegroup.OutcomeFatal || t.lowerMax()
	default:
		return true
	}
}

// unfenceUnstarted takes our fence from the nodes that were never started, unless the user keeps
// it, and what is left of it from nodes that somebody made schedulable, so that the same command
// can fence them again.
func (t *turn) unfenceUnstarted() bool {
	return t.unfence(func(m *nodegroup.Member) bool {
		_, started := t.rec.started(m)
		if !m.Outdated {
			return t.rec.Back && !started // the way back was to unfence it
		}
		if (started || t.rec.Request.KeepFence) && !t.uncordoned(m.Node) {
			return false
		}
		return true
	})
}

// unfence takes our fence from the nodes that are fit for it, and reports whether none has it any
// more.
func (t *turn) unfence(fit func(*nodegroup.Member) bool) bool {
	return t.unmark(fit, mark{
		on:     func(m *nodegroup.Member) bool { return m.Node.Annotations[nodemark.AnnotationRun] == t.rec.Run },
		coming: t.fenceComing,
		take: func(n *corev1.Node) nodegroup.Action {
			return Unfence{Node: n.Name, UID: n.UID, Version: n.ResourceVersion}
		},
	})
}

// mark is something of ours on nodes: whether it is on one, or on its way there, and what takes it
// away.
type mark struct {
	on     func(*nodegroup.Member) bool
	coming func(*corev1.Node) bool
	take   func(*corev1.Node) nodegroup.Action
}

// unmark takes a mark from the nodes that are fit for it, and reports whether none has it any more.
// Where that is refused for good it was tried, and the report names it.
func (t *turn) unmark(fit func(*nodegroup.Member) bool, ours mark) bool {
	done := true
	for i := range t.w.Members {
		m := &t.w.Members[i]
		if m.Node == nil || m.Instance.State == nodegroup.InstanceLeaving || !fit(m) {
			continue
		}
		if !ours.on(m) {
			done = done && !ours.coming(m.Node)
			continue
		}
		if action := ours.take(m.Node); t.attempt(action).Outcome != nodegroup.OutcomeFatal {
			done = false
			t.want(action)
		}
	}
	return done
}

// fenceComing reports whether a fence of ours is on its way to the node and not to be seen on it
// yet.
func (t *turn) fenceComing(node *corev1.Node) bool {
	attempt := t.attempt(Fence{UID: node.UID})
	sent, _ := attempt.Action.(Fence)
	return t.coming(attempt, sent.Version, node)
}

// coming reports whether a change of the node that was asked for at a version of it is under way
// and not to be seen yet.
func (t *turn) coming(attempt nodegroup.Attempt, version string, node *corev1.Node) bool {
	landed := attempt.Outcome == nodegroup.OutcomeDone || attempt.Outcome == nodegroup.OutcomeUnclear
	return attempt.InFlight || (landed && version == node.ResourceVersion && t.w.Now.Before(attempt.Ended.Add(seen)))
}

// returnSurge terminates, with shrinking, the nodes we added that carry no pods a user would miss;
// the others stay and are owed.
func (t *turn) returnSurge() bool {
	if l := &t.rec.Ledger; l.landed() > 0 && !t.w.Group.IsFreshAfter(l.Changed) {
		t.waitForCloud("")
		return false // the reading may be too old to show them all
	}
	needed := false
	for _, m := range t.added() {
		switch {
		case !t.owed(m):
			continue
		case t.stands(m):
			needed = true
			t.waitForCloud("")
			continue
		}
		zone := t.rec.Ledger.zone(m)
		n := NodeRecord{Instance: m.Instance.ID, Zone: zone, State: NodeRemoving, Began: t.w.Now, Terminated: t.w.Now, Shrink: true, Added: true}
		if m.Node != nil {
			n.UID = m.Node.UID
		}
		t.rec.Ledger.change(zone, func(z *ZoneLedger) { z.Shrunk++ })
		t.rec.Ledger.Changed = t.w.Now
		t.enlist(m, n)
	}
	given := t.rec.Ledger.landed()
	if t.driveReturns(); t.rec.Ledger.landed() > given {
		t.again() // a node that was taken back may be owed now
		return false
	}
	return t.rest(NodeRemoving) && (!needed || t.over(t.lastChange().Add(t.rec.Request.BootTimeout.Duration)))
}

// owed reports whether a new node is one to give back: idle, and beyond what its zone and the group
// had.
func (t *turn) owed(m *nodegroup.Member) bool {
	if _, returning := t.rec.started(m); returning || m.Instance.ID == "" || t.carriesPods(m) || !t.canShrink() {
		return false
	}
	return t.rec.Ledger.Zones[t.rec.Ledger.zone(m)].landed() > 0 && t.rec.Ledger.landed() > 0
}

// stands reports whether a new node stands in for one that was taken and whose replacement is not
// fit for pods yet. One that is not needed is counted as gone.
func (t *turn) stands(m *nodegroup.Member) bool {
	if !t.w.Group.IsUsable(m) {
		return false
	}
	if t.shortBut(0) >= 0 {
		return true
	}
	t.count.usable--
	t.count.serving--
	return false
}

// added are the new nodes, as far as they can be told: where the target moved, or a way back has
// not taken stock yet, any node may count as outdated or as new.
func (t *turn) added() []*nodegroup.Member {
	if t.w.Group.Wanted.ID != t.rec.Target.ID || (t.rec.Back && t.rec.Phase == PhaseSetup) {
		return nil
	}
	return t.fresh()
}

// givenBack reports whether the node is a new one that is given back: it was never started.
func (n NodeRecord) givenBack() bool { return n.State == NodeRemoving && n.Batch == 0 }

func (t *turn) driveReturns() {
	for _, name := range slices.Sorted(maps.Keys(t.rec.Nodes)) {
		if t.rec.Nodes[name].givenBack() {
			t.driveReturn(name)
		}
	}
}

// driveReturn sees the termination of a node that is given back through; it is no replaced node.
// One that the group turns out to have still is kept, where it carries pods by now, the upgrade
// goes on, or it is none of the new ones: then its termination was decided by an upgrade that is
// being undone.
func (t *turn) driveReturn(name string) {
	m := t.count.byName[name]
	n := t.rec.Nodes[name]
	attempt := t.attempt(nodegroup.Terminate{Instance: n.Instance})
	if m == nil {
		t.forgetReturn(name, n, attempt)
		return
	}
	unwanted := t.rec.Stopping != "" && !m.Outdated && !t.carriesPods(m) && !refusedToShrink(n, attempt)
	switch {
	case unwanted || attempt.InFlight || ended(n, attempt, m):
		t.remove(name, n, m)
	case t.spared(n, attempt, m):
		t.takeBack(name, n)
	default:
		t.waitForCloud("") // whether it was asked for will show
	}
}

// forgetReturn ends the record of a node that was given back and that the group no longer shows.
func (t *turn) forgetReturn(name string, n NodeRecord, attempt nodegroup.Attempt) {
	switch {
	case !n.Landed && attempt.Outcome != nodegroup.OutcomeDone && !t.w.Group.IsFreshAfter(n.Terminated):
		t.waitForCloud("") // a reading from before it came up does not show it either
	case t.ownUp(n):
		delete(t.rec.Nodes, name)
	}
}

// ended reports whether the machine is known to be on its way out.
func ended(n NodeRecord, attempt nodegroup.Attempt, m *nodegroup.Member) bool {
	gone := m.Instance.State == nodegroup.InstanceLeaving || m.Instance.ID == ""
	return n.Landed || gone || attempt.Outcome == nodegroup.OutcomeDone || attempt.Outcome == nodegroup.OutcomeMoved
}

// spared reports whether the termination of a node that is given back is known not to have
// happened: nobody may ask for it again before a reading that is younger than the last time
// somebody can have asked.
func (t *turn) spared(n NodeRecord, attempt nodegroup.Attempt, m *nodegroup.Member) bool {
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

// takeBack forgets the termination of a node that is there still.
func (t *turn) takeBack(name string, n NodeRecord) {
	t.unshrink(n)
	if !n.Added {
		t.rec.Ledger.change(n.Zone, func(z *ZoneLedger) { z.Removed-- })
	}
	delete(t.rec.Nodes, name)
}

// keepSurge ends what a stop began: of the new nodes that it was giving back, those that are still
// there are kept. It reports whether that is known of all.
func (t *turn) keepSurge() bool {
	t.driveReturns()
	for _, n := range t.rec.Nodes {
		if n.givenBack() && !n.Landed {
			t.waitForCloud("")
			return false
		}
	}
	return true
}

// carriesPods reports whether the node has pods that would have to be evicted.
func (t *turn) carriesPods(m *nodegroup.Member) bool {
	return slices.ContainsFunc(m.Pods, func(p *corev1.Pod) bool {
		return drain.Judge(p, drain.Policy{}, false).Fate != drain.Stay
	})
}
