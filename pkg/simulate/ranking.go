package simulate

import (
	"slices"
	"sort"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/fit"
)

// ranking is the nodes in order of rank. It sorts node numbers instead of pointers: the order changes with every pod,
// and moving pointers costs several times as much.
type ranking struct {
	order []int32
	// nodes are by number; nil for nodes that are not ranked.
	nodes []*simNode
}

// findPosition returns where in the order a node of the rank is, or would be.
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

// firstFittingNode returns the first node in order that takes the pod, or nil if none does.
func (r *ranking) firstFittingNode(k *schedulingKey) *simNode {
	for _, number := range r.order {
		if k.filters.isFilteredOut(number) {
			continue
		}
		n := r.nodes[number]
		if why := checkNodeFit(k, n); why == fit.Fits {
			return n
		} else if why.DependsOnNodeOnly() {
			k.filters.addFiltered(number)
		}
	}
	return nil
}

// filterCache has the nodes that refuse some keys by their cordon, taints and labels, by number. An entry is kept
// until its node changes. So the nodes of other pools are not checked for every pod.
type filterCache struct {
	refused []bool
}

func (f *filterCache) isFilteredOut(number int32) bool {
	return int(number) < len(f.refused) && f.refused[number]
}

func (f *filterCache) addFiltered(number int32) {
	for len(f.refused) <= int(number) {
		f.refused = append(f.refused, false)
	}
	f.refused[number] = true
}

func (f *filterCache) removeFiltered(number int32) {
	if f.isFilteredOut(number) {
		f.refused[number] = false
	}
}
