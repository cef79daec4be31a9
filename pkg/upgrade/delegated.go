package upgrade

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/ledger"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// PollOperation is how often a cloud's own operation is read. The operation takes minutes per node.
const PollOperation = 15 * time.Second

// delegatedStrategy returns the strategy for groups that their own cloud upgrades, such as EKS managed node groups. It
// asks the cloud to begin, shows what the cloud is waiting for, and explains the result.
func delegatedStrategy() strategy {
	verbs := []record.Verb{record.VerbAbort}
	return strategy{
		begin:   func(d *decision) { d.rec.Delegation = &record.Delegation{Attempt: 1, Before: d.newestOperation().ID} },
		resolve: refuseDelegated, describe: describeDelegated,
		phases: []phase{
			{name: record.PhaseSetup, waitsFor: "the cloud to start the upgrade", verbs: verbs, run: (*decision).beginOperation},
			{name: record.PhaseFollow, waitsFor: "the cloud", verbs: verbs, run: (*decision).followUntilSoak},
			{
				name: record.PhaseSoak, waitsFor: "the cloud", waitsUntil: "the drained nodes are kept", hasWorkInWait: true, verbs: append([]record.Verb{record.VerbComplete}, verbs...),
				run: (*decision).followSoak,
			},
			{name: record.PhaseDeleteBlue, waitsFor: "the cloud", isFinal: true, verbs: verbs, run: (*decision).followDeletion},
			{
				name: record.PhaseExpire, isFinal: true, verbs: verbs,
				run: func(d *decision) bool { return !d.rec.Request.ReplacedBy().Traits().Expires || d.awaitExpiry() },
			},
		},
		stop: (*decision).stopFollowing,
		undo: (*decision).stopFollowing,
	}
}

// resolveDelegated returns the request for a group that its cloud upgrades. The numbers are the cloud's own, except the
// width if the cloud takes it from a request. It returns an error for flags that the cloud cannot obey.
func (s Settings) resolveDelegated(group *nodegroup.Group, size, outdated int) (record.Request, error) {
	provider, managed := nodegroup.InfoOf(group.Provider), group.Managed
	manager := nameManager(group.Provider)
	rollout, sets, err := s.chooseRollout(group)
	if err != nil {
		return record.Request{}, err
	}
	if (s.MaxUnavailable != nil || s.MaxSurge != nil) && !managed.TakesWidth {
		return record.Request{}, fmt.Errorf("--max-unavailable and --max-surge: %s upgrades group %q with the group's own settings: remove the flags, and change the settings with %s", manager, group.Name, managed.ChangeWidth)
	}
	flag := s.withoutRollout(managed).firstNonDelegatedFlag(provider.Model)
	if flag == "" && managed.DeletesRest && s.OnTimeout == record.Fail {
		flag = "on-timeout=fail"
	}
	if flag != "" {
		return record.Request{}, fmt.Errorf("--%s: %s upgrades group %q itself, with its own rules: remove the flag", flag, manager, group.Name)
	}
	req := record.Request{
		Group: group.Name, Strategy: record.Delegated, Like: provider.Model, To: cmp.Or(group.Wanted.Target(), s.To), EvictUnmanaged: true,
		DrainTimeout: record.Duration{Duration: managed.DrainTimeout}, Settle: record.Duration{Duration: managed.Settle}, BootTimeout: record.Duration{Duration: s.BootTimeout}, OnTimeout: cmp.Or(s.OnTimeout, record.Fail),
	}
	if managed.DeletesRest {
		req.OnTimeout = record.Force
	}
	if name := record.Strategy(rollout.Strategy); name.Known() != record.Surge {
		req.SetsRollout = sets
		return resolveRollout(req, name, rollout, outdated)
	}
	return s.resolveCloudWidth(req, group, size, sets)
}

