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

// Spec is the initial state of a cluster. New copies what it changes. The order of the lists does not matter.
type Spec struct {
	// Watch is called before each step of the forecast's run in which pods end as soon as possible; nil for none. It
	// must not use the World after it returns.
	Watch func(upgrade.World, upgrade.Step)

	Now   time.Time
	Group nodegroup.Group
	// Nodes are the group's nodes; Others are nodes outside it that may take pods.
	Nodes  []*corev1.Node
	Others []*corev1.Node
	// Pods are the pods of all these nodes, and pending pods without a node.
	Pods    []*corev1.Pod
	Budgets []*policyv1.PodDisruptionBudget
	// Workloads are the known controllers of pods, by UID. If all controllers of a budget's pods are known, the
	// budget begins with the status that the disruption controller would compute. Otherwise, it keeps its status.
	Workloads map[types.UID]Workload
	// Claims and Volumes restrict pods to the nodes from which their volumes can be reached. A claim without a volume
	// here restricts nothing.
	Claims  []*corev1.PersistentVolumeClaim
	Volumes []*corev1.PersistentVolume
	// CSINodes have the limits on attached volumes. ResourceClaims determine which nodes the devices of pods are on.
	// Namespaces have the labels for the namespace selectors of affinity terms. Without namespaces, such a selector
	// is assumed to select all.
	CSINodes       []*storagev1.CSINode
	ResourceClaims []*resourcev1.ResourceClaim
	Namespaces     []*corev1.Namespace
	// EndingNamespaces are the namespaces that are being deleted. No pod can be evicted there.
	EndingNamespaces map[string]bool
	// Targets are the load balancers to simulate, with all of their targets.
	Targets nodegroup.Targets
	// Facts determine which pods other pods need.
	Facts drain.Facts
	// Movable determines which pods a rolling restart moves without a gap.
	Movable drain.Movable
	// Launched is when instances of the group were launched, by instance ID. Terminations are how long terminations
	// of other instances took. Both have only what the cloud reports.
	Launched     map[string]time.Time
	Terminations []time.Duration
	// Autoscaled is true if an autoscaler adds nodes for pending pods to a group that has a size.
	Autoscaled bool
	// Outdated reports whether a node without an instance is outdated.
	Outdated func(*corev1.Node) bool
	// Draws is how many drawn node orders a forecast tries, in addition to the order that loses the least time. It is
	// for clouds that choose nodes at random (EKS E40). Only forecasts use it.
	Draws int
	// Rolling is how the group's cloud replaces the nodes in slots; nil if it does not. Only forecasts use it.
	Rolling *Rolling
	// Refilled is true if a new node is added at once for each drained node. Users do that in groups without a cloud;
	// the time that they need is not known.
	Refilled bool
	// FaultsLast is true if pods with a container that cannot start, for example in CrashLoopBackOff, and their
	// replacements never become ready. Otherwise, they become ready in their usual time.
	FaultsLast bool
	// Refused returns why the API server refuses the pod that a controller would create instead of a pod, or in
	// addition to it if beside is true. It returns "" if it admits the pod. A nil Refused admits all pods.
	Refused func(pod *corev1.Pod, beside bool) string
	// Webhooks are the admission webhooks that may fail during the upgrade.
	Webhooks []Webhook
	// Record is the record of an upgrade that has already begun; zero for none.
	Record record.Record
	Times  Times
}

// Workload is data about a controller that its pods do not show.
type Workload struct {
	// Replicas is its scale, as a number of pods.
	Replicas int32
	// Of is the UID of the controller that has this scale, if that is another one. For all ReplicaSets of a
	// Deployment, it is the Deployment.
	Of types.UID
	// Ordered is true for a StatefulSet with podManagementPolicy OrderedReady. It creates a pod only when all pods
	// before it are ready.
	Ordered bool
	// Template is the template of its next pod, nil if it is not known. NodeName is the node in the template, on
	// which its pods start without the scheduler; "" for none.
	Template *corev1.PodTemplateSpec
	NodeName string
	// Rollout is set if a StatefulSet has a new template that some of its pods do not have yet.
	Rollout *Rollout
	// Pods are the pods that the controller itself keeps; nil if that is not known. The controller creates the
	// missing ones when the simulation begins.
	Pods *PodSet
}

// PodSet is the pods that a ReplicaSet or a StatefulSet keeps.
type PodSet struct {
	Kind, Namespace, Name string
	// Count is how many pods there should be. First is the lowest ordinal of a StatefulSet.
	Count, First int
	// Claims are the names of a StatefulSet's claim templates. Each is a volume of its pods.
	Claims []string
}

// Rollout is a template that pods of a StatefulSet get only when they are created again.
type Rollout struct {
	// Revision is the name of the template: the label controller-revision-hash of pods that have it.
	Revision string
	// From is the lowest ordinal whose next pod gets the template. Pods before it keep their current template.
	From int
}

// Times is how long things take.
type Times struct {
	// Boot is the time from a launch to a Ready node. Leave is the time from a termination to the end of the instance
	// and its Node.
	Boot, Leave time.Duration
	// Join is how long a machine takes from its launch until its Node exists, if the cloud reports no launches. It is added to the
	// time that nodes took from joining to readiness.
	Join time.Duration
	// Seen is the time until a change of the group's settings is seen, because a cloud has no watch.
	Seen time.Duration
	// Ready is the time from a pod's binding until it is ready.
	Ready time.Duration
	// ReadyOf returns Ready for a pod. It returns a negative time for a pod that never becomes ready. If it is nil,
	// Ready is used.
	ReadyOf func(*corev1.Pod) time.Duration
	// Gone returns how long a pod takes to end after its deletion; nil for no time.
	Gone func(*corev1.Pod) time.Duration
	// GoneLatest returns the longest time that a pod may take to end; nil for the same as Gone. Only forecasts use
	// it.
	GoneLatest func(*corev1.Pod) time.Duration
}
