package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/fixture"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/gkecloud"
)

// TestGKEUpgradesItsPools upgrades node pools through GKE's API, in parallel. GKE itself replaces the nodes.
func TestGKEUpgradesItsPools(t *testing.T) {
	t.Parallel()
	shared := commonFixture.forTest(t)
	for name, test := range map[string]func(*testing.T, *fixture.Fixture){
		"surge":                               testPoolSurge,
		"other width":                         testPoolWidth,
		"paused":                              testPoolPause,
		"others":                              testPoolUpgradeOfOtherUser,
		"rolled back":                         testPoolRollback,
		"lost answers":                        testPoolLostAnswer,
		"forced by GKE":                       testPoolPodsDeletedAtTheHour,
		"refused":                             testPoolRefusals,
		"blue-green":                          testPoolBlueGreen,
		"blue-green, rolled back in the soak": testPoolBlueGreenRollback,
		"blue-green, paused":                  testPoolBlueGreenPause,
		"blue-green of others":                testPoolSoakOfOtherUser,
		"autoscaled":                          testPoolAutoscaled,
		"short-lived":                         testPoolShortLived,
	} {
		t.Run(name, func(t *testing.T) {
			skipUnlessSampled(t)
			t.Parallel()
			test(t, shared)
		})
	}
}

// poolCase is a case whose nodes are a pool of a GKE cluster of its own.
type poolCase struct {
	*testCase
	gke  *gkecloud.Cloud
	env  []string
	size int
}

// openPool creates a GKE cluster with a pool of two nodes in each of two zones, and four pods of "web" whose budget allows two to be
// disrupted.
func openPool(t *testing.T, shared *fixture.Fixture, name string, options gkecloud.Options, settings map[string]any, extra ...fixture.Workload) *poolCase {
	t.Helper()
	own, err := shared.InNamespace(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	options.Cluster = name
	s := &poolCase{testCase: &testCase{Fixture: own, t: t, group: name}, size: 4}
	t.Cleanup(s.logStateIfFailed)
	if s.gke, s.env, err = own.StartGKE(t.Context(), options); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.gke.Stop)
	spec := gkecloud.PoolSpec{Name: name, Zones: []string{"us-central1-a", "us-central1-b"}, Counts: []int{2, 2}, Settings: settings}
	if err := s.gke.AddPool(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	s.waitForNodes(s.size)
	s.deploy(append([]fixture.Workload{{Name: "web", Replicas: 4, MaxUnavailable: "2"}}, extra...)...)
	s.settle()
	if s.budgets, err = s.WatchBudgets(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.budgets.Stop() })
	return s
}

func (s *poolCase) waitForNodes(n int) {
	s.t.Helper()
	if err := s.AwaitNodes(s.t.Context(), "pool="+s.group, n); err != nil {
		s.t.Fatal(err)
	}
}

// begin starts the plugin with the arguments.
func (s *poolCase) begin(args ...string) *command {
	s.t.Helper()
	all := append([]string{"nodeupgrade"}, args...)
	return startWithEnv(s.t, s.Fixture, s.env, append(all, "--provider=gke", "--cluster-name="+s.gke.Name())...)
}

// run runs the plugin with the arguments, waits until it exits, and checks its exit code.
func (s *poolCase) run(code int, args ...string) *command {
	s.t.Helper()
	c := s.begin(args...)
	c.awaitExit(code)
	return c
}

// upgrade starts an upgrade of the pool.
func (s *poolCase) upgrade(flags ...string) *command {
	s.t.Helper()
	return s.begin(append([]string{s.group, "--yes", "--parallel-groups", "--progress=json", skipBudgetChecks}, flags...)...)
}

// checkAllReplaced checks that all nodes have the control plane's version, and that GKE accepted exactly these writes.
func (s *poolCase) checkAllReplaced(writes ...string) {
	s.t.Helper()
	pool, err := s.gke.Pool(s.group)
	if err != nil {
		s.t.Fatal(err)
	}
	if len(pool.Nodes) != s.size {
		s.t.Errorf("the pool has nodes %v, want %d", pool.Nodes, s.size)
	}
	for name, version := range pool.Nodes {
		if version != controlPlaneVersion {
			s.t.Errorf("node %s has version %s", name, version)
		}
	}
	s.checkWrites(writes...)
}

