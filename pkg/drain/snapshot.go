package drain

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Snapshot is the part of a cluster that upgrades read, at one moment. The objects that it points to must not be
// changed.
type Snapshot struct {
	// Nodes are sorted by name. Snapshots share the slice as long as no node changes.
	Nodes []*corev1.Node
	// Pods are all pods by the name of their node, or under "" if they have none. Pods is nil if pods were not read.
	Pods map[string][]*corev1.Pod
	// Budgets are the parsed budgets of the whole cluster; PDBs are their objects.
	Budgets Budgets
	PDBs    []*policyv1.PodDisruptionBudget
	// Disrupted is when a pod (namespace/name) was last seen in the status.disruptedPods of a budget. From then on,
	// that budget's status contains the pod's eviction.
	Disrupted map[types.NamespacedName]time.Time
	// EndingNamespaces has the namespaces that are being deleted.
	EndingNamespaces map[string]bool
	// Facts hold which pods others need. They are read when the watch of the cluster begins.
	Facts Facts
	// Workloads are the workloads of all pods that were read.
	Workloads Workloads
}
