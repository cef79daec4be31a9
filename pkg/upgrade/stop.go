package upgrade

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodemark"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/ledger"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// bringToRest brings an upgrade to rest before its goal. No further action begins, nodes that were not started take
// pods again, and suspended processes are resumed. If no old node was touched yet, the surge is given back. Started
// nodes stay as they are, and the same command continues with them.
func (d *decision) bringToRest() {
	freed := d.releaseHolds(func(m *nodegroup.Member) bool {
		return d.rec.HasNoNodeRecord(m) || !d.isFencedByRun(m) // a user may have made a started node schedulable
	})
	rested := d.unfenceUnstarted() && freed
	rested = d.returnSurgeAndMaximum() && rested
	rested = d.resumeProcesses() && rested
	if rested {
		d.leftOut = append(d.leftOut, d.w.listRefused()...) // a request may have been refused after the stop began
		d.rec.Result, d.rec.Ended = d.rec.Stopping, d.w.Now
		kept := ""
		if d.returnsSurge() {
			kept = d.describeSizeLeft()
		}
		d.rec.Message = joinNotes(d.rec.Message, d.describeRefused(d.rec.Message), kept, d.describeSuspended(), d.describeOverdue())
		d.finished = true
	}
}

// returnsSurge reports whether the stop gives back the added nodes, because no old node was touched yet.
func (d *decision) returnsSurge() bool {
	return d.rec.Stopping == record.NodeCreationFailure && d.phase.beforeDrains
}

// returnSurgeAndMaximum gives back the added nodes and the raise of the maximum, if no old node was touched yet. It reports
// whether that is done.
func (d *decision) returnSurgeAndMaximum() (done bool) {
	switch {
	case d.returnsSurge():
		return d.returnSurge() && d.lowerMaximum()
	case d.rec.Stopping == record.Failed && d.rec.Begun == 0 && d.rec.Ledger.ConfirmedSurge() <= 0:
		return d.lowerMaximum()
	default:
		return true
	}
}

// unfenceUnstarted removes the fence from the nodes that were never started, unless the user asked to keep it. It also
// removes the rest of the fence from nodes that a user made schedulable, so that the same command can fence them again.
func (d *decision) unfenceUnstarted() (done bool) {
	renewed := d.unfenceRenewed()
	return renewed && d.removeFences(func(m *nodegroup.Member) bool {
		_, started := d.rec.StartedRecord(m)
		if !m.Outdated {
			return d.rec.Rollback && !started // a current node, of which the rollback would have removed the fence
		}
		return (!started && !d.rec.Request.KeepFence) || d.rec.WasUncordoned(m.Node)
	})
}

// undoUpgrade undoes an upgrade that is aborted without moving pods. It removes all fences and the new nodes that carry
// no pods. It restores the maximum, the group's revision and suspended processes. Nodes that were replaced stay
// replaced. Actions that are refused permanently are skipped and named, and another abort tries them again.
func (d *decision) undoUpgrade() {
	if d.rec.Message == "" {
		d.rec.Message = "being aborted" // it is on record before anything is undone
	}
	d.setWaiting("the changes of the upgrade to be undone")
	d.unbookDrained()
	// Nodes are given back first: a node that is kept after all is unfenced with the others.
	shrunk := !d.w.Stop && d.launchMissing() && d.returnSurge() && d.lowerMaximum() && d.restoreRevision()
	freed := d.releaseAllHolds()
	unfenced := d.removeFences(d.rec.HasNoNodeRecord) && freed
	rested := d.resumeProcesses() && unfenced
	switch {
	case !d.w.Stop:
		d.concludeUndo(rested && shrunk)
	case rested:
		d.leftOut = append(d.leftOut, d.w.listRefused()...)
		d.endUpgradeWith(record.Interrupted, fmt.Sprintf("%s: run %s to continue",
			joinNotes("stopped while it was being aborted", d.describeRefused(""), d.describeStillSuspended()), nodegroup.Command("abort", d.w.Group.Name)))
	}
}

