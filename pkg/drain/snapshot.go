package drain

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Snapshot is the part of a cluster that upgrades look at, at one moment. What it points to must not be
// changed.
type Snapshot struct {
	// Nodes by name. Snapshots share the slice as long as no node changes.
	Nodes []*corev1.Node
	// Pods are all pods bound to each node, and under "" those that no node has; nil where they were not read.
	Pods map[string][]*corev1.Pod
	// Budgets of the whole cluster, parsed; PDBs are the same, as objects.
	Budgets Budgets
	PDBs    []*policyv1.PodDisruptionBudget
	// Disrupted tells when a pod (namespace/name) was last seen in the status.disruptedPods of a
	// budget: from then on that budget's status shows its eviction.
	Disrupted map[types.NamespacedName]time.Time
	// EndingNamespaces are being deleted.
	EndingNamespaces map[string]bool
	// Facts tell which pods others need, as it was when the cluster began to be watched.
	Facts Facts
	// Workloads are those of all pods that were read.
	Workloads Workloads
}
