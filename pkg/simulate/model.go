package simulate

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// model is what new nodes of the group are like: what those that are there have in common, and the
// size of the one in the middle.
type model struct {
	labels      map[string]string
	allocatable corev1.ResourceList
}

// newModel takes the model from the group's nodes. Taints are left out: the pods that are to move
// tolerate those of the group already, and those that somebody put on its nodes are not the
// group's.
func newModel(nodes []*corev1.Node) model {
	m := model{labels: map[string]string{}}
	if len(nodes) == 0 {
		return m
	}
	for key, value := range nodes[0].Labels {
		shared := !slices.ContainsFunc(nodes, func(n *corev1.Node) bool { v, ok := n.Labels[key]; return !ok || v != value })
		if shared && key != corev1.LabelNodeExcludeBalancers {
			m.labels[key] = value
		}
	}
	bySize := slices.SortedStableFunc(slices.Values(nodes), func(a, b *corev1.Node) int {
		return cmp.Or(a.Status.Allocatable.Cpu().Cmp(*b.Status.Allocatable.Cpu()), a.Status.Allocatable.Memory().Cmp(*b.Status.Allocatable.Memory()))
	})
	m.allocatable = bySize[(len(bySize)-1)/2].Status.Allocatable
	return m
}
