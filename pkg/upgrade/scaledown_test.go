package upgrade_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodemark"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/ledger"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/build"
)

// I4: only the upgrade's own annotation for autoscalers is removed again.
func TestOnlyOwnScaleDownAnnotationIsRemoved(t *testing.T) {
	cases := map[string]struct {
		before map[string]string
		// meanwhile changes the annotations between the two actions.
		meanwhile func(map[string]string)
		want      map[string]string // the final annotations
	}{
		"nothing":               {nil, func(map[string]string) {}, nil},
		"another annotation":    {map[string]string{"a": "b"}, func(map[string]string) {}, map[string]string{"a": "b"}},
		"it is not to go":       {map[string]string{nodemark.AnnotationNoScaleDown: "true"}, func(map[string]string) {}, map[string]string{nodemark.AnnotationNoScaleDown: "true"}},
		"it may go":             {map[string]string{nodemark.AnnotationNoScaleDown: "false"}, func(map[string]string) {}, map[string]string{nodemark.AnnotationNoScaleDown: "false"}},
		"somebody overrules us": {nil, func(a map[string]string) { a[nodemark.AnnotationNoScaleDown] = "false" }, map[string]string{nodemark.AnnotationNoScaleDown: "false"}},
		"somebody takes it":     {nil, func(a map[string]string) { delete(a, nodemark.AnnotationNoScaleDown) }, nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			node := build.Node("new-a-1", "a")
			node.Annotations = c.before
			_, theirs := c.before[nodemark.AnnotationNoScaleDown]
			nodemark.SetHold(node, "r1")
			if got := node.Annotations[nodemark.AnnotationHeld] == "r1"; got == theirs {
				t.Errorf("ours: %t, theirs: %t", got, theirs)
			}
			c.meanwhile(node.Annotations)
			nodemark.ClearHold(node)
			if !equality.Semantic.DeepEqual(node.Annotations, c.want) {
				t.Errorf("in the end %v, want %v", node.Annotations, c.want)
			}
		})
	}
}

// E61: autoscalers are kept from a new node once it is Ready, and only if it has no annotation for them yet.
func TestReadyNewNodeGetsScaleDownDisabledAnnotation(t *testing.T) {
	cases := map[string]struct {
		change func(*scene)
		want   int
	}{
		"ready":     {func(*scene) {}, 1},
		"not ready": {func(s *scene) { build.NotReady(start)(s.at("new-a-1").Node) }, 0},
		"said by somebody": {func(s *scene) {
			s.at("new-a-1").Node.Annotations = map[string]string{nodemark.AnnotationNoScaleDown: "false"}
		}, 0},
		"taken away by somebody":  {func(s *scene) { s.at("new-a-1").Node.Annotations = map[string]string{nodemark.AnnotationHeld: "r1"} }, 0},
		"nobody scales the group": {func(s *scene) { s.Group.Can.Refill = nodegroup.RefillByUser }, 0},
		"it was there before":     {func(s *scene) { s.editBooks(func(b *ledger.Books) { b.Known = []string{"new-a-1"} }) }, 0},
		"it was stopped":          {func(s *scene) { s.Stop = true }, 0},
		"it may not": {func(s *scene) {
			n := s.at("new-a-1").Node
			s.answer(nodemark.HoldNode{NodeVersion: nodemark.VersionOf(n)}, nodegroup.OutcomeFatal, "no")
			s.pass(time.Hour)
		}, 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := surged(t)
			s.do(s.next().Actions...)
			s.add(current("new-a-1"))
			c.change(s)
			if got := actionsOf(s.next(), "keep autoscalers"); len(got) != c.want {
				t.Errorf("%v, want %d", got, c.want)
			}
		})
	}
}

