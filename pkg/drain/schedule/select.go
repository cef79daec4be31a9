package schedule

import (
	"cmp"
	"iter"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
)

// lookahead is how many of the nodes that wait are looked at for what decides when the upgrade
// ends; it is taken to end with them. See docs/internals/eviction-order.md.
const lookahead = 256

// fewAtOnce and manyAtOnce bound how many evictions may be in flight at once where some are
// pressing: one for each node that may be in drain. More would keep those from being carried out
// that other nodes wait for. Where none are, or there is no other node, the sooner all have begun
// the sooner the node is empty. See docs/internals/eviction-order.md.
const (
	fewAtOnce  = 4
	manyAtOnce = 8
)

// candidate is an eviction that could be sent now, and what decides whether it is.
type candidate struct {
	Eviction
	pod *corev1.Pod
	// place is the node's, in order of start.
	place    int
	priority priority
	// room is how many pods like it its budget lets be missing.
	room int32
}

// priority tells what waits for an eviction.
type priority int

const (
	// pressing is an eviction that uses a budget which decides when the upgrade ends.
	pressing priority = iota
	// needed is one of a node that waits for nothing else.
	needed
	// idle is one of a node that cannot be empty before another of its pods may go.
	idle
)

// compareUrgency puts the more urgent first; among equals that is the one of the scarcer budget.
// What is pressing is so whatever its node.
func (c candidate) compareUrgency(other candidate) int {
	byNode := cmp.Compare(c.place, other.place)
	if c.priority == pressing {
		byNode = 0
	}
	return cmp.Or(cmp.Compare(c.priority, other.priority), byNode, cmp.Compare(c.room, other.room))
}

// selectEvictions are those of the reserved evictions that are sent now: no more than may be in
// flight. Those of budgets that decide when the upgrade ends go first, since time in which such a
// one is not used is lost. Then nodes are emptied in order of start: emptied together, all would be
// late.
func (p *Plan) selectEvictions() []Eviction {
	for i := range p.candidates {
		p.rankEviction(&p.candidates[i])
	}
	slices.SortStableFunc(p.candidates, candidate.compareUrgency)
	selected := p.candidates
	if limit := p.evictionsAtOnce(); limit > 0 {
		selected = selected[:min(len(selected), max(0, limit-p.inFlight))]
	}
	evict := make([]Eviction, 0, len(selected))
	for i := range selected {
		c := &selected[i]
		if c.Budget.Name != "" {
			p.learnStatusLag(c.pod)
		}
		if r := returnOf(&p.in.Draining[c.place], c.pod); r != (Return{}) && p.in.lastAttempt(c.pod).Begun.IsZero() {
			p.memory.Returned = copyWith(p.memory.Returned, r, p.memory.Returned[r]+1)
		}
		evict = append(evict, c.Eviction)
	}
	return evict
}

// evictionsAtOnce is how many evictions may be in flight now, 0 for any number.
func (p *Plan) evictionsAtOnce() int {
	none := p.memory.Pressing != nil && len(p.memory.Pressing) == 0
	if none || p.in.Window == 1 {
		return p.in.AtOnce
	}
	return min(p.in.AtOnce, max(fewAtOnce, min(p.in.Window, manyAtOnce)))
}

// rankEviction tells what waits for the candidate.
func (p *Plan) rankEviction(c *candidate) {
	c.priority, c.room = needed, p.roomFor(c.pod)
	switch {
	case p.memory.Pressing[c.Budget]:
		c.priority = pressing
	case p.waits[c.place]:
		c.priority = idle
	}
}

// roomFor is how many pods like this one its budget lets be missing; all, if no budget has a say.
func (p *Plan) roomFor(pod *corev1.Pod) int32 {
	if covering := p.in.Budgets.Covering(pod); len(covering) == 1 && drain.Ready(pod) {
		return p.roomOf(covering[0])
	}
	return math.MaxInt32
}

