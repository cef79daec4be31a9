package upgrade

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// stopping brings an upgrade to rest before its goal, or undoes it.
type stopping struct{ *draft }

func stoppingOf(d *draft) stopping { return stopping{d} }

// bringToRest brings an upgrade to rest before its goal: nothing new is begun, nodes that were not started
// take pods again, suspended processes run again and, where no old node was touched yet, the surge
// is returned. What was started stays as it is, for the same command to go on with.
func (t stopping) bringToRest() {
	if t.rec.Stopping == Aborted {
		t.undoUpgrade()
		return
	}
	freed := marksOf(t.draft).freeHeld()
	rested := t.unfenceUnstarted() && freed
	rested = t.returnRoom() && rested
	rested = processesOf(t.draft).resumeProcesses() && rested
	if rested {
		t.rec.Result, t.rec.Ended = t.rec.Stopping, t.w.Now
		t.rec.Message = joinNotes(t.rec.Message, processesOf(t.draft).suspendedNote())
		t.finished = true
	}
}

// returnRoom gives back what was added where no old node was touched yet, and with it our raise of
// the maximum. It reports whether that is done. A request that is refused for good is not asked for
// again.
func (t stopping) returnRoom() bool {
	switch {
	case t.rec.Stopping == NodeCreationFailure && t.phase.untouched:
		return surplusOf(t.draft).returnSurge() && maximumOf(t.draft).lowerMax()
	case t.rec.Stopping == Failed && t.rec.Begun == 0 && t.rec.Ledger.confirmedSurge() <= 0:
		return t.lastAttempt(nodegroup.LowerMax{}).Outcome == nodegroup.OutcomeFatal || maximumOf(t.draft).lowerMax()
	default:
		return true
	}
}

// unfenceUnstarted takes our fence from the nodes that were never started, unless the user keeps
// it, and what is left of it from nodes that somebody made schedulable, so that the same command
// can fence them again.
func (t stopping) unfenceUnstarted() bool {
	return marksOf(t.draft).removeFences(func(m *nodegroup.Member) bool {
		_, started := t.rec.findStarted(m)
		if !m.Outdated {
			return t.rec.Back && !started // the way back was to unfence it
		}
		if (started || t.rec.Request.KeepFence) && !t.rec.wasUncordoned(m.Node) {
			return false
		}
		return true
	})
}

// mark is something of ours on nodes: whether it is on one, or on its way there, and what takes it
// away.
type mark struct {
	on     func(*nodegroup.Member) bool
	coming func(*corev1.Node) bool
	take   func(*corev1.Node) nodegroup.Action
}

// isGivenBack reports whether the node is a new one that is given back: it was never started.
func (n NodeRecord) isGivenBack() bool { return n.State == NodeRemoving && n.Batch == 0 }

// isOnItsWayOut reports whether the machine is known to be on its way out.
func isOnItsWayOut(n NodeRecord, attempt nodegroup.Attempt, m *nodegroup.Member) bool {
	gone := m.Instance.State == nodegroup.InstanceLeaving || m.Instance.ID == ""
	return n.Landed || gone || attempt.Outcome == nodegroup.OutcomeDone || attempt.Outcome == nodegroup.OutcomeMoved
}

// undoUpgrade takes away what is ours of an upgrade that is aborted, and moves no pod for it: all fences,
// the new nodes that carry nothing, the raise of the maximum, the group's revision and suspended
// processes. Nodes that were replaced stay replaced. What is refused for good is left and named,
// and the same verb tries it again.
func (t stopping) undoUpgrade() {
	if t.rec.Message == "" {
		t.rec.Message = "being aborted" // it is on record before the first thing is undone
	}
	t.waiting = "what the upgrade did to be undone"
	// What is given back comes first: a node that is kept after all is unfenced with the others.
	shrunk := !t.w.Stop && t.launchMissing() && surplusOf(t.draft).returnSurge() && maximumOf(t.draft).lowerMax() && t.restoreRevision()
	freed := marksOf(t.draft).freeHeld()
	unfenced := marksOf(t.draft).removeFences(t.rec.isNotEnding) && freed
	rested := processesOf(t.draft).resumeProcesses() && unfenced
	switch {
	case !t.w.Stop:
		t.concludeUndo(rested && shrunk)
	case rested:
		t.endWith(Interrupted, fmt.Sprintf("stopped while it was being aborted: run kubectl nodeupgrade abort %s to continue", t.w.Group.Name))
	}
}

