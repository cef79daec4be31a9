package simulate

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// podMatch selects pods by their labels and namespaces; nil namespaces are all.
type podMatch struct {
	namespaces []string
	selector   labels.Selector
}

// id is equal for matches of the same pods.
func (m podMatch) id() string {
	if m.namespaces == nil {
		return "*/" + m.selector.String()
	}
	return strings.Join(m.namespaces, ",") + "/" + m.selector.String()
}

func (m podMatch) matchesPod(pod *corev1.Pod) bool {
	return (m.namespaces == nil || slices.Contains(m.namespaces, pod.Namespace)) && m.selector.Matches(labels.Set(pod.Labels))
}

// podCounts counts the pods on nodes that some pod means, so that none has to be looked at to place
// one.
type podCounts struct {
	// all must match a pod for it to be counted.
	all   []podMatch
	total int
	// places has the sums by the value of a node label, label by label.
	places map[string]map[string]int
	// keys are those whose pods it counts. spreads count those of them that are not deleted, and
	// repelling keep others away.
	keys      []*schedulingKey
	spreads   []*spreadCounts
	repelling []*antiAffinityIndex
}

func (c *podCounts) matchesPod(pod *corev1.Pod) bool {
	return !slices.ContainsFunc(c.all, func(m podMatch) bool { return !m.matchesPod(pod) })
}

// countPlaced counts the pods on nodes that have the label.
func (c *podCounts) countPlaced(label string) int {
	return c.total - c.places[label][""]
}

// countInTopology counts the pods in the place of a node.
func (c *podCounts) countInTopology(n *simNode, label string) int {
	return c.places[label][n.node.Labels[label]]
}

// addPodsOnNode counts more pods on the node.
func (c *podCounts) addPodsOnNode(n *simNode, pods int) {
	c.total += pods
	for label, sums := range c.places {
		sums[n.node.Labels[label]] += pods
	}
}

// countLivePods counts more pods on the node that are not deleted.
func (c *podCounts) countLivePods(n *simNode, pods int) {
	for _, s := range c.spreads {
		if s.over.nodes[n] {
			s.shiftCount(n.node.Labels[s.label], pods)
		}
	}
}

// addSchedulingKey has the pods of the key counted, if they are meant.
func (c *podCounts) addSchedulingKey(k *schedulingKey) {
	if c.matchesPod(k.sample) {
		c.keys = append(c.keys, k)
		k.counts, k.repelledBy = append(k.counts, c), append(k.repelledBy, c.repelling...)
	}
}

// antiAffinityIndex keeps pods out of the places of those whose anti-affinity means them.
type antiAffinityIndex struct {
	affinityTerm
	// at counts the pods with the anti-affinity by the value of the node label.
	at map[string]int
}

// antiAffinityOf finds or makes what keeps pods away from those that have the term.
func antiAffinityOf(t affinityTerm) *antiAffinityIndex {
	for _, x := range t.pods.repelling {
		if x.label == t.label {
			return x
		}
	}
	x := &antiAffinityIndex{affinityTerm: t, at: map[string]int{}}
	t.pods.repelling = append(t.pods.repelling, x)
	for _, k := range t.pods.keys {
		k.repelledBy = append(k.repelledBy, x)
	}
	return x
}

// countPod has pods like this one counted where it is, or no more if n is negative; live says
// whether that is so for those that are not deleted, too.
func countPod(u *simPod, n int, live bool) {
	if isFinished(u.pod) {
		return // the scheduler does not look at it
	}
	for _, c := range u.key.counts {
		c.addPodsOnNode(u.node, n)
		if live {
			c.countLivePods(u.node, n)
		}
	}
	for _, x := range u.key.repels {
		x.at[u.node.node.Labels[x.label]] += n
	}
}

// countDeleted has a pod no longer counted among those that are not deleted.
func countDeleted(u *simPod) {
	if isFinished(u.pod) {
		return
	}
	for _, c := range u.key.counts {
		c.countLivePods(u.node, -1)
	}
}
