package nodepool

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The API of NodePools and NodeClaims, and the labels and annotations that Karpenter writes (karpenter, pkg/apis/v1/labels.go).
const (
	APIVersion = "karpenter.sh/v1"
	// Label is the label of a node or NodeClaim with the name of its NodePool.
	Label = "karpenter.sh/nodepool"
	// Keep is the annotation of nodes and pods that keeps Karpenter away: "true", or on a pod a duration since its start.
	Keep = "karpenter.sh/do-not-disrupt"
	// hashAnnotation has the hash of a NodePool's template.
	hashAnnotation = "karpenter.sh/nodepool-hash"
	// hashVersionAnnotation has the version of Karpenter's way to hash. Hashes of different versions cannot be compared.
	hashVersionAnnotation = "karpenter.sh/nodepool-hash-version"
)

// NodePool is the part of a NodePool that is read.
type NodePool struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              PoolSpec   `json:"spec"`
	Status            PoolStatus `json:"status"`
}

// PoolSpec is what a NodePool asks for.
type PoolSpec struct {
	Template   Template   `json:"template"`
	Disruption Disruption `json:"disruption"`
	// Limits are the most resources that its nodes may have together. The resource "nodes" counts them.
	Limits corev1.ResourceList `json:"limits"`
	// Replicas is the number of nodes of a static pool; nil for a pool that gets nodes for pending pods.
	Replicas *int64 `json:"replicas"`
}

// Template is what the NodeClaims of a NodePool are made from.
type Template struct {
	Spec ClaimSpec `json:"spec"`
}

// Disruption is how fast Karpenter may replace and remove the nodes of a NodePool.
type Disruption struct {
	Budgets []Budget `json:"budgets"`
}

// PoolStatus is what Karpenter reports about a NodePool.
type PoolStatus struct {
	// Resources are the resources that its nodes have together, by resource.
	Resources  corev1.ResourceList `json:"resources"`
	Conditions []metav1.Condition  `json:"conditions"`
}

// TemplateID returns an ID of what the pool's nodes should be, as far as the pool shows it: the pool and Karpenter's hash of its
// template. A change of the NodeClass is not part of it.
func (p *NodePool) TemplateID() string { return string(p.UID) + "/" + p.Annotations[hashAnnotation] }

// ShortHash returns the beginning of Karpenter's hash of the pool's template, "unknown" if Karpenter has not written it.
func (p *NodePool) ShortHash() string {
	const most = 8
	hash := p.Annotations[hashAnnotation]
	if hash == "" {
		return "unknown"
	}
	return hash[:min(most, len(hash))]
}

// WhyNotReady returns why Karpenter launches no nodes for the pool, for example because its NodeClass is missing. It returns
// "" if the pool is ready or Karpenter has not reported it.
func (p *NodePool) WhyNotReady() string {
	ready := findCondition(p.Status.Conditions, "Ready")
	if ready == nil || ready.Status != metav1.ConditionFalse {
		return ""
	}
	why := ready.Message
	for i := range p.Status.Conditions {
		if c := &p.Status.Conditions[i]; c.Type != "Ready" && c.Status == metav1.ConditionFalse && c.Message != "" {
			why = c.Message
		}
	}
	if why == "" {
		why = ready.Reason
	}
	return why
}

// IsCompared reports whether Karpenter has compared the claims with the newest version of the pool, as far as the pool and the claims
// show it. A change of the NodeClass shows on neither.
func (p *NodePool) IsCompared(claims []*NodeClaim) bool {
	if ready := findCondition(p.Status.Conditions, "Ready"); ready != nil && ready.ObservedGeneration > 0 && ready.ObservedGeneration < p.Generation {
		return false
	}
	return !slices.ContainsFunc(claims, func(c *NodeClaim) bool {
		_, drifted := c.FindDrift()
		return !drifted && !c.IsLeaving() && c.IsLaunched() && p.hasOtherHash(c)
	})
}

// hasOtherHash reports whether the claim was made from another template (karpenter, nodeclaim/disruption/drift.go).
func (p *NodePool) hasOtherHash(c *NodeClaim) bool {
	of, at := p.Annotations[hashAnnotation], c.Annotations[hashAnnotation]
	return of != "" && at != "" && of != at && p.Annotations[hashVersionAnnotation] == c.Annotations[hashVersionAnnotation]
}

// findCondition returns the condition of the type, nil if there is none.
func findCondition(conditions []metav1.Condition, of string) *metav1.Condition {
	for i := range conditions {
		if conditions[i].Type == of {
			return &conditions[i]
		}
	}
	return nil
}