// resolveCloudWidth completes the request for a cloud's surge. sets is true if the group has another strategy of its own.
func (s *Settings) resolveCloudWidth(req record.Request, group *nodegroup.Group, size int, sets bool) (_ record.Request, err error) {
	width := *group.Managed
	if req.SetsRollout = sets; sets { // the settings of another strategy say nothing about the width
		width.MaxUnavailable, width.MaxSurge = nodegroup.Quantity{}, nodegroup.Quantity{N: 1} // GKE G10
	}
	width.MaxUnavailable, width.MaxSurge = valueOrDefault(s.MaxUnavailable, width.MaxUnavailable), valueOrDefault(s.MaxSurge, width.MaxSurge)
	if req.MaxUnavailable, err = width.MaxUnavailable.ResolveUnavailable(size); err != nil {
		return record.Request{}, fmt.Errorf("reading how many nodes of group %q may be unavailable: %w", group.Name, err)
	}
	req.Surge = width.ResolveSurge(size, len(group.Zones), req.MaxUnavailable)
	if req.MaxUnavailable+req.Surge == 0 && width.TakesWidth {
		return record.Request{}, s.noWidthError(group, req.Like)
	}
	req.Window = max(req.MaxUnavailable, 1)
	if !width.SurgeCoversUnavailable {
		req.Window = min(req.MaxUnavailable+req.Surge, record.MaxSurgeWindow) // GKE G12
	}
	return req, nil
}

// refuseDelegated returns an error: no cloud upgrades the group by itself.
func refuseDelegated(_ Settings, _ record.Request, group *nodegroup.Group, _, _ int) (record.Request, error) {
	return record.Request{}, fmt.Errorf("--strategy=%s: this cloud does not upgrade group %q itself: remove the flag", record.Delegated, group.Name)
}

// describeDelegated returns the line of a plan.
func describeDelegated(r *record.Request, provider string) string {
	if r.ReplacedBy() != record.Surge {
		return describeRollout(r, provider)
	}
	manager := nodegroup.InfoOf(provider).Manager
	kind, late := manager.Rolling, fmt.Sprintf("the %s fails (%s)", nameOperation(provider), record.PodEvictionFailure)
	limit := formatLimit(r.DrainTimeout.Duration) + " to drain a node, then "
	if r.OnTimeout == record.Force {
		kind, late = manager.Forced, "its pods are deleted even against their budgets"
	}
	if kind != "" {
		kind = ", " + kind
	}
	width := fmt.Sprintf("at most %d unavailable", r.MaxUnavailable)
	if r.Window > max(r.MaxUnavailable, 1) || r.MaxUnavailable == 0 {
		width = fmt.Sprintf("at most %d at a time (max surge %d, max unavailable %d)", r.Window, r.Surge, r.MaxUnavailable)
	}
	if r.DrainTimeout.Duration == nodegroup.EndlessDrain {
		limit, late = "it waits for the pods of a node without end", ""
	}
	text := fmt.Sprintf("%s upgrades the group itself%s: %s; %s%s", nameManager(provider), kind, width, limit, late)
	if r.Settle.Duration > 0 {
		text += fmt.Sprintf("; %s before it is terminated", formatLimit(r.Settle.Duration))
	}
	return text + describeKeptSettings(r, provider)
}

// nameManager returns the name of the service that upgrades groups of the provider: "EKS".
func nameManager(provider string) string {
	return cmp.Or(nodegroup.InfoOf(provider).Manager.Name, "the cloud")
}

// nameOperation returns what the provider's manager calls one upgrade of a group: "update".
func nameOperation(provider string) string {
	return cmp.Or(nodegroup.InfoOf(provider).Manager.Operation, "operation")
}

// newestOperation returns the group's newest operation, or the zero Operation.
func (d *decision) newestOperation() *nodegroup.Operation {
	if d.w.Group.Managed == nil {
		return &nodegroup.Operation{}
	}
	return &d.w.Group.Managed.Operation
}

// managerName returns the name of the service that upgrades the group: "EKS".
func (d *decision) managerName() string { return nameManager(d.rec.Provider) }

// operationName returns the service's word for an operation, with its ID: "update u-1".
func (d *decision) operationName(id string) string { return nameOperation(d.rec.Provider) + " " + id }

