package upgrade

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// blueGreenStrategy returns GKE's blue-green upgrade inside one group: it adds as many new nodes as there are outdated
// ones. The outdated nodes are fenced, drained in batches and kept until a soak is over (GKE G40). It is a surge as
// large as the group, so that it shares the ledger and the rollback with surge upgrades.
func blueGreenStrategy() strategy {
	early := []record.Verb{record.VerbPause, record.VerbRollback, record.VerbAbort}
	return strategy{
		begin: (*decision).beginSurge,
		check: checkBlueGreen, refuseOwnFlags: refuseBatchFlags, resolve: resolveBlueGreen, describe: describeBlueGreen,
		phases: []phase{
			{
				name: record.PhaseSetup, beforeDrains: true, suspendsScaling: true, held: outdatedHeld, waitsFor: "the new nodes", verbs: early,
				run: (*decision).setUpBlueGreen,
			},
			{
				name: record.PhaseCreateGreen, beforeDrains: true, suspendsScaling: true, stopsOnGroupChange: true, held: bothHeld, waitsFor: "the new nodes", verbs: early,
				run: func(d *decision) bool { d.matchSurgeToOutdated(); return d.addSurge() },
			},
			{
				name: record.PhaseCordonBlue, keepsAllOnStop: true, suspendsScaling: true, stopsOnGroupChange: true, held: bothHeld, waitsFor: "the fence", verbs: early,
				run: (*decision).cordonBlue,
			},
			{
				name: record.PhaseDrainBlue, keepsAllOnStop: true, suspendsScaling: true, stopsOnGroupChange: true, held: bothHeld, verbs: early,
				run:       (*decision).drainBlue,
				onEmpty:   func(d *decision, name string, n record.NodeRecord, _ *nodegroup.Member) { d.parkNode(name, n, "") },
				onTimeout: func(d *decision, name string, n record.NodeRecord) { d.parkNode(name, n, d.describeForRecord(name)) },
			},
			{
				name: record.PhaseSoak, keepsAllOnStop: true, held: outdatedHeld, waitsFor: "the soak", verbs: append([]record.Verb{record.VerbComplete}, early...),
				run: (*decision).soakPool,
			},
			{
				name: record.PhaseDeleteBlue, keepsAllOnStop: true, stopsOnGroupChange: true, maxGrace: time.Hour, held: outdatedHeld, verbs: []record.Verb{record.VerbAbort}, // GKE G53
				run: (*decision).deleteBlue, onEmpty: (*decision).terminateNode, onTimeout: (*decision).deletePods,
			},
			{
				name: record.PhaseScaleDown, givesBackSurge: true, verbs: []record.Verb{record.VerbAbort},
				run: (*decision).scaleDownGroup,
			},
		},
		stop: (*decision).stopBlueGreen,
		undo: (*decision).undoUpgrade,
	}
}

// checkGroupBlueGreen returns an error if the group cannot have the outdated and the new nodes at the same time.
func checkGroupBlueGreen(group *nodegroup.Group, r *record.Request, outdated int) error {
	switch {
	case !group.Can.Resize:
		return fmt.Errorf("--strategy=%s: this tool cannot add nodes to groups of provider %s: use %s", record.BlueGreen, group.Provider, record.Surge)
	case r.Surge < outdated:
		return fmt.Errorf("--keep-max: group %q has room for %d new nodes and needs %d, one for each outdated node: remove --keep-max", group.Name, r.Surge, outdated)
	}
	return nil
}

// setUpBlueGreen keeps autoscalers from the outdated nodes before anything else is changed. If that is refused, the
// upgrade is impossible: autoscalers would remove nodes that must be kept (GKE G42).
func (d *decision) setUpBlueGreen() (done bool) {
	if node, refusal := d.findUnheld(); node != "" {
		d.setWaiting("autoscalers to be kept from the outdated nodes")
		if refusal != "" {
			d.stopUpgradeWith(record.Failed, fmt.Sprintf("keeping autoscalers from node %q: %s: without this annotation an autoscaler would remove nodes that the soak keeps: allow the annotation, or use --strategy=%s", node, refusal, record.Surge))
		}
		return false
	}
	return d.setUpGroup()
}

