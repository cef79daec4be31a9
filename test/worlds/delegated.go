package worlds

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// drawDelegated makes the group's own cloud upgrade the group, in 12% of the worlds with a cloud. It draws from its own generator, so
// that all other worlds stay the same.
func drawDelegated(p *Plan) {
	d := dice{rand.New(rand.NewPCG(p.Seed, 0x64656c65))}
	if !p.hasSize() || !d.chance(12) {
		return
	}
	p.Provider, p.Minimal, p.Zonal, p.Zoneless, p.Suspended, p.Repoint = "aws", d.chance(30), true, false, false, true
	p.Past = pick(d, "", "", nodegroup.OperationFailed, nodegroup.OperationSucceeded)
	for i := range p.Nodes {
		n := &p.Nodes[i]
		if n.Unlabelled = false; n.Current { // the cloud's upgrade would wait for such nodes without end
			n.Marks &^= MarkNoNode | MarkSilent
		}
	}
	p.Request = record.Request{
		Group: "workers", Strategy: record.Delegated, Like: "eks", MaxUnavailable: p.Request.MaxUnavailable, EvictUnmanaged: true, OnTimeout: pick(d, record.Fail, record.Force),
		DrainTimeout: record.Duration{Duration: operationDrainLimit}, Settle: record.Duration{Duration: operationSettle}, BootTimeout: record.Duration{Duration: operationBootLimit},
	}
	p.Request.MaxUnavailable = max(1, p.Request.MaxUnavailable)
	p.Request.Window = p.Request.MaxUnavailable
	if d.chance(30) {
		return
	}
	for range d.IntN(3) {
		p.Faults = append(p.Faults, Fault{Kind: pick(d, operationFaults()...), To: d.between(time.Minute, 2*time.Hour), Percent: pick(d, 50, 100)})
	}
	for range min(d.IntN(4), d.IntN(4)) {
		p.Actors = append(p.Actors, Actor{Kind: pick(d, OperationBegun, OperationBegun, Kill, TargetMoves), At: d.between(0, pick(d, time.Minute, time.Hour)), Pick: d.IntN(1000)})
	}
}

// addOvertakenOperations adds the fault OperationOvertaken to some worlds whose cloud upgrades the group: operations fail before a
// reading shows them. It draws from its own generator, so that all other worlds stay the same.
func addOvertakenOperations(p *Plan) {
	d := dice{rand.New(rand.NewPCG(p.Seed, 0x6f766572))}
	if !p.isDelegated() || !d.chance(15) {
		return
	}
	p.Faults = append(p.Faults, Fault{Kind: OperationOvertaken, To: d.between(time.Minute, 30*time.Minute), Percent: pick(d, 50, 100)})
}

// addJob adds a Job to most undisturbed worlds whose cloud upgrades the group. Its pods also end on nodes that the cloud does not drain yet.
// checkDrainingNodes needs such pods. It draws from its own generator, so that all other worlds stay the same.
func addJob(p *Plan) {
	d := dice{rand.New(rand.NewPCG(p.Seed, 0x6a6f6273))}
	if !p.isDelegated() || !p.isUndisturbed() || !d.chance(75) {
		return
	}
	p.Workloads = append(p.Workloads, Workload{
		Name: "job", Kind: Job, Replicas: 1 + d.IntN(len(p.Nodes)+3), Ready: time.Second, Ends: d.between(5*time.Minute, 30*time.Minute),
	})
}

func (p *Plan) isDelegated() bool { return p.Request.Strategy == record.Delegated }

// otherCloud is a made-up provider that upgrades its groups itself, differently from EKS. It has its own limits, and deletes pods that
// are left after the drain limit. A request may set the width. Operations can be cancelled.
const otherCloud = "othercloud"

