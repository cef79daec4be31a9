package upgrade_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/ledger"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/build"
)

// ending returns an upgrade whose first node is empty and will be terminated: that is on record, but not requested yet.
func ending(t *testing.T, shrink bool) *scene {
	s := newScene(t, old("old-a-1"), old("old-a-2"))
	s.Group.Can.NameZone = shrink
	for _, m := range s.Members {
		s.at(m.Name()).Instance.Revision = revisionOf("1")
	}
	s.Request.Settle = duration(0)
	for range 6 {
		step := s.next()
		if len(actionsOf(step, "terminate")) > 0 {
			return s
		}
		s.do(step.Actions...)
	}
	t.Fatal("nothing is terminated")
	return nil
}

// An undo keeps a node whose termination did not happen, and the node takes pods again. The undo waits for a reading of
// the group that is new enough to show that. If the node is terminating, the undo waits for its end.
func TestAbortAndRollbackWaitForOutcomeOfTermination(t *testing.T) {
	abort := func(s *scene) { s.Record = s.Record.AsAborting() }
	rollBack := func(s *scene) {
		s.Record = upgrade.AsRollback(&s.Record, revisionOf("1"), s.Now)
		s.Group.Wanted = revisionOf("1")
		for i := range s.Members {
			s.Members[i].Outdated, s.Members[i].Instance.Outdated = false, false
		}
	}
	cases := map[string]struct {
		undo           func(*scene)
		shrink, landed bool
	}{
		"abort, with shrinking":                {abort, true, false},
		"abort, without shrinking":             {abort, false, false},
		"abort, when it has landed":            {abort, true, true},
		"rollback, with shrinking":             {rollBack, true, false},
		"rollback, without shrinking":          {rollBack, false, false},
		"rollback, when it has landed":         {rollBack, true, true},
		"rollback, landed without a shrinking": {rollBack, false, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := ending(t, c.shrink)
			s.crash()
			c.undo(s)
			s.pass(time.Minute)
			if step := s.next(); len(actionsOf(step, "terminate"))+len(actionsOf(step, "unfence node old-a-1")) > 0 || step.Finished {
				t.Fatalf("it is not known what became of the node, and there are %v", step.Actions)
			}
			if c.landed {
				s.at("old-a-1").Instance.State = nodegroup.InstanceLeaving
			}
			s.pass(31 * time.Second)
			step := s.next()
			if kept := len(step.Record.Nodes) == 0; kept == c.landed {
				t.Errorf("nodes %v", step.Record.Nodes)
			}
			if unfenced := len(actionsOf(step, "unfence node old-a-1")) == 1; unfenced == c.landed {
				t.Errorf("actions %v", step.Actions)
			}
			if len(actionsOf(step, "terminate")) > 0 {
				t.Errorf("it is asked for again: %v", step.Actions)
			}
			owed := 0
			if c.landed && c.shrink {
				owed = -1
			}
			if step.Record.Ledger.Contribution() != owed {
				t.Errorf("contribution %d, want %d", step.Record.Ledger.Contribution(), owed)
			}
		})
	}
}