// refuseBatchFlags returns an error for flags of batches and soaks that were given with another strategy.
func refuseBatchFlags(s *Settings) error {
	if s.Batch == nil && s.BatchSoak == nil && s.Soak == nil {
		return nil
	}
	return fmt.Errorf("--batch, --batch-soak and --soak: only --strategy=%s has batches that soak: use that strategy, or remove the flags", record.BlueGreen)
}

// checkBlueGreen returns an error for settings that make no sense with blue-green (GKE G50), or that it does not use.
func checkBlueGreen(s *Settings) error {
	if err := cmp.Or(checkSoak("batch-soak", s.BatchSoak), checkSoak("soak", s.Soak)); err != nil {
		return err
	}
	if s.MaxSurge != nil || s.MaxUnavailable != nil || s.BatchBarrier {
		return fmt.Errorf("--max-surge, --max-unavailable and --batch-barrier: --strategy=%s adds a node for each outdated one and drains --batch nodes at a time: remove the flags", record.BlueGreen)
	}
	return nil
}

// resolveBlueGreen completes the request for a blue-green upgrade: one node is added for each outdated one, and the
// target never changes during the upgrade, however long it takes.
func resolveBlueGreen(s Settings, req record.Request, group *nodegroup.Group, size, outdated int) (record.Request, error) {
	if !group.Can.Resize { // the error is about the strategy, not about a number
		return record.Request{}, checkGroupBlueGreen(group, &req, outdated)
	}
	batch, err := valueOrDefault(s.Batch, nodegroup.Quantity{N: 1}).ResolveBatch(outdated)
	if err != nil {
		return record.Request{}, fmt.Errorf("--batch: %w", err)
	}
	req.BlueGreen = &record.BlueGreenRequest{
		Batch: batch, BatchSoak: record.Duration{Duration: valueOrDefault(s.BatchSoak, 0)}, Soak: record.Duration{Duration: valueOrDefault(s.Soak, defaultSoak)}, // GKE G47
	}
	req.Window, req.To = max(1, batch), cmp.Or(s.To, group.Wanted.Target())
	s.MaxSurge = &nodegroup.Quantity{N: outdated}
	if req.Surge, err = s.resolveSurge(group, 0, size, outdated); err != nil {
		return record.Request{}, err
	}
	return req, checkGroupBlueGreen(group, &req, outdated)
}

// describeBlueGreen returns the line of a plan.
func describeBlueGreen(r *record.Request, _ string) string {
	bg := cmp.Or(r.BlueGreen, &record.BlueGreenRequest{}) // a record that another program wrote may lack these settings
	width, drain := " without a drain", ""
	switch {
	case bg.Batch == 1:
		width = ", one node at a time"
	case bg.Batch > 1:
		width = fmt.Sprintf(", %d nodes at a time", bg.Batch)
	}
	if bg.Batch > 0 {
		drain = formatLimit(r.DrainTimeout.Duration) + " to drain each, pods that are left are deleted at the end; "
	}
	if bg.BatchSoak.Duration > 0 {
		drain += formatLimit(bg.BatchSoak.Duration) + " after each batch; "
	}
	end := "then the outdated nodes are deleted"
	if bg.Soak.Duration > 0 {
		end = "a soak of " + formatLimit(bg.Soak.Duration) + " before the outdated nodes are deleted"
	}
	return fmt.Sprintf("%s%s: a new node for each outdated one; %s%s", record.BlueGreen, width, drain, end)
}

// matchSurgeToOutdated raises the surge to one node for each outdated node, including nodes that joined after the upgrade
// began (GKE G41).
func (d *decision) matchSurgeToOutdated() {
	outdated := d.countOutdated()
	d.rec.Ledger.AssignSurge(outdated, d.count.Left)
	d.rec.Request.Surge = max(d.rec.Request.Surge, outdated)
}

