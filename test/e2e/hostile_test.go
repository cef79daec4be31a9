package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cluster"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/fixture"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/hostile"
)

// failureSeeds is the number of seeds from which failing requests are drawn.
const failureSeeds = 3

// TestUpgradesFinishDespiteFailingAPIServerAndCloud: the API server and the cloud answer incorrectly or not at all.
func TestUpgradesFinishDespiteFailingAPIServerAndCloud(t *testing.T) {
	t.Parallel()
	shared := commonFixture.forTest(t)
	cases := map[string]func(*testing.T, *fixture.Fixture){
		"the API server is out of reach":                 testAPIServerOutOfReach,
		"the API server is out of reach for one process": testTakenOverDuringOutage,
	}
	for seed := range uint64(failureSeeds) {
		cases[fmt.Sprintf("three requests in ten fail, seed %d", seed)] = testThreeInTenRequestsFail(seed)
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			skipUnlessSampled(t)
			t.Parallel()
			test(t, shared)
		})
	}
}

// fronts are the proxies in front of the APIs of the cluster and of the cloud.
type fronts struct{ cluster, cloud *hostile.Front }

func (s *testCase) openFronts() fronts {
	s.t.Helper()
	cluster, err := hostile.Cluster(s.t.Context(), s.Cluster.Kubeconfig(), hostile.Plan{})
	if err != nil {
		s.t.Fatal(err)
	}
	cloud, err := hostile.AWS(s.t.Context(), s.Cloud.URL(), hostile.Plan{})
	if err != nil {
		s.t.Fatal(err)
	}
	return fronts{cluster, cloud}
}

// startThrough starts the upgrade so that all its requests pass the fronts.
func (s *testCase) startThrough(f fronts, flags ...string) *command {
	s.t.Helper()
	return startWithEnv(s.t, s.Fixture, append(f.cluster.Env(), f.cloud.Env()...), s.upgradeArgs(flags...)...)
}

// isRecordRequest reports whether a request is about an upgrade's record. The first write of the record marks the start of the upgrade.
func isRecordRequest(r *http.Request) bool { return strings.Contains(r.URL.Path, "/configmaps") }

// testThreeInTenRequestsFail makes three of ten requests to both APIs fail with all kinds of temporary errors. The failures begin
// when the upgrade has started, because a command that cannot start fails immediately, as kubectl does.
func testThreeInTenRequestsFail(seed uint64) func(*testing.T, *fixture.Fixture) {
	return func(t *testing.T, shared *fixture.Fixture) {
		s := openCase(t, shared, fixture.Group{Name: fmt.Sprintf("stormy-%d", seed), Zones: []string{zoneA, zoneB}, Counts: []int{2, 1}})
		f := s.openFronts()
		storm := hostile.Plan{Seed: seed, Harms: hostile.Even(0.3,
			hostile.Harm{Status: http.StatusInternalServerError}, hostile.Harm{Status: http.StatusServiceUnavailable},
			hostile.Harm{Status: http.StatusGatewayTimeout}, hostile.Harm{Status: http.StatusConflict},
			hostile.Harm{Status: http.StatusTooManyRequests, RetryAfter: time.Second},
			hostile.Harm{Drop: hostile.BeforeEffect}, hostile.Harm{Drop: hostile.AfterEffect},
		)}
		calm := map[*hostile.Front]int{}
		f.cluster.Number(isRecordRequest)
		f.cluster.After(1, func() {
			for _, front := range []*hostile.Front{f.cluster, f.cloud} {
				calm[front] = front.Tally().Asked()
				front.SetPlan(storm)
			}
		})
		s.startThrough(f).awaitExit(0)
		s.checkUpgraded()
		for _, front := range []*hostile.Front{f.cluster, f.cloud} {
			tally := front.Tally()
			if asked := tally.Asked() - calm[front]; asked == 0 || tally.Harmed()*10 < asked {
				t.Errorf("only %d of %d requests failed, so the case tests nothing", tally.Harmed(), asked)
			} else {
				t.Logf("%d of %d requests failed, after %d: %v", tally.Harmed(), asked, calm[front], tally.Harms)
			}
		}
	}
}

// testAPIServerOutOfReach makes the API server unreachable during a drain, for the duration of a lease.
func testAPIServerOutOfReach(t *testing.T, shared *fixture.Fixture) {
	const away = cluster.LeaseDuration
	s := openCase(t, shared, fixture.Group{Name: "cut-off", Zones: []string{zoneA, zoneB}, Counts: []int{2, 1}})
	f := s.openFronts()
	c := s.startThrough(f)
	c.awaitEvent("a drain", nodeReached(string(record.NodeDraining)))
	c.checkSurvivesOutage(away, "API server", func() { f.cluster.Down(away) })
	s.checkUpgraded()
}

// checkSurvivesOutage starts an outage of the given length. The command must report the outage before its end, and succeed later.
func (c *command) checkSurvivesOutage(away time.Duration, word string, outage func()) {
	c.t.Helper()
	began := time.Now()
	outage()
	c.awaitEvent("a report of the outage", func(e event) bool { return strings.Contains(e.Text, word) })
	if took := time.Since(began); took >= away {
		c.t.Errorf("it reported %q after %s, when the outage was over", word, took)
	}
	c.awaitExit(0)
	if took := time.Since(began); took < away {
		c.t.Errorf("it ended after %s, before the outage of the %s ended after %s", took, word, away)
	}
}

// testTakenOverDuringOutage makes the API server unreachable for one command until another command has taken the upgrade over and
// finished it. The first command must wait, and then exit because it has lost the upgrade.
func testTakenOverDuringOutage(t *testing.T, shared *fixture.Fixture) {
	s := openCase(t, shared, fixture.Group{Name: "forsaken", Zones: []string{zoneA, zoneB}, Counts: []int{1, 1}})
	f := s.openFronts()
	c := s.startThrough(f)
	c.awaitEvent("a drain", nodeReached(string(record.NodeDraining)))
	f.cluster.Down(time.Hour)
	c.awaitEvent("a report of the outage", func(e event) bool { return strings.Contains(e.Text, "API server") })
	s.runUpgrade(0) // the command waits a minute, in which the lease is not renewed
	f.cluster.Down(0)
	c.awaitExit(5)
	for _, part := range []string{"another process may have taken over the upgrade", " to continue"} {
		if errorLine := c.errorLine(); !strings.Contains(errorLine, part) {
			t.Errorf("the error does not say %q: %s", part, errorLine)
		}
	}
	s.checkUpgraded()
}