// unbookDrained forgets the drained nodes that still exist: an abort unfences them, so they do not count as replaced.
// A drained node that is gone, or current by now, was replaced.
func (d *decision) unbookDrained() {
	for _, name := range d.rec.StartedNames() {
		n := d.rec.Nodes[name]
		if n.State != record.NodeDrained {
			continue
		}
		if i, there := nodegroup.IndexOfMember(d.w.Members, name); there && d.w.Members[i].Outdated {
			d.rec.Replaced--
			d.rec.Ledger.UnbookRemoval(n.Zone, n.Earlier)
		}
		d.forgetNode(name)
	}
	d.recount()
}

// concludeUndo ends an abort that is complete, or of which only permanently refused actions are left. It first waits
// for a reading of the group that shows all changes that the upgrade made before.
func (d *decision) concludeUndo(done bool) {
	if g := &d.w.Group; g.Can.ListInstances && (!g.IsFreshAfter(d.rec.PhaseBegan) || !g.IsFreshAfter(d.rec.Ledger.Changed())) {
		d.pollCloudSoon("")
		return
	}
	if d.rec.Ledger.Contribution() < 0 { // the ledger does not repeat a launch that was refused
		d.leftOut = append(d.leftOut, d.w.listRefusedLaunches()...)
	}
	refused := d.describeRefused("")
	switch {
	case refused != "" && (done || d.hasNothingOpen()):
		left := joinNotes(refused, d.describeSizeLeft(), d.describeSuspended())
		d.endUpgradeWith(record.Failed, fmt.Sprintf("%s: fix that, and run %s to continue", left, nodegroup.Command("abort", d.w.Group.Name)))
	case done:
		d.endUpgradeWith(record.Aborted, joinNotes(d.describeSizeLeft(), d.rec.Ledger.DescribeMaximum(d.w.Group.Desired), d.describeSuspended(), d.describeOverdue()))
	}
}

// launchMissing launches the nodes that zones lack because of the upgrade.
func (d *decision) launchMissing() (done bool) {
	made := d.rebuildLedger()
	if !made || !d.w.Group.Can.Resize {
		return made
	}
	return d.applyDecision(d.bookKeeper().LaunchMissing())
}

// restoreRevision points the group at the revision that it had before the upgrade, if it still points where the upgrade
// pointed it. Otherwise a user pointed it elsewhere.
func (d *decision) restoreRevision() (done bool) {
	to, pointed := d.rec.OriginalRevision(), d.w.Group.Pointed.ID
	if pointed == to.ID || !d.rec.HasSetRevision(pointed) {
		return true
	}
	d.pollCloudSoon("")
	action := nodegroup.SetRevision{To: to, Token: ledger.Token(d.rec.Run, "revision-"+to.ID, 1), Recorded: true}
	d.addAction(action)
	return d.isRefused(action)
}

// refusals are requests of one kind with the same answer.
type refusals struct {
	kind, note string
	actions    []nodegroup.Action
}

// maxRefusedNodes limits how many nodes a text names for which the same request was refused. The record contains the text,
// and its size is limited.
const maxRefusedNodes = 20

// describeRefused names the requests that a stop or an abort skips because they were permanently refused or tried for too
// long, and the answers. It returns "" if there are none. It omits optional requests and requests that told already
// names.
func (d *decision) describeRefused(told string) string {
	var all []refusals
	for _, a := range distinctRequests(d.leftOut) {
		if isOptional(a) || strings.Contains(told, fmt.Sprintf("to %s: ", a)) {
			continue
		}
		kind, _, _ := strings.Cut(a.Key(), "/")
		note := strings.ReplaceAll(d.lastAnswerTo(a), subjectOf(a), "") // the answer may contain the node's name
		i := slices.IndexFunc(all, func(r refusals) bool { return r.kind == kind && r.note == note })
		if i < 0 {
			i, all = len(all), append(all, refusals{kind: kind, note: note})
		}
		all[i].actions = append(all[i].actions, a)
	}
	var texts []string
	for _, r := range all {
		text := "to " + r.actions[0].String()
		if others := r.actions[1:]; len(others) > 0 {
			var names []string
			for _, a := range others {
				names = append(names, subjectOf(a))
			}
			text += " (also " + abbreviateTo(maxRefusedNodes, names) + ")"
		}
		texts = append(texts, text+": "+d.lastAnswerTo(r.actions[0]))
	}
	return joinFirst(texts)
}