// beginOperation asks the cloud to begin, and reports whether there is an operation to follow. It follows a running
// operation to the same revision, whoever began it. That includes an operation that an earlier process began without
// getting the answer. Otherwise it repeats the request under the same token.
func (d *decision) beginOperation() (done bool) {
	if !d.awaitNewestOperation() {
		return false
	}
	d.recordCapabilities()
	op, known := d.newestOperation(), d.rec.Delegation
	// An earlier reading showed a newer operation, so this operation had ended before the newer one began.
	wasOver := op.Began.Before(known.Newest)
	known.Newest = op.Began
	isOfEarlierAttempt := !known.NotBefore.IsZero() && !op.Began.After(known.NotBefore)
	toTarget, mayBeOurs := op.To.ID == d.rec.Target.ID, op.ID != known.Before && !wasOver && !isOfEarlierAttempt
	switch running := op.State == nodegroup.OperationRunning; {
	case toTarget && (running || mayBeOurs):
		known.ID = op.ID
		return true
	case running:
		d.awaitOtherOperation(op)
		return false
	}
	if op.ID != known.Before {
		// An operation that another user began and that has ended is not this upgrade's. If the request under our token
		// began one, that is over, too: the cloud carries out one operation at a time.
		d.rec.Delegation = known.NextAttempt()
		d.rec.Delegation.Before = op.ID
	}
	start := d.delegateAction()
	d.pollCloudSoon(d.managerName() + " to start the upgrade")
	if d.pausing {
		d.pauseUnbegun()
		return false
	}
	if !d.isReadingTooOld(start) {
		d.addAction(start)
	}
	return false
}

// recordCapabilities records what the cloud can do, and the oldest record version that knows it: older programs would drop the fields.
func (d *decision) recordCapabilities() {
	known, managed, req := d.rec.Delegation, d.w.Group.Managed, &d.rec.Request
	known.Cancels, known.RollsBack, known.EndsSoaks, known.TakesWidth = managed.Cancels, managed.RollsBack && canRollBack(req), managed.EndsSoaks, managed.TakesWidth
	switch {
	case req.CloudStrategy != "" || req.SetsRollout:
		d.rec.Version = max(d.rec.Version, record.RolloutVersion)
	case known.Cancels || known.TakesWidth:
		d.rec.Version = max(d.rec.Version, record.DelegationVersion)
	}
}

// awaitOtherOperation waits for the end of a running operation that does not go to the upgrade's target. A rollback cancels the
// operation that it takes back. An upgrade to another revision stops this one, because a person must decide.
func (d *decision) awaitOtherOperation(op *nodegroup.Operation) {
	switch {
	case d.rec.Rollback && op.To.ID == d.rec.Previous.ID:
		d.cancelForRollback(op)
	case op.IsUpgrade():
		d.stopUpgradeWith(record.Paused, fmt.Sprintf("%s is running %s to %s, which another process started: follow it with %s -w, and run the command again when it has finished",
			d.managerName(), d.operationName(op.ID), op.To.Name, nodegroup.Command("status", d.w.Group.Name)))
	default:
		d.pollCloudSoon(fmt.Sprintf("%s to finish %s (%s)", d.managerName(), d.operationName(op.ID), op.Kind))
		d.pauseUnbegun()
	}
}

// cancelForRollback asks the cloud to cancel the operation that is to be taken back, whoever began it, because a cloud takes
// back only an operation that has ended (GKE API). If the cloud refuses permanently, the rollback stops.
func (d *decision) cancelForRollback(op *nodegroup.Operation) {
	cancel := nodegroup.CancelOperation{Operation: op.ID}
	if last := d.lastAttempt(cancel); last.Outcome == nodegroup.OutcomeFatal && !last.InFlight {
		d.stopUpgradeWith(record.Paused, fmt.Sprintf("%s continues with %s, which it does not cancel: %s", d.managerName(), d.operationName(op.ID), last.Detail))
		return
	}
	d.requestCancellation(op)
}

// requestCancellation asks the cloud to cancel the operation. After an answer it waits for a reading that may show the effect.
func (d *decision) requestCancellation(op *nodegroup.Operation) {
	cancel := nodegroup.CancelOperation{Operation: op.ID}
	d.pollCloudSoon(fmt.Sprintf("%s to cancel %s", d.managerName(), d.operationName(op.ID)))
	d.rec.Delegation.Cancelling = op.ID
	if !op.Cancelling && !d.isReadingTooOld(cancel) {
		d.addAction(cancel)
	}
}

// pauseUnbegun pauses the upgrade if a user requested that and the group shows no operation of the upgrade. A request to
// begin an operation may still be under way: its answer was lost, or another process sent it. So pauseUnbegun first waits
// for a reading of the group that is newer than all such requests. During the wait no request is sent.
func (d *decision) pauseUnbegun() {
	if !d.pausing {
		return
	}
	since := d.w.Notes.PausingSince
	if since.IsZero() {
		since = d.w.Now
	}
	d.notes.PausingSince = since
	last := d.lastAttempt(d.delegateAction())
	if last.Ended.After(since) {
		since = last.Ended
	}
	if last.InFlight || !d.w.Group.IsFreshAfter(since) {
		d.pollCloudSoon(fmt.Sprintf("%s to report whether the upgrade has begun; only then can it be paused", d.managerName()))
		return
	}
	d.stopForPauseRequest()
}

