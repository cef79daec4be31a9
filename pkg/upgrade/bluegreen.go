package upgrade

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// mostDeleted is how many outdated nodes are deleted at once: as many as GKE upgrades at once.
const mostDeleted = maxSurgeWindow

// blueGreen carries out the phases of the strategy of the same name. Blue are the outdated nodes,
// green are the new ones.
type blueGreen struct{ *draft }

// blueGreenStrategy is GKE's blue-green upgrade inside one group: as many new nodes as there are
// outdated ones, which are fenced, drained in batches and kept until a soak is over (GKE G40). It
// is a surge of the size of the group, so that the books and the way back are the same.
func blueGreenStrategy() strategy {
	early := []Verb{VerbPause, VerbRollback, VerbAbort}
	return strategy{
		begin: func(d *draft) { surge{d}.beginSurge() },
		fits:  fitsBlueGreen,
		phases: []phase{
			{
				name: PhaseSetup, untouched: true, quiet: true, held: outdatedHeld, waitsFor: "the new nodes", verbs: early,
				run: func(d *draft) bool { return blueGreen{d}.setUpGroup() },
			},
			{
				name: PhaseCreateGreen, untouched: true, quiet: true, watched: true, held: bothHeld, waitsFor: "the new nodes", verbs: early,
				run: func(d *draft) bool { coverOutdated(d); return surge{d}.addSurge() },
			},
			{
				name: PhaseCordonBlue, stays: true, quiet: true, watched: true, held: bothHeld, waitsFor: "the fence", verbs: early,
				run: func(d *draft) bool { return blueGreen{d}.cordonBlue() },
			},
			{
				name: PhaseDrainBlue, stays: true, quiet: true, watched: true, held: bothHeld, verbs: early,
				run:     func(d *draft) bool { return blueGreen{d}.drainBlue() },
				emptied: func(d *draft, name string, n NodeRecord, _ *nodegroup.Member) { blueGreen{d}.parkNode(name, n, "") },
				late: func(d *draft, name string, n NodeRecord) {
					blueGreen{d}.parkNode(name, n, timeout{d}.describeForRecord(name))
				},
			},
			{
				name: PhaseSoak, stays: true, held: outdatedHeld, waitsFor: "the soak", verbs: append([]Verb{VerbComplete}, early...),
				run: func(d *draft) bool { return blueGreen{d}.soakPool() },
			},
			{
				name: PhaseDeleteBlue, stays: true, watched: true, mostGrace: time.Hour, held: outdatedHeld, verbs: []Verb{VerbAbort}, // GKE G53
				run: func(d *draft) bool { return blueGreen{d}.deleteBlue() }, emptied: terminateNode,
				late: func(d *draft, name string, n NodeRecord) { blueGreen{d}.deletePods(name, n) },
			},
			{
				name: PhaseScaleDown, givesBack: true, verbs: []Verb{VerbAbort},
				run: func(d *draft) bool { return surge{d}.scaleDownGroup() },
			},
		},
		stop: func(d *draft) { blueGreen{d}.bringToRest() },
		undo: func(d *draft) { stopping{d}.undoUpgrade() },
	}
}

// fitsBlueGreen returns an error where the group cannot have both colours at once.
func fitsBlueGreen(group *nodegroup.Group, r *Request, outdated int) error {
	switch {
	case !group.Sized:
		return fmt.Errorf("--strategy=%s: provider %s cannot add nodes: use %s", BlueGreen, group.Provider, Surge)
	case r.Surge < outdated:
		return fmt.Errorf("--keep-max: group %q has room for %d new nodes and needs %d, one for each outdated one: leave --keep-max out", group.Name, r.Surge, outdated)
	}
	return nil
}

// setUpGroup keeps autoscalers from the outdated nodes before anything else is touched. Where that
// is refused the upgrade cannot be had: they would remove nodes that are kept (GKE G42).
func (d blueGreen) setUpGroup() bool {
	if node, refusal := (marks{d.draft}).findUnheld(); node != "" {
		d.waiting = "autoscalers to be kept from the outdated nodes"
		if refusal != "" {
			d.stopUpgradeWith(Failed, fmt.Sprintf("keeping autoscalers from node %q: %s: autoscalers would remove the nodes that are kept: allow that annotation, or use --strategy=%s", node, refusal, Surge))
		}
		return false
	}
	return surge{d.draft}.setUpGroup()
}

