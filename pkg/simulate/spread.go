package simulate

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/fit"
)

// spreadConstraint is a topology spread constraint that forbids. Its counts are kept, so that no
// node has to be looked at to place a pod.
type spreadConstraint struct {
	*spreadCounts
	maxSkew    int
	minDomains int
	// self is 1 when the constraint counts the pod that has it.
	self int
}

// checkSpread says whether one more pod on the node would make its place have too many.
func (s *spreadConstraint) checkSpread(n *simNode) fit.Reason {
	value, labelled := n.node.Labels[s.label]
	least := 0
	if len(s.places) >= s.minDomains {
		least = s.fewestPods()
	}
	switch {
	case !labelled:
		return spreadLabelMissing
	case s.counts[value]+s.self-least > s.maxSkew:
		return spreadExceeded
	default:
		return fit.Fits
	}
}

// spreadCounts counts pods over the places of a domain that one label makes.
type spreadCounts struct {
	label string
	over  *spreadDomain
	// places are the domain's for the label. counts are the pods that are not deleted, place by
	// place, where there are any.
	places map[string]int
	counts map[string]int
	// having tells how many places have so many pods; fewest is the lowest of them.
	having map[int]int
	fewest int
}

// fewestPods is the fewest pods that any place has.
func (s *spreadCounts) fewestPods() int {
	if len(s.places) > len(s.counts) {
		return 0
	}
	return s.fewest
}

// shiftCount changes the count of a place.
func (s *spreadCounts) shiftCount(place string, n int) {
	if old := s.counts[place]; old > 0 {
		if s.having[old]--; s.having[old] == 0 {
			delete(s.having, old)
		}
	}
	count := s.counts[place] + n
	if count == 0 {
		delete(s.counts, place)
	} else {
		s.counts[place] = count
		s.having[count]++
		if len(s.counts) == 1 {
			s.fewest = count
		}
		s.fewest = min(s.fewest, count)
	}
	for len(s.having) > 0 && s.having[s.fewest] == 0 {
		s.fewest++
	}
}

// spreadDomain is the nodes that a topology spread constraint counts: those that carry the labels
// of all constraints of the pod and that its policies count in; cordoned nodes are counted unless
// taints are honoured (podtopologyspread/filtering.go).
type spreadDomain struct {
	labels []string
	// key is one that is spread over the domain.
	key          *schedulingKey
	ignoreLabels bool
	honorTaints  bool
	nodes        map[*simNode]bool
	// places count the nodes by the value of each label.
	places map[string]map[string]int
}

// newSpreadDomain is a domain without nodes; absent policies honour labels and ignore taints
// (kube-scheduler, podtopologyspread/common.go).
func newSpreadDomain(k *schedulingKey, c *corev1.TopologySpreadConstraint, labels []string) *spreadDomain {
	d := &spreadDomain{labels: labels, key: k, nodes: map[*simNode]bool{}, places: make(map[string]map[string]int, len(labels))}
	d.ignoreLabels = k.needs.IsAnywhere() || (c.NodeAffinityPolicy != nil && *c.NodeAffinityPolicy == corev1.NodeInclusionPolicyIgnore)
	d.honorTaints = c.NodeTaintsPolicy != nil && *c.NodeTaintsPolicy == corev1.NodeInclusionPolicyHonor
	for _, label := range labels {
		d.places[label] = map[string]int{}
	}
	return d
}

// id is equal for domains that hold the same nodes.
func (d *spreadDomain) id() string {
	spec := &d.key.sample.Spec
	parts := []any{d.labels, nil, nil, d.honorTaints, nil}
	if !d.ignoreLabels {
		parts[1], parts[2] = spec.NodeSelector, d.key.nodeAffinity()
	}
	if d.honorTaints {
		parts[4] = spec.Tolerations // nil is not the same as not looked at
	}
	id, err := json.Marshal(parts)
	if err != nil {
		return string(d.key.sample.UID) // a domain of its own
	}
	return string(id)
}

// includesNode reports whether the node belongs to the domain.
func (d *spreadDomain) includesNode(n *simNode) bool {
	for _, label := range d.labels {
		if _, labelled := n.node.Labels[label]; !labelled {
			return false
		}
	}
	return (d.ignoreLabels || d.key.needs.Selects(n.node)) && (!d.honorTaints || d.key.needs.ToleratesTaintsOf(&n.room))
}

// shiftPodsOfNode has the node, which has or had the labels, counted in or out.
func (d *spreadDomain) shiftPodsOfNode(n *simNode, labels map[string]string, change int) {
	if delete(d.nodes, n); change > 0 {
		d.nodes[n] = true
	}
	for label, nodes := range d.places {
		value := labels[label]
		if nodes[value] += change; nodes[value] == 0 {
			delete(nodes, value)
		}
	}
}