// An abort finds out whether a launch whose answer was lost has landed before it decides what to give back: by the
// token, or by the maximum that would have come with it.
func TestAbortResolvesLaunchWithLostAnswer(t *testing.T) {
	t.Run("with a token", func(t *testing.T) {
		s := surged(t)
		launches := s.next().Actions
		s.do(launches[0])
		s.crash()
		s.Record = s.Record.AsAborting()
		s.add(current("new-a-1"))
		s.pass(time.Minute)
		again := actionsOf(s.next(), "add")
		if len(again) != 2 && (len(again) != 1 || again[0] != launches[1]) {
			t.Fatalf("got %v, want %v", again, launches[1])
		}
		for _, a := range again {
			s.answer(a, nodegroup.OutcomeExhausted, "no capacity")
		}
		s.pass(time.Minute)
		if step := s.next(); step.Record.Ledger.Contribution() > 1 {
			t.Errorf("contribution %d", step.Record.Ledger.Contribution())
		}
	})
	t.Run("without", func(t *testing.T) {
		s := surged(t)
		s.Group.Can.NameZone = false
		s.next()
		s.crash()
		s.Record = s.Record.AsAborting()
		if step := s.next(); len(step.Actions) > 0 || step.Record.Ledger.Contribution() != 2 {
			t.Fatalf("the maximum read may be an old one: %v, contribution %d", step.Actions, step.Record.Ledger.Contribution())
		}
		s.pass(31 * time.Second)
		step := s.rest()
		if !step.Finished || step.Record.Result != record.Aborted || step.Record.Ledger.Contribution() != 0 {
			t.Errorf("finished %t with %q, contribution %d", step.Finished, step.Record.Result, step.Record.Ledger.Contribution())
		}
	})
}

// Permanently refused requests are named together with how to continue, and everything else is undone.
func TestAbortMessageNamesRefusedRequests(t *testing.T) {
	s := windowed(t, 1, old("old-a-1", build.Pod("web-0")), old("old-a-2"))
	s.do(s.next().Actions...)
	s.crash()
	s.Record = s.Record.AsAborting()
	s.pass(time.Minute)
	unfences := s.next().Actions
	s.answer(unfences[0], nodegroup.OutcomeFatal, "the annotation cannot be read")
	s.do(unfences[1])
	s.pass(time.Minute)
	step := s.rest()
	want := "to unfence node old-a-1: the annotation cannot be read: fix that, and run kubectl nodeupgrade abort workers to continue"
	if !step.Finished || step.Record.Result != record.Failed || step.Record.Message != want || step.Record.UndoVerb() != record.VerbAbort {
		t.Errorf("finished %t with %q: %q", step.Finished, step.Record.Result, step.Record.Message)
	}
	unmarked(t, s.at("old-a-2").Node)

	s.crash()
	s.Record = s.Record.AsAborting()
	s.pass(time.Minute)
	s.do(s.next().Actions...)
	s.pass(time.Minute)
	if step = s.rest(); step.Record.Result != record.Aborted || step.Record.Message != "" {
		t.Errorf("put right it ends with %q: %q", step.Record.Result, step.Record.Message)
	}
	unmarked(t, s.at("old-a-1").Node)
}

// The abort waits for the effect of a termination, even if another request was refused permanently.
func TestAbortAwaitsTerminationsInSpiteOfRefusals(t *testing.T) {
	s := surged(t)
	s.do(s.next().Actions...)
	s.add(current("new-a-1"))
	s.add(current("new-b-1"))
	s.crash()
	s.Record = s.Record.AsAborting()
	s.pass(time.Minute)
	s.do(s.next().Actions...) // the launches are asked for again
	s.pass(time.Minute)
	terminations := actionsOf(s.next(), "terminate")
	if len(terminations) != 2 {
		t.Fatalf("got %v, want two terminations", terminations)
	}
	s.pass(time.Minute) // a reading shows everything except the effects of the requests
	s.answer(terminations[0], nodegroup.OutcomeFatal, "not authorized")
	s.answer(terminations[1], nodegroup.OutcomeUnclear, "deadline exceeded")
	if step := s.rest(); step.Finished {
		t.Fatalf("it ended with %q before the answer to %s was clear", step.Record.Message, terminations[1])
	}
	s.pass(time.Minute)
	again := s.next().Actions
	if len(again) != 1 || again[0] != terminations[1] {
		t.Fatalf("got %v, want %v", again, terminations[1])
	}
	s.do(again...)
	s.pass(time.Minute)
	if step := s.rest(); !step.Finished || step.Record.Result != record.Failed {
		t.Errorf("finished %t with %q", step.Finished, step.Record.Result)
	}
}

