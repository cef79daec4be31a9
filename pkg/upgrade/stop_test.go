package upgrade_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodemark"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/build"
)

// interrupted checks that a step is the last of an upgrade that the user stopped.
func interrupted(t *testing.T, step upgrade.Step) {
	t.Helper()
	wantActions(t, step)
	if !step.Finished || !step.Persist || step.Record.Result != record.Interrupted || step.Record.Ended.IsZero() {
		t.Errorf("finished %t, persist %t, result %q, waiting for %q", step.Finished, step.Persist, step.Record.Result, step.Status.Waiting)
	}
}

func TestStopDuringSetupDoesNotWaitForActionInFlight(t *testing.T) {
	s := newScene(t, old("old-a-1"))
	s.Group.Pointed = nodegroup.Revision{ID: "1"}
	s.begun(s.next().Actions[0])
	s.Stop = true
	interrupted(t, s.next())
}

// Processes that we suspended are resumed, even if the suspension was still in flight when the user stopped.
func TestStopResumesProcessesThatUpgradeSuspended(t *testing.T) {
	cases := map[string]struct {
		answered, seen bool
	}{
		"in flight":                {false, false},
		"accepted, not to be seen": {true, false},
		"accepted, and to be seen": {true, true},
		"its answer was overtaken": {false, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, old("old-a-1"))
			s.Group.Quiesce, s.Group.Suspended = []string{"AZRebalance"}, []string{"Launch"}
			quiesce := action[nodegroup.Quiesce](t, s.next())
			s.begun(quiesce)
			if c.answered {
				s.pass(time.Second)
				s.answer(quiesce, nodegroup.OutcomeDone, "")
				s.Group.Observed = s.Now.Add(-time.Millisecond)
			}
			if c.seen {
				s.Group.Observed = s.Now
				s.effect(quiesce)
			}
			s.Stop = true
			step := s.next()
			if !c.answered || !c.seen {
				wantActions(t, step)
				if step.Finished || step.Poll == 0 {
					t.Errorf("finished %t, poll %s, with the suspension under way", step.Finished, step.Poll)
				}
				s.pass(time.Second)
				s.Group.Suspended = []string{"Launch"}
				s.do(quiesce)
				step = s.next()
			}
			wantActions(t, step, "resume AZRebalance")
			s.do(step.Actions...)
			interrupted(t, s.next())
		})
	}
}

func TestStopDuringScaleUpKeepsLaunchesOnRecord(t *testing.T) {
	s := surged(t)
	launches := s.next().Actions
	s.do(launches[0])
	s.begun(launches[1])
	s.Stop = true
	step := s.next()
	interrupted(t, step)
	if got := step.Record.Ledger.Contribution(); got != 2 {
		t.Errorf("contribution %d, want 2: what was asked for is on record", got)
	}
	s.crash()
	s.Stop, s.Record = false, s.Record.Reopened()
	if again := action[nodegroup.AddCapacity](t, s.next()); again != launches[1] {
		t.Errorf("got %+v, want %+v", again, launches[1])
	}
}

// Nodes that were never started take pods again, including those whose fence was still in flight.
func TestStopUnfencesNodesThatWereNotStarted(t *testing.T) {
	s := newScene(t, old("old-a-1"), old("old-a-2"), old("old-a-3"), old("old-a-4"))
	fences := s.next().Actions
	s.do(fences[0])
	s.begun(fences[1])                                 // in flight
	s.answer(fences[2], nodegroup.OutcomeDone, "")     // accepted, not visible yet
	s.answer(fences[3], nodegroup.OutcomeLater, "503") // without effect
	s.Stop = true
	step := s.next()
	wantActions(t, step, "unfence node old-a-1")
	s.do(step.Actions...)
	if step = s.next(); step.Finished {
		t.Error("finished with two fences on their way")
	}
	s.do(fences[1])
	s.effect(fences[2])
	step = s.next()
	wantActions(t, step, "unfence node old-a-2", "unfence node old-a-3")
	s.do(step.Actions...)
	interrupted(t, s.next())
	for _, m := range s.Members {
		if m.Node.Spec.Unschedulable || len(m.Node.Spec.Taints) > 0 || len(m.Node.Annotations) > 0 {
			t.Errorf("node %s keeps %+v %v", m.Name(), m.Node.Spec, m.Node.Annotations)
		}
	}
}

// A stop waits half a minute for a fence whose answer was lost.
func TestStopWaitsForFenceWithLostAnswer(t *testing.T) {
	s := newScene(t, old("old-a-1"))
	s.answer(s.next().Actions[0], nodegroup.OutcomeUnclear, "timeout")
	s.Stop = true
	if step := s.next(); step.Finished {
		t.Error("finished while the fence may still come")
	}
	s.pass(30 * time.Second)
	interrupted(t, s.next())
}

// A fence whose first answer was lost may exist although the second try was permanently refused.
func TestStopWaitsForEarlierAttemptOfRefusedFence(t *testing.T) {
	s := newScene(t, old("old-a-1"))
	fence := s.next().Actions[0]
	s.answer(fence, nodegroup.OutcomeUnclear, "timeout")
	s.answer(fence, nodegroup.OutcomeFatal, "forbidden")
	s.Stop = true
	if step := s.next(); step.Finished {
		t.Error("finished while the fence of the first try may still show")
	}
	s.effect(fence)
	wantActions(t, s.next(), "unfence node old-a-1")
}

