package runner

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// TestSaveWithoutAnswerIsReported uses an admission webhook that delays each write of the record until the API server gives up. The user
// must be told during the first write. If the user interrupts the upgrade, the error must name the cause.
func TestSaveWithoutAnswerIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, 1)
		s.onSave = func(ctx context.Context, _ record.Record) error {
			select {
			case <-time.After(30 * time.Second):
				return apierrors.NewInternalError(errors.New(`failed calling webhook "guard": context deadline exceeded`))
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		r := s.runner()
		var told time.Duration
		r.ReportOutage = func(detail string) {
			if detail != "" && told == 0 {
				told = time.Since(s.began)
			}
		}
		ctx, stop := context.WithCancel(t.Context())
		time.AfterFunc(35*time.Second, stop)
		_, err := r.Run(ctx)
		if told == 0 || told > 15*time.Second {
			t.Errorf("it was told after %s", told)
		}
		if err == nil || !strings.Contains(err.Error(), `failed calling webhook "guard"`) || strings.Contains(err.Error(), "canceled") {
			t.Errorf("the error does not say what held the record: %v", err)
		}
	})
}

// TestRevokedPermissionsEndTheUpgrade removes permissions during a long drain. The run must end and name the permission and the nodes that remain
// fenced.
func TestRevokedPermissionsEndTheUpgrade(t *testing.T) {
	forbidden := apierrors.NewForbidden(corev1.Resource("leases"), "workers", errors.New(`User "carol" cannot update resource "leases"`))
	const gone = time.Minute
	cases := map[string]struct {
		arrange func(*site, *Runner)
		says    string
	}{
		"to renew the lease": {func(s *site, r *Runner) {
			s.withLease(r, gone, time.Hour)
			r.RenewalError = func() error {
				if time.Since(s.began) > gone {
					return forbidden
				}
				return nil
			}
		}, `cannot update resource "leases"`},
		"to watch pods": {func(_ *site, r *Runner) {
			failures := make(chan error)
			r.Failures = failures
			for at := gone; at < 2*time.Minute; at += 10 * time.Second {
				time.AfterFunc(at, func() {
					select {
					case failures <- apierrors.NewForbidden(corev1.Resource("pods"), "", errors.New("cannot watch")):
					case <-time.After(time.Second):
					}
				})
			}
		}, "cannot watch"},
		"to write the record": {func(s *site, _ *Runner) {
			time.AfterFunc(gone+time.Second, func() { // otherwise there is nothing to write
				s.mu.Lock()
				defer s.mu.Unlock()
				s.budgets = nil
				signal(s.changed)
			})
			s.onSave = func(context.Context, record.Record) error {
				if time.Since(s.began) > gone {
					return apierrors.NewForbidden(corev1.Resource("configmaps"), "nodeupgrade-workers", errors.New("cannot update"))
				}
				return nil
			}
		}, "cannot update"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSite(t, 2)
				s.budgets = closedBudgets()
				s.addPods("old-1", 1)
				s.addPods("old-2", 1)
				r := s.runner()
				c.arrange(s, r)
				ctx, stop := context.WithTimeout(t.Context(), 10*time.Minute)
				defer stop()
				_, err := r.Run(ctx)
				if took := time.Since(s.began); took > 3*time.Minute {
					t.Errorf("it ended after %s", took)
				}
				if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "still fenced: old-1") {
					t.Errorf("the error names no right or no nodes: %v", err)
				}
			})
		})
	}
}