// checkWrites checks which writes GKE accepted. In place of an operation's name it takes "*".
func (s *poolCase) checkWrites(want ...string) {
	s.t.Helper()
	got := s.gke.Writes()
	for i := range got {
		if strings.HasSuffix(got[i], ":cancel") {
			got[i] = "POST *:cancel"
		}
	}
	if !slices.Equal(got, want) {
		s.t.Errorf("GKE accepted %q, want %q", got, want)
	}
}

const controlPlaneVersion = "1.34.3-gke.1200"

// testPoolSurge lists, plans and upgrades a pool with GKE's default settings.
func testPoolSurge(t *testing.T, shared *fixture.Fixture) {
	s := openPool(t, shared, "pool-surge", gkecloud.Options{}, nil)
	list := s.run(0, "-o", "wide")
	list.checkOutput("pool-surge", "GKE node pool")
	t.Log(list.out.String())
	plan := s.run(0, s.group, "--dry-run")
	t.Log(plan.out.String())
	plan.checkOutput("pool-surge (GKE node pool)", "4 of 4 nodes are outdated", "GKE upgrades the group itself: at most 1 at a time (max surge 1, max unavailable 0); 1h to drain a node, then its pods are deleted even against their budgets")
	s.checkWrites()
	c := s.upgrade()
	c.awaitExit(0)
	c.checkOutput("4 of 4 nodes replaced")
	t.Log(c.transcript())
	s.checkAllReplaced("PUT pool-surge")
	s.checkBudgetsKept()
	status := s.run(0, "status", s.group)
	t.Log(status.out.String())
	again := s.run(0, s.group, "--yes")
	t.Log(again.out.String())
	s.checkWrites("PUT pool-surge")
}

// testPoolWidth upgrades a pool with another width than its own. GKE restarts nodes under the same name.
func testPoolWidth(t *testing.T, shared *fixture.Fixture) {
	s := openPool(t, shared, "pool-width", gkecloud.Options{KeepsOldVersion: true}, nil)
	c := s.upgrade("--max-surge=0", "--max-unavailable=2")
	c.awaitExit(0)
	s.checkAllReplaced("PUT pool-width")
	pool, err := s.gke.Pool(s.group)
	if want := map[string]any{"strategy": "SURGE", "maxSurge": 0.0, "maxUnavailable": 2.0}; err != nil || !maps.Equal(pool.Settings, want) {
		t.Errorf("the settings are %v, want %v (%v)", pool.Settings, want, err)
	}
}

// testPoolPause pauses an upgrade and continues it. A pause cancels GKE's operation.
func testPoolPause(t *testing.T, shared *fixture.Fixture) {
	s := openPool(t, shared, "pool-paused", gkecloud.Options{HidesTargets: true, HoldsAfter: 1}, nil)
	c := s.upgrade()
	c.awaitEvent("the operation to be followed", phaseBegan(string(record.PhaseFollow)))
	s.run(0, "pause", s.group).checkOutput("pool-paused")
	c.awaitExit(5)
	t.Log(c.transcript())
	s.checkWrites("PUT pool-paused", "POST *:cancel")
	again := s.begin("resume", s.group, "--yes", "--parallel-groups")
	again.awaitExit(0)
	s.checkAllReplaced("PUT pool-paused", "POST *:cancel", "PUT pool-paused")
}

// testPoolRollback rolls a running upgrade back: GKE's operation is cancelled first, because GKE takes back only what has ended.
func testPoolRollback(t *testing.T, shared *fixture.Fixture) {
	s := openPool(t, shared, "pool-back", gkecloud.Options{HoldsAfter: 1}, nil)
	c := s.upgrade()
	c.awaitEvent("a node to be replaced", func(e event) bool { return e.Type == "node" && strings.Contains(e.Text, "is gone") })
	back := s.run(0, "rollback", s.group, "--yes", "--parallel-groups")
	c.awaitExit(5)
	t.Log(back.transcript())
	s.checkWrites("PUT pool-back", "POST *:cancel", "POST pool-back:rollback")
	pool, err := s.gke.Pool(s.group)
	if err != nil {
		t.Fatal(err)
	}
	for name, version := range pool.Nodes {
		if version != gkecloud.NodeVersion {
			t.Errorf("node %s has version %s", name, version)
		}
	}
	s.checkBudgetsKept()
}