// concludeUndo ends an abort that is done, by a reading of the group that shows all that was done
// before it, or one of which only what was refused for good is left.
func (t stopping) concludeUndo(done bool) {
	if g := &t.w.Group; g.Sized && (!g.IsFreshAfter(t.rec.PhaseBegan) || !g.IsFreshAfter(t.rec.Ledger.Changed)) {
		t.waitForCloud("")
		return
	}
	refused := t.w.describeRefused()
	switch {
	case refused != "" && (done || t.hasNothingOpen()):
		left := joinNotes(refused, t.keptNote(), processesOf(t.draft).suspendedNote())
		t.endWith(Failed, fmt.Sprintf("%s: put that right, and run kubectl nodeupgrade abort %s to continue", left, t.w.Group.Name))
	case done:
		t.endWith(Aborted, joinNotes(t.rec.replacedNote(), t.keptNote(), maximumOf(t.draft).maxNote(), processesOf(t.draft).suspendedNote()))
	}
}

// hasNothingOpen reports whether there is nothing to do in this turn and no answer to wait for.
func (t stopping) hasNothingOpen() bool {
	for _, attempt := range t.w.Open {
		if attempt.InFlight {
			return false
		}
	}
	return len(t.actions)+len(t.candidates) == 0
}

// launchMissing has the zones be no smaller because of us: a node that was taken and not replaced yet is
// launched. It is not tried again where that is refused.
func (t stopping) launchMissing() bool {
	if counted := rebuildOf(t.draft).rebuildLedger(); !counted || !t.w.Group.Sized {
		return counted
	}
	even := capacityOf(t.draft).resolveOpenLaunches()
	if !t.rec.Ledger.Zonal {
		return even // such a group replaces by itself what is terminated
	}
	shrinking := t.rec.openShrinks()
	for _, zone := range slices.Sorted(maps.Keys(t.rec.Ledger.Zones)) {
		z := t.rec.Ledger.Zones[zone]
		if missing := -z.Contribution() - shrinking[zone]; missing > 0 && z.Refusal == "" {
			even = false
			capacityOf(t.draft).recordLaunches(zone, missing)
			capacityOf(t.draft).requestLaunches(zone)
		}
	}
	return even
}

// restoreRevision points the group at the revision it had before us, if it is still where we pointed it.
func (t stopping) restoreRevision() bool {
	to := t.rec.originalRevision()
	if to.ID == t.rec.Target.ID || t.w.Group.Pointed.ID != t.rec.Target.ID {
		return true
	}
	t.waitForCloud("")
	t.addAction(nodegroup.SetRevision{To: to, Token: launchToken(t.rec.Run, "revision-"+to.ID, 1)})
	return false
}

// keptNote says by how much the group's size is left changed, and why; "" when it is as it was.
func (t stopping) keptNote() string {
	owed := t.rec.Ledger.Contribution()
	if owed == 0 {
		return ""
	}
	if owed < 0 {
		return fmt.Sprintf("the group keeps %d fewer nodes than before: launching them was refused", -owed)
	}
	var loaded []string
	for _, m := range surplusOf(t.draft).addedMembers() {
		if surplusOf(t.draft).carriesPods(m) && t.rec.Ledger.Zones[t.rec.Ledger.zoneOf(m)].Contribution() > 0 {
			loaded = append(loaded, m.Name())
		}
	}
	if len(loaded) == 0 {
		return fmt.Sprintf("the group keeps %d more nodes than before: which of them are ours cannot be told any more", owed)
	}
	return fmt.Sprintf("the group keeps %d more nodes than before: new nodes carry pods and are not taken (%s)", owed, shortList(loaded))
}

// shortList names the first few and counts the rest.
func shortList(names []string) string {
	const most = 3
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}