// isReadingTooOld reports whether the group's reading is too old to show the effect of the request, or what prevented it.
func (d *decision) isReadingTooOld(request nodegroup.Action) bool {
	last := d.lastAttempt(request)
	return (last.Outcome == nodegroup.OutcomeDone || last.Outcome == nodegroup.OutcomeMoved) && !d.w.Group.IsFreshAfter(last.Ended)
}

// delegateAction returns the request of the attempt. A request with force, or with another width, has a different token.
func (d *decision) delegateAction() nodegroup.Delegate {
	force, kind, width := d.rec.Request.OnTimeout == record.Force, "update", nodegroup.Width{}
	if force {
		kind = "force"
	}
	if d.rec.Delegation.TakesWidth {
		width = nodegroup.Width{MaxUnavailable: d.rec.Request.MaxUnavailable, MaxSurge: d.rec.Request.Surge}
		kind = fmt.Sprintf("%s-%d-%d", kind, width.MaxUnavailable, width.MaxSurge)
	}
	return nodegroup.Delegate{
		To: d.rec.Target, Force: force, Width: width, Rollout: requestedRollout(&d.rec.Request), Rollback: d.takesBackOperation(),
		Token: ledger.Token(d.rec.Run, kind, d.rec.Delegation.Attempt), Etag: d.etag(),
	}
}

// takesBackOperation reports whether the upgrade is a rollback and the newest operation is what it takes back: an upgrade to the
// newer revision that was cancelled or failed. The cloud goes back to the revision that the group had before. A rollback of any
// other operation, or to any other revision, is an upgrade to its target.
func (d *decision) takesBackOperation() bool {
	op := d.newestOperation()
	ended := op.State == nodegroup.OperationCancelled || op.State == nodegroup.OperationFailed
	return d.rec.Rollback && ended && op.To.ID == d.rec.Previous.ID && d.rec.Target.ID == d.rec.OriginalRevision().ID
}

// etag returns the version of the group's settings in the current reading.
func (d *decision) etag() string {
	if d.w.Group.Managed == nil {
		return ""
	}
	return d.w.Group.Managed.Etag
}

// awaitNewestOperation waits for a reading that shows the cloud's newest operation, or until that operation is certainly lost.
func (d *decision) awaitNewestOperation() (read bool) {
	known, op := d.rec.Delegation, d.newestOperation()
	switch {
	case d.w.Group.Managed == nil:
		d.pollCloudSoon(fmt.Sprintf("%s to report on the group: %s", d.managerName(), d.w.Group.Refusal))
		return false
	case op.Began.Before(known.Newest) && !d.awaitOperationLoss():
		d.pollCloudSoon(d.managerName() + " to report its newest " + nameOperation(d.rec.Provider))
		return false
	}
	return true
}

// followOperation shows what the cloud is doing, and reports whether it has replaced the group.
func (d *decision) followOperation() (done bool) {
	if !d.awaitNewestOperation() {
		return false
	}
	// A node is gone when both its Node and its instance are gone, in either order.
	d.rec.Replaced = max(0, d.rec.Total-len(d.count.pending)-len(d.count.leaving))
	d.notes.noteNodeNames(d.count.pending, d.w.Notes.NodeNames)
	d.noteUnjoined()
	op, known := d.newestOperation(), d.rec.Delegation
	switch {
	case op.Began.Before(known.Newest):
		return d.concludeLostOperation(op)
	case op.ID != known.ID:
		return d.followSuccessor(op)
	}
	known.Newest = op.Began
	switch op.State {
	case nodegroup.OperationFailed:
		d.stopUpgradeWith(resultOfCause(op.Cause), d.explainFailure(op))
	case nodegroup.OperationCancelled:
		return d.concludeCancelled(op)
	case nodegroup.OperationSucceeded:
		return d.rec.Request.ReplacedBy().Traits().Expires || d.concludeOperation()
	default:
		d.watchDrains()
		d.pollCloudSoon(d.describeProgress())
		if len(d.count.pending) > 0 {
			d.poll = PollOperation
		}
		d.cancelForPause(op)
	}
	return false
}

