package e2e

import (
	"strings"
	"testing"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/stage"
)

// otherSettings has an upgrade gone on with other settings than it was begun with, which has to be asked for.
func otherSettings(t *testing.T, shared *stage.Stage) {
	s := open(t, shared, stage.Group{Name: "resettled", Zones: []string{zoneA, zoneB}, Counts: []int{1, 1}}, wedge(2))
	first := s.start()
	blockedBy("stubborn")(s, first)
	first.interrupt()
	first.end(130)

	second := s.upgrade(2, "--settle=0s", "--max-unavailable=2")
	for _, part := range []string{"--settle 1s, now 0s", "--max-unavailable 1, now 2", "pass the same, or --replan"} {
		if complaint := second.complaint(); !strings.Contains(complaint, part) {
			t.Errorf("the error does not say %q: %s", part, complaint)
		}
	}
	s.unblock("stubborn")
	s.unavailable = 2
	s.upgrade(0, "--settle=0s", "--max-unavailable=2", "--replan")
	s.checkDone()
}