// moveToOtherCloud moves half of the groups that their own cloud upgrades to otherCloud. It draws from its own generator, so that all
// other worlds stay the same.
func moveToOtherCloud(p *Plan) {
	d := dice{rand.New(rand.NewPCG(p.Seed, 0x6f746865))}
	if !p.isDelegated() || !d.chance(50) {
		return
	}
	r := &p.Request
	p.Provider, r.OnTimeout = otherCloud, record.Force
	r.DrainTimeout, r.Settle = record.Duration{Duration: d.between(5*time.Minute, time.Hour)}, record.Duration{Duration: d.between(0, 5*time.Minute)}
	if r.Surge = d.IntN(4); p.Minimal {
		r.Surge = 0
	}
	for range min(d.IntN(4), d.IntN(4)) {
		p.Actors = append(p.Actors, Actor{Kind: Pauses, At: d.between(0, pick(d, time.Minute, time.Hour)), Pick: d.IntN(1000)})
	}
}

// operationName returns the cloud's word for its own upgrades.
func (p *Plan) operationName() string {
	if p.isOtherCloud() {
		return "operation"
	}
	return "update"
}

func (p *Plan) isOtherCloud() bool { return p.Provider == otherCloud }

// pastOperations returns the operation that ended before the world began, if there was one.
func (p *Plan) pastOperations() []*operation {
	switch p.Past {
	case nodegroup.OperationFailed:
		return []*operation{{id: "u1", revision: "2", state: p.Past, code: evictionFailure}}
	case nodegroup.OperationSucceeded:
		return []*operation{{id: "u1", revision: "1", state: p.Past}}
	default:
		return nil
	}
}

// beginOperation simulates a user who starts an operation: an upgrade to the wanted revision, an upgrade to another revision,
// or a change of the configuration.
func (u *user) beginOperation(chosen int) (acted bool) {
	if !u.c.plan.isDelegated() || u.c.runningOperation() != nil {
		return false
	}
	u.c.startOperation(operation{revision: []string{u.c.cloud.wanted, u.c.cloud.wanted, "4", ""}[chosen%4], force: chosen%8 > 3})
	return true
}

// drawReplan decides whether the next run continues to the current target. The command does so by itself after a failed operation.
// Otherwise some users pass --replan.
func (u *user) drawReplan(record *record.Record) bool {
	return u.replan || record.HasFailedOperation() || (u.c.plan.isDelegated() && u.c.chance(50))
}

// deleteBlockingBudgets deletes all budgets after a failed drain, in half of the cases, as their owners would.
func (u *user) deleteBlockingBudgets(rec record.Record) {
	if u.c.plan.isDelegated() && rec.Result == record.PodEvictionFailure && u.c.chance(50) {
		for _, name := range sortedKeys(u.c.budgets) {
			u.c.deleteBudget(name)
		}
	}
}

// delegationState is the state of the rules about delegated upgrades.
type delegationState struct {
	// requestOf contains the request that each token was sent for.
	requestOf map[string]nodegroup.Delegate
	// lastToken is the last token that the upgrade sent since its last stop, except stops by Ctrl-C. operationBefore is the newest
	// operation at that time.
	lastToken, operationBefore string
	// reported contains the operations whose end was reported as a failure.
	reported map[string]bool
	// newestBegan is when the newest operation began that this process knows of.
	newestBegan time.Time
	// groupReadAt is when the group was read for the last decision.
	groupReadAt time.Time
}

// checkDelegated checks one decision about a group that its cloud upgrades.
func (r *rules) checkDelegated(p *process, w *upgrade.World, step *upgrade.Step) {
	rec := &step.Record
	if rec.Run != "" && rec.Replaced > rec.Total {
		r.fail("total", "%d of %d nodes are replaced", rec.Replaced, rec.Total)
	}
	if w.Asked.Verb == record.VerbComplete && w.Asked.Run == rec.Run {
		r.soaks.completed = true
	}
	for _, action := range step.Actions {
		switch a := action.(type) {
		case nodegroup.CancelOperation:
			r.checkCancel(w, step, a)
		case nodegroup.EndSoak:
			r.checkEndOfSoak(w, step, a)
		case nodegroup.Delegate:
			r.checkOperationStart(p, w, a)
		default:
			r.fail("delegated", "%s, although the cloud upgrades the group", action)
		}
	}
	r.checkFollowedOperation(w, step)
	r.checkOperationGivenUp(w, step)
	r.checkDelegatedStatus(w, step)
}