// roomOf is how many pods the budget lets be missing while all are well, as far as the others that
// leave are those of nodes in drain.
func (p *Plan) roomOf(budget *drain.Budget) int32 {
	if p.leaving == nil {
		p.leaving = map[types.NamespacedName]int32{}
		for i := range p.in.Draining {
			for _, pod := range p.in.Draining[i].Leaving {
				for _, covering := range p.in.Budgets.Covering(pod) {
					p.leaving[covering.Key()]++
				}
			}
		}
	}
	return budget.Room(p.leaving[budget.Key()])
}

// budgetDemand counts the pods that must still be evicted under a budget: started those on nodes in drain,
// waiting those on nodes that are not started yet. turn is the time from an eviction until the budget allows
// the next one.
type budgetDemand struct {
	started, waiting int
	turn             time.Duration
}

// demand is what is left to leave.
type demand struct {
	budgets map[*drain.Budget]*budgetDemand
	// workloads has the pods of workloads whose owners have written no budget.
	workloads map[drain.Workload]*budgetDemand
	// longest is the longest termination of a pod. places estimates how long the waiting nodes take to
	// drain if no budget delays them.
	longest, places time.Duration
}

// measureDemand looks at the nodes in drain and at those that wait.
func (p *Plan) measureDemand(pace *pace, ahead iter.Seq[Node]) *demand {
	left := &demand{budgets: map[*drain.Budget]*budgetDemand{}, workloads: map[drain.Workload]*budgetDemand{}}
	for i := range p.in.Draining {
		left.addPods(p.in.Draining[i].Evict, budgetDemand{started: 1}, p.in.Budgets, pace)
	}
	waiting := 0
	for node := range ahead {
		left.addPods(node.Evict, budgetDemand{waiting: 1}, p.in.Budgets, pace)
		if waiting++; waiting == lookahead {
			break
		}
	}
	// The places of nodes in drain become free one after the other: after half a drain on average.
	halves := time.Duration(2*waiting/max(1, p.in.Window) + 1)
	left.places = halves * (left.longest + p.in.Settle) / 2
	return left
}

// addPods adds pods, each of which counts as one.
func (d *demand) addPods(pods []*corev1.Pod, one budgetDemand, budgets drain.Budgets, pace *pace) {
	for _, pod := range pods {
		gone, refill := pace.timesOf(pod)
		d.longest = max(d.longest, gone)
		if !drain.Ready(pod) {
			continue
		}
		one.turn = refill
		covering := budgets.Covering(pod)
		if len(covering) == 1 {
			addDemand(d.budgets, covering[0], one)
		}
		if isUnbudgeted(covering) {
			addDemand(d.workloads, drain.WorkloadOf(pod), one)
		}
	}
}

func addDemand[K comparable](demands map[K]*budgetDemand, key K, one budgetDemand) {
	d := demands[key]
	if d == nil {
		d = &budgetDemand{}
		demands[key] = d
	}
	d.started, d.waiting, d.turn = d.started+one.started, d.waiting+one.waiting, max(d.turn, one.turn)
}

// isUnbudgeted reports whether none of the budgets that cover a pod is one that its owner has written.
func isUnbudgeted(covering []*drain.Budget) bool {
	return len(covering) == 0 || drain.IsOfLastReady(covering[0].Key())
}

// timeOf is how long so many pods take to leave through a budget that lets room of them be missing.
func (d *budgetDemand) timeOf(pods int, room int32) time.Duration {
	return time.Duration(pods) * d.turn / time.Duration(max(1, room))
}

// findCriticalBudgets are the budgets that decide when the upgrade ends: what is left to leave
// through them takes as long as the nodes that wait, when places have become free for them, or a
// turn less. It is nil as long as no pod was seen to leave, for then no one knows how long nodes
// take, and where nodes are drained one by one: none waits for a budget that another one uses.
func (p *Plan) findCriticalBudgets(pace *pace, left *demand) map[types.NamespacedName]bool {
	if pace.usualGone == 0 || left == nil {
		return nil
	}
	critical := map[types.NamespacedName]bool{}
	for budget, d := range left.budgets {
		if d.timeOf(d.started+d.waiting, p.roomOf(budget))+d.turn+left.longest >= left.places {
			critical[budget.Key()] = true
		}
	}
	return critical
}