// coverOutdated has a new node be added for each outdated one, those included that joined after the
// upgrade began (GKE G41).
func coverOutdated(d *draft) {
	outdated := rebuild{d}.countOutdated()
	d.rec.Ledger.DealSurge(outdated, d.count.Left)
	d.rec.Request.Surge = max(d.rec.Request.Surge, outdated)
}

// launchMissing launches new nodes for outdated ones that joined while others were drained.
func launchMissing(d *draft) {
	coverOutdated(d)
	if d.applyDecision(d.bookKeeper().RaiseMaximum()) {
		d.applyDecision(d.bookKeeper().KeepSurgeLaunched())
	}
}

// cordonBlue fences all outdated nodes before any is drained (GKE G43).
func (d blueGreen) cordonBlue() bool {
	return surge{d.draft}.setRevision() && d.suspendProcesses() && marks{d.draft}.fenceOutdatedNodes()
}

// drainBlue drains the outdated nodes batch by batch, with a soak after each. A node that is not
// empty in its time is kept like the others, and its pods are deleted with it (GKE G44). A batch of
// no nodes skips the phase (GKE G46).
func (d blueGreen) drainBlue() bool {
	if d.rec.Request.BlueGreen.Batch == 0 || (soaking{d.draft}).isExhausted() {
		return d.rec.noneInState(NodeDraining, NodeEmpty)
	}
	if !(surge{d.draft}).setRevision() || !d.suspendProcesses() {
		return false
	}
	surge{d.draft}.continueDrains()
	switch {
	case d.rec.Stopping != "" || d.fencing:
		return false
	case d.isBatchDrained():
		return d.soakBatch()
	case d.pausing:
		surge{d.draft}.pauseWhenIdle()
	default:
		d.startBatch()
	}
	return false
}

// isBatchOpen reports whether nodes of the batch are still to be started.
func (d blueGreen) isBatchOpen() bool {
	return len(d.count.pending) > 0 && d.rec.Begun-d.rec.Soak.Batches < d.rec.Request.BlueGreen.Batch
}

// isBatchDrained reports whether all nodes of the batch were started and none is in drain.
func (d blueGreen) isBatchDrained() bool {
	return !d.isBatchOpen() && d.rec.noneInState(NodeDraining, NodeForcing, NodeEmpty)
}

// soakBatch waits after a batch, and reports whether it was the last one (GKE G47).
func (d blueGreen) soakBatch() bool {
	soak := soaking{d.draft}
	if d.rec.Soak.Batches < d.rec.Begun {
		if d.pausing && d.rec.Soak.Until.After(d.w.Now) {
			soak.pauseSoak()
			return false
		}
		if !soak.isOver(d.rec.Request.BlueGreen.BatchSoak.Duration) {
			return false
		}
		soak.endSoak()
		d.rec.Soak.Batches = d.rec.Begun
	}
	if len(d.count.pending) == 0 || soak.isExhausted() {
		return true
	}
	d.requeueNow()
	return false
}

// startBatch starts nodes of the batch while the new nodes can take the pods of one more.
func (d blueGreen) startBatch() {
	for d.isBatchOpen() && d.rec.Stopping == "" {
		if d.countUnavailable()+d.countKept()+1 > 0 {
			launchMissing(d.draft)
			window{d.draft}.waitForReplacement()
			return
		}
		m := scheduling{d.draft}.chooseNextNode()
		if m == nil || d.awaitRoomFor(m) {
			return
		}
		window{d.draft}.startNode(m)
	}
}

// countKept counts the nodes that were started and are not removed: the new nodes take their pods.
func (d blueGreen) countKept() int {
	return countNodes(&d.rec, func(n NodeRecord) bool { return isInDrain(n.State) || n.State == NodeParked })
}

// parkNode keeps a node, fenced, until the outdated nodes are deleted. reason names what is left on
// it, "" when it is empty.
func (d blueGreen) parkNode(name string, n NodeRecord, reason string) {
	n.State, n.Reason, n.Addresses = NodeParked, reason, nil
	d.rec.Nodes[name] = n
	d.requeueNow()
}

