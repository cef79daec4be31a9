package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/fixture"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/gkecloud"
)

// isInPhase returns a function that reports whether the pool shows the phase.
func (s *poolCase) isInPhase(phase string) func() bool {
	return func() bool {
		pool, err := s.gke.Pool(s.group)
		return err == nil && pool.Phase == phase
	}
}

// checkVersions checks that the pool has its nodes, all with the version.
func (s *poolCase) checkVersions(version string) {
	s.t.Helper()
	pool, err := s.gke.Pool(s.group)
	if err != nil || len(pool.Nodes) != s.size {
		s.t.Errorf("the pool has the nodes %v, want %d (%v)", pool.Nodes, s.size, err)
	}
	for name, got := range pool.Nodes {
		if got != version {
			s.t.Errorf("node %s has version %s, want %s", name, got, version)
		}
	}
}

// upgradeToSoak upgrades a pool blue-green and checks that the command ends in the soak, in which GKE goes on alone.
func (s *poolCase) upgradeToSoak() {
	s.t.Helper()
	c := s.upgrade("--strategy=blue-green", "--batch=2", "--soak=1h")
	c.awaitExit(6)
	s.t.Log(c.transcript())
	c.checkOutput("the drained nodes are kept until ", "complete "+s.group)
	if !s.isInPhase("NODE_POOL_SOAKING")() {
		s.t.Error("the command ended outside of the soak")
	}
}

// testPoolBlueGreen plans a blue-green upgrade of a pool with a surge strategy, carries it out, and ends its soak.
func testPoolBlueGreen(t *testing.T, shared *fixture.Fixture) {
	s := openPool(t, shared, "pool-blue", gkecloud.Options{}, nil)
	plan := s.run(0, s.group, "--dry-run", "--strategy=blue-green", "--batch=2", "--soak=1h")
	t.Log(plan.out.String())
	plan.checkOutput("4 nodes to replace, none blocked", "GKE upgrades the group itself: blue-green, 2 nodes at a time: a new node for each outdated one", "a soak of 1h before the outdated nodes are deleted; GKE keeps this as the group's own strategy")
	s.upgradeToSoak()
	status := s.run(0, "status", s.group)
	t.Log(status.out.String())
	status.checkOutput("Waits for   the soak", "drained")
	again := s.upgrade("--strategy=blue-green", "--batch=2", "--soak=1h")
	again.awaitExit(6)
	done := s.run(0, "complete", s.group, "--yes", "--parallel-groups")
	t.Log(done.transcript())
	s.checkAllReplaced("PUT pool-blue", "POST pool-blue:completeUpgrade")
	s.checkBudgetsKept()
}

// testPoolBlueGreenRollback rolls an upgrade back in its soak: the drained nodes take pods again.
func testPoolBlueGreenRollback(t *testing.T, shared *fixture.Fixture) {
	s := openPool(t, shared, "pool-blue-back", gkecloud.Options{}, nil)
	s.upgradeToSoak()
	back := s.run(0, "rollback", s.group, "--yes", "--parallel-groups")
	t.Log(back.transcript())
	s.checkWrites("PUT pool-blue-back", "POST *:cancel", "POST pool-blue-back:rollback")
	s.checkVersions(gkecloud.NodeVersion)
	s.checkBudgetsKept()
}

