package upgrade_test

import (
	"testing"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/build"
)

// E61: an autoscaler that removes an added node lowers the group's desired size. Scale up continues with the nodes that
// are left.
func TestScaleUpContinuesAfterAutoscalerRemovesSurgeNode(t *testing.T) {
	s := surged(t)
	s.do(s.next().Actions...) // two launches
	s.add(current("new-a-1")) // the other instance is gone already
	s.pass(time.Minute)
	wantUntouched(t, s.next())

	s.Group.Desired--
	wantActions(t, s.next(), "fence node old-a-1", "fence node old-b-1")
}

// E61: after scale up, the upgrade does not wait either for nodes that the autoscaler removed, even if no node may be
// unavailable.
func TestUpgradeDoesNotWaitForSurgeThatAutoscalerRemoved(t *testing.T) {
	s := newScene(t, old("old-a-1"), old("old-a-2"))
	s.Request.Surge, s.Request.MaxUnavailable = 1, 0
	s.do(s.next().Actions...)
	s.add(current("new-a-1"))
	s.do(s.next().Actions...) // the fences
	s.remove("new-a-1")
	s.pass(time.Minute)
	if step := s.next(); started(step.Record) != "" {
		t.Fatalf("%s is started with nobody in its place", started(step.Record))
	}

	s.Group.Desired--
	if step := s.next(); started(step.Record) != "old-a-1" {
		t.Errorf("started %q: the group has a node more than it is meant to have without us", started(step.Record))
	}
}

// If an autoscaler uses up the room that was made for an added node, the upgrade makes more room, but not in a tight
// loop.
func TestUpgradeRaisesMaxAgainAfterAutoscalerUsesItUp(t *testing.T) {
	s := newScene(t, old("old-a-1"))
	s.Request.Surge, s.Group.Max = 1, 1
	s.do(s.next().Actions...) // the maximum
	launch := action[nodegroup.AddCapacity](t, s.next())
	s.answer(launch, nodegroup.OutcomeMoved, "the desired size would be 3, above max value 2")
	wantActions(t, s.next())

	s.Group.Desired++
	s.add(current("cas-a-1"))
	s.pass(5 * time.Second)
	step := s.next()
	wantActions(t, step, "raise the group's max from 2 to 3")
	s.do(step.Actions...)
	wantActions(t, s.next())
	s.pass(5 * time.Second)
	if again := action[nodegroup.AddCapacity](t, s.next()); again.Token == launch.Token {
		t.Errorf("token %s is used again for a launch that was refused", again.Token)
	}
}

// If a termination is known to have had no effect, another process ended the machine, and the ledger counts no shrink.
func TestTerminationWithoutEffectDoesNotCountAsShrink(t *testing.T) {
	cases := map[string]struct {
		outcome nodegroup.Outcome
		want    int // terminations that shrank the group
	}{
		"throttled":                  {nodegroup.OutcomeLater, 0},
		"an answer that was lost":    {nodegroup.OutcomeUnclear, 1},
		"accepted":                   {nodegroup.OutcomeDone, 1},
		"gone when it was asked for": {nodegroup.OutcomeMoved, 0},
	}
	for name, c := range cases {
		for _, vanished := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				s, terminate := removing(t, true)
				s.answer(terminate, c.outcome, "")
				if s.at("old-a-1").Instance.State = nodegroup.InstanceLeaving; vanished {
					s.remove("old-a-1")
				}
				s.next()
				if got := s.Record.Ledger.Books().Zones["a"].Shrunk; got != c.want {
					t.Errorf("%d terminations shrank the group, want %d", got, c.want)
				}
			})
		}
	}
}

// The upgrade waits for the answer to a termination in flight before it records how a missing machine ended.
func TestUpgradeWaitsForAnswerToTerminationInFlight(t *testing.T) {
	s, terminate := removing(t, true)
	s.begun(terminate)
	s.remove("old-a-1")
	if step := s.next(); started(step.Record) != "old-a-1" || step.Finished {
		t.Errorf("started %q, finished %t, with the answer under way", started(step.Record), step.Finished)
	}
	s.answer(terminate, nodegroup.OutcomeMoved, "gone")
	s.next()
	if got := s.Record.Ledger.Contribution(); got != 0 {
		t.Errorf("contribution %d, want 0: another process terminated it", got)
	}
}

