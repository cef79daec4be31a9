package upgrade

import (
	"cmp"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
)

// contenders is how many of the next nodes are weighed against each other when one may start.
const contenders = 32

// startMore starts nodes while the window has room (EKS E40; at most maxUnavailable between Draining and Removing).
func (t *turn) startMore() {
	for t.rec.Stopping == "" && len(t.count.pending) > 0 && t.room(t.leastPrice()) {
		m := t.nextNode()
		if m == nil || !t.room(price(m)) || (t.fencing && m.Node != nil && !t.fenced(m)) {
			return
		}
		t.start(m)
	}
}

// room reports whether one more node may be started: the window is not full, the group would not miss
// more than maxUnavailable nodes, and no batch is being waited for.
func (t *turn) room(price int) bool {
	req, busy := &t.rec.Request, t.busy()
	if req.BatchBarrier && busy > 0 && t.rec.Begun%req.Window == 0 {
		t.waiting = "the batch to end"
		return false
	}
	window, unavailable := req.Window, req.MaxUnavailable
	if unready := t.count.unready; unready > 0 {
		// Unready nodes that are not ours count as unavailable, but never bring the upgrade to a halt.
		window, unavailable = max(1, window-unready), min(unavailable, max(1, unavailable-unready))
	}
	if busy >= window {
		return false
	}
	// Nodes that an autoscaler adds meanwhile serve, but they are not ours to spend: the books have a say too.
	spent := t.w.Group.Sized && t.rec.Ledger.landed()-t.draining() <= -req.MaxUnavailable
	if spent || busy+price+t.deficit() > unavailable {
		t.waitForReplacement()
		return false
	}
	return true
}

// price is how many nodes that serve are lost with the start of the member: none if it is not Ready.
func price(m *Member) int {
	if urgency(m) < urgencies-1 {
		return 0
	}
	return 1
}

// leastPrice is that of the cheapest node which is left.
func (t *turn) leastPrice() int {
	if slices.ContainsFunc(t.count.pending, func(m *Member) bool { return price(m) == 0 }) {
		return 0
	}
	return 1
}

// draining counts the started nodes whose termination is not on the books yet.
func (t *turn) draining() int {
	n := 0
	for _, r := range t.rec.Nodes {
		if inDrain(r.State) {
			n++
		}
	}
	return n
}

// busy counts the nodes between Draining and Removing. A termination that the cloud has begun counts
// no more: until its replacement is ready it is charged as a deficit.
func (t *turn) busy() int {
	busy := 0
	for _, n := range t.rec.Nodes {
		if inDrain(n.State) || (n.State == NodeRemoving && !n.Landed) {
			busy++
		}
	}
	return busy
}

// deficit is how many nodes the group is short of what it would have without the upgrade: those we removed
// minus the new ones fit for pods. It is negative while surge is to spare. It is never more than what the
// group's own size lacks, so that nodes an autoscaler took away, one of ours among them, are not waited for.
func (t *turn) deficit() int {
	if t.w.Group.Provider == manualProvider && !t.rec.Request.WaitReplacement {
		return 0
	}
	removed := t.rec.Ledger.total(func(z ZoneLedger) int { return z.Removed })
	short := removed - t.busyRemoved() - t.count.usable
	if !t.w.Group.Sized || !t.w.Group.shows(t.rec.Ledger.Changed) {
		return short // the sizes read may be older than what we did last
	}
	without := t.w.Group.Desired - t.rec.Ledger.landed() // its size were it not for us, as an autoscaler left it (EKS E61)
	return min(short, without-t.count.serving)
}

const manualProvider = "manual"

// busyRemoved counts terminations that busy counts already.
func (t *turn) busyRemoved() int {
	n := 0
	for _, r := range t.rec.Nodes {
		if r.State == NodeRemoving && !r.Landed {
			n++
		}
	}
	return n
}

