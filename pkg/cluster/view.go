package cluster

import (
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// clusterIndex builds the View from single objects. Its callers serialise access.
type clusterIndex struct {
	nodes       map[string]*corev1.Node
	sortedNodes []*corev1.Node // the nodes by name, nil after a change
	pods        map[types.UID]*corev1.Pod
	// podsByNode are lists that Views share. A list is only appended to, and is copied before a pod
	// is removed from it.
	podsByNode       map[string][]*corev1.Pod
	pdbs             map[types.NamespacedName]*policyv1.PodDisruptionBudget
	budgets          drain.Budgets
	budgetsStale     bool // pdbs has changed since budgets was built
	lastDisrupted    map[types.NamespacedName]time.Time
	endingNamespaces map[string]bool
	facts            drain.Facts
	workloads        *drain.WorkloadIndex
}

func newClusterIndex() *clusterIndex {
	return &clusterIndex{
		nodes: map[string]*corev1.Node{}, pods: map[types.UID]*corev1.Pod{}, podsByNode: map[string][]*corev1.Pod{},
		pdbs:          map[types.NamespacedName]*policyv1.PodDisruptionBudget{},
		lastDisrupted: map[types.NamespacedName]time.Time{}, endingNamespaces: map[string]bool{},
		workloads: drain.NewWorkloadIndex(drain.Facts{}),
	}
}

func (x *clusterIndex) storeNode(node *corev1.Node) {
	x.nodes[node.Name], x.sortedNodes = node, nil
}

func (x *clusterIndex) removeNode(node *corev1.Node) {
	delete(x.nodes, node.Name)
	x.sortedNodes = nil
}

func (x *clusterIndex) storePod(pod *corev1.Pod) {
	if last, known := x.pods[pod.UID]; known {
		x.removeFromNode(last)
		if drain.WorkloadOf(last) != drain.WorkloadOf(pod) {
			x.workloads.Remove(last) // if the workload stays the same, it must remember that the pod lost its readiness
		}
	}
	x.pods[pod.UID] = pod
	x.workloads.Store(pod)
	x.podsByNode[pod.Spec.NodeName] = append(x.podsByNode[pod.Spec.NodeName], pod)
}

// affectsDecision reports whether the new state of a pod may change a decision. It may if the pod
// got a node, if no node takes it, if the number of ready pods of a workload changes, or if the pod
// is on a cordoned node.
func (x *clusterIndex) affectsDecision(before, pod *corev1.Pod) bool {
	if pod.Spec.NodeName == "" {
		return drain.IsUnschedulable(pod) && (before == nil || !drain.IsUnschedulable(before))
	}
	node := x.nodes[pod.Spec.NodeName]
	return before == nil || before.Spec.NodeName != pod.Spec.NodeName || node == nil || nodegroup.IsClosed(node) ||
		(drain.Ready(before) != drain.Ready(pod) && drain.WorkloadOf(pod) != drain.Workload{})
}

// removePod removes the stored state of a pod.
func (x *clusterIndex) removePod(pod *corev1.Pod) {
	last, known := x.pods[pod.UID]
	if !known {
		return
	}
	delete(x.pods, pod.UID)
	x.workloads.Remove(last)
	x.removeFromNode(last)
}

// removeFromNode removes a pod from the list of its node.
func (x *clusterIndex) removeFromNode(last *corev1.Pod) {
	node := last.Spec.NodeName
	x.podsByNode[node] = slices.DeleteFunc(slices.Clone(x.podsByNode[node]), func(p *corev1.Pod) bool { return p == last })
	if len(x.podsByNode[node]) == 0 {
		delete(x.podsByNode, node)
	}
}

// disruptedFor is how long a pod in a budget's disruptedPods is remembered. It is longer than any wait for an eviction.
const disruptedFor = time.Minute

func (x *clusterIndex) storeBudget(pdb *policyv1.PodDisruptionBudget, now time.Time) {
	x.pdbs[types.NamespacedName{Namespace: pdb.Namespace, Name: pdb.Name}] = pdb
	x.budgetsStale = true
	for pod := range pdb.Status.DisruptedPods {
		x.lastDisrupted[types.NamespacedName{Namespace: pdb.Namespace, Name: pod}] = now
	}
	maps.DeleteFunc(x.lastDisrupted, func(_ types.NamespacedName, at time.Time) bool { return now.Sub(at) > disruptedFor })
}

func (x *clusterIndex) removeBudget(pdb *policyv1.PodDisruptionBudget) {
	delete(x.pdbs, types.NamespacedName{Namespace: pdb.Namespace, Name: pdb.Name})
	x.budgetsStale = true
}

func (x *clusterIndex) storeNamespace(ns *corev1.Namespace) {
	delete(x.endingNamespaces, ns.Name)
	if ns.Status.Phase == corev1.NamespaceTerminating {
		x.endingNamespaces[ns.Name] = true
	}
}

// buildView returns a View of the index. The View shares the lists that have not changed since the
// last one.
func (x *clusterIndex) buildView() drain.Snapshot {
	if x.sortedNodes == nil {
		x.sortedNodes = slices.SortedFunc(maps.Values(x.nodes), func(a, b *corev1.Node) int { return strings.Compare(a.Name, b.Name) })
	}
	v := drain.Snapshot{
		Nodes: x.sortedNodes, PDBs: slices.AppendSeq(make([]*policyv1.PodDisruptionBudget, 0, len(x.pdbs)), maps.Values(x.pdbs)),
		Disrupted: maps.Clone(x.lastDisrupted), EndingNamespaces: maps.Clone(x.endingNamespaces), Facts: x.facts,
		Workloads: x.workloads.Snapshot(), Pods: maps.Clone(x.podsByNode),
	}
	if x.budgetsStale {
		x.budgets, x.budgetsStale = x.budgets.Renew(v.PDBs), false
	}
	v.Budgets = x.budgets
	return v
}
