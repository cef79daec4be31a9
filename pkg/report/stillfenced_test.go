package report_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodemark"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/report"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/build"
)

// Each node of the run is named with the command that restores it. No other node is named.
func TestStillFencedNodesAreListedWithCommands(t *testing.T) {
	fenced := func(name, run string, before func(*corev1.Node)) *corev1.Node {
		node := build.Node(name, "a")
		before(node)
		if err := nodemark.SetFence(node, run, nodegroup.FenceTaint("aws")); err != nil {
			t.Fatal(err)
		}
		return node
	}
	nodes := []*corev1.Node{
		fenced("n2", "r1", func(n *corev1.Node) {
			n.Spec.Unschedulable = true
			n.Labels[corev1.LabelNodeExcludeBalancers] = "mine"
		}),
		fenced("n1", "r1", func(*corev1.Node) {}),
		fenced("n3", "r2", func(*corev1.Node) {}),
		build.Node("n4", "a"),
	}
	want := []string{
		"node n1 is still fenced: run kubectl uncordon n1 && kubectl taint node n1 eks.amazonaws.com/nodegroup:NoSchedule- && kubectl annotate node n1 kubectl-nodeupgrade/prev- kubectl-nodeupgrade/run-",
		"node n2 is still fenced: run kubectl taint node n2 eks.amazonaws.com/nodegroup:NoSchedule- && kubectl annotate node n2 kubectl-nodeupgrade/prev- kubectl-nodeupgrade/run-",
	}
	if got := report.StillFencedLines(nodes, "r1"); !slices.Equal(got, want) {
		t.Errorf("got\n%q, want\n%q", got, want)
	}
}