// cancelForPause asks the cloud to cancel the operation while a pause is requested, whoever began the operation:
// nothing else pauses the upgrade. If the cloud refuses permanently, the upgrade continues and shows the refusal.
func (d *decision) cancelForPause(op *nodegroup.Operation) {
	known, cancel := d.rec.Delegation, nodegroup.CancelOperation{Operation: op.ID}
	last := d.lastAttempt(cancel)
	switch {
	case d.pausing && last.Outcome == nodegroup.OutcomeFatal && !last.InFlight:
		d.setWaiting(fmt.Sprintf("%s, which it does not cancel: %s", d.describeStage(), last.Detail))
	case d.pausing:
		d.requestCancellation(op)
	case last.Outcome == nodegroup.OutcomeLater && last.Tries == 1 && !last.InFlight:
		known.Cancelling = "" // it had no effect: a later cancellation is by another user
	}
}

// concludeCancelled decides what follows the cancelled operation, and reports whether the group is replaced anyway. If the
// operation was cancelled for a pause, the upgrade pauses. If the user has withdrawn the pause, another operation begins.
// If another user cancelled the operation, the upgrade stops, and a person must decide.
func (d *decision) concludeCancelled(op *nodegroup.Operation) (replaced bool) {
	if d.countAllReplaced() {
		return true
	}
	d.endSoak()
	if d.rec.Phase != record.PhaseFollow {
		d.enterPhase(delegatedStrategy().findPhase(record.PhaseFollow)) // nothing soaks any more
	}
	switch {
	case d.pausing:
		d.stopForPauseRequest()
	case d.rec.Delegation.Cancelling == op.ID:
		d.rec.Delegation = d.rec.Delegation.NextAttempt()
		d.enterPhase(delegatedStrategy().phases[0])
		d.requeueNow()
	default:
		d.stopUpgradeWith(record.Paused, d.operationName(op.ID)+" was cancelled: run the command again to start another")
	}
	return false
}

// followSuccessor decides what to do when op has followed the upgrade's own operation. Only the nodes show how the
// upgrade's operation ended. followSuccessor reports whether the group is replaced.
func (d *decision) followSuccessor(op *nodegroup.Operation) (replaced bool) {
	switch {
	case d.countAllReplaced():
		return true
	case op.State == nodegroup.OperationRunning && op.To.ID == d.rec.Target.ID:
		next := d.rec.Delegation.NextAttempt()
		next.Attempt, next.ID, next.Newest = d.rec.Delegation.Attempt, op.ID, op.Began
		d.rec.Delegation = next
		d.requeueNow()
	default:
		d.stopUpgradeWith(record.Paused, fmt.Sprintf("%s has finished, and another process started %s (%s, %s): see %s, and run the command again when that has finished",
			d.operationName(d.rec.Delegation.ID), d.operationName(op.ID), cmp.Or(op.To.Name, op.Kind), op.State, nodegroup.Command("status", d.w.Group.Name)))
	}
	return false
}

// concludeOperation waits until no outdated node is left after an operation that succeeded (EKS E49). The last nodes
// may stay visible for a while. A Node without a machine, or with a machine that is terminating, is no failure.
func (d *decision) concludeOperation() (replaced bool) {
	if len(d.count.pending)+len(d.count.leaving) == 0 {
		return true
	}
	known := d.rec.Delegation
	if known.Succeeded.IsZero() {
		known.Succeeded = d.w.Now
	}
	deadline := known.Succeeded.Add(d.rec.Request.BootTimeout.Duration)
	d.pollCloudSoon("the last outdated nodes to be removed")
	d.requeueAt(deadline)
	if !d.w.isDeadlinePassed(deadline) {
		return false
	}
	if i := slices.IndexFunc(d.count.pending, hasMachine); i >= 0 {
		d.stopUpgradeWith(record.Failed, fmt.Sprintf("%s reports that %s succeeded, but %s is still outdated",
			d.managerName(), d.operationName(known.ID), d.count.pending[i].Name()))
		return false
	}
	return d.countAllReplaced()
}

// resultOfCause returns the result for the cause of a failed operation (EKS E33, E42).
func resultOfCause(cause nodegroup.FailureCause) record.Result {
	switch cause {
	case nodegroup.DrainFailed:
		return record.PodEvictionFailure
	case nodegroup.LaunchFailed:
		return record.NodeCreationFailure
	default:
		return record.Failed
	}
}

