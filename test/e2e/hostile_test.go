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

// storms is the number of different seeds for failing requests.
const storms = 3

// TestUpgradesWithFailingAPIServerAndCloud runs the cases in which the API server and the cloud answer incorrectly or not at all.
func TestUpgradesWithFailingAPIServerAndCloud(t *testing.T) {
	t.Parallel()
	shared := common.forTest(t)
	cases := map[string]func(*testing.T, *fixture.Fixture){
		"the API server is out of reach":                         outOfReach,
		"the API server is out of reach, and not for all others": takenMeanwhile,
	}
	for seed := range uint64(storms) {
		cases[fmt.Sprintf("three requests in ten fail, seed %d", seed)] = threeInTen(seed)
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			inSample(t)
			t.Parallel()
			test(t, shared)
		})
	}
}

// fronts are the proxies in front of both APIs.
type fronts struct{ cluster, cloud *hostile.Front }

func (s *testCase) fronts() fronts {
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

// startThrough starts the upgrade with the fronts in place of the APIs.
func (s *testCase) startThrough(f fronts, flags ...string) *command {
	s.t.Helper()
	return startIn(s.t, s.Fixture, append(f.cluster.Env(), f.cloud.Env()...), s.args(flags...)...)
}

// rec reports whether a request is about an upgrade's record. The first write of the record marks the start of the upgrade.
func rec(r *http.Request) bool { return strings.Contains(r.URL.Path, "/configmaps") }

// threeInTen makes three of ten requests to either API fail, in all temporary ways. It begins when the upgrade has started: a
// command that cannot start fails at once, as kubectl does.
func threeInTen(seed uint64) func(*testing.T, *fixture.Fixture) {
	return func(t *testing.T, shared *fixture.Fixture) {
		s := open(t, shared, fixture.Group{Name: fmt.Sprintf("stormy-%d", seed), Zones: []string{zoneA, zoneB}, Counts: []int{2, 1}})
		f := s.fronts()
		storm := hostile.Plan{Seed: seed, Harms: hostile.Even(0.3,
			hostile.Harm{Status: http.StatusInternalServerError}, hostile.Harm{Status: http.StatusServiceUnavailable},
			hostile.Harm{Status: http.StatusGatewayTimeout}, hostile.Harm{Status: http.StatusConflict},
			hostile.Harm{Status: http.StatusTooManyRequests, RetryAfter: time.Second},
			hostile.Harm{Drop: hostile.BeforeEffect}, hostile.Harm{Drop: hostile.AfterEffect},
		)}
		calm := map[*hostile.Front]int{}
		f.cluster.Number(rec)
		f.cluster.After(1, func() {
			for _, front := range []*hostile.Front{f.cluster, f.cloud} {
				calm[front] = front.Tally().Asked()
				front.Obey(storm)
			}
		})
		s.startThrough(f).end(0)
		s.checkDone()
		for _, front := range []*hostile.Front{f.cluster, f.cloud} {
			tally := front.Tally()
			if asked := tally.Asked() - calm[front]; asked == 0 || tally.Harmed()*10 < asked {
				t.Errorf("%d of %d requests failed: nothing was tried", tally.Harmed(), asked)
			} else {
				t.Logf("%d of %d requests failed, after %d: %v", tally.Harmed(), asked, calm[front], tally.Harms)
			}
		}
	}
}

// outOfReach makes the API server unreachable during a drain, for as long as a lease lasts.
func outOfReach(t *testing.T, shared *fixture.Fixture) {
	const away = cluster.LeaseDuration
	s := open(t, shared, fixture.Group{Name: "cut-off", Zones: []string{zoneA, zoneB}, Counts: []int{2, 1}})
	f := s.fronts()
	c := s.startThrough(f)
	c.until("a drain", nodeState(string(record.NodeDraining)))
	c.waitsOut(away, "API server", func() { f.cluster.Down(away) })
	s.checkDone()
}

// waitsOut runs an outage of a given length. The command must report it before it ends, and must succeed after it.
func (c *command) waitsOut(away time.Duration, word string, outage func()) {
	c.t.Helper()
	began := time.Now()
	outage()
	c.until("a word of it", func(e event) bool { return strings.Contains(e.Text, word) })
	if took := time.Since(began); took >= away {
		c.t.Errorf("it spoke of %q after %s, when that was over", word, took)
	}
	c.end(0)
	if took := time.Since(began); took < away {
		c.t.Errorf("it ended after %s, and %q was so for %s", took, word, away)
	}
}

// takenMeanwhile makes the API server unreachable for one command only, until another command has taken the upgrade over and
// ended it. The first command waits, and stops when it notices.
func takenMeanwhile(t *testing.T, shared *fixture.Fixture) {
	s := open(t, shared, fixture.Group{Name: "forsaken", Zones: []string{zoneA, zoneB}, Counts: []int{1, 1}})
	f := s.fronts()
	c := s.startThrough(f)
	c.until("a drain", nodeState(string(record.NodeDraining)))
	f.cluster.Down(time.Hour)
	c.until("a word about the API server", func(e event) bool { return strings.Contains(e.Text, "API server") })
	s.upgrade(0) // it waits a minute, in which the lease is not renewed
	f.cluster.Down(0)
	c.end(5)
	for _, part := range []string{"another process may have taken over the upgrade", " to continue"} {
		if errorLine := c.errorLine(); !strings.Contains(errorLine, part) {
			t.Errorf("the error does not say %q: %s", part, errorLine)
		}
	}
	s.checkDone()
}
