package simulate

import (
	"encoding/json"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// constraint is a topology spread constraint that forbids. Its counts are kept, so that nobody has
// to look through nodes to place a pod.
type constraint struct {
	*spread
	maxSkew    int
	minDomains int
	// self is 1 when the constraint counts the pod that has it.
	self int
}

// spread counts the pods of a tally over the places of a domain that one label makes.
type spread struct {
	pods *tally
	key  string
	over *domain
	// places are the domain's for the key. counts are the pods that are not deleted, place by
	// place, where there are any.
	places map[string]int
	counts map[string]int
	// having tells how many places have so many pods; fewest is the lowest of them.
	having map[int]int
	fewest int
}

// domain is the nodes that a topology spread constraint counts: those that carry the labels of all
// constraints of the pod and that its policies count in; cordoned nodes are counted unless taints
// are honoured (podtopologyspread/filtering.go).
type domain struct {
	keys []string
	// like is a shape that is spread over the domain.
	like         *shape
	ignoreLabels bool
	honorTaints  bool
	nodes        map[*machine]bool
	// places count the nodes by the value of each key's label.
	places map[string]map[string]int
}

// parseSpread reads the shape's topology spread constraints.
func (c *Cluster) parseSpread(s *shape) {
	var all []*corev1.TopologySpreadConstraint
	var keys []string
	for i := range s.like.Spec.TopologySpreadConstraints {
		if con := &s.like.Spec.TopologySpreadConstraints[i]; con.WhenUnsatisfiable == corev1.DoNotSchedule {
			all, keys = append(all, con), append(keys, con.TopologyKey)
		}
	}
	slices.Sort(keys)
	for _, con := range all {
		s.spread = append(s.spread, c.constraint(s, con, keys))
	}
}

// constraint reads one topology spread constraint of those whose labels are keys; absent policies
// honour labels and ignore taints (kube-scheduler, podtopologyspread/common.go).
func (c *Cluster) constraint(s *shape, con *corev1.TopologySpreadConstraint, keys []string) constraint {
	selector, err := metav1.LabelSelectorAsSelector(con.LabelSelector)
	if err != nil {
		selector = labels.Nothing()
	}
	for _, key := range con.MatchLabelKeys {
		if value, ok := s.like.Labels[key]; ok {
			same, _ := labels.ValidatedSetSelector{key: value}.Requirements()
			selector = selector.Add(same...)
		}
	}
	d := domain{keys: keys, like: s}
	d.ignoreLabels = s.anywhere || (con.NodeAffinityPolicy != nil && *con.NodeAffinityPolicy == corev1.NodeInclusionPolicyIgnore)
	d.honorTaints = con.NodeTaintsPolicy != nil && *con.NodeTaintsPolicy == corev1.NodeInclusionPolicyHonor
	pods := c.tally([]string{s.like.Namespace}, selector)
	read := constraint{spread: c.domain(d).spread(pods, con.TopologyKey), maxSkew: int(con.MaxSkew), minDomains: 1}
	if con.MinDomains != nil {
		read.minDomains = int(*con.MinDomains)
	}
	if pods.means(s.like) {
		read.self = 1
	}
	return read
}

// fit says whether one more pod on the machine would make its place have too many.
func (k *constraint) fit(m *machine) misfit {
	value, labelled := m.node.Labels[k.key]
	least := 0
	if len(k.places) >= k.minDomains {
		least = k.least()
	}
	switch {
	case !labelled:
		return misfitSpreadLabel
	case k.counts[value]+k.self-least > k.maxSkew:
		return misfitSpread
	default:
		return fits
	}
}

// domain finds the domain among those that are known, or fills it.
func (c *Cluster) domain(d domain) *domain {
	id := d.id()
	if known, ok := c.domains[id]; ok {
		return known
	}
	d.nodes, d.places = map[*machine]bool{}, map[string]map[string]int{}
	for _, key := range d.keys {
		d.places[key] = map[string]int{}
	}
	for _, m := range c.sites {
		if d.counts(m) {
			d.add(m, m.node.Labels, 1)
		}
	}
	c.domains[id] = &d
	return &d
}

// id is equal for domains that hold the same nodes.
func (d *domain) id() string {
	spec := &d.like.like.Spec
	parts := []any{d.keys, nil, nil, nil}
	if !d.ignoreLabels {
		parts[1] = spec.NodeSelector
		if spec.Affinity != nil && d.like.kind != daemonSet {
			parts[2] = spec.Affinity.NodeAffinity
		}
	}
	if d.honorTaints {
		parts[3] = spec.Tolerations
	}
	id, err := json.Marshal(parts)
	if err != nil {
		return string(d.like.like.UID) // a domain of its own
	}
	return string(id)
}

// counts reports whether the machine is in the domain.
func (d *domain) counts(m *machine) bool {
	for _, key := range d.keys {
		if _, labelled := m.node.Labels[key]; !labelled {
			return false
		}
	}
	if !d.ignoreLabels {
		if ok, err := d.like.affinity.Match(m.node); !ok || err != nil {
			return false
		}
	}
	return !d.honorTaints || ((!m.cordon || d.like.cordon) && tolerated(d.like, m) == fits)
}

// add has the machine, whose node has the labels, counted in or out.
func (d *domain) add(m *machine, labels map[string]string, n int) {
	if delete(d.nodes, m); n > 0 {
		d.nodes[m] = true
	}
	for key, nodes := range d.places {
		value := labels[key]
		if nodes[value] += n; nodes[value] == 0 {
			delete(nodes, value)
		}
	}
}

// spread finds the counts of a tally's pods among those that are kept, or makes them.
func (d *domain) spread(pods *tally, key string) *spread {
	for _, p := range pods.spreads {
		if p.over == d && p.key == key {
			return p
		}
	}
	p := &spread{pods: pods, key: key, over: d, places: d.places[key], counts: map[string]int{}, having: map[int]int{}}
	for m, n := range pods.live {
		if d.nodes[m] {
			p.shift(m.node.Labels[key], n)
		}
	}
	pods.spreads = append(pods.spreads, p)
	return p
}

// survey brings the domains up to date with a machine whose node was another before; now is nil for
// one that goes.
func (c *Cluster) survey(m *machine, before, now *corev1.Node) {
	for _, d := range c.domains {
		was, is := d.nodes[m], now != nil && d.counts(m)
		if was && is && !slices.ContainsFunc(d.keys, func(key string) bool { return before.Labels[key] != now.Labels[key] }) {
			continue
		}
		if was {
			c.recountOn(m, d, before.Labels, -1)
			d.add(m, before.Labels, -1)
		}
		if is {
			d.add(m, now.Labels, 1)
			c.recountOn(m, d, now.Labels, 1)
		}
	}
}

// recountOn has the pods of a machine counted in or out of the spreads over a domain.
func (c *Cluster) recountOn(m *machine, d *domain, labels map[string]string, n int) {
	for _, pod := range m.pods {
		if pod.DeletionTimestamp != nil {
			continue
		}
		for _, t := range c.units[pod.UID].shape.tallies {
			for _, p := range t.spreads {
				if p.over == d {
					p.shift(labels[p.key], n)
				}
			}
		}
	}
}

// least is the fewest pods that any place has.
func (p *spread) least() int {
	if len(p.places) > len(p.counts) {
		return 0
	}
	return p.fewest
}

// shift changes the count of a place.
func (p *spread) shift(place string, n int) {
	if old := p.counts[place]; old > 0 {
		if p.having[old]--; p.having[old] == 0 {
			delete(p.having, old)
		}
	}
	count := p.counts[place] + n
	if count == 0 {
		delete(p.counts, place)
	} else {
		p.counts[place] = count
		p.having[count]++
		if len(p.counts) == 1 {
			p.fewest = count
		}
		p.fewest = min(p.fewest, count)
	}
	for len(p.having) > 0 && p.having[p.fewest] == 0 {
		p.fewest++
	}
}
