package simulate

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// tally keeps count, node by node, of the pods that a selector of some pod means, so that nobody
// has to look through pods to place one.
type tally struct {
	// namespaces are nil for all.
	namespaces []string
	selector   labels.Selector
	// all counts bound pods, live those of them that are not deleted.
	all, live map[*machine]int
	total     int
	// places sums all up by the value of a node label, label by label.
	places map[string]map[string]int
	// shapes are those whose pods it counts; spreads and guards look at its counts.
	shapes  []*shape
	spreads []*spread
	guards  []*guard
}

// everywhere stands for all namespaces where tallies are listed by namespace.
const everywhere = ""

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

// add counts n more pods of all on the machine.
func (t *tally) add(m *machine, n int) {
	if t.all[m] += n; t.all[m] == 0 {
		delete(t.all, m)
	}
	t.total += n
	for key, sums := range t.places {
		sums[m.node.Labels[key]] += n
	}
}

// addLive counts n more pods that are not deleted.
func (t *tally) addLive(m *machine, n int) {
	if t.live[m] += n; t.live[m] == 0 {
		delete(t.live, m)
	}
	for _, p := range t.spreads {
		if p.over.nodes[m] {
			p.shift(m.node.Labels[p.key], n)
		}
	}
}

// take has the pods of the shape counted, if they are meant.
func (t *tally) take(s *shape) {
	if t.means(s.like) {
		t.shapes = append(t.shapes, s)
		s.tallies, s.guards = append(s.tallies, t), append(s.guards, t.guards...)
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
	c.tallies[id] = t
	c.enlist(t)
	for _, u := range c.units {
		if u.on != nil && slices.Contains(u.shape.tallies, t) {
			t.add(u.on, 1)
			if u.pod.DeletionTimestamp == nil {
				t.addLive(u.on, 1)
			}
		}
	}
	return t
}

// enlist has the tally count the pods of the shapes that are known, and of those to come.
func (c *Cluster) enlist(t *tally) {
	if t.namespaces == nil {
		c.talliesIn[everywhere] = append(c.talliesIn[everywhere], t)
		for _, shapes := range c.shapesIn {
			for _, s := range shapes {
				t.take(s)
			}
		}
		return
	}
	for i, namespace := range t.namespaces {
		if slices.Contains(t.namespaces[:i], namespace) {
			continue
		}
		c.talliesIn[namespace] = append(c.talliesIn[namespace], t)
		for _, s := range c.shapesIn[namespace] {
			t.take(s)
		}
	}
}

// guardOf finds or makes what keeps pods away from those that have the term.
func guardOf(t term) *guard {
	for _, g := range t.pods.guards {
		if g.key == t.key {
			return g
		}
	}
	g := &guard{term: t, at: map[string]int{}}
	t.pods.guards = append(t.pods.guards, g)
	for _, s := range t.pods.shapes {
		s.guards = append(s.guards, g)
	}
	return g
}

// count has a pod counted where it is, or no more; live says whether that is so for those that are
// not deleted, too.
func count(u *unit, n int, live bool) {
	for _, t := range u.shape.tallies {
		t.add(u.on, n)
		if live {
			t.addLive(u.on, n)
		}
	}
	for _, g := range u.shape.repels {
		g.at[u.on.node.Labels[g.key]] += n
	}
}

// countLeaving has a pod no longer counted among those that are not deleted.
func countLeaving(u *unit) {
	for _, t := range u.shape.tallies {
		t.addLive(u.on, -1)
	}
}
