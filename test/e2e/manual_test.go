package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodemark"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/controlplane"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/fixture"
)

// openManual adds three outdated nodes without a cloud, and as many current nodes as current says. The first outdated node has marks
// of a user.
func openManual(t *testing.T, shared *fixture.Fixture, name string, current int) *testCase {
	t.Helper()
	s := openEmptyCase(t, shared, fixture.Group{Name: name})
	for i := range 3 {
		s.addNode(fmt.Sprintf("%s-old-%d", name, i), "v1")
	}
	for i := range current {
		s.addNode(fmt.Sprintf("%s-new-%d", name, i), "v2")
	}
	s.waitForNodes(3 + current)
	s.addDefaultWorkloads()
	s.settle()
	s.addUserMarks(name + "-old-0")
	s.startObserving()
	return s
}

func (s *testCase) addNode(name, image string) {
	s.t.Helper()
	err := s.Cluster.AddNode(s.t.Context(), controlplane.NodeSpec{Name: name, Labels: map[string]string{"pool": s.group, "image": image}})
	if err != nil {
		s.t.Fatal(err)
	}
}

// startLabelled starts the upgrade of the labelled nodes.
func (s *testCase) startLabelled(flags ...string) *command {
	s.t.Helper()
	args := []string{"nodeupgrade", "-l", "pool=" + s.group, "--current", "image=v2", "--yes", "--parallel-groups", "--progress=json", "--settle=0s"}
	return startKubectl(s.t, s.Fixture, append(args, flags...)...)
}

// testNodesAddedByHand adds a current node for each drained node and deletes the drained node, as a user would.
func testNodesAddedByHand(t *testing.T, shared *fixture.Fixture) {
	s := openManual(t, shared, "hand", 0)
	c := s.startLabelled()
	for i := range 3 {
		drained := c.awaitEvent("a drained node", nodeReached("Drained")).Node
		if i < 2 {
			s.waitFor("the upgrade to wait for a replacement", func() bool { return strings.Contains(s.manualStatus().Status.Waiting, "replacement") })
		}
		if drained == "hand-old-0" {
			s.checkUserMarks(drained)
		}
		s.addNode(fmt.Sprintf("hand-new-%d", i), "v2")
		if err := s.Cluster.Client().CoreV1().Nodes().Delete(t.Context(), drained, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	c.awaitExit(0)
	s.checkManualUpgrade(0)
}

// testNodesAddedInAdvance adds a current node before the upgrade. The upgrade does not wait for replacements.
func testNodesAddedInAdvance(t *testing.T, shared *fixture.Fixture) {
	s := openManual(t, shared, "advance", 1)
	c := s.startLabelled("--wait-replacement=false")
	c.awaitExit(0)
	s.checkManualUpgrade(3)
	s.checkUserMarks("advance-old-0")
}

// openWithoutBudgets adds three outdated nodes without a cloud, and pods without a budget on them.
func openWithoutBudgets(t *testing.T, shared *fixture.Fixture, name string) *testCase {
	t.Helper()
	s := openEmptyCase(t, shared, fixture.Group{Name: name})
	for i := range 3 {
		s.addNode(fmt.Sprintf("%s-%d", name, i), "v1")
	}
	s.waitForNodes(3)
	s.deploy(fixture.Workload{Name: "web", Replicas: 6})
	s.startObserving()
	return s
}

func (s *testCase) setCurrentLabel(name string) {
	s.t.Helper()
	s.changeNode(name, func(node *corev1.Node) { node.Labels["image"] = "v2" })
}

// testNodesRenewedInPlace makes each drained node current without replacing its Node object.
func testNodesRenewedInPlace(t *testing.T, shared *fixture.Fixture) {
	s := openWithoutBudgets(t, shared, "inplace")
	c := s.startLabelled()
	for range 3 {
		s.setCurrentLabel(c.awaitEvent("a drained node", nodeReached("Drained")).Node)
	}
	c.awaitExit(0)
	s.checkManualUpgrade(0)
}

// testNodesRenewedAfterEnd makes the nodes current after the upgrade has ended. The same command must then release them.
func testNodesRenewedAfterEnd(t *testing.T, shared *fixture.Fixture) {
	s := openWithoutBudgets(t, shared, "later")
	s.startLabelled("--wait-replacement=false").awaitExit(0)
	for i := range 3 {
		s.setCurrentLabel(fmt.Sprintf("later-%d", i))
	}
	s.startLabelled("--wait-replacement=false").awaitExit(0)
	s.checkManualUpgrade(0)
}

// testNodeAddedWithStartupTaint adds a Ready node whose agent has not started yet, so that it has a taint. The upgrade must wait until
// the taint is removed.
func testNodeAddedWithStartupTaint(t *testing.T, shared *fixture.Fixture) {
	s := openWithoutBudgets(t, shared, "starting")
	c := s.startLabelled()
	for i := range 3 {
		drained := c.awaitEvent("a drained node", nodeReached("Drained")).Node
		fresh := controlplane.NodeSpec{Name: fmt.Sprintf("starting-new-%d", i), Labels: map[string]string{"pool": s.group, "image": "v2"}}
		if i == 0 {
			fresh.Taints = []corev1.Taint{{Key: "example.com/agent", Effect: corev1.TaintEffectNoSchedule}}
		}
		if err := s.Cluster.AddNode(t.Context(), fresh); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			s.waitFor("the taint to be named", func() bool {
				return strings.Contains(s.manualStatus().Status.Waiting, "has taint example.com/agent:NoSchedule")
			})
			s.changeNode(fresh.Name, func(node *corev1.Node) {
				node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == "example.com/agent" })
			})
		}
		if err := s.Cluster.Client().CoreV1().Nodes().Delete(t.Context(), drained, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	c.awaitExit(0)
	s.checkManualUpgrade(0)
}

// checkManualUpgrade checks that each pod moved once, that the given number of outdated nodes is left and fenced, and that no current
// node is fenced.
func (s *testCase) checkManualUpgrade(old int) {
	s.t.Helper()
	s.settle()
	after := s.takeSnapshot()
	for _, node := range s.nodes() {
		if s.isCurrent(&node, after.group) {
			s.checkNoMarks(&node)
			continue
		}
		old--
		if !nodemark.HasTaint(&node, nodegroup.FenceTaint("manual")) || !node.Spec.Unschedulable {
			s.t.Errorf("drained node %s is not fenced", node.Name)
		}
	}
	if old != 0 {
		s.t.Errorf("%d fewer outdated nodes are left than expected", old)
	}
	for app, n := range s.before.ready {
		if after.ready[app] != n {
			s.t.Errorf("%d pods of %s are ready, before %d", after.ready[app], app, n)
		}
	}
	if len(after.movingPods) > 0 {
		s.t.Errorf("pods are left on outdated nodes: %v", after.movingPods)
	}
	s.checkEvictions()
	s.checkBudgetsKept()
}

func (s *testCase) manualStatus() status {
	s.t.Helper()
	return s.statusOf("-l", "pool="+s.group, "--current", "image=v2")
}