// checkCancel checks that the upgrade cancels only the operation that it follows, only after a user requested a pause, and only if the
// cloud can cancel operations. A rollback cancels only an operation to the revision that it takes back.
func (r *rules) checkCancel(w *upgrade.World, step *upgrade.Step, cancel nodegroup.CancelOperation) {
	if op := w.Group.Managed.Operation; step.Record.Rollback && op.ID == cancel.Operation && op.To.ID == step.Record.Previous.ID && r.c.plan.isOtherCloud() {
		return
	}
	if followed := step.Record.Delegation; !r.c.plan.isOtherCloud() || w.Asked.Verb != record.VerbPause || followed == nil || followed.ID != cancel.Operation {
		r.fail("delegated", "%s, and the request is %+v of the record %+v", cancel, w.Asked, followed)
	}
}

// checkOperationGivenUp checks that the upgrade fails because of a lost operation only if readings have not shown it for five minutes.
func (r *rules) checkOperationGivenUp(w *upgrade.World, step *upgrade.Step) {
	if rec := &step.Record; w.Record.Result != "" || rec.Result != record.Failed || !strings.Contains(rec.Message, "has not reported on "+r.c.plan.operationName()) {
		return
	}
	followed := w.Record.Delegation.ID
	for _, op := range r.c.cloud.operations {
		if op.id == followed && !op.hiddenAt.IsZero() && r.c.now.Sub(op.hiddenAt) >= 5*time.Minute {
			return
		}
	}
	r.fail("lost", "operation %s is given up, although readings showed it: %s", followed, step.Record.Message)
}

// checkOperationStart checks I7 and I10 for a request to start an operation.
func (r *rules) checkOperationStart(p *process, w *upgrade.World, start nodegroup.Delegate) {
	stored := &p.stored.record
	if stored.Run == "" || stored.Delegation == nil || !strings.HasSuffix(start.Token, fmt.Sprintf("-%d", stored.Delegation.Attempt)) || !strings.HasPrefix(start.Token, stored.Run+"-") {
		r.fail("I7", "%s with token %s, which is not in the record: %+v", start, start.Token, stored.Delegation)
	}
	start.Etag = "" // the same request rests on the newest reading
	if before, used := r.delegations.requestOf[start.Token]; used && before != start {
		r.fail("I10", "token %s is sent for %+v, but was sent for %+v before", start.Token, start, before)
	}
	newest := ""
	if op := w.Group.Managed; op == nil || op.Operation.State == nodegroup.OperationRunning {
		r.fail("delegated", "%s is begun while an operation is under way: %+v", start, op)
	} else {
		newest = op.Operation.ID
	}
	if last := r.delegations.lastToken; last != "" && last != start.Token && r.delegations.requestOf[last].To == start.To && r.delegations.operationBefore == newest {
		r.fail("I10", "token %s is sent after token %s, but the upgrade did not stop in between", start.Token, last)
	}
	r.delegations.requestOf[start.Token], r.delegations.lastToken, r.delegations.operationBefore = start, start.Token, newest
	if start.Force != (w.Request.OnTimeout == record.Force) {
		r.fail("E43", "force is %t, but the request has OnTimeout %s", start.Force, w.Request.OnTimeout)
	}
	if !w.Now.Equal(r.c.now) {
		return
	}
	r.checkRetry(p, w, start)
	if before := p.open[start.Key()]; before.Outcome == nodegroup.OutcomeMoved && w.Now.Sub(before.Ended) < visibleWithin {
		r.fail("backoff", "%s is begun again %s after the answer that another operation is running", start, w.Now.Sub(before.Ended))
	}
}