// distinctRequests returns the actions sorted by their texts, without repetitions. Of several actions with the same key it
// returns the first: the others are how the same request was sent before, for example for fewer processes.
func distinctRequests(actions []nodegroup.Action) []nodegroup.Action {
	seen := map[string]bool{}
	distinct := slices.DeleteFunc(slices.Clone(actions), func(a nodegroup.Action) bool {
		repeated := seen[a.Key()]
		seen[a.Key()] = true
		return repeated
	})
	slices.SortFunc(distinct, func(a, b nodegroup.Action) int { return strings.Compare(a.String(), b.String()) })
	return slices.CompactFunc(distinct, func(a, b nodegroup.Action) bool { return a.String() == b.String() })
}

// lastAnswerTo returns the last answer to the action. After a restart it comes from the notes.
func (d *decision) lastAnswerTo(a nodegroup.Action) string {
	attempt := d.lastAttempt(a)
	return cmp.Or(attempt.Detail, d.w.Notes.Retries[a.Key()].describe(attempt))
}

// subjectOf returns what distinguishes an action from others of its kind: its node or machine.
func subjectOf(a nodegroup.Action) string {
	switch a := a.(type) {
	case nodemark.NodeAction:
		return a.Target().Node
	case nodegroup.Terminate:
		return a.Instance
	case nodemark.DeleteNode:
		return a.Node
	default:
		return a.String()
	}
}

// DescribeFenced names the members with marks of the run's fence, or returns "".
func DescribeFenced(members []nodegroup.Member, run string) string {
	var fenced []string
	for i := range members {
		if node := members[i].Node; node != nil && run != "" && node.Annotations[nodemark.AnnotationRun] == run {
			fenced = append(fenced, members[i].Name())
		}
	}
	if len(fenced) == 0 {
		return ""
	}
	return "still fenced: " + abbreviateNames(fenced)
}

// describeSizeLeft returns by how much the group's size stays changed, and why; "" if it is unchanged.
func (d *decision) describeSizeLeft() string {
	owed := d.rec.Ledger.Contribution()
	if owed < 0 {
		return ledger.DescribeSize(owed) + ": launching them was refused"
	}
	kept := 0 // new nodes that should have been terminated
	for _, n := range d.rec.CountShrinks(false) {
		kept += n
	}
	if owed = min(owed+kept, d.w.Group.Desired-d.rec.Sizes.Desired); owed <= 0 {
		return "" // another process has removed them
	}
	var loaded []string
	added := d.addedMembers()
	for _, m := range added {
		if carriesPods(m) && d.rec.Ledger.ContributionIn(m.Zone()) > 0 {
			loaded = append(loaded, m.Name())
		}
	}
	var reasons []string
	if len(loaded) > 0 {
		reasons = append(reasons, "new nodes have pods and are kept ("+abbreviateNames(loaded)+")")
	}
	if kept > 0 {
		reasons = append(reasons, "terminating new nodes was refused")
	}
	switch {
	case len(reasons) > 0:
	case d.w.Group.Desired-d.count.Instances >= owed:
		reasons = []string{"they are still to be launched"}
	default:
		reasons = []string{"it is unknown which of them the upgrade added"}
	}
	return ledger.DescribeSize(owed) + ": " + strings.Join(reasons, ", and ")
}
