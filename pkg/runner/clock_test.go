package runner

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// TestDecisionsUseServerClock carries out an upgrade on a machine whose clock is ahead of the server's or behind it. The times in the record
// must be the server's, and the upgrade must take as long as with a right clock. Its last drain is stuck until the timeout.
func TestDecisionsUseServerClock(t *testing.T) {
	for _, wrong := range []time.Duration{0, time.Hour, -time.Hour, 30 * 24 * time.Hour} {
		t.Run(wrong.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSite(t, 2)
				s.budgets = closedBudgets()
				s.addPods("old-1", 1)
				r := s.runner(surge(1), func(r *record.Request) {
					r.DrainTimeout, r.OnTimeout = record.Duration{Duration: 10 * time.Minute}, record.Skip
				})
				r.Clock = func() time.Time { return time.Now().Add(-wrong) }
				r.Cloud = cloud.WithClock(siteCloud{s}, r.Clock)
				r.Group.Observed = r.Clock()
				record, err := r.Run(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if took := time.Since(s.began); took < 10*time.Minute || took > 14*time.Minute {
					t.Errorf("it took %s", took)
				}
				started, ended := record.Started.Sub(s.began.Add(-wrong)), record.Ended.Sub(s.began.Add(-wrong))
				if started < 0 || started > time.Second || ended < 10*time.Minute || ended > 14*time.Minute {
					t.Errorf("by the server's clock it began after %s and ended after %s", started, ended)
				}
			})
		})
	}
}
