package upgrade

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
)

// stop brings an upgrade to rest before its goal: nothing new is begun, nodes that were not started
// take pods again, suspended processes run again and, where no old node was touched yet, the surge is
// returned. What was started stays as it is, for the same command to go on with.
func (t *turn) stop() {
	rested := t.unfenceUnstarted()
	if t.rec.Stopping == NodeCreationFailure && t.rec.Phase == PhaseScaleUp {
		rested = t.returnSurge() && t.lowerMax() && rested
	}
	rested = t.resume() && rested
	if rested {
		t.rec.Result, t.rec.Ended = t.rec.Stopping, t.w.Now
		t.rec.Message = notes(t.rec.Message, t.suspendedNote())
		t.finished, t.persist = true, true
	}
}

// unfenceUnstarted takes our fence from the nodes that were never started, unless the user keeps it, and
// what is left of it from nodes that somebody made schedulable, so that the same command can fence them again.
func (t *turn) unfenceUnstarted() bool {
	done := true
	for i := range t.w.Members {
		m := &t.w.Members[i]
		if !m.Outdated || m.Node == nil || m.Instance.State == InstanceLeaving {
			continue
		}
		_, started := t.rec.started(m)
		if (started || t.rec.Request.KeepFence) && !t.uncordoned(m.Node) {
			continue
		}
		if m.Node.Annotations[AnnotationRun] != t.rec.Run {
			done = done && !t.fenceComing(m.Node)
			continue
		}
		action := Unfence{Node: m.Node.Name, UID: m.Node.UID, Version: m.Node.ResourceVersion}
		if t.attempt(action).Outcome == OutcomeFatal {
			continue // it was tried; the report names it
		}
		done = false
		t.want(action)
	}
	return done
}

// fenceComing reports whether a fence of ours is on its way to the node and not to be seen on it yet.
func (t *turn) fenceComing(node *corev1.Node) bool {
	attempt := t.attempt(Fence{UID: node.UID})
	sent, _ := attempt.Action.(Fence)
	landed := attempt.Outcome == OutcomeDone || attempt.Outcome == OutcomeUnclear
	return attempt.InFlight || (landed && sent.Version == node.ResourceVersion && t.w.Now.Before(attempt.Ended.Add(seen)))
}

// returnSurge terminates, with shrinking, the nodes we added that carry no pods a user would miss; the
// others stay and are owed.
func (t *turn) returnSurge() bool {
	if l := &t.rec.Ledger; l.landed() > 0 && !t.w.Group.shows(l.Changed) {
		t.cloud = true
		return false // the reading may be too old to show them all
	}
	for _, m := range t.fresh() {
		zone := t.rec.Ledger.zone(m)
		if _, returning := t.rec.started(m); returning || m.Instance.ID == "" || t.carriesPods(m) {
			continue
		}
		if t.rec.Ledger.Zones[zone].landed() <= 0 {
			continue
		}
		n := NodeRecord{Instance: m.Instance.ID, Zone: zone, State: NodeRemoving, Began: t.w.Now, Terminated: t.w.Now, Shrink: true}
		if m.Node != nil {
			n.UID = m.Node.UID
		}
		t.rec.Ledger.change(zone, func(z *ZoneLedger) { z.Shrunk++ })
		t.rec.Ledger.Changed = t.w.Now
		t.enlist(m, n)
	}
	t.driveReturns()
	return t.rest(NodeRemoving)
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

// driveReturn sees the termination of a node that is given back through; it is no replaced node. One that the group turns out to
// have still is kept, where it carries pods by now or the upgrade goes on.
func (t *turn) driveReturn(name string) {
	m := t.count.byName[name]
	n := t.rec.Nodes[name]
	if m == nil {
		if t.ownUp(n) {
			delete(t.rec.Nodes, name)
			t.persist = true
		}
		return
	}
	attempt := t.attempt(Terminate{Instance: n.Instance})
	unwanted := t.rec.Stopping != "" && !t.carriesPods(m)
	if !n.Landed && !attempt.InFlight && !unwanted && t.stillThere(n, attempt, m.Instance.State == InstanceInService) {
		t.unshrink(n)
		delete(t.rec.Nodes, name)
		t.persist = true
		return
	}
	t.remove(name, n, m)
}

// keepSurge ends what a stop began: of the new nodes that it was giving back, those that are still there are kept. It
// reports whether that is known of all.
func (t *turn) keepSurge() bool {
	t.driveReturns()
	for _, n := range t.rec.Nodes {
		if n.givenBack() && !n.Landed {
			t.cloud = true
			return false
		}
	}
	return true
}

// carriesPods reports whether the node has pods that would have to be evicted.
func (t *turn) carriesPods(m *Member) bool {
	return slices.ContainsFunc(m.Pods, func(p *corev1.Pod) bool {
		return drain.Judge(p, drain.Policy{}, false).Fate != drain.Stay
	})
}
