package worlds

import (
	"fmt"
	"reflect"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// rules checks a world from beginning to end. broken is the first rule that was broken.
type rules struct {
	c      *cluster
	print  func(string)
	broken string
	tally  Tally

	// desired, max, zones and servingBefore are the group's values before the upgrade. addedByOthers is the number of nodes that other
	// actors have added since.
	desired, max, addedByOthers int
	// removedByOthers is the number of nodes by which other actors lowered the group's size.
	removedByOthers int
	zones           map[string]int
	servingBefore   int
	// zonesChanged is true after other actors changed which zones nodes are in. maxChanged is true after they changed the maximum.
	zonesChanged, maxChanged bool
	// currentSince is, for each node that was renewed in place, the time since when the node has been current.
	currentSince map[string]time.Time
	// recordedMachine contains, by node, the machine that the record named before the actor RecordMachineChanged changed it.
	recordedMachine map[string]string
	// stripped contains the nodes from which an admin removed annotations of this program.
	stripped map[string]bool
	// deadlines contains the deadline of each node, by its UID. furthestPhase is the furthest phase of the run, and run is its name.
	deadlines     map[types.UID]time.Time
	furthestPhase int
	run           string
	// moveCounts counts, for each pod whose name is kept, how often the pod was evicted since the last stop.
	moveCounts map[string]int
	// evictedAddresses contains, by node, the addresses of the pods that the upgrade evicted from the node.
	evictedAddresses map[types.UID][]string
	// unclearTermination is true after both the upgrade and an actor terminated an instance, if only the cloud knows which
	// request came first.
	unclearTermination bool
	// resumedByOthers is true after an admin resumed suspended processes.
	resumedByOthers bool
	duties          dutyState
	refusals        refusalState
	// recovery is the state of the rules about workloads that lost pods.
	recovery recoveryState
	moving   movingState
	// delegations is the state for groups that their own cloud upgrades. soaks is the state for blue-green upgrades.
	delegations delegationState
	soaks       soakState
	waited      waitState
	// ownerRevision is the revision that the group's owner last pointed it at. isBack is true after the upgrade was rolled back.
	ownerRevision string
	isBack        bool
	// lastZone is the zone of the node that was started last, if zones take turns.
	lastZone string
	// undisturbed is true for worlds without faults, other actors and lags. easy is true for undisturbed worlds in which all pods leave in time.
	undisturbed, easy bool
}

func newRules(c *cluster, say func(string)) *rules {
	p := c.plan
	r := &rules{
		c: c, print: say, tally: Tally{}, desired: c.cloud.desired, max: c.cloud.max, ownerRevision: c.cloud.pointed, zones: c.cloud.nodesPerZone(),
		recordedMachine: map[string]string{}, stripped: map[string]bool{}, currentSince: map[string]time.Time{}, deadlines: map[types.UID]time.Time{}, moveCounts: map[string]int{}, evictedAddresses: map[types.UID][]string{}, duties: newDutyState(), recovery: newRecoveryState(),
		delegations: delegationState{requestOf: map[string]nodegroup.Delegate{}, reported: map[string]bool{}},
		undisturbed: p.isUndisturbed(), moving: newMovingState(),
	}
	r.easy = r.undisturbed && isEasy(p)
	r.zonesChanged = p.isAutoscaled()
	r.servingBefore = r.countServing(record.Record{})
	c.onFault = func(kind FaultKind) {
		r.tally.count("fault", string(kind))
		if kind == ZoneFull || kind == BootNever || kind == BootUnlabelled {
			r.zonesChanged = true
		}
	}
	c.onPodWaitsForTaint = func() { r.tally.count("renewal", daemonTainted) }
	c.onNodeClosed = func(by Closing) { r.tally.count("renewal", string(by)) }
	c.onRestart, c.onPodGone = r.checkRestartedOnce, r.checkDeparture
	r.tally.countPlan(p)
	return r
}

// isEasy reports whether every pod of the plan leaves its node in time without help from a user.
func isEasy(p *Plan) bool {
	hard := p.hasWorkload(func(w *Workload) bool {
		return w.isAiling() || w.Broken || w.Undead || w.Tolerant || w.Role == Completes || (w.Role == Protected && p.Request.RespectDoNotDisrupt) || (w.Kind == Bare && !p.Request.EvictUnmanaged)
	})
	tight := slices.ContainsFunc(p.Budgets, func(b Budget) bool { return b.Shape != MaxUnavailable || b.N < 1 || b.Percent })
	twice := map[string]bool{}
	for _, w := range p.Workloads {
		twice[w.Name] = w.Kind != Deployment && w.Kind != StatefulSet // no budget counts the workload's pods, or the pods end by themselves
	}
	for _, b := range p.Budgets {
		tight = tight || twice[b.Workload]
		twice[b.Workload] = true
	}
	return !hard && !tight && !p.Balancer.Stuck && p.Outside && p.Request.DrainTimeout.Duration >= 15*time.Minute
}

func (r *rules) logf(format string, args ...any) {
	if r.print != nil {
		r.print(fmt.Sprintf("%10s  %s", r.c.elapsed().Round(time.Millisecond), fmt.Sprintf(format, args...)))
	}
}

// fail records that a rule is broken. Only the first call counts.
func (r *rules) fail(rule, format string, args ...any) {
	if r.broken == "" {
		r.broken = rule + ": " + fmt.Sprintf(format, args...)
		r.logf("BROKEN %s", r.broken)
	}
}

// noteLostNode records that another actor removed a node. From then on, the upgrade need only keep one serving node fewer.
func (r *rules) noteLostNode() {
	r.servingBefore--
	r.zonesChanged = true
}

// noteUnclearTermination records that the effect of a request to terminate an instance and shrink the group is unknown. The effect is
// known if the instance still exists, or if the request shrank the group.
func (r *rules) noteUnclearTermination(id string) {
	i := r.c.cloud.instances[id]
	r.unclearTermination = r.unclearTermination || ((i == nil || i.leaving) && r.c.cloud.shrunk[id] == 0)
}

func (r *rules) noteResize(n int) {
	r.addedByOthers += n
	r.removedByOthers += max(0, -n)
	r.zonesChanged = true
}

func (r *rules) noteMaxChanged() { r.maxChanged = true }

// prepareForProcess prepares the rules for a new process.
func (r *rules) prepareForProcess(p *process) {
	r.logf("record %q, phase %q", p.record.Run, p.record.Phase)
	r.duties.resetWaits()
	clear(r.moving.mostTogether)
	r.delegations.newestBegan = time.Time{}
	r.forgetEvictedPods(&p.record)
	r.c.onPodBound = func(pod *corev1.Pod) { r.checkSuccessorNode(p, pod) }
	r.recovery.prepareForProcess(p.record.Run, r.c.now)
	for _, n := range p.record.Nodes {
		if n.State == record.NodeRemoving && n.Shrink && !n.Landed {
			r.noteUnclearTermination(n.Instance)
		}
	}
	if p.record.Run == "" && r.run != "" && r.c.plan.hasSize() { // the surge that the last run left belongs to the group now
		r.desired = r.c.cloud.desired - r.sizeChangeByOthers()
	}
	if p.record.Ledger.TargetMoved() {
		r.furthestPhase = 0 // the surge that was given back is launched again for the new target
	}
	if p.record.Run != r.run || p.record.Rollback != r.isBack {
		r.run, r.isBack, r.furthestPhase = p.record.Run, p.record.Rollback, 0
		clear(r.duties.batches)
		r.lastZone = ""
		r.soaks, r.waited = soakState{exitsEarly: r.soaks.exitsEarly}, waitState{}
		clear(r.deadlines) // a rollback drains other nodes
	}
}

// countServing counts the group's nodes that can take pods and are not being removed.
func (r *rules) countServing(rec record.Record) int {
	n := 0
	for name, node := range r.c.nodes {
		i := r.c.instanceOf(node)
		wantsFlavor := rec.Run == "" || len(rec.Request.Current) > 0 // a rollback requires no labels
		lacking := node.Labels[imageLabel] == "" || (wantsFlavor && node.Labels[flavorLabel] == "")
		unproven := lacking && (i == nil || rec.Run == "" || i.revision == rec.Target.ID)
		fit := isNodeReady(node) && !r.c.isClosed(node)
		if r.c.fellSilent[node.UID] { // the not-ready taint stays a moment longer
			fit = !isSilent(node, r.c.now) && !r.c.isKeptClosed(node)
		}
		if node.Labels[groupLabel] == "" || unproven || !fit {
			continue
		}
		if r.c.plan.listsMachines() && (i == nil || i.leaving || !i.inService) {
			continue
		}
		started, ok := rec.Nodes[name]
		if !ok || started.UID != node.UID || started.State == record.NodeQuarantined {
			n++
		}
	}
	return n
}

// checkStep checks one decision against the rules. It is called after the decision's record is stored, and before its actions begin.
func (r *rules) checkStep(p *process, w *upgrade.World, step *upgrade.Step) {
	r.logStep(w, step)
	r.delegations.groupReadAt = w.Group.Observed
	if p.turns%40 == 1 && !r.c.plan.hasFault(StoreSlow) { // answers arrive while the record is stored
		same := *w
		same.Memo = nil
		if again := upgrade.Next(same); !reflect.DeepEqual(again, *step) {
			r.fail("pure", "the same world gives another step: %+v and %+v", *step, again)
		}
	}
	if step.Finished && (r.undisturbed && len(step.Actions) > 0 || step.Record.Result == "") {
		r.fail("end", "it is finished with the actions %v and the result %q", step.Actions, step.Record.Result)
	}
	if !step.Finished && step.Wake.Before(w.Now) {
		r.fail("wake", "it wakes at %s, before %s", step.Wake, w.Now)
	}
	for _, b := range step.Blocked {
		if b.String() == "" || b.Remedy() == "" {
			r.fail("E52", "pod %s is blocked, but the status gives no reason or no remedy", b.Pod)
		}
	}
	r.checkEndsAfterRefusal(p, w, step)
	if r.c.plan.isDelegated() {
		r.checkDelegated(p, w, step)
		return
	}
	if r.c.plan.isShortLived() {
		r.checkExpiry(w, step)
		return
	}
	r.checkWindow(&step.Record)
	r.checkSize(&step.Record)
	r.checkDeadlinesAndPhases(w, &step.Record)
	r.checkPauseRequest(w, step)
	r.checkBlueGreen(w, step)
	r.checkAutoscaled(w, step)
	r.checkTurns(w, step)
	r.checkOrderAndPatience(p, w, step)
	r.checkRecovery(p, w, step)
	r.notePodsTogether(p)
	r.checkRebuilds(p, w)
	r.checkWorkloadsRemembered(w, step)
	r.checkFirstPodLeaves(w, step)
	r.checkOverdueTargets(w, step)
	r.checkDenialReport(w, step)
	for _, action := range step.Actions {
		r.checkAction(p, w, step, action)
	}
}

// logStep counts the words of the step and prints its changes.
func (r *rules) logStep(w *upgrade.World, step *upgrade.Step) {
	r.tally.countStep(w, step)
	if r.print == nil {
		return
	}
	before := w.Record
	if before.Phase != step.Record.Phase {
		r.logf("phase %s, desired %d max %d", step.Record.Phase, w.Group.Desired, w.Group.Max)
	}
	if before.Stopping != step.Record.Stopping {
		r.logf("stopping: %s %s", step.Record.Stopping, step.Record.Message)
	}
	for _, name := range sortedKeys(step.Record.Nodes) {
		if n := step.Record.Nodes[name]; before.Nodes[name].State != n.State {
			r.logf("node %s is %s", name, n.State)
		}
	}
	for _, action := range step.Actions {
		r.logf("-> %s", action)
	}
}

// checkWindow checks I1: at most Window nodes are draining or empty.
func (r *rules) checkWindow(rec *record.Record) {
	busy := 0
	for _, n := range rec.Nodes {
		switch n.State {
		case record.NodeDraining, record.NodeForcing, record.NodeEmpty:
			busy++
		}
	}
	window := rec.Request.Window
	if isDeletingBlue(rec) {
		window = maxDeletedAtOnce
	}
	if rec.Run != "" && busy > window {
		r.fail("I1", "%d nodes in flight, window %d", busy, window)
	}
}

// checkSize checks I9: the numbers of nodes that the upgrade adds and removes stay within their limits, in the ledger and in the
// group.
func (r *rules) checkSize(record *record.Record) {
	if record.Run == "" || !r.c.plan.hasSize() || r.unclearTermination {
		return
	}
	least, most := -record.Request.MaxUnavailable, record.Request.Surge
	if owed := record.Ledger.Contribution(); owed < least || owed > most {
		r.fail("I9", "the contribution in the ledger is %d, outside [%d, %d]", owed, least, most)
	}
	if change := r.c.cloud.desired - r.desired - r.sizeChangeByOthers(); change < least || change > most {
		r.fail("I9", "the upgrade changed the group's size by %d, outside [%d, %d]", change, least, most)
	}
	if len(r.c.cloud.scaledIn) > 0 {
		r.fail("E53", "the group was larger than its size, and the cloud removed %v", r.c.cloud.scaledIn)
	}
	if record.Request.KeepMax && !r.maxChanged && r.c.cloud.max != r.max {
		r.fail("keep-max", "the maximum is %d and was %d", r.c.cloud.max, r.max)
	}
}

// checkDeadlinesAndPhases checks I8 and I10. A deadline moves only by the time during which no process was running. A run does not
// return to an earlier phase.
func (r *rules) checkDeadlinesAndPhases(w *upgrade.World, rec *record.Record) {
	if rec.Stopping == record.PodEvictionFailure || rec.Result == record.PodEvictionFailure {
		clear(r.deadlines) // running the same command again gives the nodes their time again
	} else {
		for name, n := range w.Record.Nodes {
			left := n.State == record.NodeRemoving || w.Record.Phase == record.PhaseWait
			if _, kept := rec.Nodes[name]; left && !kept {
				delete(r.deadlines, n.UID) // the node is gone, or its termination was taken back
			}
		}
		for name, n := range rec.Nodes {
			if n.Deadline.IsZero() || n.State == record.NodeQuarantined {
				continue
			}
			if isDeletingBlue(rec) && (n.State == record.NodeForcing || n.State == record.NodeDraining) {
				delete(r.deadlines, n.UID) // in this phase the upgrade deletes the pods, so the earlier deadline no longer counts
			}
			want, known := r.deadlines[n.UID]
			if before := w.Record.Nodes[name].State; before == record.NodeDraining || before == record.NodeEmpty {
				want = want.Add(w.Idle)
			}
			if known && !n.Deadline.Equal(want) {
				r.fail("I8", "the deadline of node %s moved from %s to %s, but no process was running for %s", name, r.deadlines[n.UID], n.Deadline, w.Idle)
			}
			r.deadlines[n.UID] = n.Deadline
		}
	}
	if rec.Stopping != "" {
		clear(r.moveCounts) // nodes that take pods again are drained again
	}
	if rec.Run == "" {
		return // there was nothing to do
	}
	if rec.Replaced > rec.Total {
		r.fail("total", "%d of %d nodes are replaced", rec.Replaced, rec.Total)
	}
	reached := slices.Index(phasesOf(rec), rec.Phase)
	if rec.Run == r.run && reached < r.furthestPhase {
		r.fail("I10", "phase %q after %q", rec.Phase, phasesOf(rec)[r.furthestPhase])
	}
	r.run, r.furthestPhase = rec.Run, reached
}

// mustLeave reports whether a drain must wait until the pod has left its node. isLost is true if the node's kubelet no longer
// reports.
func mustLeave(pod *corev1.Pod, isLost bool) bool {
	if pod.Annotations[corev1.MirrorPodAnnotationKey] != "" || pod.Status.Phase == corev1.PodSucceeded {
		return false
	}
	if len(pod.OwnerReferences) > 0 && pod.OwnerReferences[0].Kind == string(DaemonSet) {
		return false
	}
	return !isSkipped(pod) && (pod.DeletionTimestamp == nil || !isLost)
}

// isSilent reports whether the node's kubelet has been unreachable for so long that a drain does not wait for deleted pods.
func isSilent(node *corev1.Node, now time.Time) bool {
	return node != nil && !isNodeReady(node) && now.Sub(node.Status.Conditions[0].LastTransitionTime.Time) >= 5*time.Minute
}