// soakPool waits before the outdated nodes are deleted, in which autoscalers may grow and shrink
// the new ones (GKE G49–G52). It lasts until all workloads have as many ready pods as before: the way back
// ends with it.
func (d blueGreen) soakPool() bool {
	if !(surge{d.draft}).setRevision() { // else the deletion would end with the nodes that autoscalers add
		return false
	}
	freed := marks{d.draft}.releaseHolds(func(m *nodegroup.Member) bool { return !m.Outdated && d.rec.isNotEnding(m) })
	soak := soaking{d.draft}
	switch over := soak.isOver(d.rec.Request.BlueGreen.Soak.Duration); {
	case over && freed && (canary{d.draft}).areWorkloadsWhole():
		soak.endSoak()
		return true
	case !over && d.pausing:
		soak.pauseSoak()
	}
	return false
}

// deleteBlue deletes what is left of the outdated nodes, at most mostDeleted at once: pods that are
// left are deleted, not evicted (GKE G53). Those that were drained carry nothing, and are not held
// back by workloads that do not recover.
func (d blueGreen) deleteBlue() bool {
	if !(surge{d.draft}).setRevision() {
		return false
	}
	if d.fencing = !(marks{d.draft}).fenceOutdatedNodes(); d.rec.Stopping != "" {
		return false
	}
	for _, name := range d.rec.startedNames() {
		lifecycle{d.draft}.advanceNode(name)
		d.startDeletion(name)
	}
	for d.rec.countInFlight() < mostDeleted && !(canary{d.draft}).isHolding() { // that were never drained, or came late
		startable := slices.DeleteFunc(slices.Clone(d.count.pending), canary{d.draft}.deferStart)
		if len(startable) == 0 {
			break
		}
		m := slices.MinFunc(startable, func(a, b *nodegroup.Member) int { return cmp.Compare(d.urgencyOf(a), d.urgencyOf(b)) })
		n := window{d.draft}.recordStart(m)
		n.Deadline = d.w.Now // it has no time, so that what is on it is named and deleted
		d.rec.Nodes[m.Name()] = n
		d.requeueNow()
	}
	return (surge{d.draft}).isReplaced()
}

// startDeletion takes up a node that was kept, while there is room for one more.
func (d blueGreen) startDeletion(name string) {
	n := d.rec.Nodes[name]
	if n.State != NodeParked || d.rec.countInFlight() >= mostDeleted {
		return
	}
	if n.State = NodeEmpty; n.EmptyAt.IsZero() {
		n.State, n.Deadline = NodeForcing, d.w.Now
		delete(d.notes.Yielded, name)
	}
	d.rec.Nodes[name] = n
	d.requeueNow() // and act on the new state
}

// deletePods has the pods of a node be deleted that is not empty.
func (d blueGreen) deletePods(name string, n NodeRecord) {
	n.State, n.Reason, n.Deadline = NodeForcing, "its pods are deleted with it", d.w.Now
	if len((timeout{d.draft}).listBlocked(name)) > 0 {
		n.Reason = timeout{d.draft}.describeForRecord(name) // the others were not asked to leave: nothing has kept them
	}
	delete(d.notes.Yielded, name)
	d.rec.Nodes[name] = n
	d.requeueNow()
}

// bringToRest brings the upgrade to rest. Once the outdated nodes are fenced both colours stay as
// they are, with their fences, holds and suspended processes, for the same command to continue with
// (GKE G54).
func (d blueGreen) bringToRest() {
	if !d.phase.stays {
		stopping{d.draft}.bringToRest()
		return
	}
	renewed := renewal{d.draft}.releaseNodes()
	if !(marks{d.draft}).removeFences(func(m *nodegroup.Member) bool { return d.rec.wasUncordoned(m.Node) }) {
		return // what is left of a fence that another actor took away: the same command fences the node again
	}
	if !renewed {
		return
	}
	d.rec.Result, d.rec.Ended, d.finished = d.rec.Stopping, d.w.Now, true
	d.rec.Message = joinNotes(d.rec.Message, stopping{d.draft}.describeRefused(d.rec.Message), d.describeStanding())
}

// describeStanding says what a stop leaves as it is.
func (d blueGreen) describeStanding() string {
	text := "the outdated and the new nodes both stay"
	if len(d.rec.Suspended) > 0 {
		text += ", with " + strings.Join(d.rec.Suspended, ", ") + " suspended"
	}
	return text
}
