package upgrade_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/ledger"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

func token(zone string, serial int) string { return fmt.Sprintf("r1-%s-%d", zone, serial) }

// G17, E33: without capacity the upgrade does not begin. A refused launch is removed from the ledger, and requested
// again later as a new request.
func TestLaunchIsRetriedLaterWithoutCapacity(t *testing.T) {
	for name, zonal := range map[string]bool{"in a zone": true, "for the group": false} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, old("old-a-1"))
			s.Request.Surge, s.Group.Can.NameZone = 1, zonal
			first := action[nodegroup.AddCapacity](t, s.next())
			s.answer(first, nodegroup.OutcomeExhausted, "no capacity")

			step := s.next()
			wantActions(t, step)
			if got := step.Record.Ledger.Contribution(); got != 0 || !step.Persist {
				t.Errorf("contribution %d, persist %t, want 0, true", got, step.Persist)
			}
			if want := start.Add(30 * time.Second); !step.Wake.Equal(want) {
				t.Errorf("wakes at %s, want %s", step.Wake, want)
			}
			s.pass(30 * time.Second)
			if again := action[nodegroup.AddCapacity](t, s.next()); again.Token == first.Token {
				t.Errorf("the token %s is used again, under which the cloud has refused", again.Token)
			}
		})
	}
}

// A launch whose answer was lost is repeated with the same token: at once after a crash, otherwise later.
func TestLaunchWithLostAnswerIsRepeatedWithSameToken(t *testing.T) {
	s := newScene(t, old("old-a-1"))
	s.Request.Surge = 1
	first := action[nodegroup.AddCapacity](t, s.next())
	s.answer(first, nodegroup.OutcomeUnclear, "timeout")
	wantActions(t, s.next())
	s.pass(30 * time.Second)
	if again := action[nodegroup.AddCapacity](t, s.next()); again != first {
		t.Errorf("got %+v, want %+v", again, first)
	}
	s.crash()
	if again := action[nodegroup.AddCapacity](t, s.next()); again != first {
		t.Errorf("after a crash: got %+v, want %+v", again, first)
	}
	if got := s.Record.Ledger.Contribution(); got != 1 {
		t.Errorf("contribution %d, want 1", got)
	}
}

// If the group grows as a whole, its maximum proves that a request whose answer was lost has landed.
func TestRaisedGroupMaxConfirmsLaunchWithLostAnswer(t *testing.T) {
	s := newScene(t, old("old-a-1"))
	s.Request.Surge, s.Group.Can.NameZone = 1, false
	first := action[nodegroup.AddCapacity](t, s.next())
	if first.Desired != 1 || first.Zone != "" {
		t.Errorf("the launch is decided on a size of %d in zone %q, want 1 and none", first.Desired, first.Zone)
	}
	s.answer(first, nodegroup.OutcomeUnclear, "timeout")
	s.Group.Max++
	s.Group.Desired++
	s.crash()
	step := s.next()
	wantActions(t, step)
	if open := len(step.Record.Ledger.Books().Zones[""].Open); open != 0 {
		t.Errorf("%d launches are still open", open)
	}
}

// lowering returns a group whose nodes are all replaced, while the raise of its maximum from 3 to 5 is not taken back
// yet.
func lowering(t *testing.T) *scene {
	s := newScene(t, current("new-a-1"), current("new-b-1"), current("new-c-1"))
	s.Group.Max = 5
	s.Record = record.Record{
		Version: 1, Run: "r1", Request: s.Request, Phase: record.PhaseScaleDown, Target: s.Group.Wanted, Started: start, PhaseBegan: start,
		Ledger: ledger.FromBooks(ledger.Books{Zonal: true, MaxFrom: 3, MaxTo: 5, Changed: start, Zones: map[string]ledger.Zone{}}),
	}
	return s
}

func TestRaisedMaxIsLoweredAtEndUnlessUserChangedIt(t *testing.T) {
	cases := map[string]struct {
		change func(*scene)
		want   []string
	}{
		"E60 back to what it was":         {func(*scene) {}, []string{"lower the group's max from 5 to 3"}},
		"E61 somebody raised it":          {func(s *scene) { s.Group.Max = 9 }, nil},
		"E61 somebody lowered it":         {func(s *scene) { s.Group.Max = 4; s.pass(time.Minute) }, nil},
		"the max read may be an old one":  {func(s *scene) { s.Group.Max = 4 }, nil},
		"we never raised it":              {func(s *scene) { s.editBooks(func(b *ledger.Books) { b.MaxFrom, b.MaxTo = 0, 0 }) }, nil},
		"E61 never below the group":       {func(s *scene) { s.Group.Desired = 4; s.pass(time.Minute) }, []string{"lower the group's max from 5 to 4"}},
		"the group has grown into all":    {func(s *scene) { s.Group.Desired = 5; s.pass(time.Minute) }, nil},
		"the size read may be an old one": {func(s *scene) { s.Group.Desired = 4 }, nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := lowering(t)
			c.change(s)
			step := s.next()
			wantActions(t, step, c.want...)
			waits := strings.HasSuffix(name, "may be an old one")
			if done := step.Finished; done != (len(c.want) == 0 && !waits) {
				t.Errorf("finished %t", done)
			}
		})
	}
}

