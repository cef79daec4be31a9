package upgrade_test

import (
	"testing"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/build"
)

// E41: a node's drain timeout counts only time in which a holder of the lease was at work, both after a crash and in a
// process that slept. Exactly the time that was left is still left.
func TestDrainTimeoutCountsOnlyTimeOfRunningProcess(t *testing.T) {
	for name, crashed := range map[string]bool{"after a crash": true, "a laptop that slept": false} {
		t.Run(name, func(t *testing.T) {
			s := draining(t, build.Pod("web-0"))
			s.Request.OnTimeout, s.Record.Request.OnTimeout = record.Force, record.Force
			s.budgets(build.Budget("web", build.Counts(3, 3, 3)))
			s.rest()
			s.pass(10 * time.Minute)
			s.next()
			if crashed {
				s.crash()
			}
			s.pass(2 * time.Hour)
			s.Idle = 2 * time.Hour
			step := s.next()
			if limit := s.Now.Add(5 * time.Minute); !step.Persist || !step.Record.Nodes["old-a-1"].Deadline.Equal(limit) {
				t.Errorf("persist %t, the limit ends at %s, want %s", step.Persist, step.Record.Nodes["old-a-1"].Deadline, limit)
			}
			s.Idle = 0
			s.do(step.Actions...)
			s.pass(5*time.Minute - time.Second)
			wantActions(t, s.next())
			s.pass(time.Second)
			if step = s.next(); step.Record.Nodes["old-a-1"].State != record.NodeForcing {
				t.Errorf("state %q when what was left is over", step.Record.Nodes["old-a-1"].State)
			}
		})
	}
}

// E41: a holder renews the lease, begins a drain and crashes. The idle time is longer than the drain. The node gets
// back only the time since its drain began, so never more than its whole drain timeout.
func TestIdleTimeBeforeDrainDoesNotExtendDrainTimeout(t *testing.T) {
	s := draining(t, build.Pod("web-0"))
	s.budgets(build.Budget("web", build.Counts(3, 3, 3)))
	s.rest()
	began := s.Record.Nodes["old-a-1"].Began
	s.crash()
	s.pass(time.Minute)
	s.Idle = s.Now.Sub(began) + 8*time.Second
	step := s.next()
	if limit := s.Now.Add(s.Request.DrainTimeout.Duration); !step.Record.Nodes["old-a-1"].Deadline.Equal(limit) {
		t.Errorf("the limit ends at %s, want %s", step.Record.Nodes["old-a-1"].Deadline, limit)
	}
}
