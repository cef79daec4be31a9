package upgrade

import (
	"cmp"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// contenders is how many of the next nodes are weighed against each other when one may start.
const maxCandidates = 32

// overdue is when a budget is taken to open that should have been open by now.
const leastReopening = 50 * time.Millisecond

// ordering chooses the node that is started next, and learns how long pods take.
type ordering struct{ *draft }

// chooseNextNode picks the node to start next, nil when none should be started now. Instances
// without a node and nodes that are not Ready go first, since nothing useful is lost with them;
// then the zone with the most outdated nodes, so that zones end together. Among the first of these
// that may change places budgets and time decide (drain.Queue); those with a pod that may never
// leave go last. A node none of whose pods could move now would only lose time.
func (d ordering) chooseNextNode() *nodegroup.Member {
	q := d.drainQueue()
	var free, stuck []*nodegroup.Member
	var last []drain.NodeDrain
	order := d.startOrder()
	for _, m := range order[:min(len(order), maxCandidates)] {
		if !d.areInterchangeable(order[0], m) {
			continue
		}
		if load, holds := q.describeNodeDrain(m, time.Time{}); holds {
			stuck, last = append(stuck, m), append(last, load)
		} else {
			free, q.Waiting = append(free, m), append(q.Waiting, load)
		}
	}
	if len(free) == 0 {
		free, q.Waiting = stuck, last
	}
	next := q.Next()
	if next < 0 {
		return nil
	}
	d.notes.Pressing = evictions{d.draft}.findCriticalBudgets(q.pace)
	return free[next]
}

// startOrder sorts the pending members by what is known before anything contends, as far as they
// may be among the first contenders: each time one of the zone that has most left, then by name.
func (d ordering) startOrder() []*nodegroup.Member {
	type ranked struct {
		*nodegroup.Member
		left int
	}
	var order []ranked
	var seen [urgencies]zoneCounts
	for _, m := range d.count.pending {
		before := seen[urgencyOf(m)].countsOf(m.Zone())
		if before.all < maxCandidates {
			order = append(order, ranked{m, d.count.pendingIn[m.Zone()] - before.all})
		}
		before.all++
	}
	slices.SortFunc(order, func(a, b ranked) int {
		return cmp.Or(
			cmp.Compare(urgencyOf(a.Member), urgencyOf(b.Member)),
			cmp.Compare(b.left, a.left),
			cmp.Compare(a.Zone(), b.Zone()),
			cmp.Compare(a.Name(), b.Name()),
		)
	})
	members := make([]*nodegroup.Member, len(order))
	for i := range order {
		members[i] = order[i].Member
	}
	return members
}

// areInterchangeable reports whether contention may decide which of the two goes first. A group
// that replaces nodes by itself keeps its zones in balance only if they take turns.
func (d ordering) areInterchangeable(a, b *nodegroup.Member) bool {
	if urgencyOf(a) != urgencyOf(b) {
		return false
	}
	return d.rec.Ledger.Zonal() || d.count.pendingIn[a.Zone()] == d.count.pendingIn[b.Zone()]
}

// urgencies is how many degrees of urgency there are.
const urgencies = 3

func urgencyOf(m *nodegroup.Member) int {
	switch {
	case m.Node == nil:
		return 0
	case !m.IsReady():
		return 1
	default:
		return 2
	}
}

// drainQueue is what the window has before it: the nodes in drain, and no others yet.
func (d ordering) drainQueue() *queueBuilder {
	q := &queueBuilder{draft: d.draft, pace: d.paceOfPods(), indexes: map[types.NamespacedName]int{}, spent: evictionTimes(d.w)}
	q.Window = d.rec.Request.Window
	for _, m := range d.membersInDrain() {
		load, _ := q.describeNodeDrain(m, d.rec.Nodes[m.Name()].Deadline)
		q.Started = append(q.Started, load)
	}
	return q
}

// queueBuilder is a drain.Queue in the making.
type queueBuilder struct {
	drain.Queue
	draft   *draft
	pace    *pace
	indexes map[types.NamespacedName]int
	// spent is when our evictions began, by budget.
	spent map[types.NamespacedName][]time.Time
}

// describeNodeDrain is the member as far as its drain takes time, and whether it is stuck: whether
// it has a pod that no budget may ever let go, or that must not be evicted. A started node has a
// deadline, and a stuck one takes until then.
func (q *queueBuilder) describeNodeDrain(m *nodegroup.Member, deadline time.Time) (l drain.NodeDrain, stuck bool) {
	d := q.draft
	view, settle := d.classifyPodsOf(m), d.rec.Request.Settle.Duration
	l = drain.NodeDrain{Least: settle, Pods: make([]drain.PodEviction, 0, len(view.toEvict))}
	for _, pod := range view.leaving {
		l.Least = max(l.Least, d.notes.Leaving[pod.UID].Since.Add(q.pace.terminationTimeOf(pod)+settle).Sub(d.w.Now))
	}
	stuck = len(view.held) > 0
	for _, pod := range view.toEvict {
		eviction := drain.PodEviction{Budget: -1, Gone: q.pace.terminationTimeOf(pod) + settle}
		prediction := drain.Predict(pod, d.w.Budgets, nil, d.w.EndingNamespaces[pod.Namespace])
		switch {
		case prediction.Structural() || prediction.Kind == drain.BudgetUnhealthy:
			stuck = true
			continue
		case !deadline.IsZero() && ordering{d}.isEvicting(pod): // it has gone through
		case prediction.Spends || prediction.Kind == drain.BudgetSpent:
			eviction.Budget = q.budgetIndex(prediction.Budget, pod)
		}
		l.Pods = append(l.Pods, eviction)
	}
	if stuck {
		l.Least = max(l.Least, deadline.Sub(d.w.Now))
	}
	return l, stuck
}

// isEvicting reports whether the pod's eviction is decided, so that it is counted among what was
// spent.
func (d ordering) isEvicting(pod *corev1.Pod) bool {
	attempt := d.lastAttempt(Evict{UID: pod.UID})
	return attempt.InFlight || d.w.isAccepted(attempt) ||
		slices.ContainsFunc(d.candidates, func(c candidate) bool { return c.UID == pod.UID })
}

// budgetIndex is the index of the pod's budget. What a budget lacks is back a turn after our
// evictions, as far as they explain it.
func (q *queueBuilder) budgetIndex(key types.NamespacedName, pod *corev1.Pod) int {
	if i, known := q.indexes[key]; known {
		return i
	}
	d := q.draft
	budget := d.w.Budgets.Covering(pod)[0]
	gate := drain.BudgetSlots{Refill: q.pace.refillTimeOf(pod)}
	open := int(max(0, budget.Status.DisruptionsAllowed-d.spent[key]))
	missing := int(max(1, evictions{d}.budgetRoomOf(budget))) - open
	gate.Open = make([]time.Duration, open, open+max(0, missing))
	spent := q.spent[key]
	for _, at := range spent[max(0, len(spent)-max(0, missing)):] {
		gate.Open = append(gate.Open, max(leastReopening, at.Add(gate.Refill).Sub(d.w.Now)))
	}
	for len(gate.Open) < open+missing {
		gate.Open = append(gate.Open, max(leastReopening, gate.Refill))
	}
	slices.Sort(gate.Open)
	q.indexes[key] = len(q.Budgets)
	q.Budgets = append(q.Budgets, gate)
	return q.indexes[key]
}

// evictionTimes tells when those of ours that were accepted began, by the budget they took from, in
// order.
func evictionTimes(w *World) map[types.NamespacedName][]time.Time {
	begun := map[types.NamespacedName][]time.Time{}
	for _, attempt := range w.Open {
		if evict, ok := attempt.Action.(Evict); ok && evict.Budget.Name != "" && attempt.Outcome == nodegroup.OutcomeDone {
			begun[evict.Budget] = append(begun[evict.Budget], attempt.Begun)
		}
	}
	for _, at := range begun {
		slices.SortFunc(at, time.Time.Compare)
	}
	return begun
}

func (d ordering) paceOfPods() *pace {
	if d.notes.Ready == nil {
		d.notes.Ready = drain.ReadyTimes(d.w.eachBoundPod())
	}
	return &pace{
		ready: d.notes.Ready, usualReady: drain.TypicalDuration(listDurations(d.notes.Ready), usualReady),
		gone: d.notes.Gone, usualGone: drain.TypicalDuration(listDurations(d.notes.Gone), 0),
		lag: cmp.Or(d.notes.Lag, usualLag),
	}
}

// learnTerminationTimes notes how long pods took to leave that have left since the last step.
func (d ordering) learnTerminationTimes() {
	leaving := map[types.UID]Departure{}
	for _, m := range d.membersInDrain() {
		for _, pod := range d.classifyPodsOf(m).leaving {
			departure, seen := d.w.Notes.Leaving[pod.UID]
			if !seen {
				departure = Departure{Owner: drain.ControllerOf(pod), Since: d.w.deletionTimeOf(pod)}
				if attempt := d.lastAttempt(Evict{UID: pod.UID}); !attempt.Begun.IsZero() {
					departure.Since = attempt.Begun // a place in the window is taken from then on
				}
			}
			leaving[pod.UID] = departure
		}
	}
	d.notes.Leaving = leaving
	for _, uid := range slices.Sorted(maps.Keys(d.w.Notes.Leaving)) {
		if _, still := leaving[uid]; !still {
			d.recordTerminationTime(d.w.Notes.Leaving[uid])
		}
	}
}

// recordTerminationTime learns from a pod that has left. The first ones leave beside many others,
// and take longer for it.
func (d ordering) recordTerminationTime(left Departure) {
	took := d.w.Now.Sub(left.Since)
	if before, known := d.notes.Gone[left.Owner]; known {
		if (took - before).Abs() < before/goneSteps {
			return
		}
		took = (took + before) / 2
	}
	gone := maps.Clone(d.notes.Gone) // the last step's notes keep theirs
	if gone == nil {
		gone = map[types.UID]time.Duration{}
	}
	gone[left.Owner] = took
	d.notes.Gone = gone
}

// learnStatusLag notes how much longer than its pods take to become ready a budget was closed that
// a pod has waited for. Only one that lets a single pod be missing tells which eviction it is that
// was made up for.
func (d ordering) learnStatusLag(pod *corev1.Pod) {
	covering := d.w.Budgets.Covering(pod)
	_, waited := d.w.Notes.BlockedSince[string(pod.UID)]
	if !waited || len(covering) != 1 || (evictions{d.draft}).budgetRoomOf(covering[0]) != 1 {
		return
	}
	begun := evictionTimes(d.w)[covering[0].Key()]
	if len(begun) == 0 {
		return
	}
	p := d.paceOfPods()
	lag := d.w.Now.Sub(begun[len(begun)-1]) - (p.refillTimeOf(pod) - p.lag)
	d.notes.Lag = (3*p.lag + min(max(lag, time.Millisecond), longestLag)) / 4
}