// explainFailure returns the cloud's failure, and the pods that are in the way on the nodes that it names: the cloud
// does not name the pods (EKS E52).
func (d *decision) explainFailure(op *nodegroup.Operation) string {
	text := fmt.Sprintf("%s failed: %s", d.operationName(op.ID), op.Failure)
	if op.Cause == nodegroup.LaunchFailed {
		return joinNotes(text, d.describeLaunchFailures())
	}
	if op.Cause != nodegroup.DrainFailed {
		return text
	}
	first := len(d.blocked)
	for _, m := range d.count.pending {
		if slices.Contains(op.Resources, m.Name()) || slices.Contains(op.Resources, m.Instance.ID) {
			d.blockPods(m, time.Time{})
		}
	}
	if found := d.blocked[first:]; len(found) > 0 {
		text += "; this blocks it now: " + summarizeBlocked(found, d.w.Now)
	}
	return text
}

// watchDrains finds out which nodes the cloud is draining, because the cloud does not show that. It names the pods that
// the cloud cannot evict (containers-roadmap#1282). A node counts as draining once a pod has been evicted from it after
// it was cordoned. The cloud drains a fixed number of nodes at once (EKS E05, GKE G12). While fewer drains are seen, the cloud
// may be waiting for the pods of any cordoned node, so it names those, too.
func (d *decision) watchDrains() {
	known, draining := d.rec.Delegation, map[string]time.Time{}
	keeps := d.rec.Request.ReplacedBy().Traits().KeepsNodes
	var closed []*nodegroup.Member
	for _, m := range d.count.pending {
		if m.Node == nil || !hasMachine(m) || !nodegroup.IsClosed(m.Node) {
			continue
		}
		closed = append(closed, m)
		since, seen := known.Draining[m.Name()]
		if !seen && d.isDraining(m) {
			since, seen = d.w.Now, true
		}
		view := d.classifyPodsOf(m)
		if seen && (!keeps || view.countPodsLeft() > 0) {
			draining[m.Name()] = since
		}
		d.notes.PodsLeft[m.Name()] = view.uidsOfRunning()
	}
	known.Draining = draining
	underWay := d.listDraining()
	for _, m := range closed {
		switch since, seen := draining[m.Name()]; {
		case slices.Contains(underWay, m.Name()):
			d.blockPods(m, d.drainEnd(since))
		case !seen && len(underWay) < d.rec.Request.Window:
			d.blockPods(m, time.Time{})
		}
	}
	if d.w.Group.Managed.PassesOver {
		d.blockPassedOver()
	}
	// The list is recorded so that status can show it from another machine.
	long, _ := d.listLongBlocked(record.MostBlockedOfGroup, func(drain.Blocked) string { return "" })
	d.rec.Delegation.Blocked = long[""]
}

// listDraining returns the names of the nodes that the cloud is draining, sorted. A cloud that keeps drained nodes stops draining a
// node at the end of its time, and keeps it with its pods (GKE G44).
func (d *decision) listDraining() []string {
	names := slices.Sorted(maps.Keys(d.rec.Delegation.Draining))
	if d.rec.Request.ReplacedBy() != record.BlueGreen {
		return names
	}
	return slices.DeleteFunc(names, func(name string) bool {
		return !d.w.Now.Before(d.rec.Delegation.Draining[name].Add(d.rec.Request.DrainTimeout.Duration))
	})
}

// drainEnd returns when the cloud gives up on a node whose drain began at the time; zero if it never does.
func (d *decision) drainEnd(since time.Time) time.Time {
	limit := d.rec.Request.DrainTimeout.Duration
	if limit == nodegroup.EndlessDrain {
		return time.Time{}
	}
	return since.Add(limit)
}

// isDraining reports whether a pod of the cordoned node was evicted, or disappeared since the last step without a visible
// end. Pods that complete or that their controller deletes do not count, because they also leave nodes that are not
// drained. Evictions from before the operation do not count either.
func (d *decision) isDraining(m *nodegroup.Member) bool {
	here := make(map[types.UID]bool, len(m.Pods))
	for _, pod := range m.Pods {
		here[pod.UID] = true
	}
	left := func(uid types.UID) bool { return !here[uid] }
	evicted := func(pod *corev1.Pod) bool { return drain.IsEvictedSince(pod, d.newestOperation().Began) }
	return slices.ContainsFunc(m.Pods, evicted) || slices.ContainsFunc(d.w.Notes.PodsLeft[m.Name()], left)
}

