package runner

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain/schedule"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// withLease gives the site's runner a lease that is renewed every ten seconds, except between gap and again.
func (s *site) withLease(r *Runner, gap, again time.Duration) *Runner {
	const every, duration = 10 * time.Second, time.Minute
	r.Expires = func() time.Time {
		since := time.Since(s.began)
		if since >= gap && since < again {
			since = gap - 1
		}
		return s.began.Add(since.Truncate(every) + duration)
	}
	return r
}

// leaseMessages is when the status first and last said that it waits for the API server, and its text.
type leaseMessages struct {
	from, to time.Duration
	text     string
}

func (s *site) listenForLease(r *Runner) *leaseMessages {
	heard := &leaseMessages{}
	inner := r.Watch
	r.Watch = func(step upgrade.Step) {
		inner(step)
		since := time.Since(s.began)
		switch waits := strings.Contains(step.Status.Waiting, "API server"); {
		case waits && heard.from == 0:
			heard.from, heard.text = since, step.Status.Waiting
		case !waits && heard.from > 0 && heard.to == 0:
			heard.to = since
		}
	}
	return heard
}

// TestOverdueLeaseIsShown checks the status while the API server cannot be reached and nothing else changes.
func TestOverdueLeaseIsShown(t *testing.T) {
	const gap, again = 32 * time.Second, 70 * time.Second // the last renewal is at 30s
	cases := map[string]func(*site){
		"while a pod is waited for": func(s *site) { s.budgets = closedBudgets() },
		"while the record cannot be written": func(s *site) {
			s.onSave = func(context.Context, record.Record) error {
				if since := time.Since(s.began); since >= gap-2*time.Second && since < again {
					return errors.New("connection refused")
				}
				return nil
			}
			s.onDo = func(_ context.Context, a nodegroup.Action) error {
				if _, ok := a.(schedule.Eviction); ok && time.Since(s.began) < gap {
					time.Sleep(gap - time.Since(s.began)) // after the gap the record must be written
				}
				return nil
			}
		},
	}
	for name, arrange := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSite(t, 1)
				s.addPods("old-1", 1)
				arrange(s)
				r := s.withLease(s.runner(), gap, again)
				r.RenewalError = func() error { return connectionError(errors.New("getting credentials: exec: run sso login")) }
				heard := s.listenForLease(r)
				s.observe(t, r, func() {
					time.Sleep(2 * time.Minute)
					synctest.Wait()
				})
				if heard.from < 50*time.Second || heard.from > 56*time.Second {
					t.Errorf("told after %s, want 20s to 26s after the last renewal at 30s", heard.from)
				}
				if !strings.Contains(heard.text, "no credentials for the API server: exec: run sso login") {
					t.Errorf("what is waited for does not say why: %s", heard.text)
				}
				if heard.to < again || heard.to > again+2*leaseCheckInterval {
					t.Errorf("told until %s, want until soon after the renewal at %s", heard.to, again)
				}
			})
		})
	}
}

func TestRenewedLeaseCausesFewSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, 1)
		s.budgets = closedBudgets()
		s.addPods("old-1", 1)
		r := s.withLease(s.runner(), time.Hour, time.Hour)
		heard := s.listenForLease(r)
		s.observe(t, r, func() {
			time.Sleep(10 * time.Second)
			synctest.Wait()
			before := len(s.steps)
			signal(s.changed) // causes one more step, so that the runner is past its last read
			time.Sleep(5 * time.Minute)
			synctest.Wait()
			if steps := len(s.steps) - before; steps > 5*6+10 {
				t.Errorf("%d steps in five minutes in which nothing changed", steps)
			}
		})
		if heard.from != 0 {
			t.Errorf("the status said after %s that it waits for the API server", heard.from)
		}
	})
}
