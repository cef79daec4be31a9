package simulate

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// podMatch selects pods by their labels and namespaces. Nil namespaces select all.
type podMatch struct {
	namespaces []string
	selector   labels.Selector
}

// id returns a string that is equal for matches that select the same pods.
func (m podMatch) id() string {
	if m.namespaces == nil {
		return "*/" + m.selector.String()
	}
	return strings.Join(m.namespaces, ",") + "/" + m.selector.String()
}

func (m podMatch) matchesPod(pod *corev1.Pod) bool {
	return (m.namespaces == nil || slices.Contains(m.namespaces, pod.Namespace)) && m.selector.Matches(labels.Set(pod.Labels))
}

// podCounts counts the bound pods that some pod's constraints select. So placing a pod needs no search through all
// pods.
type podCounts struct {
	// all are the matches. A pod is counted only if all of them match.
	all   []podMatch
	total int
	// places has, for each node label, the number of pods by the label's value.
	places map[string]map[string]int
	// keys are the scheduling keys of the counted pods. spreads count only the counted pods that are not deleted.
	// repelling has the anti-affinity terms that select the counted pods.
	keys      []*schedulingKey
	spreads   []*spreadCounts
	repelling []*antiAffinityIndex
}

func (c *podCounts) matchesPod(pod *corev1.Pod) bool {
	return !slices.ContainsFunc(c.all, func(m podMatch) bool { return !m.matchesPod(pod) })
}

// countPlaced returns the number of pods on nodes that have the label.
func (c *podCounts) countPlaced(label string) int {
	return c.total - c.places[label][""]
}

// countInTopology returns the number of pods in the node's topology domain.
func (c *podCounts) countInTopology(n *simNode, label string) int {
	return c.places[label][n.node.Labels[label]]
}

// addPodsOnNode adds pods on the node to the counts.
func (c *podCounts) addPodsOnNode(n *simNode, pods int) {
	c.total += pods
	for label, sums := range c.places {
		sums[n.node.Labels[label]] += pods
	}
}

// addLivePods adds pods that are not deleted to the spread counts.
func (c *podCounts) addLivePods(n *simNode, pods int) {
	for _, s := range c.spreads {
		if s.over.nodes[n] {
			s.addToPlace(n.node.Labels[s.label], pods)
		}
	}
}

// addSchedulingKey counts the pods of the key from now on, if the matches select them.
func (c *podCounts) addSchedulingKey(k *schedulingKey) {
	if c.matchesPod(k.sample) {
		c.keys = append(c.keys, k)
		k.counts, k.repelledBy = append(k.counts, c), append(k.repelledBy, c.repelling...)
	}
}

// antiAffinityIndex is an anti-affinity term with the pods that have it. It keeps the pods that the term selects
// away.
type antiAffinityIndex struct {
	affinityTerm
	// at counts the pods that have the term by the value of the node label.
	at map[string]int
}

// antiAffinityOf returns the index of the term, and creates it if necessary.
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

// addToCounts adds n pods like this one on its node to all counts. n may be negative. live is true if the pods also
// count as pods that are not deleted.
func addToCounts(u *simPod, n int, live bool) {
	if isFinished(u.pod) {
		return // the scheduler ignores it
	}
	for _, c := range u.key.counts {
		c.addPodsOnNode(u.node, n)
		if live {
			c.addLivePods(u.node, n)
		}
	}
	for _, x := range u.key.repels {
		x.at[u.node.node.Labels[x.label]] += n
	}
}

// removeFromLiveCounts removes the pod from the counts of pods that are not deleted.
func removeFromLiveCounts(u *simPod) {
	if isFinished(u.pod) {
		return
	}
	for _, c := range u.key.counts {
		c.addLivePods(u.node, -1)
	}
}
