package upgrade_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/build"
)

// TestPassedOverNodes checks which nodes Karpenter does not replace, or does not finish, before a person changes something.
func TestPassedOverNodes(t *testing.T) {
	keep := func(pod *corev1.Pod) { pod.Annotations = map[string]string{drain.AnnotationDoNotDisrupt: "true"} }
	keepNode := func(node *corev1.Node) { node.Annotations = map[string]string{drain.AnnotationDoNotDisrupt: "true"} }
	begun := build.Tainted("karpenter.sh/disrupted")
	cordoned := func(node *corev1.Node) { node.Spec.Unschedulable = true }
	db := build.App("db")
	closed := build.Budget("db", build.Counts(1, 1, 1))
	member := func(name string, pod *corev1.Pod, with ...func(*corev1.Node)) nodegroup.Member {
		return nodegroup.Member{Node: build.Node(name, "a", with...), Instance: nodegroup.Instance{ID: name, State: nodegroup.InstanceInService}, Outdated: true, Pods: []*corev1.Pod{pod}}
	}
	limited := func(m nodegroup.Member) nodegroup.Member {
		m.Instance.DeletesRest = true
		return m
	}
	members := []nodegroup.Member{
		member("free", build.Pod("a")),
		member("kept by its pod", build.Pod("b", keep)),
		member("kept in its drain", build.Pod("c", keep), begun),
		member("drained", build.Pod("d"), begun, keepNode),
		member("cordoned and kept", build.Pod("e"), cordoned, keepNode),
		member("closed in its drain", build.Pod("h", db), begun),
		limited(member("limited and closed", build.Pod("i", db), begun)),
		limited(member("limited", build.Pod("f", keep))),
		limited(member("limited and kept", build.Pod("g"), keepNode)),
	}
	group := &nodegroup.Group{Managed: &nodegroup.Managed{PassesOver: true}}
	got := slices.Sorted(maps.Keys(upgrade.PassedOver(group, members, drain.NewBudgets([]*policyv1.PodDisruptionBudget{closed}), time.Now())))
	if want := []string{"closed in its drain", "cordoned and kept", "kept by its pod", "kept in its drain", "limited and kept"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
