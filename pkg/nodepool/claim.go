package nodepool

import (
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NodeClaim is the part of a NodeClaim that is read. A NodeClaim stands for one machine.
type NodeClaim struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              ClaimSpec   `json:"spec"`
	Status            ClaimStatus `json:"status"`
}

// ClaimSpec is what a NodeClaim asks for.
type ClaimSpec struct {
	// TerminationGracePeriod is how long a drain may take, as a duration. Then Karpenter deletes the pods that are left. "" is
	// without end.
	TerminationGracePeriod string `json:"terminationGracePeriod"`
	// ExpireAfter is how old the node gets, as a duration. "Never" and "" are without end.
	ExpireAfter string `json:"expireAfter"`
}

// ClaimStatus is what Karpenter reports about a NodeClaim.
type ClaimStatus struct {
	NodeName   string             `json:"nodeName"`
	ProviderID string             `json:"providerID"`
	Conditions []metav1.Condition `json:"conditions"`
}

// Types of a NodeClaim's conditions (karpenter, pkg/apis/v1/nodeclaim_status.go).
const (
	launched         = "Launched"
	initialized      = "Initialized"
	drifted          = "Drifted"
	disruptionReason = "DisruptionReason"
	drained          = "Drained"
)

// PoolName returns the name of the claim's NodePool, "" if it has none.
func (c *NodeClaim) PoolName() string { return c.Labels[Label] }

// Drift is that a claim has drifted.
type Drift struct {
	// Since is when Karpenter noticed it. Reason is Karpenter's word for the difference: "NodePoolDrifted", "AMIDrift".
	Since  time.Time
	Reason string
}

// FindDrift returns the claim's drift, and false if it has not drifted (karpenter, nodeclaim/disruption/drift.go).
func (c *NodeClaim) FindDrift() (Drift, bool) {
	cond := findCondition(c.Status.Conditions, drifted)
	if cond == nil || cond.Status != metav1.ConditionTrue {
		return Drift{}, false
	}
	return Drift{Since: cond.LastTransitionTime.Time, Reason: cond.Reason}, true
}

// IsLaunched reports whether the claim has a machine.
func (c *NodeClaim) IsLaunched() bool { return c.isTrue(launched) }

// IsStalled reports whether the claim has had no machine for more than a minute. As long as there is such a claim, Karpenter disrupts no
// node of any NodePool (karpenter, state/cluster.go, Synced).
func (c *NodeClaim) IsStalled(now time.Time) bool {
	return !c.IsLaunched() && !c.IsLeaving() && now.Sub(c.CreationTimestamp.Time) > time.Minute
}

// IsInitialized reports whether the claim's node takes pods. Karpenter replaces no other node (karpenter, state/statenode.go).
func (c *NodeClaim) IsInitialized() bool { return c.isTrue(initialized) }

// IsLeaving reports whether Karpenter has begun to terminate the claim's machine. It cannot be taken back.
func (c *NodeClaim) IsLeaving() bool { return c.DeletionTimestamp != nil }

// IsChosen reports whether Karpenter has chosen the claim's node for disruption. It then launches the replacement, if the
// node's pods need one, and terminates the node when the replacement is initialized (karpenter, disruption/queue.go).
func (c *NodeClaim) IsChosen() bool { return c.isTrue(disruptionReason) }

// BecameInitialized returns when the claim's node took pods for the first time, the zero time if it does not yet.
func (c *NodeClaim) BecameInitialized() time.Time {
	if cond := findCondition(c.Status.Conditions, initialized); cond != nil && cond.Status == metav1.ConditionTrue {
		return cond.LastTransitionTime.Time
	}
	return time.Time{}
}

// WhyNotLaunched returns why the claim has no machine: the provider's message. It returns "" if that is not known.
func (c *NodeClaim) WhyNotLaunched() string {
	cond := findCondition(c.Status.Conditions, launched)
	if cond == nil || cond.Status == metav1.ConditionTrue {
		return ""
	}
	if cond.Message == "" {
		return cond.Reason
	}
	return strings.TrimSpace(cond.Message)
}

// IsDrained reports whether Karpenter has drained the node of a leaving claim.
func (c *NodeClaim) IsDrained() bool { return c.IsLeaving() && c.isTrue(drained) }

// GracePeriod returns how long a drain of the claim's node may take, and false if it may take any time.
func (c *NodeClaim) GracePeriod() (time.Duration, bool) {
	return parseDuration(c.Spec.TerminationGracePeriod)
}

// ExpiresAt returns when Karpenter terminates the claim's node because of its age, past all budgets. It returns the zero time if
// it never does (karpenter, nodeclaim/expiration/controller.go).
func (c *NodeClaim) ExpiresAt() time.Time {
	age, limited := parseDuration(c.Spec.ExpireAfter)
	if !limited || c.CreationTimestamp.IsZero() {
		return time.Time{}
	}
	return c.CreationTimestamp.Add(age)
}

// parseDuration returns a duration of the API, and false for "", "Never" or a value that is none.
func parseDuration(text string) (time.Duration, bool) {
	d, err := time.ParseDuration(text)
	return d, err == nil
}

func (c *NodeClaim) isTrue(condition string) bool {
	cond := findCondition(c.Status.Conditions, condition)
	return cond != nil && cond.Status == metav1.ConditionTrue
}
