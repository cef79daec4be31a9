package schedule

import (
	"iter"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
)

// minReopening is the assumed time until a budget opens that should already be open. See
// docs/internals/eviction-order.md.
const minReopening = 50 * time.Millisecond

// NextNode returns which of the waiting nodes to start, or "" if no pod of any of them could leave now. waiting is in the
// order of starts for nodes that are otherwise equal. ahead iterates over all pending nodes, and is read only as far as
// needed.
//
// The node that loses the least time at budgets is started; see queue and docs/internals/eviction-order.md. Nodes with a
// pod that may never leave go last.
func (p *Plan) NextNode(waiting []Node, ahead iter.Seq[Node]) string {
	q := newQueueBuilder(p, ahead)
	var free, stuck []string
	var last []nodeDrain
	for i := range waiting {
		if load, holds := q.modelNodeDrain(&waiting[i], false); holds {
			stuck, last = append(stuck, waiting[i].Name), append(last, load)
		} else {
			free, q.waiting = append(free, waiting[i].Name), append(q.waiting, load)
		}
	}
	if len(free) == 0 {
		free, q.waiting = stuck, last
	}
	next := q.chooseNext()
	if next < 0 {
		return ""
	}
	p.memory.Critical = p.findCriticalBudgets(q.pace, q.left)
	return free[next]
}

// queueBuilder builds a queue.
type queueBuilder struct {
	queue
	plan *Plan
	pace *learned
	// ahead yields the waiting nodes. left is the measured work that is left, nil before that. Both are nil if nodes are
	// drained one by one, because then no node waits for a budget that another node uses.
	ahead iter.Seq[Node]
	left  *demand
	// unbudgeted caches timeLeftOf.
	unbudgeted map[drain.Workload]time.Duration
	indexes    map[types.NamespacedName]int
	// objects are the budgets in the order of their indexes.
	objects []*drain.Budget
	// accepted is when accepted evictions began, by budget. reserved has the UIDs of pods with a reserved eviction.
	accepted map[types.NamespacedName][]time.Time
	reserved map[types.UID]bool
}

// newQueueBuilder returns a builder with the nodes in drain, and without waiting nodes.
func newQueueBuilder(p *Plan, ahead iter.Seq[Node]) *queueBuilder {
	q := &queueBuilder{plan: p, pace: p.learnedTimes(), indexes: map[types.NamespacedName]int{}, unbudgeted: map[drain.Workload]time.Duration{}, accepted: p.in.acceptedTimes(), reserved: map[types.UID]bool{}}
	if p.in.Window > 1 {
		q.ahead, q.measure = ahead, q.measureLeft
	}
	for i := range p.candidates {
		q.reserved[p.candidates[i].UID] = true
	}
	for i := range p.in.Draining {
		load, _ := q.modelNodeDrain(&p.in.Draining[i], true)
		q.started = append(q.started, load)
	}
	return q
}

// measureLeft measures which evictions are left, and estimates how long they take.
func (q *queueBuilder) measureLeft() {
	q.left = q.plan.measureDemand(q.pace, q.ahead)
	q.places = q.left.places
	for i, budget := range q.objects {
		if d := q.left.budgets[budget]; d != nil {
			q.budgets[i].left = d.timeOf(d.waiting, q.plan.roomOfBudget(budget))
		}
	}
	for i := range q.waiting {
		node := &q.waiting[i]
		for _, pod := range node.pods {
			if pod.free != nil {
				node.left = max(node.left, q.timeLeftOf(drain.WorkloadOf(pod.free)))
			}
		}
	}
}

// modelNodeDrain returns the node's model for the queue. stuck is true if the node has a pod that must not be
// evicted or that its budget may never release. The model of a stuck node in drain lasts until the node's deadline.
func (q *queueBuilder) modelNodeDrain(node *Node, started bool) (l nodeDrain, stuck bool) {
	in := q.plan.in
	l = nodeDrain{least: in.Settle, pods: make([]podEviction, 0, len(node.Evict))}
	for _, pod := range node.Leaving {
		gone, _ := q.pace.timesOf(pod)
		l.least = max(l.least, q.plan.memory.Leaving[pod.UID].Since.Add(gone+in.Settle).Sub(in.Now))
	}
	stuck = len(node.Held) > 0
	for _, pod := range node.Evict {
		gone, _ := q.pace.timesOf(pod)
		eviction := podEviction{budget: -1, gone: gone + in.Settle}
		prediction := drain.Predict(pod, in.Budgets, nil, in.EndingNamespaces[pod.Namespace])
		switch {
		case prediction.NeedsPerson() || prediction.Kind == drain.BudgetUnhealthy:
			stuck = true
			continue
		case started && (q.reserved[pod.UID] || in.isUnderWay(in.lastAttempt(pod))): // its eviction has passed its budget
		case prediction.LeavesThroughBudget():
			eviction.budget = q.budgetIndex(prediction.Budget, pod)
		}
		if !started && q.measure != nil && isUnbudgeted(in.Budgets.Covering(pod)) {
			eviction.free = pod
		}
		l.pods = append(l.pods, eviction)
	}
	if stuck {
		l.least = max(l.least, node.Deadline.Sub(in.Now))
	}
	return l, stuck
}

// timeLeftOf estimates how long it takes to move the workload's pods from all nodes that are not started
// yet, if the workload has no PodDisruptionBudget. The upgrade moves only a quarter of such pods together
// (docs/decisions/0040). Of a StatefulSet it moves one at a time, because they may be created one after the
// other. timeLeftOf returns 0 if there is no such limit.
func (q *queueBuilder) timeLeftOf(w drain.Workload) time.Duration {
	if took, known := q.unbudgeted[w]; known {
		return took
	}
	took := time.Duration(0)
	if r := q.plan.in.Workloads.Named(w); r != nil && q.plan.in.Guarded {
		usual, _ := r.ReadyTime()
		most := drain.MaxAwayAtOnce(r.Ready, usual)
		if w.Kind == "StatefulSet" {
			most = 1
		}
		if d := q.left.workloads[w]; d != nil && most > 0 {
			took = d.timeOf(d.waiting, int32(most))
		}
	}
	q.unbudgeted[w] = took
	return took
}

// budgetIndex returns the index of the pod's budget in the queue, and adds the budget if it is missing. A slot that
// an accepted eviction took opens again a refill time after that eviction. Other missing slots open a refill time
// from now.
func (q *queueBuilder) budgetIndex(key types.NamespacedName, pod *corev1.Pod) int {
	if i, known := q.indexes[key]; known {
		return i
	}
	now, budget, accepted := q.plan.in.Now, q.plan.in.Budgets.Covering(pod)[0], q.accepted[key]
	_, refill := q.pace.timesOf(pod)
	slots, room := budgetSlots{refill: refill}, q.plan.roomOfBudget(budget)
	open := int(max(0, budget.Status.DisruptionsAllowed-q.plan.spent[key]))
	missing := max(0, int(max(1, room))-open)
	slots.open = make([]time.Duration, open, open+missing)
	for _, at := range accepted[max(0, len(accepted)-missing):] {
		slots.open = append(slots.open, max(minReopening, at.Add(slots.refill).Sub(now)))
	}
	for len(slots.open) < open+missing {
		slots.open = append(slots.open, max(minReopening, slots.refill))
	}
	slices.Sort(slots.open)
	q.indexes[key] = len(q.budgets)
	q.budgets, q.objects = append(q.budgets, slots), append(q.objects, budget)
	return q.indexes[key]
}