func TestAbortRestoresGroupRevision(t *testing.T) {
	cases := map[string]struct {
		pointed string
		answer  nodegroup.Outcome
		result  record.Result
		acts    bool
	}{
		"it points where we pointed it":  {"2", nodegroup.OutcomeDone, record.Aborted, true},
		"somebody pointed it elsewhere":  {"3", "", record.Aborted, false},
		"it was never pointed elsewhere": {"1", "", record.Aborted, false},
		"the cloud refuses":              {"2", nodegroup.OutcomeFatal, record.Failed, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, old("old-a-1"))
			s.Group.Pointed = revisionOf("1")
			s.next()
			s.crash()
			s.Record, s.Group.Pointed = s.Record.AsAborting(), revisionOf(c.pointed)
			s.next()
			s.pass(31 * time.Second)
			if c.acts {
				if to := action[nodegroup.SetRevision](t, s.next()); to.To.ID != "1" {
					t.Fatalf("it is pointed at %q", to.To.ID)
				}
				s.answer(nodegroup.SetRevision{To: revisionOf("1")}, c.answer, "no")
				if c.answer == nodegroup.OutcomeDone {
					s.Group.Pointed = revisionOf("1")
				}
			}
			step := s.rest()
			if !step.Finished || step.Record.Result != c.result {
				t.Errorf("finished %t with %q: %s", step.Finished, step.Record.Result, step.Record.Message)
			}
		})
	}
}

// After the target moved it is unknown which nodes are new. No node is terminated, and the message says so.
func TestAbortKeepsNodesAfterTheTargetMoved(t *testing.T) {
	s := surged(t)
	s.do(s.next().Actions...)
	s.add(current("new-a-1"))
	s.add(current("new-b-1"))
	s.crash()
	s.Record, s.Group.Wanted = s.Record.AsAborting(), revisionOf("1")
	for _, name := range []string{"old-a-1", "old-b-1"} {
		s.at(name).Outdated = false
	}
	s.rest() // the launches are asked for again
	s.pass(time.Minute)
	step := s.rest()
	if !step.Finished || step.Record.Result != record.Aborted || !strings.Contains(step.Record.Message, "2 more nodes than before") {
		t.Errorf("finished %t with %q: %q", step.Finished, step.Record.Result, step.Record.Message)
	}
}

// A rollback that has not carried over the ledger yet does not know which nodes the upgrade added. The nodes from before
// the upgrade are current for the rollback, but the upgrade did not add them.
func TestAbortKeepsNodesWhileARollbackBegins(t *testing.T) {
	s := surged(t)
	s.do(s.next().Actions...)
	s.add(old("new-a-1"))
	s.add(old("new-b-1"))
	s.crash()
	s.Record, s.Group.Wanted, s.Group.Pointed = upgrade.AsRollback(&s.Record, revisionOf("1"), s.Now), revisionOf("1"), revisionOf("1")
	s.Record = s.Record.AsAborting()
	for _, name := range []string{"old-a-1", "old-b-1"} {
		s.at(name).Outdated = false
	}
	s.rest() // repeats the launches, and points the group back
	s.Group.Pointed = revisionOf("2")
	s.pass(time.Minute)
	step := s.rest()
	if len(step.Record.Nodes) > 0 || !strings.Contains(step.Record.Message, "2 more nodes than before") {
		t.Errorf("finished %t with %q, and took %v: %q", step.Finished, step.Record.Result, step.Record.Nodes, step.Record.Message)
	}
}

