package e2e

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/fixture"
)

// testNodeWithoutLabelIsReplaced has current machines, and one node that has lost its label. With --current this node is replaced,
// and the new node has the label.
func testNodeWithoutLabelIsReplaced(t *testing.T, shared *fixture.Fixture) {
	s := openEmptyCase(t, shared, fixture.Group{Name: "lacking", Zones: []string{zoneA, zoneB}, Counts: []int{1, 1}, Current: true, Suspended: []string{rebalance}})
	s.addDefaultWorkloads()
	s.startObserving()
	lacking := s.before.group.Instances[0].Node
	s.changeNode(lacking, func(node *corev1.Node) { node.Labels["image"] = fixture.OldImage })
	current := "--current=image=" + fixture.NewImage
	plan := startKubectl(t, s.Fixture, "nodeupgrade", s.group, "--dry-run", current, "--forecast=false")
	plan.awaitExit(0)
	plan.checkOutput("1 of 2 nodes is outdated, 1 of them only because they lack a label of current nodes")
	s.runUpgrade(0, current)
	for _, node := range s.nodes() {
		if node.Name == lacking || node.Labels["image"] != fixture.NewImage {
			t.Errorf("node %s exists, with the label %q", node.Name, node.Labels["image"])
		}
	}
	s.settle()
	s.checkSizeRestored(s.takeSnapshot())
	s.runUpgrade(0, current).checkOutput("is current")
}

// testNewNodesLackLabel requires a label that new nodes do not get. The upgrade must change no old node, and fail instead of adding
// nodes endlessly (EKS E27, E33).
func testNewNodesLackLabel(t *testing.T, shared *fixture.Fixture) {
	s := openCase(t, shared, fixture.Group{Name: "mistaken", Zones: []string{zoneA, zoneB}, Counts: []int{1, 1}})
	c := s.runUpgrade(1, "--current=image=ami-0ccccccccccccccc3", "--boot-timeout=5s")
	for _, part := range []string{"NodeCreationFailure", "lacks the labels of a current node"} {
		if errorLine := c.errorLine(); !strings.Contains(errorLine, part) {
			t.Errorf("the error does not say %q: %s", part, errorLine)
		}
	}
	s.settle()
	s.checkSizeHistory()
	s.checkUnchanged()
}

// testAbortWithoutCurrentFlag interrupts an upgrade with --current, and aborts it by the group's name without --current.
func testAbortWithoutCurrentFlag(t *testing.T, shared *fixture.Fixture) {
	s := openCase(t, shared, fixture.Group{Name: "forgetful", Zones: []string{zoneA, zoneB}, Counts: []int{1, 1}}, blockingWorkload(2))
	c := s.start("--current=image=" + fixture.NewImage)
	awaitDrainBlockedBy("stubborn")(s, c)
	c.interrupt()
	c.awaitExit(130)
	s.runVerb(0, "abort", "--yes").checkOutput("nodegroup/" + s.group + " aborted")
	s.checkNothingLeft(false)
	if after := s.cloudGroup(); after.Max != max(after.Desired, s.before.group.Max) {
		t.Errorf("the maximum stays at %d, with a desired size of %d", after.Max, after.Desired)
	}
}
