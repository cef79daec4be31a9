package simulate

import (
	"slices"
	"sort"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/fit"
)

// ranking is nodes in order of rank. The order is one of nodes' numbers: it changes with every pod,
// and to move pointers costs several times as much.
type ranking struct {
	order []int32
	// nodes are by number, nil for those that are not ranked.
	nodes []*simNode
}

// findPosition is where in the order a node of the rank is, or would be.
func (r *ranking) findPosition(at rank) int {
	return sort.Search(len(r.order), func(i int) bool { return r.nodes[r.order[i]].rank.compareRanks(at) >= 0 })
}

func (r *ranking) insertNode(n *simNode) {
	for len(r.nodes) <= int(n.number) {
		r.nodes = append(r.nodes, nil)
	}
	r.nodes[n.number] = n
	r.order = slices.Insert(r.order, r.findPosition(n.rank), n.number)
}

func (r *ranking) removeNode(n *simNode) {
	i := r.findPosition(n.rank)
	r.order = slices.Delete(r.order, i, i+1)
	r.nodes[n.number] = nil
}

// firstFittingNode is the first node in order that takes the pod, nil when none does.
func (r *ranking) firstFittingNode(k *schedulingKey) *simNode {
	for _, number := range r.order {
		if k.filters.filteredOut(number) {
			continue
		}
		n := r.nodes[number]
		if why := checkNodeFit(k, n); why == fit.Fits {
			return n
		} else if why.IsOfNode() {
			k.filters.addFiltered(number)
		}
	}
	return nil
}

// filterCache is the nodes that are known to refuse some keys by their cordon, taints and labels,
// by number. It is kept until a node changes, so that the nodes of other pools are not asked for
// every pod.
type filterCache struct {
	refused []bool
}

func (f *filterCache) filteredOut(number int32) bool {
	return int(number) < len(f.refused) && f.refused[number]
}

func (f *filterCache) addFiltered(number int32) {
	for len(f.refused) <= int(number) {
		f.refused = append(f.refused, false)
	}
	f.refused[number] = true
}

func (f *filterCache) removeFiltered(number int32) {
	if f.filteredOut(number) {
		f.refused[number] = false
	}
}