// Starting a node that does not serve costs nothing, even if no node may be unavailable. A node that is no longer Ready
// since a short time may be Ready again at any moment: all nodes stop reporting while the API server is down.
func TestLostNodeIsDrainedWithoutUsingMaxUnavailable(t *testing.T) {
	cases := map[string]struct {
		silent time.Duration
		starts bool
	}{
		"Ready":                        {0, false},
		"NotReady a minute":            {time.Minute, false},
		"NotReady for nearly too long": {5*time.Minute - 1, false},
		"NotReady for too long":        {5 * time.Minute, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, old("old-a-1"), current("cur-a-1"))
			s.Request.Surge, s.Request.MaxUnavailable = 1, 0
			s.do(s.next().Actions...)
			s.add(current("new-a-1"))
			s.do(s.next().Actions...) // the fence
			s.Record.Phase = record.PhaseUpgrade
			s.remove("new-a-1") // its machine was terminated, and another is booting
			s.pass(time.Minute)
			if c.silent > 0 {
				build.NotReady(s.Now.Add(-c.silent))(s.at("old-a-1").Node)
			}
			step := s.next()
			if got := started(step.Record); (got == "old-a-1") != c.starts {
				t.Errorf("started %q", got)
			}
			if lost := s.Now.Add(5*time.Minute - c.silent); c.silent > 0 && !c.starts && step.Wake.After(lost) {
				t.Errorf("it looks again at %s, and the node counts as lost from %s", step.Wake, lost)
			}
		})
	}
}

// Nodes that a failed scale up was giving back are kept when the upgrade continues, if the cloud still has them.
func TestContinuedUpgradeKeepsSurgeNotYetTerminated(t *testing.T) {
	s := surged(t)
	s.do(s.next().Actions...)
	s.add(current("new-a-1"))
	s.pass(20 * time.Minute)
	s.next()
	terminate := action[nodegroup.Terminate](t, s.next())
	s.crash() // before the termination was requested
	s.Record = s.Record.Reopened()
	s.pass(30 * time.Second)
	if step := s.next(); len(actionsOf(step, "terminate")) > 0 || len(step.Record.Nodes) != 1 {
		t.Fatalf("it is not known what became of %s, and there are %v", terminate.Instance, step.Actions)
	}

	s.pass(time.Second)
	step := s.next()
	if len(step.Record.Nodes) != 0 || step.Record.Ledger.Contribution() != 2 || len(actionsOf(step, "terminate")) > 0 {
		t.Errorf("nodes %v, contribution %d, %v: want it kept", step.Record.Nodes, step.Record.Ledger.Contribution(), step.Actions)
	}
}

// While a laptop slept, the cloud may have done its work. So a time limit is over only if a reading after the limit
// does not show the expected change.
func TestTimeLimitIsOverOnlyAfterAFreshReading(t *testing.T) {
	s := surged(t)
	s.do(s.next().Actions...)
	s.Now = s.Now.Add(8 * time.Hour)
	step := s.next()
	if step.Record.Stopping != "" || step.Poll == 0 {
		t.Errorf("stopping with %q, poll %s, by a reading from before", step.Record.Stopping, step.Poll)
	}
	s.pass(time.Second)
	if step = s.next(); step.Record.Stopping != record.NodeCreationFailure {
		t.Errorf("stopping with %q, want NodeCreationFailure", step.Record.Stopping)
	}
}

// E30, E47: while a fence is missing, no pod is evicted, since it could land on the unfenced node. No node's drain
// timeout runs during that time.
func TestNothingIsEvictedWhileAFenceIsMissing(t *testing.T) {
	s := newScene(t, old("old-a-1", build.Pod("web-0")), old("old-a-2"))
	s.do(s.next().Actions...)
	s.do(actionsOf(s.next(), "start draining")...)
	s.Members[1].Node = old("old-a-2").Node // a user restored the node
	s.pass(time.Minute)
	wantActions(t, s.next(), "fence node old-a-2")
	s.pass(time.Minute)
	s.do(actionsOf(s.next(), "fence")...)
	step := s.next()
	if len(actionsOf(step, "evict")) != 1 {
		t.Errorf("%v, want an eviction", step.Actions)
	}
	if got := step.Notes.Yielded["old-a-1"]; got != time.Minute {
		t.Errorf("%s put by, want 1m0s", got)
	}
}

// A Node object may outlive its machine and look Ready for minutes. If a new reading of the group does not show its
// instance, it serves nobody. An older reading may not show a node that has just come up.
func TestNodeWithoutInstanceIsNotCountedAsNewNode(t *testing.T) {
	cases := map[string]struct {
		created time.Duration // before the reading
		want    int
	}{
		"its machine is gone":          {time.Minute, 0},
		"its machine is not shown yet": {10 * time.Second, 1},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := windowed(t, 1, old("old-a-1"), old("old-a-2"))
			s.next()
			m := current("new-a-1")
			m.Instance = nodegroup.Instance{}
			m.Node.CreationTimestamp.Time = s.Group.Observed.Add(-c.created)
			s.add(m)
			if step := s.next(); step.Status.NewReady != c.want {
				t.Errorf("%d new nodes are fit for pods, want %d", step.Status.NewReady, c.want)
			}
		})
	}
}