// blockPods adds the pods of the node that the eviction API refuses now to the blocked ones. until is when the cloud
// gives up on the node; zero if no drain of the node is known.
func (d *decision) blockPods(m *nodegroup.Member, until time.Time) {
	left := d.classifyPodsOf(m)
	for _, pod := range slices.Concat(left.Evict, left.Held) {
		prediction := drain.Predict(pod, d.w.Budgets, nil, d.w.EndingNamespaces[pod.Namespace])
		if prediction.Admitted() {
			continue
		}
		name := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
		endless := d.w.Group.Managed.PassesOver && !m.Instance.DeletesRest
		d.addBlocked(drain.Blocked{Node: m.Name(), Pod: name, UID: pod.UID, Obstacle: prediction.Obstacle, Until: until, Passed: endless})
	}
	d.requeueAt(until)
}

// describeProgress describes what the cloud is waiting for.
func (d *decision) describeProgress() string {
	return joinNotes(joinNotes(d.describeStage(), d.w.Group.Managed.Halted), d.describeMissingNodes())
}

// describeStage returns how far the cloud is, with the cloud's own words in parentheses.
func (d *decision) describeStage() string {
	text := d.managerName()
	switch names := d.listDraining(); {
	case len(names) > 0:
		text += " to drain " + strings.Join(names, ", ")
	case len(d.count.pending) == 0:
		text += " to remove the added nodes"
	default:
		text += " to replace the next nodes"
	}
	if stage := d.newestOperation().Stage; stage != "" {
		text += " (" + stage + ")"
	}
	return text
}

// delegatedNodeStatus returns the status of an outdated node, as far as the cluster shows what the cloud does with it. If the
// Node disappears before its instance, the instance keeps the Node's name.
func (d *decision) delegatedNodeStatus(m *nodegroup.Member) record.NodeStatus {
	status := record.NodeStatus{Name: m.Name(), Zone: m.Zone(), State: record.NodePending}
	if name := d.notes.NodeNames[m.Instance.ID]; m.Node == nil && name != "" {
		status.Name, status.State = name, record.NodeRemoving
	}
	if m.Node != nil && !hasMachine(m) {
		status.State = record.NodeRemoving
		return status
	}
	if m.Node == nil || !nodegroup.IsClosed(m.Node) {
		return status
	}
	status.State = record.NodeFenced
	if d.isKeptByCloud(m) {
		status.State = record.NodeParked
	}
	if _, begun := d.rec.Delegation.Draining[m.Name()]; begun {
		left := d.classifyPodsOf(m)
		status.Pods, status.Staying = left.countPodsLeft(), left.staying
		if status.State == record.NodeFenced {
			status.State = record.NodeDraining
		}
	}
	return status
}

// stopFollowing ends the upgrade here and leaves the cloud's operation running: it cannot be taken back.
func (d *decision) stopFollowing() {
	op, known := d.newestOperation(), d.rec.Delegation
	start := d.lastAttempt(d.delegateAction())
	note := ""
	switch {
	case op.State == nodegroup.OperationRunning && (known.ID != "" && op.ID == known.ID || d.rec.Rollback && op.To.ID == d.rec.Previous.ID):
		note = fmt.Sprintf("%s continues with %s", d.managerName(), d.operationName(op.ID))
	case known.ID == "" && !start.Begun.IsZero() && start.Outcome != nodegroup.OutcomeFatal:
		note = fmt.Sprintf("%s may have begun the %s", d.managerName(), nameOperation(d.rec.Provider))
	}
	d.endUpgradeWith(d.rec.Stopping, joinNotes(d.rec.Message, note))
}

// WatchOperation returns a record for following the group's running operation if no upgrade is recorded, whoever began
// the operation. outdated is how many nodes must still be replaced. The record is for display only, and never stored.
func WatchOperation(group *nodegroup.Group, req record.Request, outdated int, now time.Time) record.Record {
	op := group.Managed.Operation
	began := cmp.Or(op.Began, now)
	rec := record.Record{
		Version: record.Delegated.RecordVersion(), Run: op.ID, Request: req, Provider: group.Provider, Target: op.To, Started: began,
		Phase: record.PhaseFollow, PhaseBegan: began, Total: outdated + op.Replaced,
		Delegation: &record.Delegation{ID: op.ID, Cancels: group.Managed.Cancels, RollsBack: group.Managed.RollsBack, EndsSoaks: group.Managed.EndsSoaks},
	}
	if op.Soaks {
		rec.Phase, rec.Soak.Until = record.PhaseSoak, op.SoaksUntil
	}
	return rec
}

