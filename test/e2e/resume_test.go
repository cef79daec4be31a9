package e2e

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/fixture"
)

// otherSettings continues an upgrade with other settings. This needs a flag.
func otherSettings(t *testing.T, shared *fixture.Fixture) {
	s := open(t, shared, fixture.Group{Name: "resettled", Zones: []string{zoneA, zoneB}, Counts: []int{1, 1}}, wedge(2))
	first := s.start()
	blockedBy("stubborn")(s, first)
	first.interrupt()
	first.end(130)

	second := s.upgrade(2, "--settle=0s", "--max-unavailable=2")
	for _, part := range []string{"--settle 1s, now 0s", "--max-unavailable 1, now 2", "remove these flags, or pass --replan"} {
		if errorLine := second.errorLine(); !strings.Contains(errorLine, part) {
			t.Errorf("the error does not say %q: %s", part, errorLine)
		}
	}
	s.unblock("stubborn")
	s.unavailable = 2
	s.upgrade(0, "--settle=0s", "--max-unavailable=2", "--replan")
	s.checkDone()
}

// continueCommand matches the command that the error of an interrupted upgrade suggests.
var continueCommand = regexp.MustCompile(`: run kubectl (nodeupgrade [^;]*) to continue$`)

// fewerFlags continues an upgrade without its first flags, by the command that its error suggests. Its settings do not change:
// percentages of the group's first size, the room that its own nodes used, and the wait after a drain.
func fewerFlags(t *testing.T, shared *fixture.Fixture) {
	s := open(t, shared, fixture.Group{Name: "fewer", Zones: []string{zoneA}, Counts: []int{3}, Max: 4, Suspended: []string{rebalance}}, wedge(3))
	s.surge = 1
	const settle = 2 * time.Second
	first := s.start("--keep-max", "--max-unavailable=50%", "--settle="+settle.String())
	blockedBy("stubborn")(s, first)
	first.interrupt()
	first.end(130)
	said := continueCommand.FindStringSubmatch(first.errorLine())
	if said == nil {
		t.Fatalf("the error does not say what to type: %s", first.errorLine())
	}
	if plan := run(t, s.Fixture, "nodeupgrade", s.group, "--dry-run"); plan.Code != 3 || !strings.Contains(plan.Stdout, "settle 2s") {
		t.Errorf("the plan of the rest ended with %d: %s%s", plan.Code, plan.Stdout, plan.Stderr)
	}

	second := start(t, s.Fixture, strings.Fields(said[1])...)
	blockedBy("stubborn")(s, second)
	second.interrupt()
	second.end(130)

	s.unblock("stubborn")
	third := start(t, s.Fixture, "nodeupgrade", s.group, "--yes", "--parallel-groups", "--progress=json")
	empty := third.until("an empty node", nodeState("Empty"))
	if removed := third.until("its removal", nodeState("Removing")); removed.Time.Sub(empty.Time) < settle {
		t.Errorf("the node was removed %s after it was empty, want the %s that it was begun with", removed.Time.Sub(empty.Time), settle)
	}
	third.end(0)
	s.checkDone()
}