// launchForLateJoiners launches new nodes for outdated nodes that joined during the drain.
func (d *decision) launchForLateJoiners() {
	d.matchSurgeToOutdated()
	if d.applyDecision(d.bookKeeper().RaiseMaximum()) {
		d.applyDecision(d.bookKeeper().KeepSurgeLaunched())
	}
}

// drainBlue drains the outdated nodes batch by batch, with a soak after each. A node that is not empty when its drain
// timeout ends is kept like the others, and its pods are deleted together with it (GKE G44). A batch size of 0 skips
// the phase (GKE G46).
func (d *decision) drainBlue() (done bool) {
	if d.rec.Request.BlueGreen.Batch == 0 || d.isSoakExhausted() {
		return d.rec.NoneInState(record.NodeDraining, record.NodeEmpty)
	}
	if !d.setRevision() || !d.suspendProcesses() {
		return false
	}
	d.continueDrains()
	switch {
	case d.rec.Stopping != "" || d.fencing:
		return false
	case d.isBatchDrained():
		return d.soakBatch()
	case d.pausing:
		d.pauseWhenIdle()
	default:
		d.startBatch()
	}
	return false
}

// isBatchOpen reports whether the batch has nodes that were not started.
func (d *decision) isBatchOpen() bool {
	return len(d.count.pending) > 0 && d.rec.Begun-d.rec.Soak.Batches < d.rec.Request.BlueGreen.Batch
}

// isBatchDrained reports whether all nodes of the batch were started and none is in drain.
func (d *decision) isBatchDrained() bool {
	return !d.isBatchOpen() && d.rec.NoneInState(record.NodeDraining, record.NodeForcing, record.NodeEmpty)
}

// soakBatch soaks after a batch and reports whether it was the last batch (GKE G47).
func (d *decision) soakBatch() (done bool) {
	if d.rec.Soak.Batches < d.rec.Begun {
		if d.pausing && d.rec.Soak.Until.After(d.w.Now) {
			d.pauseSoak()
			return false
		}
		if !d.soakFor(d.rec.Request.BlueGreen.BatchSoak.Duration) {
			return false
		}
		d.endSoak()
		d.rec.Soak.Batches = d.rec.Begun
	}
	if len(d.count.pending) == 0 || d.isSoakExhausted() {
		return true
	}
	d.requeueNow()
	return false
}

// startBatch starts nodes of the batch while the new nodes have room for the pods of one more node.
func (d *decision) startBatch() {
	for d.isBatchOpen() && d.rec.Stopping == "" {
		if d.countUnavailable()+d.countKept()+1 > 0 {
			d.launchForLateJoiners()
			d.awaitReplacement()
			return
		}
		m := d.chooseNextNode()
		if m == nil || d.deferForRecord(m) {
			return
		}
		d.startNode(m)
	}
}

// countKept counts the nodes that were started and not removed: the new nodes must take their pods.
func (d *decision) countKept() int {
	return record.CountNodes(&d.rec, func(n record.NodeRecord) bool { return record.IsInDrain(n.State) || n.State == record.NodeParked })
}

// parkNode keeps a node, fenced, until the outdated nodes are deleted. reason names the pods that are left on it; "" if
// it is empty.
func (d *decision) parkNode(name string, n record.NodeRecord, reason string) {
	n.State, n.Reason, n.Addresses = record.NodeParked, reason, nil
	d.rec.Nodes[name] = n
	d.requeueNow()
}

