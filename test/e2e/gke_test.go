package e2e

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/fixture"
)

// zoneByZone replaces one node at a time as GKE does, and all nodes of a zone before those of the next (GKE G10, G14).
func zoneByZone(t *testing.T, shared *fixture.Fixture) {
	s := open(t, shared, fixture.Group{Name: "zonal", Zones: []string{zoneA, zoneB}, Counts: []int{2, 2}})
	s.surge, s.unavailable = 1, 0
	zoneOf := map[string]string{}
	for _, node := range s.nodes() {
		zoneOf[node.Name] = node.Labels[corev1.LabelTopologyZone]
	}
	c := s.upgrade(0, "--like=gke")
	var zones []string
	for _, e := range c.log.events {
		if nodeState(string(record.NodeDraining))(e) {
			zones = append(zones, zoneOf[e.Node])
		}
	}
	if len(zones) != 4 || len(slices.Compact(slices.Clone(zones))) != 2 {
		t.Errorf("nodes were drained in zones %v, want two of one zone, and then two of the other", zones)
	}
	s.checkDone()
}

// shortLived waits until outdated nodes end by themselves: no node is fenced, drained or removed. Once they are replaced, resume
// ends the upgrade (GKE G90).
func shortLived(t *testing.T, shared *fixture.Fixture) {
	s := open(t, shared, fixture.Group{Name: "short-lived", Zones: []string{zoneA, zoneB}, Counts: []int{1, 1}})
	c := start(t, s.Fixture, "nodeupgrade", s.group, "--yes", "--parallel-groups", "--progress=json", "--strategy=short-lived")
	c.end(6)
	c.says("2 of 2 nodes are left", "to end by themselves")
	for _, node := range s.nodes() {
		s.checkClean(&node)
	}
	if sizes := s.Cloud.Timeline(s.group); sizes[len(sizes)-1].Desired != 2 {
		t.Errorf("the group's sizes were %v", sizes)
	}
	terminated := s.terminated()
	for _, i := range s.before.group.Instances {
		if terminated[i.ID] > 0 {
			t.Errorf("instance %s was terminated", i.ID)
		}
	}
	s.asked(0, "status").says("Phase       " + string(record.PhaseExpire))
	for _, i := range s.cloudGroup().Instances {
		if err := s.Cloud.KillInstance(i.ID); err != nil {
			t.Fatal(err)
		}
	}
	s.waitFor("the ended machines to be replaced", func() bool {
		group, nodes := s.cloudGroup(), s.nodes()
		return len(nodes) == 2 && !slices.ContainsFunc(nodes, func(n corev1.Node) bool { return !s.current(&n, group) })
	})
	s.asked(0, "resume", "--yes", "--parallel-groups").says("upgraded")
	s.settle()
	if found, err := s.Evictions(t.Context()); err != nil || found.Calls > 0 {
		t.Errorf("evictions were asked for: %+v, %v", found, err)
	}
}