// over reports whether a limit on what the cloud does is over, as far as the cloud was read since: nobody knows what it
// did while this process slept or the cloud did not answer.
func (t *turn) over(deadline time.Time) bool {
	return !t.w.Now.Before(deadline) && !t.w.Group.Observed.Before(deadline)
}

// lastChange is since when nodes are waited for: the last change of ours that landed, or the phase's beginning after that.
func (t *turn) lastChange() time.Time {
	if t.rec.PhaseBegan.After(t.rec.Ledger.Changed) {
		return t.rec.PhaseBegan // it was stopped meanwhile
	}
	return t.rec.Ledger.Changed
}

func (t *turn) waitForReplacement() {
	t.waiting = "a replacement to be ready"
	t.cloud = true
	since := t.lastChange()
	deadline := since.Add(t.rec.Request.BootTimeout.Duration)
	if t.w.Group.Provider == manualProvider || t.busy() > 0 {
		return
	}
	if t.over(deadline) {
		t.fail(NodeCreationFailure, t.bootFailure(t.count.usable+t.deficit(), since))
		return
	}
	t.wakeAt(deadline)
}

// nextNode picks the node to start next, nil when none should be started now. Instances without a node
// and nodes that are not Ready go first, since nothing useful is lost with them; then the zone with the most
// outdated nodes, so that zones end together; among the first of these the one that contends least with the
// nodes in flight for the same budgets. A node none of whose pods could move now would only lose time.
func (t *turn) nextNode() *Member {
	order := t.startOrder()
	order = order[:min(len(order), contenders)]
	taken := t.budgetsInFlight()
	var best *Member
	least := contention{turns: stuck}
	for _, m := range order {
		if best != nil && !t.interchangeable(best, m) {
			break
		}
		c := t.contention(m, taken, least.turns)
		if (c.movable || len(taken) == 0) && (best == nil || c.less(least)) {
			best, least = m, c
		}
	}
	return best
}

// startOrder sorts the pending members by what is known before anything contends, as far as they may be among the first
// contenders: of those alike in all but their names, which they are sorted by, the others come later.
func (t *turn) startOrder() []*Member {
	var order []*Member
	var seen [urgencies]zoneCounts
	for _, m := range t.count.pending {
		alike := seen[urgency(m)].of(m.Zone())
		if alike.all++; alike.all <= contenders {
			order = append(order, m)
		}
	}
	slices.SortFunc(order, func(a, b *Member) int {
		return cmp.Or(
			cmp.Compare(urgency(a), urgency(b)),
			cmp.Compare(t.count.pendingIn[b.Zone()], t.count.pendingIn[a.Zone()]),
			cmp.Compare(a.Zone(), b.Zone()),
			cmp.Compare(a.Name(), b.Name()),
		)
	})
	return order
}

// interchangeable reports whether contention may decide which of the two goes first. A group that
// replaces nodes by itself keeps its zones in balance only if they take turns.
func (t *turn) interchangeable(a, b *Member) bool {
	if urgency(a) != urgency(b) {
		return false
	}
	return t.rec.Ledger.Zonal || t.count.pendingIn[a.Zone()] == t.count.pendingIn[b.Zone()]
}

// urgencies is how many degrees of urgency there are.
const urgencies = 3

func urgency(m *Member) int {
	switch {
	case m.Node == nil:
		return 0
	case !m.ready():
		return 1
	default:
		return 2
	}
}

// budgetsInFlight counts, by budget, the pods that are still to be evicted from the nodes in flight. A budget of which
// pods are only leaving is there with none: what they took shows in its status, until others are ready for them.
func (t *turn) budgetsInFlight() map[*drain.Budget]int32 {
	taken := map[*drain.Budget]int32{}
	for name, n := range t.rec.Nodes {
		if m := t.count.byName[name]; m != nil && inDrain(n.State) {
			view := t.view(m)
			t.countBudgets(view.toEvict, 1, taken)
			t.countBudgets(view.leaving, 0, taken)
		}
	}
	return taken
}