// soakPool waits before the outdated nodes are deleted. During the wait autoscalers may add and remove new nodes (GKE
// G49–G52). It waits until all workloads have as many ready pods as before their pods left nodes, because a
// rollback is impossible after the deletion.
func (d *decision) soakPool() (done bool) {
	if !d.setRevision() { // otherwise nodes that autoscalers add would be outdated and would be deleted too
		return false
	}
	freed := d.releaseHolds(func(m *nodegroup.Member) bool { return !m.Outdated && d.rec.HasNoNodeRecord(m) })
	switch over := d.soakFor(d.rec.Request.BlueGreen.Soak.Duration); {
	case over && freed && d.awaitWorkloads():
		d.endSoak()
		return true
	case !over && d.pausing:
		d.pauseSoak()
	}
	return false
}

// deleteBlue deletes the remaining outdated nodes, at most record.MostDeleted at once. Pods that are left are deleted,
// not evicted (GKE G53). Drained nodes have no pods, so workloads that do not recover do not delay their deletion.
func (d *decision) deleteBlue() (done bool) {
	if !d.setRevision() {
		return false
	}
	if d.fencing = !d.fenceOutdatedNodes(); d.rec.Stopping != "" {
		return false
	}
	for _, name := range d.rec.StartedNames() {
		d.advanceNode(name)
		d.startDeletion(name)
	}
	for d.rec.CountInFlight() < record.MostDeleted && !d.deferStarts() { // nodes that were never drained, or joined late
		d.choosing = true
		startable := slices.DeleteFunc(slices.Clone(d.count.pending), d.deferStart)
		if len(startable) == 0 {
			break
		}
		m := slices.MinFunc(startable, func(a, b *nodegroup.Member) int { return cmp.Compare(d.urgencyOf(a), d.urgencyOf(b)) })
		n := d.recordNodeStart(m)
		n.Deadline = d.w.Now // its drain timeout is over at once, so that its pods are named and deleted
		d.rec.Nodes[m.Name()] = n
		d.requeueNow()
	}
	return d.awaitReplaced()
}

// startDeletion starts the deletion of a kept node, if there is room for one more.
func (d *decision) startDeletion(name string) {
	n := d.rec.Nodes[name]
	if n.State != record.NodeParked || d.rec.CountInFlight() >= record.MostDeleted {
		return
	}
	if n.State = record.NodeEmpty; n.EmptyAt.IsZero() {
		n.State, n.Deadline = record.NodeForcing, d.w.Now
		delete(d.notes.Yielded, name)
	}
	d.rec.Nodes[name] = n
	d.requeueNow() // the next step acts on the new state
}

// deletePods starts deleting the pods of a node that is not empty.
func (d *decision) deletePods(name string, n record.NodeRecord) {
	n.State, n.Reason, n.Deadline = record.NodeForcing, "its pods are deleted with it", d.w.Now
	if len(d.blockedPodsOf(name)) > 0 {
		n.Reason = d.describeForRecord(name) // pods that were never evicted are not blocked
	}
	delete(d.notes.Yielded, name)
	d.rec.Nodes[name] = n
	d.requeueNow()
}

// stopBlueGreen brings the upgrade to rest. Once the outdated nodes are fenced, outdated and new nodes stay as they
// are, with fences, holds and suspended processes. The same command continues with them (GKE G54).
func (d *decision) stopBlueGreen() {
	if !d.phase.keepsAllOnStop {
		d.bringToRest()
		return
	}
	renewed := d.unfenceRenewed()
	if !d.removeFences(func(m *nodegroup.Member) bool { return d.rec.WasUncordoned(m.Node) }) {
		return // the rest of a fence that a user removed is being removed; the same command fences the node again
	}
	if !renewed {
		return
	}
	d.rec.Result, d.rec.Ended, d.finished = d.rec.Stopping, d.w.Now, true
	d.rec.Message = joinNotes(d.rec.Message, d.describeRefused(d.rec.Message), d.describeKeptAfterStop())
}

// describeKeptAfterStop describes what stays unchanged after a stop.
func (d *decision) describeKeptAfterStop() string {
	text := "the outdated and the new nodes both stay"
	if len(d.rec.Suspended) > 0 {
		text += ", with " + strings.Join(d.rec.Suspended, ", ") + " suspended"
	}
	return text
}
