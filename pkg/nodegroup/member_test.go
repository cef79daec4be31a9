package nodegroup_test

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/build"
)

func TestNodesAndInstancesAreJoinedIntoMembers(t *testing.T) {
	node := func(name, provider string) *corev1.Node {
		return build.Node(name, "a", func(n *corev1.Node) { n.Spec.ProviderID = provider })
	}
	instance := nodegroup.Instance{ID: "i-1", Zone: "b", Outdated: true}
	byLabel := func(n *corev1.Node) bool { return n.Name == "labelled" }
	type row struct {
		name, instance, zone string
		outdated             bool
	}
	cases := map[string]struct {
		instances []nodegroup.Instance
		nodes     []*corev1.Node
		want      []row
	}{
		"a node and its instance":        {[]nodegroup.Instance{instance}, []*corev1.Node{node("n", "aws:///us-east-1b/i-1")}, []row{{"n", "i-1", "b", true}}},
		"an instance without a node":     {[]nodegroup.Instance{instance}, nil, []row{{"i-1", "i-1", "b", true}}},
		"a node the cloud does not list": {nil, []*corev1.Node{node("n", "aws:///us-east-1b/i-1"), node("labelled", "")}, []row{{"labelled", "", "a", true}, {"n", "", "a", false}}},
		"the instance's word counts":     {[]nodegroup.Instance{{ID: "i-1"}}, []*corev1.Node{node("labelled", "aws:///us-east-1b/i-1")}, []row{{"labelled", "i-1", "a", false}}},
		"by name":                        {[]nodegroup.Instance{{ID: "i-2"}, {ID: "i-1"}}, []*corev1.Node{node("b", "x/i-2"), node("a", "x/i-3")}, []row{{"a", "", "a", false}, {"b", "i-2", "a", false}, {"i-1", "i-1", "", false}}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var got []row
			for _, m := range nodegroup.JoinMembers(nodegroup.Group{Instances: c.instances}, c.nodes, byLabel) {
				got = append(got, row{m.Name(), m.Instance.ID, m.Zone(), m.Outdated})
			}
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

// TestNodeStandsForItsMachineIfCloudListsNone: GKE's API lists no machines.
func TestNodeStandsForItsMachineIfCloudListsNone(t *testing.T) {
	old, current, foreign := &corev1.Node{}, &corev1.Node{}, &corev1.Node{}
	for i, n := range []*corev1.Node{old, current, foreign} {
		n.Name, n.Status.NodeInfo.KubeletVersion = []string{"a", "b", "c"}[i], []string{"v1.33.5", "v1.34.3", "v1.33.5"}[i]
		n.Spec.ProviderID = "gce://acme/us-central1-b/gke-" + n.Name
	}
	foreign.Spec.ProviderID = "kind://c"
	current.Labels = map[string]string{corev1.LabelTopologyZone: "us-central1-c"}
	outdated := func(n *corev1.Node) bool { return n.Status.NodeInfo.KubeletVersion != "v1.34.3" }
	group := nodegroup.Group{Name: "workers", Provider: "gke", Managed: &nodegroup.Managed{}}
	members := nodegroup.JoinMembers(group, []*corev1.Node{old, current, foreign}, outdated)
	if m := members[0]; !m.Outdated || m.Instance.ID != "gke-a" || m.Instance.Zone != "us-central1-b" || !m.Instance.Outdated || m.Instance.Revision.Target() != "1.33.5" {
		t.Errorf("the old node is %+v", m)
	}
	if m := members[1]; m.Outdated || m.Instance.ID != "gke-b" || m.Instance.Zone != "us-central1-c" || m.Instance.Outdated {
		t.Errorf("the current node is %+v", m)
	}
	if m := members[2]; m.Instance.ID != "" {
		t.Errorf("a node of no cloud has a machine: %+v", m)
	}
	if g := nodegroup.WithMachines(group, members); g.Desired != 2 || len(g.Instances) != 2 || !g.Can.ListInstances {
		t.Errorf("the group with its machines is %+v", g)
	}
}
