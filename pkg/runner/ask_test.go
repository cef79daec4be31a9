package runner

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
)

// asker is what others ask of a site's upgrade.
type asker struct {
	mu      sync.Mutex
	asked   upgrade.Asked
	changed chan struct{}
}

// Asked implements Asker.
func (a *asker) Asked() upgrade.Asked {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.asked
}

// AskedChanged implements Asker.
func (a *asker) AskedChanged() <-chan struct{} { return a.changed }

func (a *asker) ask(verb upgrade.Verb, run string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked = upgrade.Asked{Verb: verb, Run: run, By: "bob@other"}
	signal(a.changed)
}

// TestAskedIsObeyedAtOnce has an upgrade wait for a budget when another actor asks something of it.
func TestAskedIsObeyedAtOnce(t *testing.T) {
	const when = 5 * time.Second
	cases := map[string]struct {
		verb   upgrade.Verb
		run    string
		result upgrade.Result
		by     string
	}{
		"a rollback":            {upgrade.VerbRollback, "r1", upgrade.Interrupted, ""},
		"an abort":              {upgrade.VerbAbort, "r1", upgrade.Interrupted, ""},
		"a pause":               {upgrade.VerbPause, "r1", upgrade.Paused, "bob@other"},
		"an abort of another":   {upgrade.VerbAbort, "r0", upgrade.Succeeded, ""},
		"nothing, after all":    {"", "", upgrade.Succeeded, ""},
		"a verb of another age": {"rest", "r1", upgrade.Succeeded, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSite(t, 2)
				r, asks := s.runner(), &asker{changed: make(chan struct{}, 1)}
				r.Asks = asks
				if c.result != upgrade.Paused { // a pause lets the node finish that was started
					s.budgets = spent()
				}
				s.addPods("old-1", 1)
				time.AfterFunc(when, func() { asks.ask(c.verb, c.run) })
				time.AfterFunc(time.Minute, func() {
					s.mu.Lock()
					defer s.mu.Unlock()
					s.budgets = nil
					signal(s.changed)
				})
				record, err := r.Run(t.Context())
				if err != nil || record.Result != c.result || record.PausedBy != c.by {
					t.Errorf("ended %q (%s), paused by %q, with error %v; want %q by %q", record.Result, record.Message, record.PausedBy, err, c.result, c.by)
				}
				if took := time.Since(s.began); c.result == upgrade.Interrupted && took > when+time.Second {
					t.Errorf("obeyed after %s, want at once", took-when)
				}
			})
		})
	}
}
