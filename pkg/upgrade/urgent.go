package upgrade

import (
	"cmp"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
)

// foreseen is how many of the nodes that wait are looked at for what decides when the upgrade ends;
// it is taken to end with them.
const lookahead = 256

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
	room     int32
	priority priority
	// rank is the node's, in order of start.
	rank int
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
func (c candidate) compareUrgency(other candidate) int {
	return cmp.Or(cmp.Compare(c.priority, other.priority), cmp.Compare(c.rank, other.rank), cmp.Compare(c.room, other.room))
}

// budgetDemand is a budget with the pods that are to leave through it, and how long after an
// eviction one is made up for.
type budgetDemand struct {
	budget *drain.Budget
	pods   int
	turn   time.Duration
}

func evictionsInFlight(w *World) (n int) {
	for _, attempt := range w.Open {
		if _, ok := attempt.Action.(Evict); ok && attempt.InFlight {
			n++
		}
	}
	return n
}
