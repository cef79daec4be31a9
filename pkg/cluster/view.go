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
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
)

// index is the View as it is built up from single objects. Its callers serialise access.
type index struct {
	nodes     map[string]*corev1.Node
	byName    []*corev1.Node // the nodes by name, nil when they are no longer those
	pods      map[types.UID]*corev1.Pod
	byNode    map[string]map[types.UID]*corev1.Pod
	lists     map[string][]*corev1.Pod
	pdbs      map[types.NamespacedName]*policyv1.PodDisruptionBudget
	budgets   drain.Budgets
	stale     bool // the budgets are no longer those of pdbs
	disrupted map[types.NamespacedName]time.Time
	ending    map[string]bool
	facts     drain.Facts
}

func newIndex() *index {
	return &index{
		nodes: map[string]*corev1.Node{}, pods: map[types.UID]*corev1.Pod{},
		byNode: map[string]map[types.UID]*corev1.Pod{}, lists: map[string][]*corev1.Pod{},
		pdbs:      map[types.NamespacedName]*policyv1.PodDisruptionBudget{},
		disrupted: map[types.NamespacedName]time.Time{}, ending: map[string]bool{},
	}
}

func (x *index) putNode(node *corev1.Node) {
	x.nodes[node.Name], x.byName = node, nil
}

func (x *index) dropNode(node *corev1.Node) {
	delete(x.nodes, node.Name)
	x.byName = nil
}

func (x *index) putPod(pod *corev1.Pod) {
	if old, ok := x.pods[pod.UID]; ok && old.Spec.NodeName != pod.Spec.NodeName {
		x.dropPod(old)
	}
	x.pods[pod.UID] = pod
	node := pod.Spec.NodeName
	if x.byNode[node] == nil {
		x.byNode[node] = map[types.UID]*corev1.Pod{}
	}
	x.byNode[node][pod.UID] = pod
	delete(x.lists, node)
}

// noteworthy reports whether a newer state of a pod may change what is to be done: that it is on a
// node now, or anything about one that is on a cordoned node. How pods elsewhere fare is in the
// budgets, which say it more shortly.
func (x *index) noteworthy(before, pod *corev1.Pod) bool {
	if pod.Spec.NodeName == "" {
		return false
	}
	node := x.nodes[pod.Spec.NodeName]
	return before == nil || before.Spec.NodeName != pod.Spec.NodeName || node == nil || node.Spec.Unschedulable
}

func (x *index) dropPod(pod *corev1.Pod) {
	node := pod.Spec.NodeName
	delete(x.pods, pod.UID)
	delete(x.byNode[node], pod.UID)
	delete(x.lists, node)
	if len(x.byNode[node]) == 0 {
		delete(x.byNode, node)
	}
}

// forgotten is how long a pod's place in a budget's disruptedPods is remembered: longer than any
// eviction is waited for.
const forgotten = time.Minute

func (x *index) putBudget(pdb *policyv1.PodDisruptionBudget, now time.Time) {
	x.pdbs[types.NamespacedName{Namespace: pdb.Namespace, Name: pdb.Name}] = pdb
	x.stale = true
	for pod := range pdb.Status.DisruptedPods {
		x.disrupted[types.NamespacedName{Namespace: pdb.Namespace, Name: pod}] = now
	}
	maps.DeleteFunc(x.disrupted, func(_ types.NamespacedName, at time.Time) bool { return now.Sub(at) > forgotten })
}

func (x *index) dropBudget(pdb *policyv1.PodDisruptionBudget) {
	delete(x.pdbs, types.NamespacedName{Namespace: pdb.Namespace, Name: pdb.Name})
	x.stale = true
}

func (x *index) putNamespace(ns *corev1.Namespace) {
	delete(x.ending, ns.Name)
	if ns.Status.Phase == corev1.NamespaceTerminating {
		x.ending[ns.Name] = true
	}
}

// view copies the index's outline; lists that did not change since the last view are shared with
// it.
func (x *index) view() upgrade.View {
	if x.byName == nil {
		x.byName = slices.SortedFunc(maps.Values(x.nodes), func(a, b *corev1.Node) int { return strings.Compare(a.Name, b.Name) })
	}
	v := upgrade.View{
		Nodes: x.byName, PDBs: make([]*policyv1.PodDisruptionBudget, 0, len(x.pdbs)),
		Disrupted: maps.Clone(x.disrupted), EndingNamespaces: maps.Clone(x.ending), Facts: x.facts,
	}
	for _, pdb := range x.pdbs {
		v.PDBs = append(v.PDBs, pdb)
	}
	if x.stale {
		x.budgets, x.stale = x.budgets.Renew(v.PDBs), false
	}
	v.Budgets = x.budgets
	for node, pods := range x.byNode {
		if _, fresh := x.lists[node]; !fresh {
			list := make([]*corev1.Pod, 0, len(pods))
			for _, pod := range pods {
				list = append(list, pod)
			}
			x.lists[node] = list
		}
	}
	v.Pods = maps.Clone(x.lists)
	return v
}
