package upgrade_test

import (
	"testing"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/build"
)

// removing returns a group and the action that terminates its only outdated node. The test chooses the cloud's answer.
// In a zonal group the termination shrinks the group; any other group replaces the node by itself.
func removing(t *testing.T, zonal bool) (*scene, nodegroup.Terminate) {
	s := newScene(t, old("old-a-1"), current("cur-a-1"))
	s.Request.Settle, s.Group.Can.NameZone = duration(0), zonal
	s.do(s.next().Actions...)
	s.do(s.next().Actions...)
	return s, action[nodegroup.Terminate](t, s.next())
}

// A termination that shrinks the group is repeated only if a new enough reading shows the instance in service. One that
// does not shrink may be repeated at any time.
func TestTerminationIsRetriedOnlyIfInstanceIsInService(t *testing.T) {
	cases := map[string]struct {
		zonal   bool
		outcome nodegroup.Outcome // none: the process crashed before the request
		later   time.Duration
		state   nodegroup.InstanceState
		want    bool
	}{
		"lost, a fresh reading":             {true, nodegroup.OutcomeUnclear, 30 * time.Second, nodegroup.InstanceInService, false},
		"lost, a reading past any lag":      {true, nodegroup.OutcomeUnclear, 31 * time.Second, nodegroup.InstanceInService, true},
		"lost, it is going":                 {true, nodegroup.OutcomeUnclear, time.Hour, nodegroup.InstanceLeaving, false},
		"lost, nobody knows":                {true, nodegroup.OutcomeUnclear, time.Hour, nodegroup.InstanceUnknown, false},
		"crashed, a fresh reading":          {true, "", 30 * time.Second, nodegroup.InstanceInService, false},
		"crashed, a reading past any lag":   {true, "", 31 * time.Second, nodegroup.InstanceInService, true},
		"throttled: it had no effect":       {true, nodegroup.OutcomeLater, 30 * time.Second, nodegroup.InstanceInService, true},
		"throttled a moment ago":            {true, nodegroup.OutcomeLater, 29 * time.Second, nodegroup.InstanceInService, false},
		"accepted, and in service for long": {true, nodegroup.OutcomeDone, time.Hour, nodegroup.InstanceInService, false},
		"no shrink: lost":                   {false, nodegroup.OutcomeUnclear, 30 * time.Second, nodegroup.InstanceInService, true},
		"no shrink: crashed":                {false, "", time.Second, nodegroup.InstanceInService, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s, terminate := removing(t, c.zonal)
			if terminate.Shrink != c.zonal {
				t.Fatalf("shrink %t, want %t", terminate.Shrink, c.zonal)
			}
			if c.outcome != "" {
				s.answer(terminate, c.outcome, "")
			} else {
				s.crash()
			}
			s.next()
			s.pass(c.later)
			s.at("old-a-1").Instance.State = c.state
			step := s.next()
			var got []string
			for _, a := range actionsOf(step, "terminate") {
				got = append(got, a.String())
			}
			if (len(got) == 1) != c.want {
				t.Errorf("repeated: %v, want %t", got, c.want)
			}
			if step.Poll == 0 {
				t.Error("the cloud is not asked how it went")
			}
		})
	}
}

// An accepted termination is not repeated, even when its answer is no longer remembered.
func TestAcceptedTerminationIsRecorded(t *testing.T) {
	s, terminate := removing(t, true)
	s.answer(terminate, nodegroup.OutcomeDone, "")
	s.next()
	delete(s.Open, terminate.Key())
	s.pass(10 * time.Minute)
	if step := s.next(); len(actionsOf(step, "terminate")) > 0 {
		t.Errorf("asked for again: %v", step.Actions)
	}
}

// If another process terminated the instance, the upgrade did not shrink the group, and the ledger says so, whether the
// instance is still listed or not.
func TestTerminationByAnotherProcessCorrectsTheLedger(t *testing.T) {
	for _, state := range []nodegroup.InstanceState{nodegroup.InstanceInService, nodegroup.InstanceLeaving} {
		t.Run(string(state), func(t *testing.T) {
			s, terminate := removing(t, true)
			if got := s.Record.Ledger.Contribution(); got != -1 {
				t.Fatalf("contribution %d, want -1", got)
			}
			s.answer(terminate, nodegroup.OutcomeMoved, "gone")
			s.at("old-a-1").Instance.State = state
			step := s.next()
			if got := step.Record.Ledger.Contribution(); got != 0 || !step.Persist {
				t.Errorf("contribution %d, persist %t, want 0, true", got, step.Persist)
			}
			wantActions(t, step) // no launch: the group replaces the node by itself
			if step = s.next(); step.Persist {
				t.Error("it is written again and again")
			}
			s.remove("old-a-1")
			s.add(current("new-a-1"))
			if step = s.rest(); step.Record.Result != record.Succeeded || step.Record.Replaced != 1 {
				t.Errorf("result %q, replaced %d", step.Record.Result, step.Record.Replaced)
			}
		})
	}
}