// A rollback counts the nodes that the upgrade added as surge that is up. Instances that do not exist yet are launched
// from the revision that is wanted again, and count when they exist. Readings that may be too old to show such instances
// are ignored.
func TestRollbackCarriesOverAddedNodes(t *testing.T) {
	cases := map[string]struct {
		desired, removed int
		waits            time.Duration
		carried          int
	}{
		"all is there":                            {5, 0, time.Minute, 2},
		"an instance is yet to come":              {6, 0, time.Minute, 1},
		"one that replaces a node is not fit yet": {5, 1, time.Minute, 1},
		"the reading may be an old one":           {5, 0, 20 * time.Second, 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, old("new-a-1"), old("new-a-2"), current("old-a-1"), current("old-a-2"), booting(current("any-a-1")))
			s.Group.Can.NameZone, s.Group.Desired, s.Group.Wanted, s.Group.Pointed = false, c.desired, revisionOf("1"), revisionOf("1")
			rec := record.Record{
				Run: "r1", Request: s.Request, Phase: record.PhaseUpgrade, Previous: revisionOf("1"), Target: revisionOf("2"),
				Ledger: ledger.FromBooks(ledger.Books{Changed: start, Zones: map[string]ledger.Zone{"": {Surge: 2, Launched: 2, Removed: c.removed}}}),
			}
			s.Record = upgrade.AsRollback(&rec, revisionOf("1"), s.Now)
			s.Request.Surge = 2
			s.pass(c.waits)
			step := s.next()
			if got := step.Record.Ledger.Books().Zones[""].Carried; got != c.carried || (step.Record.Phase == record.PhaseSetup) != (c.carried == 0) {
				t.Errorf("carried %d in phase %q, want %d", got, step.Record.Phase, c.carried)
			}
		})
	}
}

// A rollback replaces an instance that existed before the upgrade and never became a node. The upgrade did not add it,
// so no other node waits for it to come up.
func TestRollbackReplacesInstancesWithoutNodes(t *testing.T) {
	bare := old("new-b-1")
	bare.Node = nil
	s := newScene(t, bare, current("old-a-1"), old("new-a-1"))
	s.Group.Desired, s.Group.Wanted, s.Group.Pointed = 3, revisionOf("1"), revisionOf("1")
	rec := record.Record{
		Run: "r1", Request: s.Request, Phase: record.PhaseUpgrade, Previous: revisionOf("1"), Target: revisionOf("2"),
		Ledger: ledger.FromBooks(ledger.Books{
			Changed: start, Known: []string{bare.Instance.ID}, Zonal: true, Zones: map[string]ledger.Zone{"a": {Surge: 1, Launched: 1}},
		}),
	}
	s.Record = upgrade.AsRollback(&rec, revisionOf("1"), s.Now)
	s.pass(time.Minute)
	step := s.next()
	if known, want := step.Record.Ledger.Books().Known, []string{bare.Instance.ID, "old-a-1"}; !slices.Equal(known, want) {
		t.Errorf("known before the rollback: %v, want %v", known, want)
	}
	s.remove("new-a-1")
	s.Group.Desired = 2
	s.editBooks(func(b *ledger.Books) {
		b.Zones = map[string]ledger.Zone{"a": {Surge: 1, Launched: 1, Shrunk: 1, Carried: 1, Removed: 1}}
	})
	s.Record.Phase = record.PhaseUpgrade
	s.pass(time.Minute)
	s.Request.Like, s.Record.Request.Like = "gke", "gke"
	if step = s.next(); len(step.Record.Nodes) != 1 {
		t.Errorf("nodes %v are started, want the instance without a node: it waits for %q", step.Record.Nodes, step.Status.Waiting)
	}
}

// I8: an undo that is killed after any of its steps has the same result as one that was not killed.
func TestAbortOrRollbackKilledInAnyStepHasSameResult(t *testing.T) {
	for _, zonal := range []bool{true, false} {
		for _, verb := range []record.Verb{record.VerbAbort, record.VerbRollback} {
			for _, at := range []time.Duration{time.Second, time.Minute, 2*time.Minute + time.Second, 3*time.Minute + 20*time.Second, 5 * time.Minute} {
				t.Run(fmt.Sprintf("zonal=%t %s at %s", zonal, verb, at), func(t *testing.T) {
					whole, steps := undone(t, zonal, verb, at, -1)
					for kill := range min(steps, 40) {
						if got, _ := undone(t, zonal, verb, at, kill); got != whole {
							t.Fatalf("killed after step %d it ends as\n%s\nand else as\n%s", kill, got, whole)
						}
					}
				})
			}
		}
	}
}