func TestStopDuringDrainUnfencesOnlyNodesNotStarted(t *testing.T) {
	s := windowed(t, 1, old("old-a-1", build.Pod("web-0")), old("old-a-2"))
	s.do(s.next().Actions...)
	s.Stop = true
	step := s.next()
	wantActions(t, step, "unfence node old-a-2")
	wantState(t, step, "old-a-1", record.NodeDraining)
	s.do(step.Actions...)
	interrupted(t, s.next())
	if node := s.at("old-a-1").Node; !node.Spec.Unschedulable || node.Annotations[nodemark.AnnotationRun] != "r1" {
		t.Error("the started node is not fenced any more")
	}

	s.crash()
	s.Stop, s.Record = false, s.Record.Reopened()
	step = s.next()
	wantActions(t, step, "fence node old-a-2")
	wantState(t, step, "old-a-1", record.NodeDraining)
}

func TestStopKeepsFencesIfRequested(t *testing.T) {
	s := newScene(t, old("old-a-1", build.Pod("web-0")), old("old-a-2"))
	s.Request.KeepFence = true
	s.do(s.next().Actions...)
	s.do(s.next().Actions...)
	s.Stop = true
	interrupted(t, s.next())
}

func TestStopDuringScaleDownDoesNotWaitForActionInFlight(t *testing.T) {
	s := lowering(t)
	s.begun(s.next().Actions[0])
	s.Stop = true
	interrupted(t, s.next())
}

// A failure stops the upgrade as Ctrl-C does. If the user presses Ctrl-C during that stop, the reason of the failure
// stays.
func TestStopAfterFailureKeepsReasonOfFailure(t *testing.T) {
	s := windowed(t, 1, old("old-a-1", build.Pod("bare", build.Bare)), old("old-a-2", build.Pod("bare-too", build.Bare)))
	s.do(s.next().Actions...)
	s.pass(15 * time.Minute)
	s.next()
	s.Stop = true
	step := s.next()
	wantActions(t, step, "unfence node old-a-2")
	s.do(step.Actions...)
	if step = s.next(); step.Record.Result != record.PodEvictionFailure || step.Record.Message == "" {
		t.Errorf("result %q: %q", step.Record.Result, step.Record.Message)
	}
}

// S3: a user made a fenced node schedulable on purpose. The upgrade stops, and does not begin anything in the step that
// sees it. The same command fences the node again, whether it was started or not.
func TestUpgradeStopsWhenUserUncordonsNode(t *testing.T) {
	uncordon := func(n *corev1.Node) { n.Spec.Unschedulable = false }
	cases := map[string]struct {
		node string
		keep bool
	}{
		"a node not started":                       {"old-a-2", false},
		"a node not started, though fences stay":   {"old-a-2", true},
		"a node that is being drained":             {"old-a-1", false},
		"a node being drained, though fences stay": {"old-a-1", true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, old("old-a-1", build.Pod("web-0")), old("old-a-2"), old("old-a-3"))
			s.Request.KeepFence = c.keep
			s.do(s.next().Actions...)
			s.do(actionsOf(s.next(), "start draining")...)
			s.mark(c.node, uncordon)
			s.crash()
			step := s.next()
			wantActions(t, step)
			if step.Record.Stopping != record.Paused {
				t.Fatalf("stopping with %q", step.Record.Stopping)
			}
			step = s.rest()
			if !step.Finished || step.Record.Result != record.Paused {
				t.Fatalf("finished %t with %q", step.Finished, step.Record.Result)
			}
			node := s.at(c.node).Node
			if node.Spec.Unschedulable || len(node.Spec.Taints) > 0 {
				t.Errorf("the node is %+v: it does not take pods", node.Spec)
			}
			s.crash()
			s.Record = s.Record.Reopened()
			step = s.next()
			if len(actionsOf(step, "fence node "+c.node)) != 1 {
				t.Errorf("the same command does not fence the node again: %v, %q", step.Actions, step.Record.Message)
			}
		})
	}
}

// If another process removed the taint and the cordon is still there, the taint is set again.
func TestMissingTaintIsPutBack(t *testing.T) {
	s := draining(t)
	s.crash()
	s.mark("old-a-1", func(n *corev1.Node) { n.Spec.Taints = nil })
	wantActions(t, s.next(), "fence node old-a-1")
}

// A target that moves would make new nodes outdated: a person must decide.
func TestUpgradeStopsWhenGroupTargetChanges(t *testing.T) {
	s := windowed(t, 1, old("old-a-1", build.Pod("web-0")), old("old-a-2"))
	s.do(s.next().Actions...)
	s.Group.Wanted = nodegroup.Revision{ID: "3", Name: "workers:3"}
	step := s.rest()
	want := "the target of the group changed from workers:2 to workers:3 during the upgrade: pass --replan to continue to workers:3"
	if !step.Finished || step.Record.Result != record.TargetMoved || step.Record.Message != want {
		t.Errorf("finished %t with %q: %q", step.Finished, step.Record.Result, step.Record.Message)
	}
}

// A node whose marks cannot be read is left alone and named, and does not prevent the upgrade from stopping.
func TestStopSkipsNodesWithUnreadableAnnotations(t *testing.T) {
	s := windowed(t, 1, old("old-a-1", build.Pod("web-0")), old("old-a-2"))
	s.do(s.next().Actions...)
	s.Stop = true
	unfence := action[nodemark.Unfence](t, s.next())
	s.answer(unfence, nodegroup.OutcomeFatal, "the annotation cannot be read")
	step := s.next()
	wantActions(t, step)
	if !step.Finished {
		t.Error("it tries for ever")
	}
}