// lostAfter is how long the cloud must not list a known operation before the operation counts as lost. The cloud's lists
// may lag.
const lostAfter = 5 * time.Minute

// awaitOperationLoss waits until the cloud has not listed its newest operation for lostAfter.
func (d *decision) awaitOperationLoss() (lost bool) {
	since := d.w.Notes.OlderSince
	if since.IsZero() {
		since = d.w.Now
	}
	d.notes.OlderSince = since
	d.requeueAt(since.Add(lostAfter))
	return d.w.isDeadlinePassed(since.Add(lostAfter))
}

// concludeLostOperation reports whether no node is outdated, because nothing else shows how the lost operation ended.
// Otherwise it ends the upgrade: the same command begins another operation and ignores older ones.
func (d *decision) concludeLostOperation(newest *nodegroup.Operation) (replaced bool) {
	if d.countAllReplaced() {
		return true
	}
	known := d.rec.Delegation
	d.endUpgradeWith(record.Failed, fmt.Sprintf("%s has not reported on %s for %s, and %d of %d nodes are still outdated",
		d.managerName(), d.operationName(known.ID), lostAfter, len(d.count.pending), d.rec.Total))
	known.ID, known.NotBefore, known.Newest = newest.ID, known.Newest, newest.Began
	return false
}

// countAllReplaced reports whether no machine is outdated, and then counts all nodes as replaced.
func (d *decision) countAllReplaced() (current bool) {
	if slices.ContainsFunc(d.count.pending, hasMachine) {
		return false
	}
	d.rec.Replaced = d.rec.Total
	return true
}

// hasMachine reports whether the member has a machine that is not terminating.
func hasMachine(m *nodegroup.Member) bool {
	return m.Instance.ID != "" && m.Instance.State != nodegroup.InstanceLeaving
}

// joinTime is how long a new machine of a delegated group may take to join before it is reported.
const joinTime = 3 * time.Minute

// noteUnjoined records the last launch failure, and since when current machines have had no node. A machine that ends
// without joining stays in the record for the report.
func (d *decision) noteUnjoined() {
	if f := d.w.Group.LaunchFailure; f.Message != "" && f.At.After(d.newestOperation().Began) {
		d.rec.Delegation.LaunchFailure = f.Message
	}
	known := maps.Clone(d.rec.Delegation.Unjoined)
	for i := range d.w.Members {
		m := &d.w.Members[i]
		id := m.Instance.ID
		if m.Node != nil {
			delete(known, id)
			continue
		}
		if _, noted := known[id]; noted || m.Outdated || id == "" || m.Instance.State == nodegroup.InstanceLeaving {
			continue
		}
		if known == nil {
			known = map[string]time.Time{}
		}
		known[id] = d.w.Now
	}
	d.rec.Delegation.Unjoined = known
}

// describeUnjoined returns the machines that have run for long without joining; "" if there are none.
func (d *decision) describeUnjoined() string {
	var names []string
	for _, id := range slices.Sorted(maps.Keys(d.rec.Delegation.Unjoined)) {
		since := d.rec.Delegation.Unjoined[id]
		if at := since.Add(joinTime); d.w.Now.Before(at) {
			d.requeueAt(at)
			continue
		}
		names = append(names, id)
	}
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf("instances that have not joined the cluster: %s: check their user data, their node role and their kubelets' logs", abbreviateNames(names))
}

// describeMissingNodes returns why new nodes are missing now, or "" if that is not known.
func (d *decision) describeMissingNodes() string {
	if f := d.w.Group.LaunchFailure; f.Message == "" || !f.At.After(d.newestOperation().Began) {
		return d.describeUnjoined()
	}
	return d.describeLaunchFailures()
}

// describeLaunchFailures returns why new nodes have been missing since the operation began.
func (d *decision) describeLaunchFailures() string {
	launch := d.rec.Delegation.LaunchFailure
	if launch != "" {
		launch = "the last launch failed: " + launch
	}
	return joinNotes(launch, d.describeUnjoined())
}
