package upgrade

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// foreseen is how many of the nodes that wait are looked at for what decides when the upgrade ends;
// it is taken to end with them.
const foreseen = 256

// fewAtOnce and manyAtOnce bound how many evictions may be in flight at once where some are
// pressing: one for each node that may be in drain. More would keep those from being carried out
// that other nodes wait for. Where none are, or there is no other node, the sooner all have begun
// the sooner the node is empty.
const (
	fewAtOnce  = 4
	manyAtOnce = 8
)

// candidate is an eviction that could be sent now, and what decides whether it is.
type candidate struct {
	Evict
	pod *corev1.Pod
	// room is how many pods like it its budget lets be missing.
	room  int32
	haste haste
	// rank is the node's, in order of start.
	rank int
}

// haste tells what waits for an eviction.
type haste int

const (
	// pressing is an eviction that uses a budget which decides when the upgrade ends.
	pressing haste = iota
	// needed is one of a node that waits for nothing else.
	needed
	// idle is one of a node that cannot be empty before another of its pods may go.
	idle
)

// selectEvictions are those of the candidates that are to be begun now: no more than may be in
// flight. Those of budgets that decide when the upgrade ends go first, since time in which such a
// one is not used is lost. Then nodes are emptied in order of start: emptied together, all would be
// late. The others are decided again with the next answer.
func (t *turn) selectEvictions() []nodegroup.Action {
	waiting, ranks := t.nodesWaiting(), map[string]int{}
	for i := range t.candidates {
		c := &t.candidates[i]
		if _, known := ranks[c.Node]; !known {
			ranks[c.Node] = len(ranks)
		}
		t.rankEviction(c, waiting[c.Node], ranks[c.Node])
	}
	slices.SortStableFunc(t.candidates, candidate.compare)
	selected := t.candidates
	if limit := t.evictionsAtOnce(); limit > 0 {
		selected = selected[:min(len(selected), max(0, limit-evictionsInFlight(t.w)))]
	}
	actions := make([]nodegroup.Action, 0, len(selected))
	for _, c := range selected {
		if c.Budget.Name != "" {
			t.learnLag(c.pod)
		}
		t.countReturn(c.Node, c.pod, t.attempt(c.Evict))
		actions = append(actions, c.Evict)
	}
	return actions
}

// evictionsAtOnce is how many evictions may be in flight now, 0 for any number.
func (t *turn) evictionsAtOnce() int {
	none := t.notes.Pressing != nil && len(t.notes.Pressing) == 0
	if none || t.rec.Request.Window == 1 {
		return t.w.EvictionsAtOnce
	}
	return min(t.w.EvictionsAtOnce, max(fewAtOnce, min(t.rec.Request.Window, manyAtOnce)))
}

// rankEviction tells what waits for the candidate, whose node waits for another pod as well or not.
func (t *turn) rankEviction(c *candidate, waiting bool, rank int) {
	c.haste, c.rank, c.room = needed, rank, t.roomFor(c.pod)
	switch {
	case t.notes.Pressing[c.Budget]:
		c.haste, c.rank = pressing, 0
	case waiting:
		c.haste = idle
	}
}

// compare puts the more urgent first; among equals that is the one of the scarcer budget.
func (c candidate) compare(other candidate) int {
	return cmp.Or(cmp.Compare(c.haste, other.haste), cmp.Compare(c.rank, other.rank), cmp.Compare(c.room, other.room))
}

// nodesWaiting are those with a pod that may not go now.
func (t *turn) nodesWaiting() map[string]bool {
	waiting := map[string]bool{}
	for i := range t.blocked {
		waiting[t.blocked[i].Node] = true
	}
	return waiting
}

// passage is a budget with the pods that are to leave through it, and how long after an eviction
// one is made up for.
type passage struct {
	budget *drain.Budget
	pods   int
	turn   time.Duration
}

// pressing are the budgets that decide when the upgrade ends: what is left to leave through them
// takes as long as the nodes that wait, when places have become free for them, or a turn less. It
// is nil as long as no pod was seen to leave, for then nobody knows how long nodes take.
func (t *turn) pressing(p *pace) map[types.NamespacedName]bool {
	if p.usualGone == 0 {
		return nil
	}
	longest, passages := time.Duration(0), map[types.NamespacedName]passage{}
	for _, m := range t.left() {
		for _, pod := range t.view(m).toEvict {
			longest = max(longest, p.goneOf(pod))
			if covering := t.w.Budgets.Covering(pod); len(covering) == 1 && drain.Ready(pod) {
				key := covering[0].Key()
				passages[key] = passage{covering[0], passages[key].pods + 1, max(passages[key].turn, p.turnOf(pod))}
			}
		}
	}
	// The places of nodes in drain become free one after the other: after half a drain on average.
	halves := time.Duration(2*min(len(t.count.pending), foreseen)/max(1, t.rec.Request.Window) + 1)
	places := halves * (longest + t.rec.Request.Settle.Duration) / 2
	decide := map[types.NamespacedName]bool{}
	for key, g := range passages {
		room := max(1, int(t.roomOf(g.budget)))
		if turns := time.Duration((g.pods + room - 1) / room); (turns+1)*g.turn+longest >= places {
			decide[key] = true
		}
	}
	return decide
}

// left are the members in drain, and the first of those that wait.
func (t *turn) left() []*nodegroup.Member {
	return append(t.inDrain(), t.count.pending[:min(len(t.count.pending), foreseen)]...)
}

func evictionsInFlight(w *World) (n int) {
	for _, attempt := range w.Open {
		if _, ok := attempt.Action.(Evict); ok && attempt.InFlight {
			n++
		}
	}
	return n
}