// testPoolUpgradeOfOtherUser follows an upgrade that another user has started, with "status -w" and with the upgrade command.
func testPoolUpgradeOfOtherUser(t *testing.T, shared *fixture.Fixture) {
	s := openPool(t, shared, "pool-others", gkecloud.Options{DrainLimit: 2 * time.Minute}, nil, blockingWorkload(4))
	id, err := s.gke.Upgrade(s.group, controlPlaneVersion)
	if err != nil {
		t.Fatal(err)
	}
	watching := s.begin("status", s.group, "-w")
	s.waitFor("the blocker", func() bool {
		text := watching.out.String()
		return strings.Contains(text, "PDB pool-others/stubborn") && strings.Contains(text, "upgrade "+id) && strings.Contains(text, "of 4 nodes done") && strings.Contains(text, "GKE deletes it in 59m")
	})
	t.Log(watching.out.String())
	joined := s.upgrade()
	joined.awaitEvent("the operation to be followed", phaseBegan(string(record.PhaseFollow)))
	s.deleteBudget("stubborn")
	joined.awaitExit(0)
	watching.awaitExit(0)
	s.checkAllReplaced()
}

// testPoolLostAnswer loses the answer to the request that starts the upgrade. The upgrade must start one operation.
func testPoolLostAnswer(t *testing.T, shared *fixture.Fixture) {
	s := openPool(t, shared, "pool-lost", gkecloud.Options{}, nil)
	s.gke.LoseAnswers(1)
	s.upgrade().awaitExit(0)
	s.checkAllReplaced("PUT pool-lost")
}

// testPoolPodsDeletedAtTheHour upgrades a pool with pods that their budget keeps. GKE deletes them after an hour, and the plan says so.
func testPoolPodsDeletedAtTheHour(t *testing.T, shared *fixture.Fixture) {
	s := openPool(t, shared, "pool-hour", gkecloud.Options{DrainLimit: 3 * time.Second}, map[string]any{"strategy": "SURGE", "maxSurge": 4.0}, blockingWorkload(2))
	plan := s.run(0, s.group, "--dry-run", skipBudgetChecks)
	plan.checkOutput("Deletes     GKE will delete ", " pods against their budgets: ", " of pool-hour/Deployment/stubborn after 60m", "Maintenance GKE upgrades the group by itself")
	s.run(3, "check", s.group).checkOutput("GKE will delete 2 pods of pool-hour/Deployment/stubborn after 60 min")
	s.upgrade().awaitExit(0)
	s.checkAllReplaced("PUT pool-hour")
}

// testPoolRefusals checks that requests that cannot succeed are refused before anything is written.
func testPoolRefusals(t *testing.T, shared *fixture.Fixture) {
	s := openPool(t, shared, "pool-refused", gkecloud.Options{ValidVersions: []string{"1.35.0-gke.100", controlPlaneVersion, gkecloud.NodeVersion}}, nil)
	for name, c := range map[string]struct {
		args []string
		code int
		says string
	}{
		"a newer version than the control plane's": {[]string{s.group, "--to=1.35", "--yes"}, 1, "version 1.35.0-gke.100 is newer than the control plane's"},
		"a version that does not exist":            {[]string{s.group, "--to=1.30", "--yes"}, 2, "GKE offers no node version 1.30 here"},
		"a strategy of other pools":                {[]string{s.group, "--strategy=short-lived", "--yes"}, 2, "GKE has this strategy only for groups that were created with it"},
		"a strategy without its autoscaler":        {[]string{s.group, "--strategy=autoscaled-blue-green", "--yes"}, 2, "the autoscaler of group"},
		"a pool that does not exist":               {[]string{"nope", "--yes"}, 2, "no node group"},
		"no deletion at the hour":                  {[]string{s.group, "--on-timeout=fail", "--yes"}, 2, "--on-timeout=fail: GKE upgrades group"},
	} {
		got := s.run(c.code, c.args...)
		if said := got.transcript(); !strings.Contains(said, c.says) {
			t.Errorf("%s: said %s, want %q", name, said, c.says)
		}
		t.Log(got.transcript())
	}
	other := fmt.Sprintf("projects/%s/locations/europe-west1/clusters/main", "acme-prod")
	c := startWithEnv(t, s.Fixture, s.env, "nodeupgrade", s.group, "--provider=gke", "--cluster-name="+other, "--yes")
	c.awaitExit(2)
	t.Log(c.transcript())
	s.checkWrites()
}
