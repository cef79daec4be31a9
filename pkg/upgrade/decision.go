package upgrade

import (
	"cmp"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain/schedule"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/ledger"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// decision is one call of Next. It reads the input, changes the record, and collects the step in the outbox. Its
// methods are in the files of their subjects.
type decision struct {
	input
	// rec is the record as the step will store it. phase is the record's phase. count counts the group's members by
	// what the record says about them; see recount.
	rec   record.Record
	phase phase
	count memberCounts
	// notes are passed on to the next decision of the same process.
	notes Notes
	workloads
	evictions
	outbox
	// renewing is true while nodes that became current in place still have our fence.
	renewing bool
	// fencing is true while the upgrade still has to fence outdated nodes: pods that leave other nodes could land there.
	fencing bool
	// pausing is true if a pause was requested and no further node may be started.
	pausing bool
}

// input is what a decision reads. It does not change.
type input struct {
	w *World
	// fence is the taint of the group's provider.
	fence corev1.Taint
}

// workloads is what a decision has found out about the workloads whose pods leave nodes.
type workloads struct {
	// health lists the workloads on record that may lack pods, by name. recoveries holds the same for the scheduling of
	// evictions; see recoveryOf.
	health     []*workloadHealth
	recoveries map[drain.Workload]schedule.Recovery
	// ownsWorkloads is true once rec.Workloads is the step's own copy; see workloadsToChange.
	ownsWorkloads bool
	// shortages caches findShortage while nodes are started; nil if empty. deferrable caches findDeferrable; nil if
	// empty.
	shortages  map[drain.Workload]shortage
	deferrable map[string]bool
	// unsure is a DaemonSet whose controller may yet create pods for current nodes that have none; "" for none.
	unsure string
}

// evictions is what is decided about the pods of the nodes in drain.
type evictions struct {
	// stages holds what happens to the pods of each node in drain. plan is the plan of their evictions. It is nil if
	// the step replaces no nodes.
	stages map[string]schedule.Stage
	plan   *schedule.Plan
}

// Next returns what to do about the world now. The package comment has the caller's contract.
func Next(w World) Step {
	stored := w.Record
	d := newDecision(&w)
	switch {
	case d.rec.Result != "":
		d.finished = true
	case d.rec.Run == "":
		d.beginUpgrade()
	case d.rec.PhaseBegan.IsZero():
		d.rec.Ledger.ForgetMaximum()
		d.rec.PhaseBegan = w.Now
	}
	d.examineWorkloads()
	d.addImpacts() // an upgrade may be stopped before its last evictions are answered
	if !d.finished {
		d.rejectForeign()
		d.noteVanished()
		d.recordAnswers()
		d.obeyVerb()
		d.noteInterrupt()
		switch s := strategyOf(d.rec.Request.Strategy, d.rec.Rollback); {
		case d.rec.Stopping == record.Aborted:
			s.undo(d)
		case d.rec.Stopping != "":
			s.stop(d)
		default:
			d.runPhases()
		}
	}
	step := d.finishStep()
	step.Persist = record.MustStoreRecord(&stored, &step.Record)
	return step
}

func newDecision(w *World) *decision {
	if w.Idle > 0 {
		w.Record = record.CreditIdleTime(&w.Record, w.Idle, w.Now)
		w.Notes.At = w.Now // a node that waits for others is not credited with the same time twice
	}
	w.tolerances, w.users = tolerances{}, deviceUsers{}
	if w.Memo == nil {
		w.Memo = &Memo{}
	}
	w.Memo.forgetOthers(w.Members)
	d := &decision{
		input: input{w: w, fence: nodegroup.FenceTaint(w.Group.Provider)},
		rec:   w.Record.Clone(), phase: phaseOf(&w.Record),
		notes:     w.Notes.carriedOver(),
		evictions: evictions{stages: map[string]schedule.Stage{}},
		outbox:    outbox{now: w.Now, wake: w.Now.Add(maxWake)},
	}
	d.recount()
	return d
}

// recount classifies the group's members again after a change of the record.
func (d *decision) recount() { d.count = countMembers(d.w, &d.rec) }

// beginUpgrade starts the record of a new upgrade, or finishes at once when there is nothing to do.
func (d *decision) beginUpgrade() {
	if len(d.count.pending) == 0 || d.w.Stop {
		d.rec.Result, d.finished = record.Succeeded, true
		if d.w.Stop {
			d.rec.Result = record.Interrupted
		}
		return
	}
	w := d.w
	d.rec = record.Record{
		Version: w.Request.Strategy.RecordVersion(), Run: w.Request.Run, Request: w.Request,
		Started: w.Now, Phase: record.PhaseSetup, PhaseBegan: w.Now,
		Previous: d.count.previousRevision(&w.Group), Target: w.Group.Wanted, Provider: w.Group.Provider, Unlabelled: listOutdatedByLabels(d.count.pending),
		Earlier: w.Record.Earlier, Taints: commonTaints(d.count.pending), Devices: commonDevices(d.count.pending), Daemons: recordDaemons(w),
		Sizes:  sizesOf(w, d.count.Zones),
		Total:  len(d.count.pending),
		Ledger: ledger.FromBooks(ledger.Books{Zonal: w.Group.Can.NameZone, Changed: w.Now, Known: d.count.known}),
		Nodes:  map[string]record.NodeRecord{},
	}
	d.rec.SetOriginalRevision(w.Group.Pointed)
	d.recount()
	chosen := strategyOf(w.Request.Strategy, false)
	chosen.begin(d)
	d.enterPhase(chosen.phases[0])
}

// sizesOf returns the group's sizes. If a cloud upgrades the group and lists no machines, the size is the number of nodes.
func sizesOf(w *World, zones map[string]int) nodegroup.Sizes {
	sizes := nodegroup.Sizes{Desired: w.Group.Desired, Min: w.Group.Min, Max: w.Group.Max, Zones: zones}
	if w.Group.Managed != nil && !w.Group.Can.ListInstances {
		sizes.Desired = len(w.Members)
	}
	return sizes
}

// noteInterrupt records that the user stops the upgrade.
func (d *decision) noteInterrupt() {
	if d.rec.Stopping == "" && d.w.Stop {
		d.rec.Stopping = record.Interrupted
	}
}

// recordLongBlocked records, for each started node, which of its pods have been blocked for long, and since when.
func (d *decision) recordLongBlocked() {
	long, more := d.listLongBlocked(record.MostBlocked, func(b drain.Blocked) string { return b.Node })
	for name, n := range d.rec.Nodes {
		if n.Blocked != nil || long[name] != nil {
			n.Blocked, n.BlockedMore = long[name], more[name]
			d.rec.Nodes[name] = n
		}
	}
}

// recordLongUnhealthy records which workloads have not recovered for long, and since when.
func (d *decision) recordLongUnhealthy() {
	d.rec.Unhealthy = nil
	for _, u := range d.unhealthy {
		switch {
		case d.w.Now.Sub(u.Since) < record.LongBlocked:
			d.requeueAt(u.Since.Add(record.LongBlocked))
			continue
		case d.rec.Unhealthy == nil:
			d.rec.Unhealthy = map[string]time.Time{}
		case len(d.rec.Unhealthy) == record.MostUnhealthy:
			return
		}
		d.rec.Unhealthy[u.Name] = u.Since
	}
}

// finishStep plans the evictions, completes the record and returns the step.
func (d *decision) finishStep() Step {
	d.decideEvictions()
	if !d.finished {
		d.watchRetries()
	}
	d.recordLongBlocked()
	d.recordLongUnhealthy()
	d.notes.At = d.w.Now
	if d.rec.Run != "" {
		d.rec.Total = max(d.rec.Total, d.countTotal()) // outdated nodes may join late
	}
	if d.finished {
		d.wake, d.due = time.Time{}, time.Time{}
	}
	return Step{
		Record: d.rec, Notes: d.notes, Actions: d.actions, Blocked: d.blocked,
		Wake: d.wake, Due: d.due, Poll: d.poll, Targets: d.targets, Awaited: d.listAwaited(), Unscaled: d.unscaled, Choosing: d.choosing, Status: d.summarizeStatus(), Finished: d.finished,
	}
}

// recordAnswers records the cloud's answers in the ledger. It stops the upgrade if an action was refused permanently.
func (d *decision) recordAnswers() {
	d.bookKeeper().RecordAnswers()
	d.stopNamingZones()
	if refused := d.w.listRefused(); len(refused) > 0 {
		d.stopUpgradeWith(record.Failed, fmt.Sprintf("to %s: %s", refused[0], d.w.lastAttempt(refused[0]).Detail))
	}
}

// rejectForeign stops the upgrade if the record names another machine for a node than the group shows: anyone who can
// write the record could use it to terminate other machines. Added nodes that are given back are not checked here;
// followReturn keeps their machines.
func (d *decision) rejectForeign() {
	for _, name := range d.rec.StartedNames() {
		n, m := d.rec.Nodes[name], d.count.byName[name]
		if m == nil || n.IsGivenBack() || n.MatchesMachineOf(m) {
			continue
		}
		d.stopUpgradeWith(record.Failed, fmt.Sprintf("node %q is instance %s in the record but %s in the cloud: another process changed the record, and neither instance is terminated: find out who may write the record, and run %s to forget it", name, n.Instance, m.Instance.ID, nodegroup.Command("abort", d.w.Group.Name)))
		return
	}
}

// stopNamingZones makes further launches name no zone, once the cloud has refused to launch in a zone. The ledger has one
// zone from then on. A launch without a zone raises the group's maximum, and only the raise proves that the launch
// succeeded. So with --keep-max the upgrade stops instead.
func (d *decision) stopNamingZones() {
	refusal := ledger.ZoneLaunchRefusal(d.w.Open)
	if refusal == "" || !d.rec.Ledger.Zonal() || d.rec.Ledger.OpenLaunches() > 0 {
		return
	}
	if d.rec.Request.KeepMax {
		d.stopUpgradeWith(record.Failed, "launching in a zone: "+refusal+"; if that cannot be fixed, remove --keep-max so that the whole group can be made larger")
		return
	}
	d.rec.Ledger.MergeZones()
	for name, n := range d.rec.Nodes {
		n.Zone = ""
		d.rec.Nodes[name] = n
	}
	d.recount()
}

// obeyVerb does what a user asks of the running upgrade: pause, complete, roll back or abort.
func (d *decision) obeyVerb() {
	asked := allowedVerb(&d.rec, d.w.Asked)
	if asked != record.VerbPause && !d.w.Stop {
		d.cancelPause()
	}
	switch asked {
	case record.VerbPause:
		d.pausing = d.rec.Stopping == ""
		if d.phase.beforeDrains {
			d.pauseUpgrade() // no node was started
		}
	case record.VerbComplete:
		d.completeSoak()
	case record.VerbRollback:
		if !d.rec.Rollback { // otherwise the rollback is running already
			d.stopForRequest("a rollback")
		}
	case record.VerbAbort:
		d.stopForRequest("an abort")
	}
}

// stopForRequest stops the upgrade as Ctrl-C does, so that the process that asked can carry out the verb. An upgrade
// that is being aborted does not stop.
func (d *decision) stopForRequest(to string) {
	d.stopUpgradeWith(record.Interrupted, fmt.Sprintf("stopped for %s requested by %s", to, d.w.Asked.By))
}

// cancelPause continues an upgrade whose pause was withdrawn before the upgrade came to rest.
func (d *decision) cancelPause() {
	if d.rec.Stopping == record.Paused && d.rec.PausedBy != "" {
		d.rec.Stopping, d.rec.PausedBy, d.rec.Message = "", "", ""
		d.rec.PhaseBegan = d.w.Now
	}
}

// watchMaximum stops the upgrade when another process lowered the group's maximum. A person must decide whether the
// upgrade may still use the room that its surge and its replacements need. The upgrade does not raise the maximum again
// by itself.
func (d *decision) watchMaximum() {
	g := &d.w.Group
	before, decided := d.bookKeeper().WatchMaximum()
	if d.applyDecision(decided); before > 0 {
		d.stopUpgradeWith(record.Paused, fmt.Sprintf("a user or another process lowered the group's max from %d to %d during the upgrade: run %s to continue, which raises it again as far as necessary, or %s", before, g.Max, nodegroup.Command("resume", g.Name), nodegroup.Command("abort", g.Name)))
	}
}

// watchProtection stops the upgrade when another process protects an outdated instance against removal. AWS would not
// keep the upgrade from terminating it: the protection covers scale-in only. Instances that are being terminated
// already are ignored.
func (d *decision) watchProtection() {
	for i := range d.w.Members {
		m := &d.w.Members[i]
		if !m.Outdated || !m.Instance.Protected || m.Instance.State == nodegroup.InstanceLeaving {
			continue
		}
		if n, started := d.rec.StartedRecord(m); started && n.State == record.NodeRemoving {
			continue
		}
		d.stopUpgradeWith(record.Paused, fmt.Sprintf("a user or another process protected instance %s (node %s) against scale-in during the upgrade: remove the protection and run %s to continue, or %s", m.Instance.ID, m.Name(), nodegroup.Command("resume", d.w.Group.Name), nodegroup.Command("abort", d.w.Group.Name)))
		return
	}
}

// runPhases runs the record's phase and, as far as each is complete, those after it. One step may pass through several
// phases.
func (d *decision) runPhases() {
	if wanted := d.w.Group.Wanted; wanted.ID != d.rec.Target.ID {
		// The group's revision decides which instances are outdated. If the run continued, it would replace nodes for
		// the new target.
		d.stopUpgradeWith(record.TargetMoved, fmt.Sprintf("the target of the group changed from %s to %s during the upgrade: %s", d.rec.Target.Name, wanted.Name, d.howToContinue(wanted)))
		return
	}
	phases := strategyOf(d.rec.Request.Strategy, d.rec.Rollback).phases
	if d.rec.Ledger.TargetMoved() {
		// The upgrade divides the surge among the zones again. Nodes whose termination was refused still exist, so they
		// must be counted before the surge is divided.
		if !d.cancelSurgeReturn() {
			return
		}
		d.revertUndrainedTerminations()
		d.adoptTarget()
		if d.phase.givesBackSurge || d.rec.Phase == record.PhaseDone {
			d.enterPhase(phases[0]) // the surge was given back
		}
	}
	if d.phase.stopsOnGroupChange {
		d.watchMaximum()
		d.watchProtection()
	}
	d.renewing = !d.unfenceRenewed()
	d.watchWorkloads()
	d.advancePhases(phases)
	if d.rec.Stopping == "" {
		d.holdNodes()
	}
	switch {
	case d.rec.Phase == record.PhaseDone:
		d.concludeUpgrade()
	case d.rec.Soak.Until.After(d.w.Now):
		d.exitDuringLongSoak()
	}
}

// advancePhases runs the record's phase and, as far as each is complete, those after it.
func (d *decision) advancePhases(phases []phase) {
	for i, p := range phases {
		if d.rec.Phase != p.name || d.rec.Stopping != "" || !p.run(d) || d.rec.Stopping != "" {
			continue
		}
		next := phase{name: record.PhaseDone}
		if i+1 < len(phases) {
			next = phases[i+1]
		}
		d.enterPhase(next)
	}
}

// stopUpgradeWith marks the upgrade as stopping and drops the actions of this step. The next steps bring it to rest
// (bringToRest). If the upgrade is stopping already, the first reason stays.
func (d *decision) stopUpgradeWith(result record.Result, message string) {
	if d.rec.Stopping == "" {
		d.rec.Stopping, d.rec.Message = result, message
		d.actions = nil
		d.requeueNow() // the next step begins to stop
	}
}

func (d *decision) enterPhase(next phase) {
	d.phase, d.rec.Phase, d.rec.PhaseBegan = next, next.name, d.w.Now
}

// addAction adds an action, unless it is in flight, its next try is not due, or it was accepted so recently that its
// effect may not be observed yet.
func (d *decision) addAction(a nodegroup.Action) {
	attempt, begun := d.w.Open[a.Key()]
	d.requested = append(d.requested, a.Key())
	if begun && attempt.InFlight {
		return
	}
	due := attempt.NotBefore
	switch {
	case d.rec.Stopping != "" && d.isRefused(a):
		d.leftOut = append(d.leftOut, a) // the report names it
		return
	case attempt.Outcome == nodegroup.OutcomeDone:
		due = attempt.Ended.Add(seenWithin)
	case attempt.Outcome == nodegroup.OutcomeMoved && !nodegroup.IsCloudAction(a) && attempt.Action == a:
		// The change that moved the object is not observed yet, so the answer would be the same.
		due = attempt.Ended.Add(min(time.Second<<min(max(0, attempt.Tries-1), 5), seenWithin))
	}
	if begun && d.w.Now.Before(due) {
		d.outstanding = true
		d.requeueAt(due)
		return
	}
	d.actions = append(d.actions, a)
}

// lastAttempt returns the last attempt of the action, or the zero Attempt.
func (d *decision) lastAttempt(a nodegroup.Action) nodegroup.Attempt { return d.w.lastAttempt(a) }

// isRefused reports whether the action was permanently refused, or a stop or an abort has tried it for long enough.
func (d *decision) isRefused(a nodegroup.Action) bool {
	attempt := d.lastAttempt(a)
	return attempt.Outcome == nodegroup.OutcomeFatal && !attempt.InFlight || d.isTriedTooLong(a)
}

// addBlocked adds an obstacle and the time since which it has been there.
func (d *decision) addBlocked(b drain.Blocked) {
	key := cmp.Or(string(b.UID), b.Node) // the node's name where no pod is in the way
	since, known := d.w.Notes.BlockedSince[key]
	if !known { // another process may have recorded it
		since, known = d.w.Record.Nodes[b.Node].Blocked[b.Pod.String()]
	}
	if !known {
		since, known = d.w.Record.Delegation.BlockedSince(b.Pod.String())
	}
	if !known {
		since = d.w.Now
	}
	b.Since, b.Forces = since, d.rec.Request.OnTimeout == record.Force
	b.Lingers = !b.Until.IsZero() && d.rec.Request.ReplacedBy() == record.BlueGreen
	d.notes.BlockedSince[key] = since
	if b.IsSeenLastReady() { // time in which another obstacle blocked the pod does not count
		waits, waited := d.w.Notes.LastReadySince[key]
		if !waited {
			waits = d.w.Now
		}
		d.notes.LastReadySince[key] = waits
	}
	d.blocked = append(d.blocked, b)
}

// listLongBlocked returns the pods that have been blocked for long, and since when, grouped by the place that placeOf
// returns. It returns no more than most pods of each place; more counts the others.
func (d *decision) listLongBlocked(most int, placeOf func(drain.Blocked) string) (long map[string]map[string]time.Time, more map[string]int) {
	for _, b := range d.blocked {
		place := placeOf(b)
		switch {
		case d.w.Now.Sub(b.Since) < record.LongBlocked || b.Pod.Name == "":
			continue
		case long == nil: // few steps have any
			long, more = map[string]map[string]time.Time{}, map[string]int{}
		case len(long[place]) == most:
			more[place]++
			continue
		}
		if long[place] == nil {
			long[place] = map[string]time.Time{}
		}
		long[place][b.Pod.String()] = b.Since
	}
	return long, more
}

func (d *decision) endUpgradeWith(result record.Result, message string) {
	d.rec.Result, d.rec.Message, d.rec.Ended = result, message, d.w.Now
	d.finished = true
	d.actions = nil
}

// classifyPodsOf returns the member's pods, sorted by what a drain does with them.
func (d *decision) classifyPodsOf(m *nodegroup.Member) *nodePods {
	return d.w.Memo.classifiedOn(m, d.rec.Request.Policy(), d.w.Now)
}

// hasNothingOpen reports whether no action is due, waiting for its next try, or in flight.
func (d *decision) hasNothingOpen() bool {
	for _, attempt := range d.w.Open {
		if attempt.InFlight {
			return false
		}
	}
	return len(d.actions) == 0 && !d.outstanding
}

// addNodeRecord adds the member to the record's nodes. The step stores the record before its actions start.
func (d *decision) addNodeRecord(m *nodegroup.Member, n record.NodeRecord) {
	d.count.byName[m.Name()] = m
	d.rec.Nodes[m.Name()] = n
}

// forgetNode removes a started node from the record and from the notes.
func (d *decision) forgetNode(name string) {
	delete(d.rec.Nodes, name)
	delete(d.notes.Yielded, name)
	delete(d.notes.Addresses, name)
}

// pauseUpgrade stops the upgrade for a pause, unless no pending node is left.
func (d *decision) pauseUpgrade() {
	if d.rec.Stopping != "" || len(d.count.pending) == 0 {
		return
	}
	d.stopForPauseRequest()
}

// stopForPauseRequest pauses the upgrade and records which user asked for it.
func (d *decision) stopForPauseRequest() {
	d.rec.PausedBy = d.w.Asked.By
	d.stopUpgradeWith(record.Paused, record.DescribePause(d.w.Asked.By, d.w.Group.Name))
}
