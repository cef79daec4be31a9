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

// openManual begins a case with three outdated nodes without a cloud and with current ones. The first outdated node has marks of
// a user.
func openManual(t *testing.T, shared *fixture.Fixture, name string, current int) *testCase {
	t.Helper()
	s := openEmpty(t, shared, fixture.Group{Name: name})
	for i := range 3 {
		s.addNode(fmt.Sprintf("%s-old-%d", name, i), "v1")
	}
	for i := range current {
		s.addNode(fmt.Sprintf("%s-new-%d", name, i), "v2")
	}
	s.waitForNodes(3 + current)
	s.addWorkloads()
	s.settle()
	s.mark(name + "-old-0")
	s.ready()
	return s
}

func (s *testCase) addNode(name, image string) {
	s.t.Helper()
	err := s.Cluster.AddNode(s.t.Context(), controlplane.NodeSpec{Name: name, Labels: map[string]string{"pool": s.group, "image": image}})
	if err != nil {
		s.t.Fatal(err)
	}
}

// manually starts the upgrade of the labelled nodes.
func (s *testCase) manually(flags ...string) *command {
	s.t.Helper()
	args := []string{"nodeupgrade", "-l", "pool=" + s.group, "--current", "image=v2", "--yes", "--parallel-groups", "--progress=json", "--settle=0s"}
	return start(s.t, s.Fixture, append(args, flags...)...)
}

// byHand adds a current node for each drained node and deletes the drained one, as a user would.
func byHand(t *testing.T, shared *fixture.Fixture) {
	s := openManual(t, shared, "hand", 0)
	c := s.manually()
	for i := range 3 {
		drained := c.until("a drained node", nodeState("Drained")).Node
		if i < 2 {
			s.waitFor("the upgrade to wait for a replacement", func() bool { return strings.Contains(s.manualStatus().Status.Waiting, "replacement") })
		}
		if drained == "hand-old-0" {
			s.checkMarked(drained)
		}
		s.addNode(fmt.Sprintf("hand-new-%d", i), "v2")
		if err := s.Cluster.Client().CoreV1().Nodes().Delete(t.Context(), drained, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	c.end(0)
	s.checkManual(0)
}

// inAdvance has its current node before the upgrade, and the upgrade does not wait for replacements.
func inAdvance(t *testing.T, shared *fixture.Fixture) {
	s := openManual(t, shared, "advance", 1)
	c := s.manually("--wait-replacement=false")
	c.end(0)
	s.checkManual(3)
	s.checkMarked("advance-old-0")
}

// openPlain begins a case with three outdated nodes without a cloud. They are full of pods without a budget.
func openPlain(t *testing.T, shared *fixture.Fixture, name string) *testCase {
	t.Helper()
	s := openEmpty(t, shared, fixture.Group{Name: name})
	for i := range 3 {
		s.addNode(fmt.Sprintf("%s-%d", name, i), "v1")
	}
	s.waitForNodes(3)
	s.add(fixture.Workload{Name: "web", Replicas: 6})
	s.ready()
	return s
}

func (s *testCase) renew(name string) {
	s.t.Helper()
	s.change(name, func(node *corev1.Node) { node.Labels["image"] = "v2" })
}

// renewedInPlace has an agent that upgrades each node, so that it returns as the same Node.
func renewedInPlace(t *testing.T, shared *fixture.Fixture) {
	s := openPlain(t, shared, "inplace")
	c := s.manually()
	for range 3 {
		s.renew(c.until("a drained node", nodeState("Drained")).Node)
	}
	c.end(0)
	s.checkManual(0)
}

// renewedAfterEnd does not wait for the nodes. The same command releases them later.
func renewedAfterEnd(t *testing.T, shared *fixture.Fixture) {
	s := openPlain(t, shared, "later")
	s.manually("--wait-replacement=false").end(0)
	for i := range 3 {
		s.renew(fmt.Sprintf("later-%d", i))
	}
	s.manually("--wait-replacement=false").end(0)
	s.checkManual(0)
}

// broughtTainted adds a Ready node for the first drained one before the new node's agent has started.
func broughtTainted(t *testing.T, shared *fixture.Fixture) {
	s := openPlain(t, shared, "starting")
	c := s.manually()
	for i := range 3 {
		drained := c.until("a drained node", nodeState("Drained")).Node
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
			s.change(fresh.Name, func(node *corev1.Node) {
				node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == "example.com/agent" })
			})
		}
		if err := s.Cluster.Client().CoreV1().Nodes().Delete(t.Context(), drained, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	c.end(0)
	s.checkManual(0)
}

// checkManual checks that pods moved once, that the remaining outdated nodes are fenced, and that the current ones are not.
func (s *testCase) checkManual(old int) {
	s.t.Helper()
	s.settle()
	after := s.takeSnapshot()
	for _, node := range s.nodes() {
		if s.current(&node, after.group) {
			s.checkClean(&node)
			continue
		}
		old--
		if !nodemark.HasTaint(&node, nodegroup.FenceTaint("manual")) || !node.Spec.Unschedulable {
			s.t.Errorf("drained node %s is not fenced", node.Name)
		}
	}
	if old != 0 {
		s.t.Errorf("%d fewer outdated nodes are left than were to be", old)
	}
	for app, n := range s.before.ready {
		if after.ready[app] != n {
			s.t.Errorf("%d pods of %s are ready, before %d", after.ready[app], app, n)
		}
	}
	if len(after.moves) > 0 {
		s.t.Errorf("pods are left on outdated nodes: %v", after.moves)
	}
	s.checkEvictions()
	s.checkBudgets()
}

func (s *testCase) manualStatus() status {
	s.t.Helper()
	return s.statusOf("-l", "pool="+s.group, "--current", "image=v2")
}