// I4: however the upgrade ends, nodes are given back to autoscalers before the end.
func TestNodesHeldFromAutoscalersAreReleased(t *testing.T) {
	stop := func(result record.Result) func(*scene) { return func(s *scene) { s.Record.Stopping = result } }
	cases := map[string]func(*scene){
		"done":    func(s *scene) { s.Record.Phase = record.PhaseScaleDown },
		"stopped": func(s *scene) { s.Stop = true },
		"aborted": func(s *scene) { s.Record = s.Record.AsAborting() },
		"failed":  stop(record.Failed),
		"timeout": stop(record.PodEvictionFailure),
		"by a run": func(s *scene) {
			s.Record.Phase = record.PhaseScaleDown
			s.at("cur-a-1").Node.Annotations[nodemark.AnnotationHeld] = "r0"
		},
	}
	for name, change := range cases {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, old("old-a-1"), current("cur-a-1"))
			s.next()
			s.mark("cur-a-1", func(n *corev1.Node) { nodemark.SetHold(n, "r1") })
			s.remove("old-a-1")
			s.Group.Desired--
			s.pass(time.Minute)
			change(s)
			step := s.next()
			if got := actionsOf(step, "leave node cur-a-1 to autoscalers"); len(got) != 1 || step.Finished {
				t.Fatalf("%v, finished %t", step.Actions, step.Finished)
			}
			for range 5 {
				s.do(step.Actions...)
				s.pass(time.Minute)
				if step = s.next(); step.Finished {
					break
				}
			}
			if n := s.at("cur-a-1").Node; !step.Finished || len(n.Annotations) > 0 {
				t.Errorf("finished %t with %v", step.Finished, n.Annotations)
			}
		})
	}
}

// A node that joins when nothing is left to do is not held in the step that ends the upgrade.
func TestNodeThatJoinsAtTheEndGetsNoScaleDownAnnotation(t *testing.T) {
	s := newScene(t, old("old-a-1"))
	s.next()
	s.Record.Phase = record.PhaseUpgrade
	s.remove("old-a-1")
	s.add(current("new-a-1"))
	s.pass(time.Minute)
	for range 5 {
		step := s.next()
		if step.Finished {
			if len(step.Actions) > 0 {
				t.Errorf("finished with %v to do", step.Actions)
			}
			return
		}
		s.do(step.Actions...)
		s.pass(time.Minute)
	}
	t.Error("it does not end")
}

// The control plane is about to write a node that has just become Ready: it removes its own taint.
func TestScaleDownAnnotationWaitsUntilNotReadyTaintIsGone(t *testing.T) {
	s := surged(t)
	s.do(s.next().Actions...)
	fresh := current("new-a-1")
	fresh.Node.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}}
	s.add(fresh)
	if held := actionsOf(s.next(), "keep autoscalers"); len(held) > 0 {
		t.Errorf("%v, at the moment at which its taint goes", held)
	}
	fresh.Node.Spec.Taints = nil
	action[nodemark.HoldNode](t, s.next())
}

// I4: the upgrade waits for a hold that is in flight when it stops, and takes it back.
func TestStopWaitsForScaleDownAnnotationInFlight(t *testing.T) {
	s := surged(t)
	s.do(s.next().Actions...)
	s.add(current("new-a-1"))
	hold := action[nodemark.HoldNode](t, s.next())
	s.begun(hold)
	s.Stop = true
	if step := s.next(); step.Finished {
		t.Fatal("it is over with a hold under way")
	}
	s.do(hold)
	if free := action[nodemark.UnholdNode](t, s.next()); free.Node != "new-a-1" {
		t.Errorf("%v", free)
	}
}

// 0005: if the answer to a resume was lost, the upgrade waits until a reading shows its effect, before it reports that
// the process stays suspended.
func TestStopWaitsForProcessResumeWithLostAnswer(t *testing.T) {
	s := newScene(t, old("old-a-1"), old("old-b-1"), old("old-c-1"))
	s.Group.Quiesce = []string{"AZRebalance"}
	s.do(s.next().Actions...)
	s.Stop = true
	s.pass(time.Second)
	resume := action[nodegroup.Resume](t, s.next())
	s.answer(resume, nodegroup.OutcomeUnclear, "")
	for _, name := range []string{"x-a-2", "x-a-3"} {
		s.add(current(name))
	}
	if step := s.next(); step.Finished {
		t.Fatalf("it is over: %s", step.Record.Message)
	}
	s.pass(31 * time.Second)
	if step := s.next(); !step.Finished {
		t.Error("it is not over though the process shows to be suspended")
	}
}
