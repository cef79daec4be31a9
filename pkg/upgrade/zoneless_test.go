package upgrade_test

import (
	"strings"
	"testing"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

const noLaunches = "The action LaunchInstances is not valid (InvalidAction)"

// If launches in a zone are refused permanently, the group is made larger as a whole, and the ledger keeps its counts.
func TestUpgradeGrowsWholeGroupIfLaunchesCannotNameAZone(t *testing.T) {
	for name, detail := range map[string]string{"an older endpoint": noLaunches, "no permission": "denied"} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, old("old-a-1"), old("old-b-1"))
			s.Request.Surge = 2
			step := s.next()
			for _, launch := range actionsOf(step, "add") {
				s.answer(launch, nodegroup.OutcomeUnsupported, detail)
			}
			step = s.next()
			if step.Record.Stopping != "" || step.Record.Ledger.Zonal() || !step.Persist {
				t.Fatalf("stopping %q, zonal %t, persist %t", step.Record.Stopping, step.Record.Ledger.Zonal(), step.Persist)
			}
			if whole := action[nodegroup.AddCapacity](t, step); whole.Zone != "" || whole.N != 2 {
				t.Errorf("it asks for %+v, want two nodes in whatever zone", whole)
			}
			s.crash()
			if whole := action[nodegroup.AddCapacity](t, s.next()); whole.Zone != "" {
				t.Errorf("after a crash it asks for %+v", whole)
			}
		})
	}
}

// With --keep-max the group cannot grow as a whole: the upgrade ends before a node is touched.
func TestKeepMaxFailsUpgradeIfLaunchesCannotNameAZone(t *testing.T) {
	s := newScene(t, old("old-a-1"))
	s.Request.Surge, s.Request.KeepMax = 1, true
	s.answer(action[nodegroup.AddCapacity](t, s.next()), nodegroup.OutcomeUnsupported, noLaunches)
	step := s.next()
	if step.Record.Stopping != record.Failed || !strings.Contains(step.Record.Message, noLaunches) || !strings.Contains(step.Record.Message, "remove --keep-max") {
		t.Errorf("stopping %q: %s", step.Record.Stopping, step.Record.Message)
	}
}

// A run that fails before any node is touched restores the maximum that it raised. If the request to lower it is
// refused as well, the run comes to rest nevertheless.
func TestFailureBeforeFirstNodeRestoresGroupMax(t *testing.T) {
	for name, refused := range map[string]bool{"lowered": false, "refused, too": true} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, old("old-a-1"))
			s.Request.Surge, s.Group.Max = 1, 1
			s.do(action[nodegroup.RaiseMax](t, s.next()))
			s.answer(action[nodegroup.AddCapacity](t, s.next()), nodegroup.OutcomeFatal, "no such template")
			s.next()
			s.pass(31 * time.Second)
			lower := action[nodegroup.LowerMax](t, s.next())
			if lower.Max != 1 {
				t.Errorf("lowers to %d, want the 1 of before", lower.Max)
			}
			if refused {
				s.answer(lower, nodegroup.OutcomeFatal, "denied")
			} else {
				s.do(lower)
			}
			s.pass(31 * time.Second)
			if step := s.rest(); step.Record.Result != record.Failed {
				t.Errorf("result %q", step.Record.Result)
			}
		})
	}
}
