package e2e

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/awscloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/fixture"
)

// TestFixedSizeGroupEndsWithAllNodesCurrentAndReady upgrades groups whose desired, minimal and maximal size are equal, with each pair of
// surge and unavailable nodes (EKS E09, E26; GKE G16). With 0 and 0, the upgrade is refused before any change (GKE G29).
func TestFixedSizeGroupEndsWithAllNodesCurrentAndReady(t *testing.T) {
	t.Parallel()
	options := quickOptions()
	options.Cloud.NodeReady = 2 * time.Second // so that an upgrade that ends too early fails the test
	shared := fixture.ForTest(t, options)
	t.Run("pair", func(t *testing.T) {
		for surge := range 4 {
			for unavailable := range 4 {
				surgeCase{nodes: 3, surge: fmt.Sprint(surge), unavailable: unavailable}.test(t, shared)
			}
		}
		for _, surge := range []string{"0", "1", ""} {
			surgeCase{nodes: 1, surge: surge, unavailable: 1}.test(t, shared)
		}
		surgeCase{nodes: 3, surge: "", unavailable: 1}.test(t, shared)
	})
}

// surgeCase is a group with one node in each zone, and the options of its upgrade. An empty surge stands for the default.
type surgeCase struct {
	nodes       int
	surge       string
	unavailable int
}

func (w surgeCase) name() string { return fmt.Sprintf("w%d-s%s-u%d", w.nodes, w.surge, w.unavailable) }

func (w surgeCase) test(t *testing.T, shared *fixture.Fixture) {
	t.Run(w.name(), func(t *testing.T) {
		skipUnlessSampled(t)
		t.Parallel()
		w.run(t, shared)
	})
}

func (w surgeCase) run(t *testing.T, shared *fixture.Fixture) {
	s := openEmptyCase(t, shared, fixture.Group{
		Name: w.name(), Zones: []string{zoneA, zoneB, zoneC}[:w.nodes], Counts: []int{1, 1, 1}[:w.nodes], Suspended: []string{rebalance},
		More: func(spec *awscloud.GroupSpec) { spec.Min, spec.Max = w.nodes, w.nodes },
	})
	if w.nodes == 1 && w.surge == "0" {
		s.deploy(fixture.Workload{Name: "web", Replicas: 2, MaxUnavailable: "2"}) // with a smaller value the budget would allow no eviction while the group has no node
	} else {
		s.addDefaultWorkloads()
	}
	s.startObserving()
	flags := []string{fmt.Sprintf("--max-unavailable=%d", w.unavailable)}
	switch {
	case w.surge == "0" && w.nodes == 1:
		flags = append(flags, "--update-strategy=minimal") // the same option with EKS's name
	case w.surge != "":
		flags = append(flags, "--max-surge="+w.surge)
	}
	s.unavailable = w.unavailable
	if w.surge == "0" && w.unavailable == 0 {
		s.runUpgrade(2, flags...)
		s.checkUnchanged()
		return
	}
	s.runUpgrade(0, flags...)
	for _, node := range s.nodes() {
		if group := s.cloudGroup(); !s.isCurrent(&node, group) || !isNodeReady(&node) {
			t.Errorf("at the end node %s is current: %t, Ready: %t", node.Name, s.isCurrent(&node, group), isNodeReady(&node))
		}
	}
	s.checkUpgraded()
}

func isNodeReady(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// checkUnchanged checks that nodes, group and pods have not changed.
func (s *testCase) checkUnchanged() {
	s.t.Helper()
	after := s.takeSnapshot()
	s.checkSizeRestored(after)
	for uid, was := range s.before.marks {
		if is, ok := after.marks[uid]; !ok || !is.equal(was) {
			s.t.Errorf("node %s has changed: %v, before %v", uid, is, was)
		}
	}
	if !maps.Equal(after.movingPods, s.before.movingPods) {
		s.t.Errorf("pods on outdated nodes %v, before %v", after.movingPods, s.before.movingPods)
	}
}