func (t *turn) countBudgets(pods []*corev1.Pod, each int32, counts map[*drain.Budget]int32) {
	for _, pod := range pods {
		for _, budget := range t.w.Budgets.Covering(pod) {
			counts[budget] += each
		}
	}
}

// contention is what a node's pods would wait for, were it started now.
type contention struct {
	// turns is how often its budget has to open for the pod that waits longest, stuck where that may never be.
	turns int32
	// uses is how much of budgets that would lie idle its pods would take, in thousandths of a budget: where nodes are
	// drained side by side, time that a tight budget is not used is lost.
	uses int32
	// movable is true when any of its pods could go at once, or none has to.
	movable bool
}

// stuck is more turns than any budget takes.
const stuck = math.MaxInt32

func (c contention) less(than contention) bool {
	if c.turns != than.turns {
		return c.turns < than.turns
	}
	return c.uses > than.uses
}

// contention weighs the member against the pods that the nodes in flight have still to evict. It stops where a pod waits
// for more than enough turns.
func (t *turn) contention(m *Member, taken map[*drain.Budget]int32, enough int32) contention {
	view := t.view(m)
	c := contention{movable: view.remaining() == 0}
	if len(view.held) > 0 {
		c.turns = stuck
	}
	mine := make(map[*drain.Budget]int32, len(view.toEvict))
	for _, pod := range view.toEvict {
		turns, uses := t.waitOf(pod, taken, mine)
		c.uses += uses
		c.movable = c.movable || turns == 0
		if c.turns = max(c.turns, turns); c.turns > enough {
			break
		}
	}
	return c
}

// waitOf is one pod's part of its node's contention; mine counts, by budget, the pods of the node that it is asked for.
func (t *turn) waitOf(pod *corev1.Pod, taken, mine map[*drain.Budget]int32) (turns, uses int32) {
	prediction := drain.Predict(pod, t.w.Budgets, nil, t.w.EndingNamespaces[pod.Namespace])
	switch {
	case prediction.Structural() || prediction.Kind == drain.BudgetUnhealthy:
		return stuck, 0
	case prediction.Spends || prediction.Kind == drain.BudgetSpent:
		budget := t.w.Budgets.Covering(pod)[0]
		mine[budget]++
		if turns = turnsOf(budget, taken[budget]+mine[budget]); turns == 0 && t.rec.Request.Window > 1 {
			uses = 1000 / capacity(budget)
		}
		return turns, uses
	case prediction.Admitted():
		return 0, 0
	default:
		return 1, 0
	}
}

// turnsOf is how often the budget has to open before the last of so many pods may go.
func turnsOf(budget *drain.Budget, pods int32) int32 {
	over := pods - budget.Status.DisruptionsAllowed
	if over <= 0 {
		return 0
	}
	return (over-1)/capacity(budget) + 1
}

// capacity is how many pods the budget lets be missing while all are well.
func capacity(budget *drain.Budget) int32 {
	return max(1, budget.Status.ExpectedPods-budget.Status.DesiredHealthy)
}

// start begins a node's drain.
func (t *turn) start(m *Member) {
	n := NodeRecord{
		Instance: m.Instance.ID, Zone: t.rec.Ledger.zone(m), State: NodeDraining,
		Batch: t.rec.Begun/t.rec.Request.Window + 1, Began: t.w.Now,
	}
	if m.Node != nil {
		n.UID = m.Node.UID
		n.Deadline = t.w.Now.Add(t.rec.Request.DrainTimeout.Duration)
	}
	t.rec.Begun++
	t.enlist(m, n)
	t.count.pending = slices.DeleteFunc(t.count.pending, func(p *Member) bool { return p == m })
	t.count.pendingIn[m.Zone()]--
	t.persist = true
	t.wakeAt(t.w.Now.Add(time.Second))
	t.drive(m.Name())
}
