package e2e

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/fixture"
)

// relabelled has current machines, and one node has lost its label. With --current this node is replaced, and the new node has
// the label.
func relabelled(t *testing.T, shared *fixture.Fixture) {
	s := openEmpty(t, shared, fixture.Group{Name: "lacking", Zones: []string{zoneA, zoneB}, Counts: []int{1, 1}, Current: true, Suspended: []string{rebalance}})
	s.addWorkloads()
	s.ready()
	lacking := s.before.group.Instances[0].Node
	s.change(lacking, func(node *corev1.Node) { node.Labels["image"] = fixture.OldImage })
	current := "--current=image=" + fixture.NewImage
	plan := start(t, s.Fixture, "nodeupgrade", s.group, "--dry-run", current, "--forecast=false")
	plan.end(0)
	plan.says("1 of 2 nodes is outdated, 1 of them only because they lack a label of current nodes")
	s.upgrade(0, current)
	for _, node := range s.nodes() {
		if node.Name == lacking || node.Labels["image"] != fixture.NewImage {
			t.Errorf("node %s is there, with the label %q", node.Name, node.Labels["image"])
		}
	}
	s.settle()
	s.checkSize(s.takeSnapshot())
	s.upgrade(0, current).says("is current")
}

// unlabelled requires a label that new nodes do not get. No old node is touched, and the upgrade fails instead of adding nodes
// endlessly (EKS E27, E33). Then abort without --current removes the rest, because the record says that the group has a cloud.
func unlabelled(t *testing.T, shared *fixture.Fixture) {
	s := open(t, shared, fixture.Group{Name: "mistaken", Zones: []string{zoneA, zoneB}, Counts: []int{1, 1}})
	c := s.upgrade(1, "--current=image=ami-0ccccccccccccccc3", "--boot-timeout=5s")
	for _, part := range []string{"NodeCreationFailure", "lacks the labels of a current node"} {
		if errorLine := c.errorLine(); !strings.Contains(errorLine, part) {
			t.Errorf("the error does not say %q: %s", part, errorLine)
		}
	}
	s.settle()
	s.checkTimeline()
	s.checkUntouched()
}

// abortLabelled interrupts an upgrade with --current and aborts it by its name, without --current.
func abortLabelled(t *testing.T, shared *fixture.Fixture) {
	s := open(t, shared, fixture.Group{Name: "forgetful", Zones: []string{zoneA, zoneB}, Counts: []int{1, 1}}, wedge(2))
	c := s.start("--current=image=" + fixture.NewImage)
	blockedBy("stubborn")(s, c)
	c.interrupt()
	c.end(130)
	s.asked(0, "abort", "--yes").says("nodegroup/" + s.group + " aborted")
	s.checkUndone(false)
	if after := s.cloudGroup(); after.Max != max(after.Desired, s.before.group.Max) {
		t.Errorf("the maximum stays at %d, with a desired size of %d", after.Max, after.Desired)
	}
}
