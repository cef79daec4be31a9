package e2e

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/fixture"
)

// testResumeWithOtherSettings checks that an upgrade can be continued with other settings only with --replan.
func testResumeWithOtherSettings(t *testing.T, shared *fixture.Fixture) {
	s := openCase(t, shared, fixture.Group{Name: "resettled", Zones: []string{zoneA, zoneB}, Counts: []int{1, 1}}, blockingWorkload(2))
	first := s.start()
	awaitDrainBlockedBy("stubborn")(s, first)
	first.interrupt()
	first.awaitExit(130)

	second := s.runUpgrade(2, "--settle=0s", "--max-unavailable=2")
	for _, part := range []string{"--settle 1s, now 0s", "--max-unavailable 1, now 2", "remove these flags, or pass --replan"} {
		if errorLine := second.errorLine(); !strings.Contains(errorLine, part) {
			t.Errorf("the error does not say %q: %s", part, errorLine)
		}
	}
	s.deleteBudget("stubborn")
	s.unavailable = 2
	s.runUpgrade(0, "--settle=0s", "--max-unavailable=2", "--replan")
	s.checkUpgraded()
}

// continueCommand matches the command that the error of an interrupted upgrade suggests.
var continueCommand = regexp.MustCompile(`: run kubectl (nodeupgrade [^;]*) to continue$`)

// testResumeWithFewerFlags continues an upgrade without its first flags, with the command that its error suggests. The settings must
// not change: --max-unavailable as a percentage of the group's first size, --keep-max, and --settle.
func testResumeWithFewerFlags(t *testing.T, shared *fixture.Fixture) {
	s := openCase(t, shared, fixture.Group{Name: "fewer", Zones: []string{zoneA}, Counts: []int{3}, Max: 4, Suspended: []string{rebalance}}, blockingWorkload(3))
	s.surge = 1
	const settle = 2 * time.Second
	first := s.start("--keep-max", "--max-unavailable=50%", "--settle="+settle.String())
	awaitDrainBlockedBy("stubborn")(s, first)
	first.interrupt()
	first.awaitExit(130)
	said := continueCommand.FindStringSubmatch(first.errorLine())
	if said == nil {
		t.Fatalf("the error contains no command: %s", first.errorLine())
	}
	if plan := runKubectl(t, s.Fixture, "nodeupgrade", s.group, "--dry-run"); plan.Code != 3 || !strings.Contains(plan.Stdout, "settle 2s") {
		t.Errorf("the plan of the rest ended with %d: %s%s", plan.Code, plan.Stdout, plan.Stderr)
	}

	second := startKubectl(t, s.Fixture, strings.Fields(said[1])...)
	awaitDrainBlockedBy("stubborn")(s, second)
	second.interrupt()
	second.awaitExit(130)

	s.deleteBudget("stubborn")
	third := startKubectl(t, s.Fixture, "nodeupgrade", s.group, "--yes", "--parallel-groups", "--progress=json")
	empty := third.awaitEvent("an empty node", nodeReached("Empty"))
	if removed := third.awaitEvent("its removal", nodeReached("Removing")); removed.Time.Sub(empty.Time) < settle {
		t.Errorf("the node was removed %s after it was empty, want the %s of the first command", removed.Time.Sub(empty.Time), settle)
	}
	third.awaitExit(0)
	s.checkUpgraded()
}
