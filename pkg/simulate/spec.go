package simulate

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
)

// Spec is the cluster to begin with. New copies what it changes.
type Spec struct {
	Now   time.Time
	Group upgrade.Group
	// Nodes are the group's nodes; Others are nodes outside it that may take pods.
	Nodes  []*corev1.Node
	Others []*corev1.Node
	// Pods of all these nodes.
	Pods    []*corev1.Pod
	Budgets []*policyv1.PodDisruptionBudget
	// Outdated judges a node that has no instance.
	Outdated func(*corev1.Node) bool
	// Record is an upgrade that was begun before; zero for none.
	Record upgrade.Record
	Times  Times
}

// Times says how long things take.
type Times struct {
	// Boot is from a launch to a Ready node, Leave from a termination to the end of machine and Node.
	Boot, Leave time.Duration
	// Ready is from a pod's binding to its readiness.
	Ready time.Duration
	// Gone is how long a pod takes to end after its deletion; nil for no time at all.
	Gone func(*corev1.Pod) time.Duration
}
