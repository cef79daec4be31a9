package runner

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// TestPermanentFailuresEndTheUpgrade makes reads of a running upgrade fail from some time on, with an answer that suggests a
// retry. The user must be told soon, and the upgrade must end.
func TestPermanentFailuresEndTheUpgrade(t *testing.T) {
	const from = time.Minute
	cases := map[string]struct {
		arrange func(*site, *Runner)
		says    string
	}{
		"watches are turned away": {func(_ *site, r *Runner) {
			failures := make(chan error)
			r.Failures = failures
			for pause, at := time.Second, from; at < 40*time.Minute; at, pause = at+pause, min(2*pause, 30*time.Second) {
				time.AfterFunc(at, func() {
					select {
					case failures <- apierrors.NewTooManyRequests("watching pods: busy", 1):
					case <-time.After(time.Second):
					}
				})
			}
		}, "watching pods: busy"},
		"the cloud is in trouble": {func(s *site, _ *Runner) {
			s.onObserve = func() error {
				if time.Since(s.began) > from {
					return errors.New("502 Bad Gateway")
				}
				return nil
			}
		}, "502 Bad Gateway"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSite(t, 2)
				s.budgets = closedBudgets()
				s.addPods("old-1", 1)
				s.addPods("old-2", 1)
				r := s.runner(surge(1), func(r *record.Request) { r.BootTimeout = record.Duration{Duration: 24 * time.Hour} })
				s.onDo = func(_ context.Context, action nodegroup.Action) error {
					if _, launch := action.(nodegroup.AddCapacity); launch { // the upgrade then waits for its result
						return &cloud.Error{Outcome: nodegroup.OutcomeUnclear, Err: errors.New("no answer from AWS in time")}
					}
					return nil
				}
				var told time.Duration
				tell := func(text string) {
					if told == 0 && strings.Contains(text, c.says) {
						told = time.Since(s.began) - from
					}
				}
				r.ReportOutage = tell
				r.CloudRead = func(_ *nodegroup.Group, err error) {
					if err != nil {
						tell(err.Error())
					}
				}
				c.arrange(s, r)
				ctx, stop := context.WithTimeout(t.Context(), 50*time.Minute)
				defer stop()
				_, err := r.Run(ctx)
				if told == 0 || told > 31*time.Second {
					t.Errorf("it was told after %s", told)
				}
				if took := time.Since(s.began); took > 20*time.Minute || err == nil || !strings.Contains(err.Error(), c.says) {
					t.Errorf("it ended after %s: %v", took, err)
				}
			})
		})
	}
}