// testPoolBlueGreenPause pauses an upgrade in the drain and continues it. A pod that its budget keeps is named.
func testPoolBlueGreenPause(t *testing.T, shared *fixture.Fixture) {
	own := map[string]any{"strategy": "BLUE_GREEN", "blueGreenSettings": map[string]any{
		"nodePoolSoakDuration": "0s", "standardRolloutPolicy": map[string]any{"batchNodeCount": 4.0, "batchSoakDuration": "0s"},
	}}
	s := openPool(t, shared, "pool-blue-paused", gkecloud.Options{DrainLimit: time.Minute}, own, blockingWorkload(2))
	c := s.upgrade()
	c.awaitEvent("the blocker", func(e event) bool {
		return e.Type == "blocked" && strings.Contains(e.Text, "PDB pool-blue-paused/stubborn") && strings.Contains(e.Text, "GKE goes on without it in 59m")
	})
	pause := s.begin("pause", s.group)
	s.waitFor("the cancellation", func() bool { return len(s.gke.Writes()) == 2 })
	s.deleteBudget("stubborn")
	pause.awaitExit(0)
	c.awaitExit(5)
	t.Log(c.transcript())
	again := s.begin("resume", s.group, "--yes", "--parallel-groups")
	again.awaitExit(0)
	t.Log(again.transcript())
	s.checkAllReplaced("PUT pool-blue-paused", "POST *:cancel", "PUT pool-blue-paused")
}

// testPoolAutoscaled upgrades a pool whose own strategy is autoscaled blue-green.
func testPoolAutoscaled(t *testing.T, shared *fixture.Fixture) {
	own := map[string]any{"strategy": "BLUE_GREEN", "blueGreenSettings": map[string]any{"autoscaledRolloutPolicy": map[string]any{"waitForDrainDuration": "3s"}}}
	s := openPool(t, shared, "pool-scaled", gkecloud.Options{}, own)
	plan := s.run(0, s.group, "--dry-run")
	t.Log(plan.out.String())
	plan.checkOutput("GKE upgrades the group itself: autoscaled-blue-green")
	c := s.upgrade()
	c.awaitExit(0)
	t.Log(c.transcript())
	s.checkAllReplaced("PUT pool-scaled")
	s.checkBudgetsKept()
}

// testPoolShortLived upgrades a pool whose nodes end by themselves: GKE drains none, and the command says which are left.
func testPoolShortLived(t *testing.T, shared *fixture.Fixture) {
	s := openPool(t, shared, "pool-short", gkecloud.Options{}, map[string]any{"strategy": "SHORT_LIVED"})
	c := s.upgrade()
	c.awaitExit(6)
	t.Log(c.transcript())
	c.checkOutput("4 of 4 nodes are left", "they end on their own until ")
	s.checkVersions(gkecloud.NodeVersion)
	if err := s.gke.ExpireNodes(t.Context(), s.group); err != nil {
		t.Fatal(err)
	}
	s.waitFor("the new nodes to be the only ones", func() bool {
		pool, err := s.gke.Pool(s.group)
		return err == nil && len(pool.Nodes) == s.size
	})
	again := s.upgrade()
	again.awaitExit(0)
	t.Log(again.transcript())
	s.checkAllReplaced("PUT pool-short")
}

// testPoolSoakOfOtherUser shows the soak of an upgrade that another user has started, and joins it.
func testPoolSoakOfOtherUser(t *testing.T, shared *fixture.Fixture) {
	own := map[string]any{"strategy": "BLUE_GREEN", "blueGreenSettings": map[string]any{
		"nodePoolSoakDuration": "3600s", "standardRolloutPolicy": map[string]any{"batchNodeCount": 4.0},
	}}
	s := openPool(t, shared, "pool-blue-others", gkecloud.Options{}, own)
	if _, err := s.gke.Upgrade(s.group, controlPlaneVersion); err != nil {
		t.Fatal(err)
	}
	s.waitFor("the soak", s.isInPhase("NODE_POOL_SOAKING"))
	status := s.run(0, "status", s.group)
	t.Log(status.out.String())
	status.checkOutput("GKE to delete the drained nodes at ", string(record.PhaseSoak), "it waits before it deletes the old nodes (soak)")
	joined := s.upgrade()
	joined.awaitExit(6)
	done := s.run(0, "complete", s.group, "--yes", "--parallel-groups")
	t.Log(done.transcript())
	s.checkAllReplaced("POST pool-blue-others:completeUpgrade")
}
