package simulate

import (
	"encoding/json"
	"sort"

	corev1 "k8s.io/api/core/v1"
)

// ranking is nodes in order of rank. The order is one of machines' numbers: it changes with every
// pod, and to move pointers costs several times as much.
type ranking struct {
	order []int32
	// nodes are the machines by number, nil for those that are not ranked.
	nodes []*machine
}

// find is where in the order a node of the rank is, or would be.
func (r *ranking) find(at rank) int {
	return sort.Search(len(r.order), func(i int) bool { return r.nodes[r.order[i]].rank.compare(at) >= 0 })
}

func (r *ranking) insert(m *machine) {
	for len(r.nodes) <= int(m.number) {
		r.nodes = append(r.nodes, nil)
	}
	r.nodes[m.number] = m
	i := r.find(m.rank)
	r.order = append(r.order, 0)
	copy(r.order[i+1:], r.order[i:])
	r.order[i] = m.number
}

func (r *ranking) remove(m *machine) {
	i := r.find(m.rank)
	r.order = append(r.order[:i], r.order[i+1:]...)
	r.nodes[m.number] = nil
}

// first is the first node in order that takes the pod, nil when none does.
func (r *ranking) first(s *shape) *machine {
	for _, number := range r.order {
		if s.class.barred(number) {
			continue
		}
		m := r.nodes[number]
		if why := fit(s, m); why == fits {
			return m
		} else if why == misfitTaint || why == misfitSelector {
			s.class.bar(number)
		}
	}
	return nil
}

// class is shapes that the same nodes bar by their taints and labels. What it has learned is kept
// until a node changes, so that the nodes of other pools are not asked for every pod.
type class struct {
	bars []bool
}

func (k *class) barred(number int32) bool { return int(number) < len(k.bars) && k.bars[number] }

func (k *class) bar(number int32) {
	for len(k.bars) <= int(number) {
		k.bars = append(k.bars, false)
	}
	k.bars[number] = true
}

// classOf finds the class of a shape, or makes it.
func (c *Cluster) classOf(s *shape) *class {
	spec := &s.like.Spec
	var nodes *corev1.NodeAffinity
	if spec.Affinity != nil && s.kind != daemonSet {
		nodes = spec.Affinity.NodeAffinity
	}
	id, err := json.Marshal([]any{spec.NodeSelector, nodes, spec.Tolerations})
	if known, ok := c.classes[string(id)]; ok && err == nil {
		return known
	}
	k := &class{}
	c.classes[string(id)] = k
	return k
}

// reconsider has no class bar a node for what it was before.
func (c *Cluster) reconsider(m *machine) {
	for _, k := range c.classes {
		if k.barred(m.number) {
			k.bars[m.number] = false
		}
	}
}
