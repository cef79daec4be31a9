package simulate

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/fit"
)

// spreadConstraint is a topology spread constraint with DoNotSchedule. It keeps counts, so that placing a pod needs
// no search through all nodes.
type spreadConstraint struct {
	*spreadCounts
	maxSkew    int
	minDomains int
	// self is 1 if the constraint's selector matches the pod itself.
	self int
}

// checkSpread returns Fits if one more pod on the node keeps the constraint, or else the reason.
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

// spreadCounts counts pods by the value of one label over the nodes of a domain.
type spreadCounts struct {
	label string
	over  *spreadDomain
	// places counts the domain's nodes by the label's value. counts has the pods that are not deleted, by value. It
	// has no entries for values without pods.
	places map[string]int
	counts map[string]int
	// having counts, for each number of pods, the places with that number. fewest is the lowest of these numbers.
	having map[int]int
	fewest int
}

// fewestPods returns the smallest number of pods in any place.
func (s *spreadCounts) fewestPods() int {
	if len(s.places) > len(s.counts) {
		return 0
	}
	return s.fewest
}

// addToPlace adds n pods to a place.
func (s *spreadCounts) addToPlace(place string, n int) {
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

// spreadDomain is the nodes that a topology spread constraint counts. They have the labels of all the pod's
// constraints, and the constraint's policies include them. Cordoned nodes are included unless taints are honored
// (podtopologyspread/filtering.go).
type spreadDomain struct {
	labels []string
	// key is a scheduling key with this domain.
	key          *schedulingKey
	ignoreLabels bool
	honorTaints  bool
	nodes        map[*simNode]bool
	// places count the nodes by the value of each label.
	places map[string]map[string]int
}

// newSpreadDomain returns a domain without nodes. By default, policies honor labels and ignore taints
// (kube-scheduler, podtopologyspread/common.go).
func newSpreadDomain(k *schedulingKey, c *corev1.TopologySpreadConstraint, labels []string) *spreadDomain {
	d := &spreadDomain{labels: labels, key: k, nodes: map[*simNode]bool{}, places: make(map[string]map[string]int, len(labels))}
	d.ignoreLabels = k.needs.HasNoNodeRequirements() || (c.NodeAffinityPolicy != nil && *c.NodeAffinityPolicy == corev1.NodeInclusionPolicyIgnore)
	d.honorTaints = c.NodeTaintsPolicy != nil && *c.NodeTaintsPolicy == corev1.NodeInclusionPolicyHonor
	for _, label := range labels {
		d.places[label] = map[string]int{}
	}
	return d
}

// nodeSetKey returns a string that is equal for domains with the same nodes.
func (d *spreadDomain) nodeSetKey() string {
	spec := &d.key.sample.Spec
	parts := []any{d.labels, nil, nil, d.honorTaints, nil}
	if !d.ignoreLabels {
		parts[1], parts[2] = spec.NodeSelector, d.key.nodeAffinity()
	}
	if d.honorTaints {
		parts[4] = spec.Tolerations // nil differs from ignored tolerations
	}
	id, err := json.Marshal(parts)
	if err != nil {
		return string(d.key.sample.UID) // not shared with other keys
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

// updateNodeInDomain adds the node to the domain, or removes it. labels are the labels that it has or had.
func (d *spreadDomain) updateNodeInDomain(n *simNode, labels map[string]string, change int) {
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
