package simulate

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// Spec is the cluster to begin with. New copies what it changes; the order of the lists does not
// matter.
type Spec struct {
	// Watch sees each step of a forecast's run in which pods end as soon as they may, before the step is done; nil for none. The World that
	// it sees is to be used up at once.
	Watch func(upgrade.World, upgrade.Step)

	Now   time.Time
	Group nodegroup.Group
	// Nodes are the group's nodes; Others are nodes outside it that may take pods.
	Nodes  []*corev1.Node
	Others []*corev1.Node
	// Pods of all these nodes, and those that are bound to none and wait.
	Pods    []*corev1.Pod
	Budgets []*policyv1.PodDisruptionBudget
	// Workloads are the controllers of pods that are known, by UID. A budget whose pods'
	// controllers are all known begins with the status that the disruption controller would
	// compute; all others with the one they have.
	Workloads map[types.UID]Workload
	// Claims and Volumes bind pods to the nodes that their volumes are reachable from; claims
	// without a volume here bind nothing.
	Claims  []*corev1.PersistentVolumeClaim
	Volumes []*corev1.PersistentVolume
	// CSINodes tell how many volumes nodes may attach, ResourceClaims which nodes the devices of pods
	// are on. Namespaces have the labels that affinity selects namespaces by; where there are none,
	// such a selector is taken to select all.
	CSINodes       []*storagev1.CSINode
	ResourceClaims []*resourcev1.ResourceClaim
	Namespaces     []*corev1.Namespace
	// EndingNamespaces are being deleted: nothing can be evicted there.
	EndingNamespaces map[string]bool
	// Targets are the load balancers to follow, with all of their targets.
	Targets nodegroup.Targets
	// Facts tell which pods others need.
	Facts drain.Facts
	// Movable tells which pods a rolling restart moves without a gap.
	Movable drain.Movable
	// Launched is when machines of the group were launched, by instance ID, and Terminations how
	// long others took to go, as far as their cloud tells.
	Launched     map[string]time.Time
	Terminations []time.Duration
	// Autoscaled is a cluster in which an autoscaler of a group with a size brings up nodes of the group for pods that
	// wait.
	Autoscaled bool
	// Outdated judges a node that has no instance.
	Outdated func(*corev1.Node) bool
	// Draws is in how many drawn orders the nodes may be started beside the one that loses least
	// time, as a cloud does that picks them at random (EKS E40). Only forecasts look at it.
	Draws int
	// Refilled has a node brought up at once for each that is drained, as users do in groups without a
	// cloud: how long they take is not known.
	Refilled bool
	// FaultsLast has pods of which a container cannot come up, as one in CrashLoopBackOff, and those that
	// take their places never become ready. Otherwise they do in their usual time.
	FaultsLast bool
	// Refused says why the API server refuses the pod that a controller would create in a pod's place, or
	// beside it; "" where it does not. nil where it refuses none.
	Refused func(pod *corev1.Pod, beside bool) string
	// Record is an upgrade that was begun before; zero for none.
	Record record.Record
	Times  Times
}

// Workload is what is known of a controller of pods beyond the pods themselves.
type Workload struct {
	// Replicas is its scale, in pods.
	Replicas int32
	// Of is the controller whose scale that is, where it is another's: a Deployment is whole in
	// each of its ReplicaSets.
	Of types.UID
	// Ordered is a StatefulSet with podManagementPolicy OrderedReady: a pod comes up when all
	// before it are ready.
	Ordered bool
	// Template is what its next pod is made from, nil where it is not known. NodeName is the node that the
	// template names, on which its pods start without the scheduler; "" for none.
	Template *corev1.PodTemplateSpec
	NodeName string
	// Rollout is a StatefulSet's template that some of its pods do not have yet; nil for none.
	Rollout *Rollout
	// Pods are those that the controller itself keeps. It creates those that are missing when the
	// simulation begins. nil where that is not known.
	Pods *PodSet
}

// PodSet is the pods that a ReplicaSet or a StatefulSet keeps.
type PodSet struct {
	Kind, Namespace, Name string
	// Count is how many pods there should be, and First the lowest ordinal of a StatefulSet's.
	Count, First int
	// Claims names the claim templates of a StatefulSet, each of which is a volume of its pods.
	Claims []string
}

// Rollout is a template that a StatefulSet gives to pods only when they are made again.
type Rollout struct {
	// Revision names it, as the label controller-revision-hash of pods that have it.
	Revision string
	// From is the lowest ordinal whose next pod has it; those before keep the template they have.
	From int
}

// Times says how long things take.
type Times struct {
	// Boot is from a launch to a Ready node, Leave from a termination to the end of machine and
	// Node.
	Boot, Leave time.Duration
	// Seen is from a change of the group's settings to its being observed: a cloud has no watch.
	Seen time.Duration
	// Ready is from a pod's binding to its readiness.
	Ready time.Duration
	// ReadyOf is the same pod by pod, and negative for one that never becomes ready; nil for Ready.
	ReadyOf func(*corev1.Pod) time.Duration
	// Gone is how long a pod takes to end after its deletion; nil for no time at all.
	Gone func(*corev1.Pod) time.Duration
	// GoneLatest is the longest that may be; nil for as long as Gone. Only forecasts look at it.
	GoneLatest func(*corev1.Pod) time.Duration
}
