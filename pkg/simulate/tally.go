package simulate

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// tally keeps count, node by node, of the pods that a selector of some pod means, so that nobody has to look
// through pods to place one.
type tally struct {
	// namespaces are nil for all.
	namespaces []string
	selector   labels.Selector
	// all counts bound pods, live those of them that are not deleted.
	all, live map[*machine]int
	total     int
	// places sums all up by the value of a node label, label by label.
	places map[string]map[string]int
}

func (t *tally) means(pod *corev1.Pod) bool {
	return (t.namespaces == nil || slices.Contains(t.namespaces, pod.Namespace)) && t.selector.Matches(labels.Set(pod.Labels))
}

// at counts the pods in the place of a node.
func (t *tally) at(m *machine, key string) int {
	sums, known := t.places[key]
	if !known {
		sums = map[string]int{}
		for site, n := range t.all {
			sums[site.node.Labels[key]] += n
		}
		t.places[key] = sums
	}
	return sums[m.node.Labels[key]]
}

func (t *tally) add(m *machine, n int) {
	t.all[m] += n
	t.total += n
	for key, sums := range t.places {
		sums[m.node.Labels[key]] += n
	}
}

// guard keeps pods out of the places of those whose anti-affinity means them.
type guard struct {
	term
	// at counts the pods with the anti-affinity by the value of the node label.
	at map[string]int
}

// tally finds or makes the count of the pods that a selector means in the namespaces, nil for all.
func (c *Cluster) tally(namespaces []string, selector labels.Selector) *tally {
	id := strings.Join(namespaces, ",") + "/" + selector.String()
	if t, known := c.tallies[id]; known {
		return t
	}
	t := &tally{namespaces: namespaces, selector: selector, all: map[*machine]int{}, live: map[*machine]int{}, places: map[string]map[string]int{}}
	for _, u := range c.units {
		if u.on != nil && t.means(u.pod) {
			t.add(u.on, 1)
			if u.pod.DeletionTimestamp == nil {
				t.live[u.on]++
			}
		}
	}
	c.tallies[id] = t
	c.counts = append(c.counts, t)
	return t
}

func (c *Cluster) guard(t term) *guard {
	for _, g := range c.guards {
		if g.term == t {
			return g
		}
	}
	g := &guard{term: t, at: map[string]int{}}
	c.guards = append(c.guards, g)
	return g
}

// relate finds the tallies and guards that mean pods of the shape, of those made since it was last asked.
func (c *Cluster) relate(s *shape) {
	for ; s.tallied < len(c.counts); s.tallied++ {
		if t := c.counts[s.tallied]; t.means(s.like) {
			s.tallies = append(s.tallies, t)
		}
	}
	for ; s.guarded < len(c.guards); s.guarded++ {
		if g := c.guards[s.guarded]; g.pods.means(s.like) {
			s.guards = append(s.guards, g)
		}
	}
}

// count has a pod counted where it is, or no more; live says whether that is so for those that are not deleted, too.
func (c *Cluster) count(u *unit, n int, live bool) {
	c.relate(u.shape)
	for _, t := range u.shape.tallies {
		t.add(u.on, n)
		if live {
			t.live[u.on] += n
		}
	}
	for _, g := range u.shape.repels {
		g.at[u.on.node.Labels[g.key]] += n
	}
}

// countLeaving has a pod no longer counted among those that are not deleted.
func (c *Cluster) countLeaving(u *unit) {
	c.relate(u.shape)
	for _, t := range u.shape.tallies {
		t.live[u.on]--
	}
}