// undone returns the final state of a group, and the number of steps of its undo. The undo is killed after kill steps;
// never if kill is negative.
func undone(t *testing.T, zonal bool, verb record.Verb, at time.Duration, kill int) (left string, steps int) {
	t.Helper()
	spec := groupSketch{outdated: map[string]int{"a": 2, "b": 1}, provider: "aws", zonal: zonal, pointed: "1"}.spec()
	addWorkload(&spec, "web", "ReplicaSet", 6, 2)
	d := newDriver(t, spec, record.Request{
		Group: "workers", Run: "r1", Strategy: record.Surge, Like: "eks", MaxUnavailable: 1, Window: 1, Surge: 2, OnTimeout: record.Fail,
		DrainTimeout: duration(15 * time.Minute), Settle: duration(time.Minute), BootTimeout: duration(20 * time.Minute),
	})
	undo := d.abort
	if verb == record.VerbRollback {
		undo = d.rollBack
	}
	d.run(start.Add(at))
	d.ask(verb)
	d.run(time.Time{})
	undo()
	evicted := 0
	d.watch = func(_ upgrade.World, step upgrade.Step) {
		evicted += len(actionsOf(step, "evict"))
		steps++
	}
	for range kill {
		if step := d.turn(-1); step.Finished {
			break
		} else if len(step.Actions) == 0 {
			d.cluster.Advance(step.Wake)
		}
	}
	if kill >= 0 && d.record.Result == "" {
		d.turn(1)
		if d.record.Result == "" {
			undo()
		}
	}
	d.run(time.Time{})
	w := d.world()
	for i := range w.Members {
		if m := &w.Members[i]; m.Node != nil {
			unmarked(t, m.Node)
		}
	}
	if verb == record.VerbAbort && evicted > 0 {
		t.Errorf("%d pods are evicted by an abort", evicted)
	}
	owed := d.record.Ledger.Contribution()
	if w.Group.Desired != 3+owed || w.Group.Max != max(3, w.Group.Desired) || w.Group.Pointed.ID != "1" {
		t.Errorf("the group is left at %d of %d, pointing at %s, owing %d", w.Group.Desired, w.Group.Max, w.Group.Pointed.Name, owed)
	}
	left = string(d.record.Result)
	if verb == record.VerbRollback {
		left += " " + d.record.Message
		for i := range w.Members {
			left += " " + w.Members[i].Instance.Revision.ID
		}
	}
	return left, steps
}

// In a group without a cloud, an abort gives back a node that is only drained: it was not replaced, and counts once.
func TestAbortCountsDrainedNodesAsKept(t *testing.T) {
	for name, replaced := range map[string]int{"only drained": 0, "one replaced": 1} {
		t.Run(name, func(t *testing.T) {
			s := newManualScene(t, "old-a-1", "old-a-2", "old-a-3")
			s.Members = append(s.Members, manual("zz-current", false))
			rec := s.rest().Record
			first := inState(rec, record.NodeDrained)
			if len(first) != 1 {
				t.Fatalf("drained are %v, want one node", first)
			}
			if replaced > 0 {
				s.replaceNode(first[0], "manual", nil)
				rec = s.rest().Record
			}
			if drained := inState(rec, record.NodeDrained); len(drained) != 1 {
				t.Fatalf("drained are %v, want one node", drained)
			}
			s.Record = rec.AsAborting()
			step := s.rest()
			if r := &step.Record; r.Result != record.Aborted || r.Replaced != replaced || r.Total != 3 || r.Ledger.Removed() != replaced {
				t.Errorf("%s: %d of %d nodes replaced, %d removed (%q); want %d of 3", r.Result, r.Replaced, r.Total, r.Ledger.Removed(), r.Message, replaced)
			}
		})
	}
}

