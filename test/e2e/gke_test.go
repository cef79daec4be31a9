package e2e

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/fixture"
)

// testZoneByZone checks that --like=gke replaces one node at a time, and all nodes of a zone before the next zone (GKE G10, G14).
func testZoneByZone(t *testing.T, shared *fixture.Fixture) {
	s := openCase(t, shared, fixture.Group{Name: "zonal", Zones: []string{zoneA, zoneB}, Counts: []int{2, 2}})
	s.surge, s.unavailable = 1, 0
	zoneOf := map[string]string{}
	for _, node := range s.nodes() {
		zoneOf[node.Name] = node.Labels[corev1.LabelTopologyZone]
	}
	c := s.runUpgrade(0, "--like=gke")
	var zones []string
	for _, e := range c.log.events {
		if nodeReached(string(record.NodeDraining))(e) {
			zones = append(zones, zoneOf[e.Node])
		}
	}
	if len(zones) != 4 || len(slices.Compact(slices.Clone(zones))) != 2 {
		t.Errorf("nodes were drained in zones %v, want two nodes of one zone, and then two of the other", zones)
	}
	s.checkUpgraded()
}

// testShortLivedNodes checks the strategy short-lived: outdated nodes end by themselves, and the upgrade fences, drains and removes
// none. After all of them were replaced, resume ends the upgrade (GKE G90).
func testShortLivedNodes(t *testing.T, shared *fixture.Fixture) {
	s := openCase(t, shared, fixture.Group{Name: "short-lived", Zones: []string{zoneA, zoneB}, Counts: []int{1, 1}})
	c := startKubectl(t, s.Fixture, "nodeupgrade", s.group, "--yes", "--parallel-groups", "--progress=json", "--strategy=short-lived")
	c.awaitExit(6)
	c.checkOutput("2 of 2 nodes are left", "to end by themselves")
	for _, node := range s.nodes() {
		s.checkNoMarks(&node)
	}
	if sizes := s.Cloud.Timeline(s.group); sizes[len(sizes)-1].Desired != 2 {
		t.Errorf("the group's sizes were %v", sizes)
	}
	terminated := s.countTerminations()
	for _, i := range s.before.group.Instances {
		if terminated[i.ID] > 0 {
			t.Errorf("instance %s was terminated", i.ID)
		}
	}
	s.runVerb(0, "status").checkOutput("Phase       " + string(record.PhaseExpire))
	for _, i := range s.cloudGroup().Instances {
		if err := s.Cloud.KillInstance(i.ID); err != nil {
			t.Fatal(err)
		}
	}
	s.waitFor("the ended machines to be replaced", func() bool {
		group, nodes := s.cloudGroup(), s.nodes()
		return len(nodes) == 2 && !slices.ContainsFunc(nodes, func(n corev1.Node) bool { return !s.isCurrent(&n, group) })
	})
	s.runVerb(0, "resume", "--yes", "--parallel-groups").checkOutput("upgraded")
	s.settle()
	if found, err := s.Evictions(t.Context()); err != nil || found.Calls > 0 {
		t.Errorf("evictions were requested: %+v, %v", found, err)
	}
}
