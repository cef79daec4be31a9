package upgrade_test

import (
	"strings"
	"testing"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/ledger"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// roomMade returns an upgrade that raised the maximum from 2 to 4 and has its launches in flight.
func roomMade(t *testing.T) *scene {
	t.Helper()
	s := newScene(t, old("old-a-1"), old("old-b-1"))
	s.Request.Surge, s.Group.Max = 2, 2
	s.do(s.next().Actions...) // raises the maximum
	s.do(s.next().Actions...) // two launches
	if s.Group.Max != 4 || s.Group.Desired != 4 {
		t.Fatalf("max %d, desired %d", s.Group.Max, s.Group.Desired)
	}
	s.next()
	return s
}

// The upgrade stops if another process lowers the maximum, once no reading can be older than the upgrade's own raise.
func TestUpgradeStopsIfDifferentProcessLowersMax(t *testing.T) {
	cases := map[string]struct {
		change func(*scene)
		want   record.Result
		says   string
	}{
		"as we left it": {func(s *scene) { s.pass(time.Minute) }, "", ""},
		"raised more":   {func(s *scene) { s.Group.Max = 9; s.pass(time.Minute) }, "", ""},
		"lowered":       {func(s *scene) { s.Group.Max = 3; s.pass(31 * time.Second) }, record.Paused, "from 4 to 3"},
		"to less than before us": {
			func(s *scene) { s.Group.Max = 1; s.pass(31 * time.Second) }, record.Paused,
			"from 4 to 1 during the upgrade: run kubectl nodeupgrade resume workers to continue, which raises it again as far as necessary, or kubectl nodeupgrade abort workers",
		},
		"an old reading, maybe": {func(s *scene) { s.Group.Max = 2; s.pass(30 * time.Second) }, "", ""},
		"raised, then lowered":  {func(s *scene) { s.Group.Max = 9; s.pass(time.Minute); s.next(); s.Group.Max = 8; s.pass(time.Minute) }, record.Paused, "from 9 to 8"},
		"while it drains": {func(s *scene) {
			s.add(current("new-a-1"))
			s.add(current("new-b-1"))
			s.until(record.PhaseUpgrade)
			s.Group.Max = 3
			s.pass(time.Minute)
		}, record.Paused, "from 4 to 3"},
		"by our own stop": {func(s *scene) {
			s.editBooks(func(b *ledger.Books) { b.MaxLow = 3 })
			s.Group.Max = 3
			s.pass(time.Minute)
		}, "", ""},
		"it has no size": {func(s *scene) {
			s.Group.Can.Resize, s.Group.Can.Bounds = false, false
			s.Group.Max = 0
			s.pass(time.Minute)
		}, "", ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := roomMade(t)
			c.change(s)
			step := s.next()
			if got := step.Record; got.Stopping != c.want || !strings.Contains(got.Message, c.says) {
				t.Errorf("%q: %s", got.Stopping, got.Message)
			}
			if raised := actionsOf(step, "raise the group's max"); c.want == record.Paused && len(raised) > 0 {
				t.Errorf("%v raises the maximum that another process lowered", raised)
			}
		})
	}
}

// A maximum that may have been lowered is not raised again until it is certain that it was lowered.
func TestGroupMaxIsNotRaisedWhileItsReadingIsUncertain(t *testing.T) {
	s := roomMade(t)
	s.Group.Max = 2
	s.pass(20 * time.Second)
	step := s.next()
	wantActions(t, step)
	if step.Poll == 0 || !strings.Contains(step.Status.Waiting, "maximum to be read again") {
		t.Errorf("poll %s, waiting for %q", step.Poll, step.Status.Waiting)
	}
}

// A command that continues after that makes room from the lowered maximum, which the group gets back at the end (E61).
func TestLoweredMaxIsRestored(t *testing.T) {
	s := roomMade(t)
	s.add(current("new-a-1"))
	s.add(current("new-b-1"))
	s.until(record.PhaseUpgrade)
	s.Group.Max = 5
	s.pass(time.Minute)
	s.next()
	s.Group.Max = 3
	s.Group.Desired = 3 // AWS lowers it with the maximum
	s.remove("new-b-1")
	s.pass(time.Minute)
	if step := s.rest(); step.Record.Result != record.Paused {
		t.Fatalf("%q: %s", step.Record.Result, step.Record.Message)
	}
	s.Record = s.Record.Reopened()
	s.crash()
	s.next()
	l := s.Record.Ledger.Books()
	if s.Record.Result != "" || s.Record.Stopping != "" || l.MaxFrom != 0 || l.MaxTo != 0 || l.MaxSeen != 3 {
		t.Errorf("%q with %+v", s.Record.Stopping, l)
	}
}