// TestAbortRestoresRevisionFromItsRecord: an abort points the group back at the revision that its record names. It
// marks the revision as recorded, so that a cloud creates no revision for it (S36).
func TestAbortRestoresRevisionFromItsRecord(t *testing.T) {
	s := newScene(t, old("old-a-1"))
	s.Group.Pointed = revisionOf("1")
	step := s.next() // it points the group at the target
	s.do(step.Actions...)
	s.Record, s.Group.Pointed = s.Record.AsAborting(), s.Record.Target
	for range 5 {
		step = s.next()
		for _, action := range step.Actions {
			if back, ok := action.(nodegroup.SetRevision); ok {
				if !back.Recorded || back.To != revisionOf("1") {
					t.Errorf("it asks for %+v, want revision 1 as one that its record names", back)
				}
				return
			}
		}
		s.do(step.Actions...)
		s.pass(31 * time.Second)
	}
	t.Error("the group is not pointed back")
}

// TestAbortRestoresRevisionAfterRollbackWasDenied: the rollback was not allowed to change the group's revision. The abort
// points the group back.
func TestAbortRestoresRevisionAfterRollbackWasDenied(t *testing.T) {
	d := reachedBy(t, true)["rollback"]()
	d.faults = []fault{{key: "set-revision/", outcome: nodegroup.OutcomeFatal, detail: "you may not do that", times: 1 << 20}}
	d.run(time.Time{})
	d.wantPointedBack(t)
}

// TestStopOfAnAbortNamesRefusals: S20 for an abort that is interrupted after one of its requests was refused
// permanently.
func TestStopOfAnAbortNamesRefusals(t *testing.T) {
	d := reachedBy(t, true)["abort while nodes drain"]()
	d.faults = []fault{{key: "unfence/", outcome: nodegroup.OutcomeFatal, detail: "you may not do that", times: 1 << 20}}
	for range 40 {
		step := d.turn(-1)
		if step.Finished {
			break
		}
		for _, a := range d.world().Open {
			if a.Outcome == nodegroup.OutcomeFatal {
				d.stopRequested = true
			}
		}
		if len(step.Actions) == 0 {
			d.cluster.Advance(step.Wake)
		}
	}
	if !strings.Contains(d.record.Message, "you may not do that") {
		t.Errorf("it ends %q: %q", d.record.Result, d.record.Message)
	}
}

// TestAbortRestoresRevisionAfterNewTargetIsRefused: the cloud refuses to point the group at the new target. The abort points it back from the earlier target.
func TestAbortRestoresRevisionAfterNewTargetIsRefused(t *testing.T) {
	spec := groupSketch{outdated: map[string]int{"a": 3}, provider: "aws", zonal: true, pointed: "1"}.spec()
	d := newDriver(t, spec, record.Request{
		Group: "workers", Run: "r1", Strategy: record.Surge, Like: "eks", MaxUnavailable: 1, Window: 1, Surge: 1, OnTimeout: record.Fail,
		DrainTimeout: duration(15 * time.Minute), Settle: duration(time.Minute), BootTimeout: duration(20 * time.Minute),
	})
	d.run(start.Add(30 * time.Second))
	d.wanted = "3"
	d.run(time.Time{})
	d.reopen()
	d.record = d.record.WithTarget(revisionOf("3"))
	d.faults = []fault{{key: "set-revision/", outcome: nodegroup.OutcomeFatal, detail: "you may not do that", times: 1 << 20}}
	d.run(time.Time{})
	d.wantPointedBack(t)
}

// wantPointedBack aborts without faults, and checks that the group points at revision 1 again.
func (d *driver) wantPointedBack(t *testing.T) {
	t.Helper()
	d.faults = nil
	d.abort()
	d.run(time.Time{})
	if w := d.world(); w.Group.Pointed.ID != "1" {
		t.Errorf("the abort ends %q: %q; the group pointed at 1 before, and points at %s", d.record.Result, d.record.Message, w.Group.Pointed.ID)
	}
}