// checkFollowedOperation checks what the step says about the operation against the operation itself.
func (r *rules) checkFollowedOperation(w *upgrade.World, step *upgrade.Step) {
	rec, m := &step.Record, w.Group.Managed
	if rec.Delegation == nil || m == nil {
		return
	}
	op, followed := &m.Operation, rec.Delegation.ID
	r.checkFollowsLatest(w, step, op)
	if rec.Stopping == "" && rec.Result == "" && rec.Phase != record.PhaseSetup && op.ID == followed && op.To.ID != rec.Target.ID {
		r.fail("delegated", "operation %s is followed, but it does not upgrade to %s: %+v", followed, rec.Target.ID, op)
	}
	if rec.Stopping == "" || w.Record.Stopping != "" {
		return
	}
	told := op.ID == followed && strings.Contains(rec.Message, r.c.plan.operationName()+" "+op.ID)
	coded := op.State == nodegroup.OperationFailed && op.Cause != ""
	switch rec.Stopping {
	case record.PodEvictionFailure, record.NodeCreationFailure:
		if !told || !coded || rec.Stopping != map[nodegroup.FailureCause]record.Result{nodegroup.DrainFailed: record.PodEvictionFailure, nodegroup.LaunchFailed: record.NodeCreationFailure}[op.Cause] {
			r.fail("E42", "it stops with %q: %s, and the operation is %+v", rec.Stopping, rec.Message, op)
		}
	case record.Failed:
		if (!told || coded) && !strings.Contains(rec.Message, "forbidden") {
			r.fail("E35", "it fails for another cause: %s, and the operation is %+v", rec.Message, op)
		}
	default:
		return
	}
	if told {
		r.checkFailureIsNew(op)
	}
}

// checkFollowsLatest checks that the upgrade does not begin to follow an ended operation if this process has seen a newer one.
func (r *rules) checkFollowsLatest(w *upgrade.World, step *upgrade.Step, op *nodegroup.Operation) {
	begins := w.Record.Delegation != nil && w.Record.Delegation.ID == "" && step.Record.Delegation.ID == op.ID
	if begins && op.ID != "" && op.Began.Before(r.delegations.newestBegan) && op.State != nodegroup.OperationRunning {
		r.fail("E35", "operation %s is followed, but a newer operation began after its end: %+v", op.ID, op)
	}
	if op.Began.After(r.delegations.newestBegan) {
		r.delegations.newestBegan = op.Began
	}
}

// checkFailureIsNew checks E31: the same command begins another operation, and does not report the previous failure as its own.
func (r *rules) checkFailureIsNew(op *nodegroup.Operation) {
	if r.delegations.reported[op.ID] || (op.ID == "u1" && r.c.plan.Past != "") {
		r.fail("E31", "the failure of operation %s is reported for the second time", op.ID)
	}
	r.delegations.reported[op.ID] = true
}

// checkDelegatedStatus checks the status of nodes and pods against the running operation, in undisturbed worlds.
func (r *rules) checkDelegatedStatus(w *upgrade.World, step *upgrade.Step) {
	op := r.c.runningOperation()
	if !r.undisturbed || op == nil || step.Record.Phase != record.PhaseFollow || step.Record.Delegation.ID != op.id || !w.Now.Equal(r.c.now) {
		return
	}
	r.checkBlockingPodsNamed(w, step, op)
	if !r.c.calm { // in a calm world, other actors delete pods
		r.checkDrainingNodes(step, op)
	}
}

// checkDrainingNodes checks E52: a node is shown as draining only when the cloud drains it, and not when its pods end by themselves.
func (r *rules) checkDrainingNodes(step *upgrade.Step, op *operation) {
	for _, n := range step.Status.Nodes {
		node := r.c.nodes[n.Name]
		if n.State != record.NodeDraining || node == nil {
			continue
		}
		i := r.c.instanceOf(node)
		if i == nil || i.leaving {
			continue
		}
		// The upgrade sees the drain begin, and expects its end, a little later than the cloud.
		if _, begun := op.drainingSince[i.id]; !begun && !op.blue.kept[i.id] {
			r.fail("E52", "node %s is shown as draining, but the cloud does not drain it yet", n.Name)
		}
	}
}

