package upgrade_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodemark"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/build"
)

// refusedLimit is how long a run may take to end after a request was permanently refused.
const refusedLimit = 2 * time.Minute

// reachedBy returns the situations in which requests are sent. Each function prepares a driver at the moment at which
// the command begins.
func reachedBy(t *testing.T, zonal bool) map[string]func() *driver {
	begin := func(change func(*record.Request)) *driver {
		spec := groupSketch{outdated: map[string]int{"a": 2, "b": 1}, provider: "aws", zonal: zonal, pointed: "1"}.spec()
		addWorkload(&spec, "web", "ReplicaSet", 6, 2)
		req := record.Request{
			Group: "workers", Run: "r1", Strategy: record.Surge, Like: "eks", MaxUnavailable: 1, Window: 1, Surge: 2, OnTimeout: record.Fail,
			DrainTimeout: duration(15 * time.Minute), Settle: duration(time.Minute), BootTimeout: duration(20 * time.Minute),
		}
		change(&req)
		return newDriver(t, spec, req)
	}
	same := func(*record.Request) {}
	stoppedAt := func(at time.Duration) *driver {
		d := begin(same)
		d.run(start.Add(at))
		return d
	}
	return map[string]func() *driver{
		"upgrade": func() *driver { return begin(same) },
		"blue-green upgrade": func() *driver {
			return begin(func(r *record.Request) {
				r.Strategy, r.Surge, r.BlueGreen = record.BlueGreen, 3, &record.BlueGreenRequest{Batch: 1}
			})
		},
		"stop while nodes come up": func() *driver { d := stoppedAt(time.Minute); d.stopRequested = true; return d },
		"stop while nodes drain":   func() *driver { d := stoppedAt(3*time.Minute + 20*time.Second); d.stopRequested = true; return d },
		"abort while nodes come up": func() *driver {
			d := stoppedAt(2*time.Minute + time.Second)
			d.abort()
			return d
		},
		"abort while nodes drain": func() *driver { d := stoppedAt(3*time.Minute + 20*time.Second); d.abort(); return d },
		"abort while a node is missing": func() *driver {
			d := begin(func(r *record.Request) { r.Surge = 0 })
			d.faults = []fault{{key: "add", outcome: nodegroup.OutcomeFatal, detail: "not now", times: 1 << 20}}
			d.run(time.Time{})
			d.faults = nil
			d.abort()
			return d
		},
		"rollback": func() *driver { d := stoppedAt(5 * time.Minute); d.rollBack(); return d },
		"nodes that do not come up": func() *driver {
			d := begin(func(r *record.Request) { r.BootTimeout = duration(time.Minute) })
			return d
		},
	}
}

// kindOf returns the kind of an action, which is the first part of its key.
func kindOf(a nodegroup.Action) string {
	kind, _, _ := strings.Cut(a.Key(), "/")
	return kind
}

// S20: TestPermanentRefusalEndsRunAndIsNamed runs upgrades, stops, aborts and rollbacks. In each run one kind of request is refused for
// good: in the first run from its first use on, in the next from its second use on, and so on. The run ends soon and says which request was refused and why. Once the request is allowed, the
// same command reaches its end.
func TestPermanentRefusalEndsRunAndIsNamed(t *testing.T) {
	for _, zonal := range []bool{true, false} {
		for how, prepare := range reachedBy(t, zonal) {
			uses := map[string]int{}
			d := prepare()
			d.watch = func(_ upgrade.World, step upgrade.Step) {
				for _, a := range step.Actions {
					uses[kindOf(a)]++
				}
			}
			d.run(time.Time{})
			for kind, n := range uses {
				for at := range n {
					t.Run(fmt.Sprintf("zonal=%t %s: %s %d", zonal, how, kind, at), func(t *testing.T) { refusedForGood(t, reachedBy(t, zonal)[how](), kind, at) })
				}
			}
		}
	}
}

// mayBeLeftOut reports whether an upgrade continues without actions of the kind.
func mayBeLeftOut(kind string) bool { return slices.Contains([]string{"hold", "restart"}, kind) }