// The Node object may disappear before its machine; the record still belongs to that machine.
func TestTerminationContinuesAfterNodeObjectIsGone(t *testing.T) {
	for _, state := range []nodegroup.InstanceState{nodegroup.InstanceInService, nodegroup.InstanceLeaving} {
		t.Run(string(state), func(t *testing.T) {
			s, terminate := removing(t, true)
			s.answer(terminate, nodegroup.OutcomeDone, "")
			m := s.at("old-a-1")
			m.Node, m.Pods, m.Instance.State = nil, nil, state
			step := s.next()
			if got := started(step.Record); got != "old-a-1" || step.Record.Replaced != 0 {
				t.Errorf("started %q, replaced %d", got, step.Record.Replaced)
			}
			if got := actionsOf(step, "terminate"); len(got) > 0 {
				t.Errorf("terminated twice: %v", got)
			}
			s.do(step.Actions...)
			s.remove("i-old-a-1")
			s.add(current("new-a-1"))
			if step = s.rest(); step.Record.Result != record.Succeeded || step.Record.Replaced != 1 || step.Record.Ledger.Contribution() != 0 {
				t.Errorf("result %q, replaced %d, contribution %d", step.Record.Result, step.Record.Replaced, step.Record.Ledger.Contribution())
			}
		})
	}
}

// TestNewInstanceIsNotTerminatedForAGoneNode: another user changed the record (B15): for a node that is gone, it names
// the instance of a new node that has not joined yet. That instance is not terminated.
func TestNewInstanceIsNotTerminatedForAGoneNode(t *testing.T) {
	s, terminate := removing(t, false)
	s.answer(terminate, nodegroup.OutcomeUnclear, "deadline exceeded")
	s.remove("old-a-1")
	s.add(booting(current("new-a-1")))
	n := s.Record.Nodes["old-a-1"]
	n.Instance = "i-new-a-1"
	s.Record.Nodes["old-a-1"] = n
	s.crash()
	s.pass(10 * time.Minute)
	if step := s.rest(); len(actionsOf(step, "terminate")) > 0 || len(s.Open) > 0 && s.Open[nodegroup.Terminate{Instance: "i-new-a-1"}.Key()].Tries > 0 {
		t.Errorf("it asks for %v, and has asked for %v", step.Actions, s.Open)
	}
}

// A launch that replaces a terminated node is sent only after the termination has landed.
func TestReplacementIsLaunchedOnceTheTerminationLanded(t *testing.T) {
	s := newScene(t, old("old-a-1"), old("old-a-2"))
	s.Request.Settle, s.Request.Surge = duration(0), 1
	s.Group.Max = 3
	s.do(s.next().Actions...)
	s.add(current("new-a-1"))
	s.do(s.until(record.PhaseUpgrade).Actions...)
	terminate := action[nodegroup.Terminate](t, s.next())
	s.begun(terminate)
	if step := s.next(); len(actionsOf(step, "add")) > 0 {
		t.Errorf("I9: %v while the group has its %d nodes and one more", step.Actions, s.Group.Max-1)
	}
	s.answer(terminate, nodegroup.OutcomeUnclear, "timeout")
	if step := s.next(); len(actionsOf(step, "add")) > 0 {
		t.Errorf("I9: %v while nobody knows whether the termination landed", step.Actions)
	}
	s.effect(terminate)
	action[nodegroup.AddCapacity](t, s.next())
}

// K08: the Node object is deleted if it still exists after its machine is gone, and never before.
func TestNodeObjectIsDeletedOnlyAfterItsMachineIsGone(t *testing.T) {
	cases := map[string]struct {
		change func(*scene)
		later  time.Duration
		want   []string
	}{
		"the machine is there":  {func(*scene) {}, time.Hour, nil},
		"gone for long":         {func(s *scene) { s.at("old-a-1").Instance = nodegroup.Instance{} }, time.Minute, []string{"delete the Node object old-a-1"}},
		"gone a moment ago":     {func(s *scene) { s.at("old-a-1").Instance = nodegroup.Instance{} }, 59 * time.Second, nil},
		"gone, and Ready still": {func(s *scene) { *s.at("old-a-1") = manual("old-a-1", true) }, time.Hour, nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s, terminate := removing(t, false)
			s.do(terminate)
			s.mark("old-a-1", build.NotReady(start))
			c.change(s)
			s.next()
			s.pass(c.later)
			wantActions(t, s.next(), c.want...)
		})
	}
}

// A node whose machine another process terminates is not terminated again, and counts as replaced when it is gone.
func TestNodeTerminatedByAnotherProcessCountsAsReplaced(t *testing.T) {
	s := draining(t, build.Pod("web-0"))
	s.do(s.next().Actions...)
	s.at("old-a-1").Instance.State = nodegroup.InstanceLeaving
	s.pass(20 * time.Minute)
	step := s.next()
	wantActions(t, step)
	if step.Record.Stopping != "" {
		t.Errorf("it is stopping with %q: %s", step.Record.Stopping, step.Record.Message)
	}
	s.remove("old-a-1")
	if step = s.rest(); step.Record.Result != record.Succeeded || step.Record.Replaced != 1 || step.Record.Ledger.Contribution() != 0 {
		t.Errorf("result %q, replaced %d, contribution %d", step.Record.Result, step.Record.Replaced, step.Record.Ledger.Contribution())
	}
}