// checkBlockingPodsNamed checks E52: the status names the pods that have blocked the drain of a node for a minute.
func (r *rules) checkBlockingPodsNamed(w *upgrade.World, step *upgrade.Step, op *operation) {
	for _, id := range sortedKeys(op.drainingSince) {
		if w.Now.Sub(op.drainingSince[id]) < time.Minute {
			continue
		}
		for _, pod := range r.c.podsToLeave(r.c.nodeNameOf(r.c.cloud.instances[id])) {
			_, refusal := answerEviction(pod, r.c.budgets, r.c.namespaceEnding)
			named := slices.ContainsFunc(step.Blocked, func(b drain.Blocked) bool { return b.Pod.Name == pod.Name })
			if refusal != nil && !named && pod.DeletionTimestamp == nil {
				r.fail("E52", "pod %s blocks the drain of instance %s, but the status does not name it: %v", pod.Name, id, refusal)
			}
		}
	}
}

// checkDelegatedStop checks the result of a delegated upgrade that stopped.
func (r *rules) checkDelegatedStop(rec record.Record) {
	p := r.c.plan
	switch rec.Result {
	case record.Succeeded:
		r.checkDelegatedSuccess(rec)
	case record.PodEvictionFailure, record.NodeCreationFailure, record.Failed:
	case record.WorkloadUnhealthy:
		r.checkUnhealthyMessage(rec)
	case record.Paused:
		if p.hasActor(Pauses) && rec.PausedBy != "" {
			r.checkDelegatedPause(rec)
			break
		}
		if !p.hasActor(OperationBegun, TargetMoves) && !p.hasFault(OperationCancelled) {
			r.fail("liveness", "it pauses without a cause: %q", rec.Message)
		}
	case record.TargetMoved:
		if !p.hasActor(TargetMoves) {
			r.fail("liveness", "the result is TargetMoved, but the target did not change")
		}
	case record.Interrupted, record.Aborted:
		r.checkDelegatedInterrupt(rec)
	case record.Waiting:
		r.checkCloudSoak(rec)
	default:
		r.fail("end", "result %q", rec.Result)
	}
	if rec.Result != record.Interrupted {
		r.delegations.lastToken = ""
	}
}

// checkDelegatedPause checks that no operation of the upgrade is running after a pause.
func (r *rules) checkDelegatedPause(rec record.Record) {
	op := r.c.runningOperation()
	read := r.delegations.groupReadAt.Add(-r.c.plan.CloudLag)
	if op == nil || op.shownFrom.After(read) || !op.hiddenAt.IsZero() {
		return // the cloud did not show the operation
	}
	if rec.Delegation.ID == op.id || strings.HasPrefix(op.token, rec.Run+"-") {
		r.fail("G25", "it is paused, but the cloud continues operation %s", op.id)
	}
}

// checkDelegatedSuccess checks E49: all instances have the target revision, and the followed operation did not fail. The operation may
// have been cancelled after all nodes were replaced.
func (r *rules) checkDelegatedSuccess(record record.Record) {
	if record.Run == "" {
		return
	}
	if ops := r.c.cloud.operations; len(ops) > 0 {
		if op := ops[len(ops)-1]; op.id == record.Delegation.ID && op.state != nodegroup.OperationSucceeded && op.state != nodegroup.OperationCancelled && op.hiddenAt.IsZero() {
			r.fail("end", "it succeeds, and operation %s is %s", op.id, op.state)
		}
	}
	if r.c.plan.hasActor(OperationBegun, TargetMoves) {
		return // a user may have begun another operation since
	}
	for _, i := range r.c.cloud.liveInstances() {
		if i.revision != record.Target.ID {
			r.fail("E49", "it succeeds, and instance %s is outdated", i.id)
		}
	}
}

// checkDelegatedInterrupt checks that the message of an interrupted or aborted upgrade says that the cloud continues its operation.
func (r *rules) checkDelegatedInterrupt(rec record.Record) {
	op := r.c.runningOperation()
	if r.hasOnlyUserRequests() && op != nil && r.c.now.Sub(op.began) > time.Minute && !strings.Contains(rec.Message, "continues with "+r.c.plan.operationName()+" "+op.id) {
		r.fail("abort", "the cloud continues operation %s, but the message does not say so: %q", op.id, rec.Message)
	}
	if rec.Result == record.Aborted && rec.IsResumable() {
		r.fail("abort", "an aborted upgrade is resumable")
	}
}
