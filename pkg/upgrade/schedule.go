package upgrade

import (
	"slices"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain/schedule"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// deferForCurrentNode reports whether the node must wait for a current node that takes pods. After the target moved,
// all nodes may be fenced, and evicted pods would be Pending until a current node is Ready (EKS E24). Nodes without
// pods and nodes that are not Ready do not wait. The others wait for at most the boot timeout, and do not wait if no
// current node is expected.
func (d *decision) deferForCurrentNode(m *nodegroup.Member) (deferred bool) {
	moved := !d.rec.Rollback && d.rec.Request.Surge > 0 && d.rec.Ledger.Carried() > 0
	if !moved || len(d.listSampleNodes()) > 0 || d.urgencyOf(m) < urgencies-1 || len(d.classifyPodsOf(m).Evict) == 0 {
		return false
	}
	until := d.rec.LastChange().Add(d.rec.Request.BootTimeout.Duration)
	if !d.w.Now.Before(until) {
		return false // no node became ready in that time
	}
	coming := d.rec.Ledger.PendingLaunches() > 0 || d.rec.CountInFlight() > 0 || d.count.Fresh > 0
	if !coming && !slices.ContainsFunc(d.count.pending, func(m *nodegroup.Member) bool { return len(d.classifyPodsOf(m).Evict) == 0 }) {
		return false
	}
	d.setWaiting("a current node to be ready")
	d.requeueAt(until)
	return true
}

// chooseNextNode returns the node to start next, or nil if none may be started now.
func (d *decision) chooseNextNode() *nodegroup.Member {
	if d.deferStarts() {
		return nil
	}
	d.choosing = true
	candidates := d.count.listCandidates(d.rec.Ledger.Zonal(), d.rankUrgency(), func(m *nodegroup.Member) bool {
		return d.deferForCurrentNode(m) || d.deferDrain(m)
	})
	if len(candidates) == 0 {
		return nil
	}
	waiting := make([]schedule.Node, 0, len(candidates))
	for _, m := range candidates {
		waiting = append(waiting, d.nodeForSchedule(m.Name(), m))
	}
	next := d.plan.NextNode(waiting, func(yield func(schedule.Node) bool) {
		for _, m := range d.count.pending {
			if !yield(d.nodeForSchedule(m.Name(), m)) {
				return
			}
		}
	})
	for _, m := range candidates {
		if m.Name() == next {
			return m
		}
	}
	return nil
}

// planEvictions plans the evictions from the nodes in drain. If givenUp is not "", it names a node that is given up in this
// step, and the plan finds the obstacles of its pods.
func (d *decision) planEvictions(givenUp string) *schedule.Plan {
	req := &d.rec.Request
	in := schedule.Input{
		Now: d.w.Now, Snapshot: d.w.Snapshot, Bound: d.w.eachBoundPod(), Open: d.w.Open, Waited: d.w.Notes.BlockedSince, LastReadySince: d.w.Notes.LastReadySince,
		Window: req.Window, AtOnce: d.w.EvictionsAtOnce, Settle: req.Settle.Duration, DrainTimeout: req.DrainTimeout.Duration,
		Policy: req.Policy(), RecoveryOf: d.recoveryOf, AnyUnhealthy: len(d.unhealthy) > 0, Guarded: !req.NoImplicitBudgets, Memory: d.w.Notes.Memory,
	}
	in.Budgets = d.budgetsToKeep()
	if req.Move == record.MoveBySurge {
		in.Movable = d.w.Movable
	}
	started := d.rec.StartedNames()
	in.Draining = make([]schedule.Node, 0, len(started)+1) // the upgrade may also start a node in this step
	for _, name := range started {
		if m := d.count.byName[name]; m != nil && record.IsInDrain(d.rec.Nodes[name].State) {
			node := d.nodeForSchedule(name, m)
			if name == givenUp {
				node.Stage = schedule.Evicting
			}
			in.Draining = append(in.Draining, node)
		}
	}
	return schedule.NewPlan(in)
}

// budgetsToKeep returns the budgets that evictions must respect.
func (d *decision) budgetsToKeep() drain.Budgets {
	if d.rec.Request.NoImplicitBudgets {
		return d.w.Budgets
	}
	return d.w.Budgets.WithLastReady(d.w.Workloads)
}

func (d *decision) nodeForSchedule(name string, m *nodegroup.Member) schedule.Node {
	n := d.rec.Nodes[name]
	return schedule.Node{Name: name, Leavers: d.classifyPodsOf(m).Leavers, Stage: d.stages[name], Began: n.Began, Deadline: n.Deadline}
}

// decideEvictions adds the blocked pods and, unless the upgrade is stopping, the evictions to send now.
func (d *decision) decideEvictions() {
	if d.plan == nil {
		return
	}
	d.addBlockedPods(d.plan, "")
	if d.rec.Stopping != "" {
		return
	}
	decision := d.plan.Decide()
	d.noteEvictions(decision.Evict)
	for _, eviction := range decision.Evict {
		d.actions = append(d.actions, eviction)
	}
	for _, restart := range decision.Restarts {
		d.addAction(restart)
	}
	for _, name := range decision.Yielding {
		d.notes.Yielding[name] = true
	}
	d.requeueAt(decision.Again)
	d.notes.Memory = decision.Memory
}

// addBlockedPods adds the plan's obstacles for the pods of a node, "" for all nodes.
func (d *decision) addBlockedPods(plan *schedule.Plan, node string) {
	for _, b := range plan.Blocked() {
		if node == "" || b.Node == node {
			b.Unready = d.whyUnready(b.Obstacle, b.Workload)
			b.Obstacle = d.addRefusal(b.Obstacle, b.Workload)
			d.addBlocked(b)
		}
	}
}

// whyUnready returns why pods of a blocked pod's workload do not become ready, if they would open its budget; "" if
// that is not known.
func (d *decision) whyUnready(in drain.Obstacle, w drain.Workload) string {
	opens := in.Kind == drain.BudgetSpent || in.Kind == drain.BudgetUnhealthy || in.Kind == drain.LastReady || in.Kind == drain.Canary
	i := slices.IndexFunc(d.unhealthy, func(u unhealthy) bool { return u.Workload == w })
	if !opens || i < 0 {
		return ""
	}
	return d.unhealthy[i].String()
}

// addRefusal adds to the obstacle of a pod that is being moved why the API server refuses the pod's replacement. To find
// that out, it requests a reading of the controller.
func (d *decision) addRefusal(in drain.Obstacle, w drain.Workload) drain.Obstacle {
	if r := d.w.Workloads.Named(w); in.Kind != drain.Moving || r == nil || len(r.Unready()) > 0 {
		return in
	}
	d.requestController(w)
	if refused := d.w.Controllers[w].Refused; refused != "" {
		in.Detail += ", and is refused: " + refused
	}
	return in
}
