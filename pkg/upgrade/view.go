package upgrade

import (
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
)

// View is the part of a cluster that upgrades look at, at one moment. What it points to must not be
// changed.
type View struct {
	// Nodes by name. Views share the slice as long as no node changes.
	Nodes []*corev1.Node
	// Pods are all pods bound to each node, and under "" those that no node has.
	Pods map[string][]*corev1.Pod
	// Budgets of the whole cluster, parsed; PDBs are the same, as objects.
	Budgets drain.Budgets
	PDBs    []*policyv1.PodDisruptionBudget
	// Disrupted tells when each pod was last seen in a budget's status.disruptedPods.
	Disrupted map[types.NamespacedName]time.Time
	// EndingNamespaces are being deleted.
	EndingNamespaces map[string]bool
	// Facts tell which pods others need, as it was when the cluster began to be watched.
	Facts drain.Facts
	// Workloads are those of all pods that were read.
	Workloads drain.Workloads
}

// ErrRecordChanged is the error of storing a record that another actor has written since it was
// read.
var ErrRecordChanged = errors.New("its record was changed or deleted by another actor")