func refusedForGood(t *testing.T, d *driver, kind string, at int) {
	t.Helper()
	const detail = "you may not do that"
	undoing, back := d.record.Stopping == record.Aborted, d.record.Rollback
	d.faults = []fault{{key: kind, after: at, outcome: nodegroup.OutcomeFatal, detail: detail, times: 1 << 20}}
	var refused time.Time
	d.watch = func(w upgrade.World, _ upgrade.Step) {
		for _, attempt := range w.Open {
			if attempt.Outcome == nodegroup.OutcomeFatal && refused.IsZero() {
				refused = w.Now
			}
		}
	}
	for !d.run(d.cluster.Now().Add(time.Second)) {
		if took := d.cluster.Now().Sub(refused); !refused.IsZero() && took > refusedLimit && !mayBeLeftOut(kind) {
			t.Fatalf("%s after the refusal it is in phase %q, stopping with %q", took, d.record.Phase, d.record.Stopping)
		}
	}
	if refused.IsZero() {
		t.Fatal("nothing was refused")
	}
	if !mayBeLeftOut(kind) && !strings.Contains(d.record.Message, detail) {
		t.Errorf("it ended %q and does not say what was refused: %q", d.record.Result, d.record.Message)
	}
	if d.record.Result == record.Succeeded || d.record.Result == record.Aborted {
		if !mayBeLeftOut(kind) {
			t.Errorf("it ended %q without what was refused", d.record.Result)
		}
		return
	}
	d.faults = nil
	want := record.Succeeded
	switch {
	case undoing:
		d.abort()
		want = record.Aborted
	case back:
		d.rollBack()
	default:
		d.reopen()
		d.req.BootTimeout = duration(20 * time.Minute)
		d.record.Request.BootTimeout = d.req.BootTimeout
	}
	d.watch = func(upgrade.World, upgrade.Step) {}
	d.run(time.Time{})
	if d.record.Result != want {
		t.Errorf("the same command ended %q once it was allowed, want %q: %s", d.record.Result, want, d.record.Message)
	}
}

// forget removes the answers that are older than the five minutes for which a process remembers them.
func (s *scene) forget() {
	maps.DeleteFunc(s.Open, func(_ string, a nodegroup.Attempt) bool { return !a.InFlight && s.Now.Sub(a.Ended) > 5*time.Minute })
}

// S20: TestForgottenRefusalsAreNamed: a stop tries one request for so long that the process forgets the answers to
// others, which were refused permanently at its start. All of them are named.
func TestForgottenRefusalsAreNamed(t *testing.T) {
	s := newScene(t, old("old-a-1"), old("old-a-2"), old("old-a-3"))
	s.do(s.next().Actions...)
	s.Stop = true
	for _, action := range s.next().Actions {
		if unfence := action.(nodemark.Unfence); unfence.Node != "old-a-3" {
			s.answer(unfence, nodegroup.OutcomeFatal, "you may not do that")
		}
	}
	var step upgrade.Step
	for range 60 {
		s.forget()
		if step = s.next(); step.Finished {
			break
		}
		for _, action := range step.Actions {
			s.answer(action, nodegroup.OutcomeLater, "too many requests")
		}
		s.pass(11 * time.Second)
	}
	want := "to unfence node old-a-1 (also old-a-2): you may not do that; to unfence node old-a-3: too many requests"
	if !step.Finished || step.Record.Message != want {
		t.Errorf("finished %t with %q, want %q", step.Finished, step.Record.Message, want)
	}
}

// S20: TestRefusalsDuringAStopAreNamed: a server refuses a request permanently after a user asked for an abort.
func TestRefusalsDuringAStopAreNamed(t *testing.T) {
	s := windowed(t, 1, old("old-a-1", build.Pod("web-0")), old("old-a-2"))
	start := action[nodemark.StartDrain](t, s.next())
	s.Open[start.Key()] = nodegroup.Attempt{Action: start, InFlight: true, Begun: s.Now, Tries: 1}
	s.ask(record.VerbAbort)
	s.next()
	s.answer(start, nodegroup.OutcomeFatal, "you may not do that")
	want := "stopped for an abort requested by alice@host; to start draining node old-a-1: you may not do that"
	if step := s.rest(); !step.Finished || step.Record.Message != want {
		t.Errorf("finished %t with %q, want %q", step.Finished, step.Record.Message, want)
	}
}

