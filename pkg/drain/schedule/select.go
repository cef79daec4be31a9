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

// lookahead limits how many waiting nodes are read to find the budgets that decide when the upgrade ends. The upgrade is
// assumed to end with these nodes. See docs/internals/eviction-order.md.
const lookahead = 256

const (
	fewAtOnce  = 4
	manyAtOnce = 8
)

// candidate is an eviction that could be sent now, with its rank.
type candidate struct {
	Eviction
	pod *corev1.Pod
	// place is the index of its node in order of start.
	place    int
	priority priority
	// room is how many of its pods the budget allows to be missing.
	room int32
}

// priority is the urgency of an eviction.
type priority int

const (
	// critical is an eviction that uses a budget which decides when the upgrade ends.
	critical priority = iota
	// needed is an eviction from a node without blocked pods.
	needed
	// idle is an eviction from a node with a blocked pod: the node cannot be empty before that pod may leave.
	idle
)

// compareUrgency sorts the more urgent candidate first, and among equals the one with the scarcer budget. For critical
// evictions the node does not matter.
func (c candidate) compareUrgency(other candidate) int {
	byNode := cmp.Compare(c.place, other.place)
	if c.priority == critical {
		byNode = 0
	}
	return cmp.Or(cmp.Compare(c.priority, other.priority), byNode, cmp.Compare(c.room, other.room))
}

// selectEvictions returns the reserved evictions to send now, limited by how many may be in flight. Critical evictions go
// first, because time in which their budget is unused delays the end of the upgrade. The others go in the order in which
// their nodes were started: if all nodes were emptied at the same rate, none would be empty soon.
func (p *Plan) selectEvictions() []Eviction {
	for i := range p.candidates {
		p.rankEviction(&p.candidates[i])
	}
	slices.SortStableFunc(p.candidates, candidate.compareUrgency)
	selected := p.candidates
	if limit := p.maxInFlight(); limit > 0 {
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

// maxInFlight returns how many evictions may be in flight now, 0 for no limit.
func (p *Plan) maxInFlight() int {
	none := p.memory.Critical != nil && len(p.memory.Critical) == 0
	if none || p.in.Window == 1 {
		return p.in.AtOnce
	}
	return min(p.in.AtOnce, max(fewAtOnce, min(p.in.Window, manyAtOnce)))
}

// rankEviction sets the priority and the room of the candidate.
func (p *Plan) rankEviction(c *candidate) {
	c.priority, c.room = needed, p.roomForPod(c.pod)
	switch {
	case p.memory.Critical[c.Budget]:
		c.priority = critical
	case p.waits[c.place]:
		c.priority = idle
	}
}

// roomForPod returns how many pods the pod's budget allows to be missing; the largest number if the pod uses no budget.
func (p *Plan) roomForPod(pod *corev1.Pod) int32 {
	if covering := p.in.Budgets.Covering(pod); len(covering) == 1 && drain.Ready(pod) {
		return p.roomOfBudget(covering[0])
	}
	return math.MaxInt32
}

// roomOfBudget returns how many pods the budget allows to be missing while all others are healthy. It assumes that only
// pods of nodes in drain are leaving.
func (p *Plan) roomOfBudget(budget *drain.Budget) int32 {
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

// budgetDemand counts the pods that must still be evicted under a budget. started counts pods on nodes in drain,
// waiting pods on nodes that are not started yet. turn is the time from an eviction until the budget allows the next
// one.
type budgetDemand struct {
	started, waiting int
	turn             time.Duration
}

// demand counts the evictions that are left, and estimates how long they take.
type demand struct {
	budgets map[*drain.Budget]*budgetDemand
	// workloads counts the pods of workloads whose owners have written no budget.
	workloads map[drain.Workload]*budgetDemand
	// longest is the longest termination of a pod. places estimates how long the waiting nodes take to
	// drain if no budget delays them.
	longest, places time.Duration
}

// measureDemand counts the evictions that are left: those of the nodes in drain, and of the first nodes in ahead, at most
// lookahead. ahead has the nodes that are not started yet. pace has the times that pods took so far.
func (p *Plan) measureDemand(pace *learned, ahead iter.Seq[Node]) *demand {
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
	// The places of nodes in drain become free one after the other, on average after half a drain.
	halves := time.Duration(2*waiting/max(1, p.in.Window) + 1)
	left.places = halves * (left.longest + p.in.Settle) / 2
	return left
}

// addPods adds the pods' evictions to the demand. one is what each pod adds to its budget's demand.
func (d *demand) addPods(pods []*corev1.Pod, one budgetDemand, budgets drain.Budgets, pace *learned) {
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

// isUnbudgeted reports whether no PodDisruptionBudget covers a pod. Budgets that keep a last ready pod do not count.
func isUnbudgeted(covering []*drain.Budget) bool {
	return len(covering) == 0 || drain.IsOfLastReady(covering[0].Key())
}

// timeOf returns how long the pods take to leave under a budget that allows room pods to be missing.
func (d *budgetDemand) timeOf(pods int, room int32) time.Duration {
	return time.Duration(pods) * d.turn / time.Duration(max(1, room))
}

// findCriticalBudgets returns the budgets that decide when the upgrade ends. The remaining evictions under such a budget
// take at least as long as draining the waiting nodes, less one turn and one termination. It returns nil before a pod was
// seen to leave, because the time that nodes take is then unknown. It also returns nil if nodes are drained one by one,
// because then no node waits for a budget that another node uses.
func (p *Plan) findCriticalBudgets(pace *learned, left *demand) map[types.NamespacedName]bool {
	if pace.usualGone == 0 || left == nil {
		return nil
	}
	critical := map[types.NamespacedName]bool{}
	for budget, d := range left.budgets {
		if d.timeOf(d.started+d.waiting, p.roomOfBudget(budget))+d.turn+left.longest >= left.places {
			critical[budget.Key()] = true
		}
	}
	return critical
}