// The upgrade does not end before the replacement of the last terminated node is launched and usable (EKS E26, E27).
func TestUpgradeEndWaitsForLastReplacement(t *testing.T) {
	cases := map[string]nodegroup.Outcome{"without an answer": "", "later": nodegroup.OutcomeLater, "exhausted": nodegroup.OutcomeExhausted}
	for name, outcome := range cases {
		t.Run(name, func(t *testing.T) {
			s, terminate := removing(t, true)
			s.do(terminate)
			launch := action[nodegroup.AddCapacity](t, s.next())
			if outcome == "" {
				s.begun(launch)
			} else {
				s.answer(launch, outcome, "not now")
			}
			s.remove("old-a-1")
			if step := s.next(); step.Finished || step.Record.Phase != record.PhaseUpgrade {
				t.Errorf("finished %t, phase %q, one node short", step.Finished, step.Record.Phase)
			}
			s.pass(time.Minute)
			if outcome != "" {
				launch = action[nodegroup.AddCapacity](t, s.next())
			}
			s.do(launch)
			s.add(booting(current("new-a-1")))
			if step := s.next(); step.Finished || step.Record.Phase != record.PhaseUpgrade {
				t.Errorf("finished %t, phase %q, the last replacement boots", step.Finished, step.Record.Phase)
			}
			s.remove("i-new-a-1")
			s.add(current("new-a-1"))
			if step := s.rest(); step.Record.Result != record.Succeeded {
				t.Errorf("result %q", step.Record.Result)
			}
		})
	}
	t.Run("for ever", func(t *testing.T) {
		s, terminate := removing(t, true)
		s.do(terminate)
		s.answer(action[nodegroup.AddCapacity](t, s.next()), nodegroup.OutcomeExhausted, "no capacity")
		s.remove("old-a-1")
		for range 41 {
			step := s.next()
			if step.Record.Stopping == record.NodeCreationFailure {
				if !s.Now.Equal(start.Add(20 * time.Minute)) {
					t.Errorf("it gives up after %s, want 20m0s", s.Now.Sub(start))
				}
				return
			}
			for _, a := range actionsOf(step, "add") {
				s.answer(a, nodegroup.OutcomeExhausted, "no capacity")
			}
			s.pass(30 * time.Second)
		}
		t.Error("it tries for ever")
	})
}

// Processes that an earlier stop resumed are not suspended again when nothing is left to do.
func TestProcessesAreNotSuspendedAgainIfNothingIsLeftToDo(t *testing.T) {
	s := lowering(t)
	s.Record.Phase, s.Record.Suspended, s.Group.Quiesce, s.Group.Max = record.PhaseUpgrade, []string{"AZRebalance"}, []string{"AZRebalance"}, 9
	step := s.next()
	wantActions(t, step)
	if step.Record.Result != record.Succeeded {
		t.Errorf("result %q", step.Record.Result)
	}
}

// E61: added nodes that cannot be given back, because no outdated node is left, stay and are named.
func TestUpgradeNamesAddedNodesThatStay(t *testing.T) {
	s := lowering(t)
	s.Group.Max = 9
	s.editBooks(func(b *ledger.Books) { b.Zones["a"] = ledger.Zone{Surge: 2, Launched: 3, Shrunk: 1} })
	step := s.next()
	wantActions(t, step)
	checkError(t, fmt.Errorf("%s", step.Record.Message), "the group keeps 2 more nodes than before")
}

// If a server forbids a request, the upgrade ends. If it forbids several, the message names all of them,
// always in the same order.
func TestUpgradeStopsAndNamesForbiddenRequests(t *testing.T) {
	s := surged(t)
	step := s.next()
	for _, a := range step.Actions {
		s.answer(a, nodegroup.OutcomeFatal, "not allowed: "+a.String())
	}
	for range 20 {
		step = upgrade.Next(s.World)
		if want := "to add 1 nodes in zone a: not allowed: add 1 nodes in zone a; to add 1 nodes in zone b: not allowed: add 1 nodes in zone b"; step.Record.Stopping != record.Failed || step.Record.Message != want {
			t.Fatalf("stopping with %q: %q, want %q", step.Record.Stopping, step.Record.Message, want)
		}
	}
}
