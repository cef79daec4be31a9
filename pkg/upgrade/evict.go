package upgrade

import (
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// returnsAllowed is how many pods of a controller that came back to the fenced node are evicted
// again, before it is held to be one whose pods always do (EKS E51).
const returnsAllowed = 1

// evictions chooses the pods that are evicted now.
type evictions struct{ *draft }

// proposeEvictions decides what to do about each pod that is in turn: the evictions that could be
// sent, and what is in the way of the others.
func (d evictions) proposeEvictions(node string, view *nodePods) ([]candidate, []Blocked) {
	first := len(d.blocked)
	for _, pod := range view.held {
		d.addBlockedPod(node, pod, drain.Judge(pod, d.rec.Request.Policy(), false).Obstacle())
	}
	var found []candidate
	for _, pod := range d.selectPodsInTurn(node, view) {
		found = append(found, d.proposeEviction(node, pod)...)
	}
	return found, d.blocked[first:]
}

// selectPodsInTurn are the pods to evict whose turn it is; those that others need go last. After
// half of the node's limit all have their turn: what is left at its end may be deleted without
// their budgets being asked.
func (d evictions) selectPodsInTurn(node string, view *nodePods) []*corev1.Pod {
	due := drain.Due(drain.Leavers{Evict: view.toEvict, Held: view.held, Leaving: view.leaving}, d.w.Facts)
	if len(due) == len(view.toEvict) {
		return due
	}
	all := d.rec.Nodes[node].Deadline.Add(-d.rec.Request.DrainTimeout.Duration / 2)
	if d.w.Now.Before(all) {
		d.requeueAt(all)
		return due
	}
	return view.toEvict
}

func (d evictions) proposeEviction(node string, pod *corev1.Pod) []candidate {
	action := Evict{Namespace: pod.Namespace, Pod: pod.Name, UID: pod.UID, Node: node}
	attempt := d.lastAttempt(action)
	if attempt.InFlight || d.w.isAccepted(attempt) {
		return nil
	}
	prediction := drain.Predict(pod, d.w.Budgets, d.spent, d.w.EndingNamespaces[pod.Namespace])
	budget := prediction.Budget
	switch {
	case !prediction.Admitted():
		d.addBlockedPod(node, pod, prediction.Obstacle)
	case d.keepsReturning(node, pod):
		d.addBlockedPod(node, pod, drain.Obstacle{Kind: drain.Returns})
	case d.w.waitsForBudget(attempt, prediction):
		d.addBlockedPod(node, pod, obstacleOfDenial(attempt, budget))
		d.requeueAt(attempt.NotBefore)
	case prediction.Spends && !d.canSendNow(budget):
		// An answer is due within milliseconds and wakes us.
	default:
		action.BudgetVersion = prediction.Version
		if prediction.Spends {
			action.Budget = budget
			d.spent[budget]++
			d.flights[budget] = d.flights[budget].withEviction(d.w.Now)
		}
		return []candidate{{Evict: action, pod: pod}}
	}
	return nil
}

// budgetRoomFor is how many pods like this one its budget lets be missing; all, if no budget has a
// say.
func (d evictions) budgetRoomFor(pod *corev1.Pod) int32 {
	if covering := d.w.Budgets.Covering(pod); len(covering) == 1 && drain.Ready(pod) {
		return d.budgetRoomOf(covering[0])
	}
	return math.MaxInt32
}

// budgetRoomOf is how many pods the budget lets be missing while all are well, as far as the others
// that leave are those of nodes in drain.
func (d evictions) budgetRoomOf(budget *drain.Budget) int32 {
	if d.leaving == nil {
		d.leaving = map[types.NamespacedName]int32{}
		for _, m := range d.membersInDrain() {
			for _, pod := range d.classifyPodsOf(m).leaving {
				for _, covering := range d.w.Budgets.Covering(pod) {
					d.leaving[covering.Key()]++
				}
			}
		}
	}
	return budget.Room(d.leaving[budget.Key()])
}

// canSendNow reports whether an eviction of the budget may be sent now.
func (d evictions) canSendNow(budget types.NamespacedName) bool {
	next := d.flights[budget].nextAllowed(d.w.Now, d.spacing)
	d.requeueAt(next)
	return !next.IsZero() && !next.After(d.w.Now)
}

// obstacleOfDenial is the obstacle that an answer which was not predicted names, with the budget if
// that is who refused.
func obstacleOfDenial(attempt nodegroup.Attempt, budget types.NamespacedName) drain.Obstacle {
	obstacle := drain.Obstacle{Kind: drain.Denied, Detail: attempt.Detail}
	switch attempt.Outcome {
	case nodegroup.OutcomeRefused:
		obstacle.Budget = budget
	case nodegroup.OutcomeUnclear:
		obstacle.Kind = drain.Unanswered
	}
	return obstacle
}

func (d evictions) keepsReturning(node string, pod *corev1.Pod) bool {
	r, ok := d.rec.findReturnedOwner(node, pod)
	return ok && d.notes.Returned[r] >= returnsAllowed
}

func (d evictions) countReturn(node string, pod *corev1.Pod, attempt nodegroup.Attempt) {
	if r, ok := d.rec.findReturnedOwner(node, pod); ok && attempt.Begun.IsZero() {
		d.notes.Returned[r]++
	}
}

func (d evictions) addBlockedPod(node string, pod *corev1.Pod, obstacle drain.Obstacle) {
	name := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	d.addBlocked(Blocked{Node: node, Pod: name, Obstacle: obstacle}, string(pod.UID))
}

// countSpending counts, by budget, the evictions that its status may not show yet, and those in
// flight, and how far apart those of one budget have to be. An eviction shows from the moment its
// pod was seen in status.disruptedPods.
func (d evictions) countSpending() {
	w := d.w
	d.spent, d.flights = drain.Spending{}, map[types.NamespacedName]evictionsSent{}
	took, answers := time.Duration(0), time.Duration(0)
	for _, a := range w.Open {
		evict, ok := a.Action.(Evict)
		if !ok || evict.Budget.Name == "" {
			continue
		}
		if a.InFlight {
			d.flights[evict.Budget] = d.flights[evict.Budget].withEviction(a.Begun)
		} else if w.Now.Sub(a.Ended) < present {
			took, answers = took+a.Ended.Sub(a.Begun), answers+1
		}
		if isHiddenFromStatus(w, evict, a) {
			d.spent[evict.Budget]++
		}
	}
	d.spacing = min(max(leastSpacing, took/max(1, answers)), mostSpacing)
}

// selectEvictions are those of the candidates that are to be begun now: no more than may be in
// flight. Those of budgets that decide when the upgrade ends go first, since time in which such a
// one is not used is lost. Then nodes are emptied in order of start: emptied together, all would be
// late. The others are decided again with the next answer.
func (d evictions) selectEvictions() []nodegroup.Action {
	waiting, ranks := d.nodesWaiting(), map[string]int{}
	for i := range d.candidates {
		c := &d.candidates[i]
		if _, known := ranks[c.Node]; !known {
			ranks[c.Node] = len(ranks)
		}
		d.rankEviction(c, waiting[c.Node], ranks[c.Node])
	}
	slices.SortStableFunc(d.candidates, candidate.compareUrgency)
	selected := d.candidates
	if limit := d.evictionsAtOnce(); limit > 0 {
		selected = selected[:min(len(selected), max(0, limit-evictionsInFlight(d.w)))]
	}
	actions := make([]nodegroup.Action, 0, len(selected))
	for _, c := range selected {
		if c.Budget.Name != "" {
			ordering{d.draft}.learnStatusLag(c.pod)
		}
		d.countReturn(c.Node, c.pod, d.lastAttempt(c.Evict))
		actions = append(actions, c.Evict)
	}
	return actions
}

// evictionsAtOnce is how many evictions may be in flight now, 0 for any number.
func (d evictions) evictionsAtOnce() int {
	none := d.notes.Pressing != nil && len(d.notes.Pressing) == 0
	if none || d.rec.Request.Window == 1 {
		return d.w.EvictionsAtOnce
	}
	return min(d.w.EvictionsAtOnce, max(fewAtOnce, min(d.rec.Request.Window, manyAtOnce)))
}

// rankEviction tells what waits for the candidate, whose node waits for another pod as well or not.
func (d evictions) rankEviction(c *candidate, waiting bool, rank int) {
	c.priority, c.rank, c.room = needed, rank, d.budgetRoomFor(c.pod)
	switch {
	case d.notes.Pressing[c.Budget]:
		c.priority, c.rank = pressing, 0
	case waiting:
		c.priority = idle
	}
}

// nodesWaiting are those with a pod that may not go now.
func (d evictions) nodesWaiting() map[string]bool {
	waiting := map[string]bool{}
	for i := range d.blocked {
		waiting[d.blocked[i].Node] = true
	}
	return waiting
}

// findCriticalBudgets are the budgets that decide when the upgrade ends: what is left to leave
// through them takes as long as the nodes that wait, when places have become free for them, or a
// turn less. It is nil as long as no pod was seen to leave, for then no one knows how long nodes
// take.
func (d evictions) findCriticalBudgets(p *pace) map[types.NamespacedName]bool {
	if p.usualGone == 0 {
		return nil
	}
	longest, passages := time.Duration(0), map[types.NamespacedName]budgetDemand{}
	for _, m := range d.nodesAhead() {
		for _, pod := range d.classifyPodsOf(m).toEvict {
			longest = max(longest, p.terminationTimeOf(pod))
			if covering := d.w.Budgets.Covering(pod); len(covering) == 1 && drain.Ready(pod) {
				key := covering[0].Key()
				passages[key] = budgetDemand{covering[0], passages[key].pods + 1, max(passages[key].turn, p.refillTimeOf(pod))}
			}
		}
	}
	// The places of nodes in drain become free one after the other: after half a drain on average.
	halves := time.Duration(2*min(len(d.count.pending), lookahead)/max(1, d.rec.Request.Window) + 1)
	places := halves * (longest + d.rec.Request.Settle.Duration) / 2
	decide := map[types.NamespacedName]bool{}
	for key, g := range passages {
		room := max(1, int(d.budgetRoomOf(g.budget)))
		if turns := time.Duration((g.pods + room - 1) / room); (turns+1)*g.turn+longest >= places {
			decide[key] = true
		}
	}
	return decide
}

// nodesAhead are the members in drain, and the first of those that wait.
func (d evictions) nodesAhead() []*nodegroup.Member {
	return append(d.membersInDrain(), d.count.pending[:min(len(d.count.pending), lookahead)]...)
}
