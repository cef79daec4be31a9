package upgrade_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain/schedule"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodemark"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/build"
)

// newManualScene returns a group of outdated nodes without a cloud, whose upgrade waits for replacements.
func newManualScene(t *testing.T, names ...string) *scene {
	members := make([]nodegroup.Member, 0, len(names))
	for _, name := range names {
		members = append(members, manual(name, true))
	}
	s := newScene(t, members...)
	s.Group.Provider, s.Group.Can = "manual", nodegroup.Capabilities{}
	s.Request.WaitReplacement, s.Request.Settle = true, duration(0)
	return s
}

// renew makes a node current in place, as an owner does who reimages its machine.
func (s *scene) renew(name string) {
	s.mark(name, func(node *corev1.Node) { node.Labels["image"] = "ami-2" })
	m := s.at(name)
	m.Outdated, m.Instance.Outdated = false, false
}

// closed returns the current nodes that our fence keeps pods from.
func (s *scene) closed() []string {
	var names []string
	for i := range s.Members {
		if m := &s.Members[i]; !m.Outdated && m.Node != nil && (m.Node.Spec.Unschedulable || m.Node.Annotations[nodemark.AnnotationRun] != "") {
			names = append(names, m.Name())
		}
	}
	return names
}

// inState returns the names of the nodes that the record has in the state.
func inState(record record.Record, state record.NodeState) []string {
	var names []string
	for name, n := range record.Nodes {
		if n.State == state {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// A reimaged machine comes back as the same Node. The upgrade unfences it before it drains the next node, and
// ends when all nodes take pods.
func TestNodesRenewedInPlaceTakePodsAgain(t *testing.T) {
	s := newManualScene(t, "n-a-1", "n-a-2", "n-a-3")
	for range 3 {
		step := s.rest()
		drained := inState(step.Record, record.NodeDrained)
		if step.Finished || len(drained) != 1 {
			t.Fatalf("drained nodes %v, finished %t: want one node that is waited for", drained, step.Finished)
		}
		s.pass(time.Hour)
		s.renew(drained[0])
		step = s.next()
		wantActions(t, step, "unfence node "+drained[0])
		s.do(step.Actions...)
	}
	step := s.rest()
	if step.Record.Result != record.Succeeded || step.Record.Replaced != 3 || len(step.Record.Nodes) > 0 {
		t.Errorf("it ends %q with %d replaced and %v on record, want 3 replaced and none on record", step.Record.Result, step.Record.Replaced, step.Record.Nodes)
	}
	if closed := s.closed(); len(closed) > 0 {
		t.Errorf("current nodes take no pods: %v", closed)
	}
}

// Whatever state a node is in when it becomes current, it is left alone and takes pods again, and no more nodes are
// unavailable than allowed.
func TestReimagedNodesAreUncordonedAndNotDrained(t *testing.T) {
	holding := func(state record.NodeState) func(*scene) string {
		return func(s *scene) string {
			s.at("n-a-1").Pods = []*corev1.Pod{build.Pod("web-1", build.On("n-a-1"))}
			s.budgets(build.Budget("web-1", build.Counts(1, 1, 1)))
			for range 20 {
				step := s.next()
				if names := inState(step.Record, state); len(names) == 1 {
					s.do(step.Actions...)
					return names[0]
				}
				s.do(step.Actions...)
				s.pass(time.Minute)
			}
			s.t.Fatalf("no node is %s", state)
			return ""
		}
	}
	cases := map[string]struct {
		timeout record.OnTimeout
		reach   func(*scene) string
	}{
		"before its turn":   {record.Fail, func(s *scene) string { s.do(s.next().Actions...); return "n-a-3" }},
		"while it drains":   {record.Fail, holding(record.NodeDraining)},
		"after it was lost": {record.Skip, holding(record.NodeQuarantined)},
	}
	for name, c := range cases {
		for _, provider := range []string{"manual", "aws"} {
			t.Run(name+" with "+provider, func(t *testing.T) {
				s := newManualScene(t, "n-a-1", "n-a-2", "n-a-3")
				if provider == "aws" {
					s = newScene(t, old("n-a-1"), old("n-a-2"), old("n-a-3"))
					s.Request.Settle = duration(0)
				}
				s.Request.OnTimeout = c.timeout
				renewed := c.reach(s)
				s.renew(renewed)
				step := s.next()
				if got := actionsOf(step, "unfence node "+renewed); len(got) != 1 {
					t.Errorf("the renewed node is not unfenced: %v", step.Actions)
				}
				if step.Record.Replaced == 0 {
					t.Error("the renewed node does not count as replaced")
				}
				for range 5 {
					for _, action := range step.Actions {
						if end, ends := action.(nodegroup.Terminate); ends && end.Node == renewed {
							t.Errorf("the machine of a current node is terminated: %v", end)
						}
						if evict, evicts := action.(schedule.Eviction); evicts && evict.Node == renewed {
							t.Errorf("a current node is drained: %v", evict)
						}
					}
					if busy := step.Record.CountDraining(); busy > 1 {
						t.Errorf("%d nodes are drained at once, 1 may be unavailable", busy)
					}
					s.do(step.Actions...)
					step = s.next()
				}
				if closed := s.closed(); len(closed) > 0 {
					t.Errorf("current nodes take no pods: %v", closed)
				}
			})
		}
	}
}

// newRenewedScene returns a group of two nodes with a pod each. The node that was drained first became current in
// place. prepare changes the scene before the upgrade begins.
func newRenewedScene(t *testing.T, prepare func(*scene)) (s *scene, renewed string) {
	t.Helper()
	s = newManualScene(t, "n-a-1", "n-a-2")
	for i := range s.Members {
		s.Members[i].Pods = []*corev1.Pod{build.Pod("web-"+s.Members[i].Name(), build.On(s.Members[i].Name()))}
	}
	prepare(s)
	s.do(s.next().Actions...)
	s.do(s.next().Actions...)
	renewed = started(s.Record)
	s.empty(renewed)
	s.rest()
	s.renew(renewed)
	return s, renewed
}

// A node that its owner cordoned or tainted before the upgrade stays so, and the upgrade continues.
func TestReimagedNodesKeepTaintsAndCordonOfTheUser(t *testing.T) {
	for name, change := range map[string]func(*corev1.Node){"cordoned": cordoned, "tainted": build.Tainted("dedicated")} {
		t.Run(name, func(t *testing.T) {
			s, first := newRenewedScene(t, func(s *scene) { change(s.at("n-a-1").Node) })
			if step := s.rest(); !strings.Contains(started(step.Record), "n-a-") || started(step.Record) == first {
				t.Errorf("the next node is not started after %s: it waits for %q", first, step.Status.Waiting)
			}
		})
	}
}

// The control plane removes its taint a moment after a renewed node is Ready. Until then the node takes no pods, and
// the next node is not started.
func TestUpgradeWaitsForNotReadyTaintOfReimagedNode(t *testing.T) {
	s, first := newRenewedScene(t, func(*scene) {})
	node := s.at(first).Node
	node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule})
	if step := s.rest(); started(step.Record) != first {
		t.Errorf("node %s is started while the taint keeps pods from %s", started(step.Record), first)
	}
	node = s.at(first).Node
	node.Spec.Taints = nil
	if step := s.rest(); started(step.Record) == first {
		t.Errorf("the next node is not started after the taint is gone: it waits for %q", step.Status.Waiting)
	}
}

// A node whose kubelet has not come back, or that has marks of another run, keeps its fence.
func TestNodesAreUnfencedOnlyWhenReadyAndOurs(t *testing.T) {
	cases := map[string]func(*corev1.Node){
		"not Ready":      build.NotReady(start),
		"of another run": func(node *corev1.Node) { node.Annotations[nodemark.AnnotationRun] = "another" },
	}
	for name, change := range cases {
		t.Run(name, func(t *testing.T) {
			s := newManualScene(t, "n-a-1", "n-a-2")
			drained := inState(s.rest().Record, record.NodeDrained)
			s.renew(drained[0])
			s.mark(drained[0], change)
			step := s.next()
			wantActions(t, step)
			if len(started(step.Record)) == 0 || step.Record.CountDraining() > 0 {
				t.Errorf("another node is started: %v", step.Record.Nodes)
			}
		})
	}
}

// I1: TestUncordonedNodeWithFenceTaintCountsAsUnavailable: a user makes a drained node schedulable, which leaves the fence's taint. Then
// the node comes back as a current one. The next node is drained once the taint is gone.
func TestUncordonedNodeWithFenceTaintCountsAsUnavailable(t *testing.T) {
	s := newManualScene(t, "n-a-1", "n-a-2", "n-a-3")
	drained := inState(s.rest().Record, record.NodeDrained)
	s.pass(time.Hour)
	s.renew(drained[0])
	s.mark(drained[0], func(node *corev1.Node) {
		node.Spec.Unschedulable = false
		node.Spec.Taints = []corev1.Taint{nodegroup.FenceTaint("manual")}
	})
	step := s.next()
	wantActions(t, step, "unfence node "+drained[0])
	if names := started(step.Record); names != drained[0] {
		t.Errorf("nodes %s are started while %s has our taint", names, drained[0])
	}
	s.do(step.Actions...)
	if step = s.rest(); len(inState(step.Record, record.NodeDrained)) != 1 || started(step.Record) == drained[0] {
		t.Errorf("no further node is drained: it waits for %q", step.Status.Waiting)
	}
}

// A stop leaves no current node fenced, even if the strategy keeps fences.
func TestStopUnfencesReimagedNodes(t *testing.T) {
	for name, keep := range map[string]bool{"fences are taken away": false, "fences are kept": true} {
		t.Run(name, func(t *testing.T) {
			s := newManualScene(t, "n-a-1", "n-a-2", "n-a-3")
			s.Request.KeepFence = keep
			drained := inState(s.rest().Record, record.NodeDrained)
			s.renew(drained[0])
			s.renew("n-a-3")
			s.Stop = true
			step := s.rest()
			if step.Record.Result != record.Interrupted {
				t.Errorf("it ends %q", step.Record.Result)
			}
			if closed := s.closed(); len(closed) > 0 {
				t.Errorf("current nodes take no pods: %v", closed)
			}
		})
	}
}

// An upgrade that does not wait for replacements ends before its nodes come back. The same run is opened again to
// unfence them, and moves no pod.
func TestReopenedRunUnfencesReimagedNodes(t *testing.T) {
	s := newManualScene(t, "n-a-1", "n-a-2", "n-a-3")
	s.Request.WaitReplacement = false
	if step := s.rest(); step.Record.Result != record.Succeeded {
		t.Fatalf("it ends %q: %s", step.Record.Result, step.Record.Message)
	}
	if names := upgrade.ListFencedCurrent(&s.Record, s.Members); len(names) > 0 {
		t.Errorf("outdated nodes count as current: %v", names)
	}
	s.renew("n-a-1")
	s.renew("n-a-3")
	if names := upgrade.ListFencedCurrent(&s.Record, s.Members); !slices.Equal(names, []string{"n-a-1", "n-a-3"}) {
		t.Errorf("fenced and current are %v", names)
	}
	s.crash()
	s.Record = s.Record.AsUnfencing(s.Group.Wanted)
	step := s.rest()
	if step.Record.Result != record.Succeeded || len(s.closed()) > 0 {
		t.Errorf("it ends %q with %v closed", step.Record.Result, s.closed())
	}
	if node := s.at("n-a-2").Node; !node.Spec.Unschedulable {
		t.Error("a drained node that is outdated takes pods again")
	}
}

func TestUpgradeUnfencesNodesThatEarlierUpgradeLeftFenced(t *testing.T) {
	s := newManualScene(t, "n-a-1", "n-a-2")
	s.Request.WaitReplacement = false
	s.rest()
	s.renew("n-a-1")
	earlier := s.Record
	s.crash()
	s.Record = record.Record{Earlier: upgrade.ListFencingRuns(&earlier, s.Members)}
	s.Request.Run = "r2"
	step := s.rest()
	if step.Record.Run != "r2" || step.Record.Result != record.Succeeded || len(s.closed()) > 0 {
		t.Errorf("run %q ends %q with %v closed", step.Record.Run, step.Record.Result, s.closed())
	}
	if node := s.at("n-a-2").Node; node.Annotations[nodemark.AnnotationRun] != "r2" {
		t.Errorf("the outdated node has marks of run %q", node.Annotations[nodemark.AnnotationRun])
	}
}
