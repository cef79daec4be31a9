package runner

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// errEnded is the cloud's answer to expired credentials.
var errEnded = &cloud.Error{Outcome: nodegroup.OutcomeFatal, Err: errors.New("the credentials have expired")}

// TestRefusingCloudEndsTheUpgrade checks that an upgrade ends only if it waits for a reading that the
// cloud refuses.
func TestRefusingCloudEndsTheUpgrade(t *testing.T) {
	refuse := func(from, to time.Duration, err error) func(*site) {
		return func(s *site) {
			s.onObserve = func() error {
				if at := time.Since(s.began); at >= from && at < to {
					return err
				}
				return nil
			}
		}
	}
	unrested := func(s *site) {
		s.onSave = func(_ context.Context, record record.Record) error {
			if record.Stopping != "" {
				return errors.New("connection refused")
			}
			return nil
		}
	}
	held := func(s *site) {
		s.budgets = closedBudgets()
		s.addPods("old-1", 1)
		time.AfterFunc(4*time.Minute, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.budgets = nil
			signal(s.changed)
		})
	}
	const ever = time.Hour
	cases := map[string]struct {
		arrange []func(*site)
		surge   int
		says    string
	}{
		"while nodes come up":          {[]func(*site){refuse(0, ever, errEnded)}, 1, "the credentials have expired"},
		"and it does not come to rest": {[]func(*site){refuse(0, ever, errEnded), unrested}, 1, "expired; stopped before all work was finished"},
		"once":                         {[]func(*site){refuse(0, time.Millisecond, errEnded)}, 1, ""},
		"for now":                      {[]func(*site){refuse(0, 5*time.Minute, errors.New("no route to host"))}, 1, ""},
		"while a pod is waited for":    {[]func(*site){refuse(2*time.Second, 3*time.Minute, errEnded), held}, 0, ""},
		"until the pod has left":       {[]func(*site){refuse(2*time.Second, 4*time.Minute, errEnded), held}, 0, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSite(t, 1)
				for _, arrange := range c.arrange {
					arrange(s)
				}
				rec, err := s.runner(surge(c.surge)).Run(t.Context())
				switch {
				case c.says == "" && (err != nil || rec.Result != record.Succeeded):
					t.Errorf("ended %q with error %v, want %q", rec.Result, err, record.Succeeded)
				case c.says != "" && (!errors.Is(err, errEnded) || errors.Is(err, ErrNotStoppedInTime) || !strings.Contains(err.Error(), c.says)):
					t.Errorf("ended %q with error %v, want one that says %q", rec.Result, err, c.says)
				}
			})
		})
	}
}

// TestOutageOfAPIServerIsReported loses the answers to requests, either to a write that is retried or only to
// watches.
func TestOutageOfAPIServerIsReported(t *testing.T) {
	silence := connectionError(errors.New("getting credentials: exec: executable aws failed with exit code 255"))
	const gone = time.Minute
	cases := map[string]struct {
		// at are the times at which a watch fails, counted from the first one. lasts is how long
		// the record cannot be written.
		at    []time.Duration
		lasts time.Duration
		want  time.Duration
	}{
		"by writes":                 {nil, 20 * time.Second, 3750 * time.Millisecond},
		"by watches":                {[]time.Duration{0, time.Second, 4 * time.Second}, 0, 4 * time.Second},
		"not when it is over soon":  {[]time.Duration{0, time.Second, 2 * time.Second}, 2 * time.Second, 0},
		"not by failures far apart": {[]time.Duration{0, 20 * time.Second, 40 * time.Second}, 0, 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSite(t, 1)
				s.budgets = closedBudgets()
				s.addPods("old-1", 1)
				failures := make(chan error, len(c.at))
				for _, at := range c.at {
					time.AfterFunc(gone+at, func() { failures <- silence })
				}
				s.onSave = func(context.Context, record.Record) error {
					if time.Since(s.began) < c.lasts {
						return silence
					}
					return nil
				}
				r := s.runner()
				r.Failures = failures
				var told time.Duration
				r.ReportOutage = func(detail string) {
					if detail != "" && told == 0 {
						told = time.Since(s.began)
					}
				}
				s.observe(t, r, func() { time.Sleep(2 * gone) })
				if len(c.at) > 0 && told > 0 {
					told -= gone
				}
				if told != c.want {
					t.Errorf("told after %s, want %s", told, c.want)
				}
			})
		})
	}
}
