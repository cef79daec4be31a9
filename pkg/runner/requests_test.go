package runner

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// requestSource is the source of user requests for a site's upgrade.
type requestSource struct {
	mu      sync.Mutex
	asked   record.Asked
	changed chan struct{}
}

// CurrentRequest implements RequestSource.
func (a *requestSource) CurrentRequest() record.Asked {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.asked
}

// RequestChanged implements RequestSource.
func (a *requestSource) RequestChanged() <-chan struct{} { return a.changed }

func (a *requestSource) storeRequest(verb record.Verb, run string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked = record.Asked{Verb: verb, Run: run, By: "bob@other"}
	signal(a.changed)
}

// TestUserRequestsAreHandledImmediately sends a request to an upgrade that waits for a budget.
func TestUserRequestsAreHandledImmediately(t *testing.T) {
	const when = 5 * time.Second
	cases := map[string]struct {
		verb   record.Verb
		run    string
		result record.Result
		by     string
	}{
		"a rollback":            {record.VerbRollback, "r1", record.Interrupted, ""},
		"an abort":              {record.VerbAbort, "r1", record.Interrupted, ""},
		"a pause":               {record.VerbPause, "r1", record.Paused, "bob@other"},
		"an abort of another":   {record.VerbAbort, "r0", record.Succeeded, ""},
		"nothing, after all":    {"", "", record.Succeeded, ""},
		"a verb of another age": {"rest", "r1", record.Succeeded, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSite(t, 2)
				r, asks := s.runner(), &requestSource{changed: make(chan struct{}, 1)}
				r.Requests = asks
				if c.result != record.Paused { // a pause lets a started node finish
					s.budgets = closedBudgets()
				}
				s.addPods("old-1", 1)
				time.AfterFunc(when, func() { asks.storeRequest(c.verb, c.run) })
				time.AfterFunc(time.Minute, func() {
					s.mu.Lock()
					defer s.mu.Unlock()
					s.budgets = nil
					signal(s.changed)
				})
				rec, err := r.Run(t.Context())
				if err != nil || rec.Result != c.result || rec.PausedBy != c.by {
					t.Errorf("ended %q (%s), paused by %q, with error %v; want %q by %q", rec.Result, rec.Message, rec.PausedBy, err, c.result, c.by)
				}
				if took := time.Since(s.began); c.result == record.Interrupted && took > when+time.Second {
					t.Errorf("obeyed after %s, want at once", took-when)
				}
			})
		})
	}
}
