package worlds

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
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// view is the cluster as a process has seen it: its state when the process began, changed by the watch events since then.
type view struct {
	nodes     map[string]*corev1.Node
	pods      map[types.UID]*corev1.Pod
	budgets   map[string]*policyv1.PodDisruptionBudget
	index     drain.Budgets
	indexed   bool
	disrupted map[types.NamespacedName]time.Time
	workloads *drain.WorkloadIndex
	// shown contains each node's pods as joinMembers last returned them. As in package cluster, unchanged pods are returned in the
	// same slice.
	shown map[string][]*corev1.Pod
}

func newView(c *cluster) *view {
	v := &view{
		nodes: maps.Clone(c.nodes), pods: map[types.UID]*corev1.Pod{}, budgets: map[string]*policyv1.PodDisruptionBudget{},
		disrupted: map[types.NamespacedName]time.Time{}, workloads: drain.NewWorkloadIndex(c.plan.serviceFacts()),
		shown: map[string][]*corev1.Pod{},
	}
	for _, pod := range c.pods {
		v.apply(change{pod: pod}, c.now)
	}
	for _, pdb := range c.budgets {
		v.apply(change{budget: pdb}, c.now)
	}
	return v
}

// apply applies one event.
func (v *view) apply(ch change, now time.Time) {
	switch {
	case ch.node != nil && ch.gone:
		delete(v.nodes, ch.node.Name)
	case ch.node != nil:
		v.nodes[ch.node.Name] = ch.node
	case ch.pod != nil && ch.gone:
		delete(v.pods, ch.pod.UID)
		v.workloads.Remove(ch.pod)
	case ch.pod != nil:
		v.pods[ch.pod.UID] = ch.pod
		v.workloads.Store(ch.pod)
	case ch.gone:
		delete(v.budgets, ch.budget.Name)
		v.indexed = false
	default:
		v.budgets[ch.budget.Name] = ch.budget
		v.indexed = false
		for pod := range ch.budget.Status.DisruptedPods {
			v.disrupted[types.NamespacedName{Namespace: namespace, Name: pod}] = now
		}
	}
}

func (v *view) indexedBudgets() drain.Budgets {
	if !v.indexed {
		v.index, v.indexed = drain.NewBudgets(slices.Collect(maps.Values(v.budgets))), true
	}
	return v.index
}

// joinMembers joins the nodes with their instances and pods. It returns the group's nodes, and the started nodes of the record.
func (v *view) joinMembers(group *nodegroup.Group, record *record.Record) []nodegroup.Member {
	machines := make(map[string]bool, len(group.Instances))
	for i := range group.Instances {
		machines[group.Instances[i].ID] = true
	}
	var nodes []*corev1.Node
	for name, node := range v.nodes {
		started, ok := record.Nodes[name]
		mine := node.Labels[groupLabel] != ""
		if group.Can.ListInstances {
			mine = machines[node.Spec.ProviderID[strings.LastIndex(node.Spec.ProviderID, "/")+1:]]
		}
		if mine || (ok && started.UID == node.UID) {
			nodes = append(nodes, node)
		}
	}
	members := nodegroup.JoinMembers(*group, nodes, func(n *corev1.Node) bool { return n.Labels[imageLabel] != group.Wanted.ID })
	upgrade.MarkOutdatedByLabels(group, members, record)
	at := make(map[string]int, len(members))
	for i := range members {
		if members[i].Node != nil {
			at[members[i].Node.Name] = i
		}
	}
	for _, pod := range v.pods {
		if i, ok := at[pod.Spec.NodeName]; ok {
			members[i].Pods = append(members[i].Pods, pod)
		}
	}
	for i := range members {
		m := &members[i]
		slices.SortFunc(m.Pods, func(a, b *corev1.Pod) int { return strings.Compare(string(a.UID), string(b.UID)) })
		if last := v.shown[m.Name()]; slices.Equal(last, m.Pods) {
			m.Pods = last
		}
		v.shown[m.Name()] = m.Pods
	}
	return members
}