// S20: TestLongAbortNamesRefusedTermination: an abort waits for readings of the group until the process has forgotten that a
// termination was refused permanently.
func TestLongAbortNamesRefusedTermination(t *testing.T) {
	s, terminations := givingBack(t)
	s.answer(terminations[0], nodegroup.OutcomeFatal, "not authorized")
	s.do(terminations[1])
	observed := s.Group.Observed
	for range 12 {
		s.pass(31 * time.Second)
		s.Group.Observed = observed
		s.forget()
		if step := s.next(); step.Finished {
			t.Fatalf("it ends %q by a reading that is too old", step.Record.Message)
		}
	}
	s.pass(time.Second)
	s.forget()
	if step := s.rest(); step.Record.Result != record.Failed || !strings.Contains(step.Record.Message, "to "+terminations[0].String()+": not authorized") {
		t.Errorf("it ends %q: %q", step.Record.Result, step.Record.Message)
	}
}

// givingBack returns an abort that has requested the termination of two new nodes.
func givingBack(t *testing.T) (*scene, []nodegroup.Action) {
	s := surged(t)
	s.do(s.next().Actions...)
	s.add(current("new-a-1"))
	s.add(current("new-b-1"))
	s.rest()
	s.crash()
	s.Record = s.Record.AsAborting()
	s.pass(time.Minute)
	for range 5 {
		step := s.next()
		if terminations := actionsOf(step, "terminate"); len(terminations) > 0 {
			if len(terminations) != 2 {
				t.Fatalf("got %v, want two terminations", terminations)
			}
			return s, terminations
		}
		s.do(step.Actions...)
		s.pass(time.Minute)
	}
	t.Fatal("nothing is terminated")
	return nil, nil
}

// S20: TestNodeWithRefusedTerminationIsNoLongerHeld: a termination of an abort is refused permanently. The new node
// stays, and autoscalers may remove it.
func TestNodeWithRefusedTerminationIsNoLongerHeld(t *testing.T) {
	s, terminations := givingBack(t)
	kept := terminations[0].(nodegroup.Terminate).Node
	s.mark(kept, func(node *corev1.Node) { nodemark.SetHold(node, s.Record.Run) })
	s.answer(terminations[0], nodegroup.OutcomeFatal, "not authorized")
	s.do(terminations[1])
	s.pass(time.Minute)
	step := s.rest()
	if step.Record.Result != record.Failed || !strings.Contains(step.Record.Message, "not authorized") {
		t.Errorf("it ends %q: %q", step.Record.Result, step.Record.Message)
	}
	unmarked(t, s.at(kept).Node)
}

// S20: TestRefusalsOfOneKindAreGrouped: many requests of one kind are refused permanently. All nodes are named
// nevertheless.
func TestRefusalsOfOneKindAreGrouped(t *testing.T) {
	s := newScene(t, old("old-a-1"), old("old-a-2"), old("old-a-3"), old("old-a-4"), old("old-a-5"))
	s.Group.Quiesce = []string{"AZRebalance"}
	s.until(record.PhaseUpgrade)
	s.Stop = true
	for _, action := range s.next().Actions {
		detail := "no rights in the cloud"
		if unfence, ok := action.(nodemark.Unfence); ok {
			detail = fmt.Sprintf("nodes %q is forbidden", unfence.Node)
		}
		s.answer(action, nodegroup.OutcomeFatal, detail)
	}
	want := `to resume AZRebalance: no rights in the cloud; to unfence node old-a-2 (also old-a-3, old-a-4, old-a-5): nodes "old-a-2" is forbidden`
	if message := s.rest().Record.Message; message != want {
		t.Errorf("it ends with %q, want %q", message, want)
	}
}

// S20: TestStopNamesRequestOnceThatWasRefused: AZRebalance may only be resumed once the zones are in balance. Before that, the request to resume
// the other process is refused. The message names both processes, in one request.
func TestStopNamesRequestOnceThatWasRefused(t *testing.T) {
	s := newScene(t, old("old-a-1"))
	s.Group.Zones = []string{"a", "b"}
	s.until(record.PhaseUpgrade)
	s.Record.Suspended = []string{"AlarmNotification", "AZRebalance"}
	s.Group.Suspended, s.Group.Quiesce = s.Record.Suspended, []string{"AZRebalance"}
	s.add(current("new-a-2"))
	s.Stop = true
	s.answer(action[nodegroup.Resume](t, s.next()), nodegroup.OutcomeFatal, "no rights in the cloud")
	s.remove("new-a-2")
	want := "to resume AlarmNotification, AZRebalance: no rights in the cloud"
	if message := s.rest().Record.Message; message != want {
		t.Errorf("it ends with %q, want %q", message, want)
	}
}
