package upgrade_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/ledger"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/build"
)

// retargeted returns an upgrade of three nodes that has replaced one node when its target moves. Its reading of the
// group is too old to show the replacement.
func retargeted(t *testing.T) *scene {
	s := windowed(t, 1, old("old-a-1"), old("old-a-2"), old("old-a-3"))
	s.remove("old-a-1")
	interim := old("new-a-1")
	interim.Node.CreationTimestamp = metav1.NewTime(s.Now)
	s.add(interim)
	s.Record.Phase, s.Record.Replaced, s.Record.Begun = record.PhaseUpgrade, 1, 1
	s.editBooks(func(b *ledger.Books) {
		b.Zones, b.Changed = map[string]ledger.Zone{"a": {Launched: 1, Shrunk: 1, Removed: 1}}, s.Now
	})
	moved := nodegroup.Revision{ID: "3", Name: "workers:3"}
	s.Group.Wanted, s.Group.Pointed = moved, moved
	s.Record = s.Record.WithTarget(moved)
	return s
}

// A node that was launched for the earlier target serves until its turn comes. It is added to the new target's total,
// and the next node waits neither for it nor for a later reading of the group.
func TestTargetChangeAddsReadyNodesOfEarlierTargetToTotal(t *testing.T) {
	s := retargeted(t)
	step := s.next()
	if step.Record.Total != 4 || step.Record.Replaced != 1 {
		t.Errorf("%d of %d replaced, want 1 of 4", step.Record.Replaced, step.Record.Total)
	}
	s.do(step.Actions...)
	step = s.next()
	if started := len(step.Record.Nodes); started != 1 {
		t.Errorf("%d nodes are started, want 1: %s", started, step.Status.Waiting)
	}
}

// A node of the earlier target that never became ready serves no pod: it is replaced first, and no serving node goes
// with it.
func TestTargetChangeReplacesUnreadyNodesOfEarlierTargetFirst(t *testing.T) {
	s := retargeted(t)
	*s.at("new-a-1") = unready(*s.at("new-a-1"))
	s.do(s.next().Actions...)
	wantState(t, s.next(), "new-a-1", record.NodeEmpty)
	if started := len(s.Record.Nodes); started != 1 {
		t.Errorf("%d nodes are started, want 1", started)
	}
}

// A node of the earlier target that still takes no pods is replaced first, at no cost, and no serving node goes with
// it. The fence does not hide that the node was cordoned before.
func TestTargetChangeReplacesUnschedulableNodesFirst(t *testing.T) {
	for name, closing := range map[string]func(*corev1.Node){
		"by a cordon": func(n *corev1.Node) { n.Spec.Unschedulable = true },
		"by a taint": func(n *corev1.Node) {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "example.com/starting", Effect: corev1.TaintEffectNoSchedule})
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := retargeted(t)
			s.remove("new-a-1")
			interim := old("younger-a-1")
			interim.Node.CreationTimestamp = metav1.NewTime(s.Now)
			s.add(interim)
			s.mark("younger-a-1", closing)
			s.at("old-a-2").Pods = []*corev1.Pod{build.Pod("web-1", build.On("old-a-2"))}
			s.do(s.next().Actions...)
			wantState(t, s.next(), "younger-a-1", record.NodeEmpty)
			if started := len(s.Record.Nodes); started != 1 {
				t.Errorf("%d nodes are started, want 1", started)
			}
		})
	}
}

// An instance without a node at the start of the upgrade does not count as launched for the earlier target, and no other
// node waits for it.
func TestTargetChangeIgnoresInstancesThatNeverHadANode(t *testing.T) {
	bare := old("old-b-1")
	bare.Node = nil
	s := newScene(t, old("old-a-1"), bare)
	step := s.next()
	if known := step.Record.Ledger.Books().Known; !slices.Equal(known, []string{bare.Instance.ID}) {
		t.Errorf("known at the start are %v, want %s", known, bare.Instance.ID)
	}
	s = retargeted(t)
	s.add(bare)
	s.editBooks(func(b *ledger.Books) { b.Known = []string{bare.Instance.ID} })
	step = s.next()
	if carried := step.Record.Ledger.Carried(); carried != 1 {
		t.Errorf("%d nodes are carried over, want the one that was launched", carried)
	}
}

// If the target moves after the surge was given back, the surge is launched again.
func TestTargetChangeDuringScaleDownLaunchesSurgeAgain(t *testing.T) {
	s := retargeted(t)
	s.Record.Phase = record.PhaseScaleDown
	s.Record.Request.Surge = 1
	step := s.next()
	action[nodegroup.AddCapacity](t, step)
	if step.Record.Phase != record.PhaseScaleUp {
		t.Errorf("it is in phase %q", step.Record.Phase)
	}
}

// TestTargetChangeAddsNoSecondSurgeNode: the cloud refused to terminate a new node, so the node still
// counts as surge. When the target moves, the upgrade adds no second node in another zone.
func TestTargetChangeAddsNoSecondSurgeNode(t *testing.T) {
	s := newScene(t, old("old-b-1"))
	s.Request.Surge = 1
	s.next()
	interim := old("new-a-1")
	interim.Node.CreationTimestamp = metav1.NewTime(s.Now)
	s.add(interim)
	s.Group.Desired = 2
	s.Record.Nodes = map[string]record.NodeRecord{"new-a-1": {
		UID: interim.Node.UID, Instance: interim.Instance.ID, Zone: "a", State: record.NodeRemoving, Added: true, Shrink: true, Terminated: s.Now,
	}}
	s.editBooks(func(b *ledger.Books) {
		b.Zones, b.Changed = map[string]ledger.Zone{"a": {Surge: 1, Launched: 1, Shrunk: 1}, "b": {}}, s.Now
	})
	moved := nodegroup.Revision{ID: "3", Name: "workers:3"}
	s.Group.Wanted, s.Group.Pointed = moved, moved
	s.Record = s.Record.WithTarget(moved)
	s.pass(10 * time.Minute)
	for range 5 {
		s.do(s.next().Actions...)
	}
	if added := s.Record.Ledger.Contribution(); added != 1 {
		t.Errorf("the upgrade has added %d nodes, want the 1 that is there", added)
	}
}

// TestTargetChangeEvictsNothingBeforeACurrentNodeIsReady: the target moves while the surge nodes boot. The upgrade evicts no pod before a node of the new target is
// Ready (EKS E24).
func TestTargetChangeEvictsNothingBeforeACurrentNodeIsReady(t *testing.T) {
	for _, at := range []time.Duration{10 * time.Second, time.Minute, 119 * time.Second} {
		d := reachedBy(t, true)["upgrade"]()
		if d.run(start.Add(at)) {
			t.Fatal(d.record.Message)
		}
		if d.record.Phase != record.PhaseScaleUp {
			t.Fatalf("phase %q", d.record.Phase)
		}
		d.wanted = "3"
		d.run(time.Time{})
		d.reopen()
		d.record = d.record.WithTarget(revisionOf("3"))
		told := false
		d.watch = func(w upgrade.World, step upgrade.Step) {
			usable := 0
			for i := range w.Members {
				if m := &w.Members[i]; !m.Outdated && m.Usable(nil) {
					usable++
				}
			}
			if evictions := actionsOf(step, "evict"); len(evictions) > 0 && usable == 0 && !told {
				told = true
				t.Errorf("the target moved at %s; at %s: %v, and no current node is there", at, w.Now.Sub(start), evictions)
			}
		}
		d.run(time.Time{})
	}
}

// TestSecondTargetChangeRespectsMaxUnavailable: the target moves again before the first node of the last one is ready (I1).
func TestSecondTargetChangeRespectsMaxUnavailable(t *testing.T) {
	for _, at := range []time.Duration{130 * time.Second, 160 * time.Second, 4 * time.Minute} {
		spec := groupSketch{outdated: map[string]int{"a": 3}, provider: "aws", zonal: true, pointed: "1"}.spec()
		addWorkload(&spec, "web", "ReplicaSet", 3, 1)
		d := newDriver(t, spec, record.Request{
			Group: "workers", Run: "r1", Strategy: record.Surge, Like: "eks", MaxUnavailable: 1, Window: 1, Surge: 2, OnTimeout: record.Fail,
			DrainTimeout: duration(15 * time.Minute), Settle: duration(time.Minute), BootTimeout: duration(20 * time.Minute),
		})
		told := false // the error is reported once for each case
		d.watch = func(w upgrade.World, step upgrade.Step) {
			if n := serving(w, step.Record); n < 2 && !told {
				told = true
				t.Errorf("moves at %s and 30s later. I1: %d nodes serve of 3 at %s, 1 may be unavailable", at, n, d.cluster.Now().Sub(start))
			}
		}
		for i, to := range []string{"3", "4"} {
			d.run(start.Add(at + time.Duration(i)*30*time.Second))
			d.wanted = to
			d.run(time.Time{})
			if d.record.Result != record.TargetMoved {
				t.Fatalf("it ends %q: %s", d.record.Result, d.record.Message)
			}
			d.reopen()
			d.record = d.record.WithTarget(revisionOf(to))
		}
		d.run(time.Time{})
	}
}

// TestTargetChangeAtTheEndReplacesOutdatedNodes: the target moves while the end waits for workloads. The outdated nodes are replaced.
func TestTargetChangeAtTheEndReplacesOutdatedNodes(t *testing.T) {
	s := retargeted(t)
	s.Record.Phase = record.PhaseDone // it waited for a workload in that phase when the target moved
	if step := s.next(); step.Record.Result == record.Succeeded {
		t.Errorf("it ends %q with %d outdated nodes", step.Record.Result, step.Status.Outdated)
	}
}

// TestUpgradeStopsIfNoNodeOfNewTargetIsUsable: no node of the new target becomes usable. The upgrade stops.
func TestUpgradeStopsIfNoNodeOfNewTargetIsUsable(t *testing.T) {
	s := retargeted(t)
	s.Request.Surge, s.Record.Request.Surge = 1, 1
	for _, n := range []string{"old-a-2", "old-a-3", "new-a-1"} {
		s.at(n).Pods = []*corev1.Pod{build.Pod("web-"+n, build.On(n))}
	}
	var step upgrade.Step
	for range 24 * 60 {
		step = s.next()
		if step.Finished {
			t.Logf("after %s it ends %q: %s", s.Now.Sub(start), step.Record.Result, step.Record.Message)
			return
		}
		s.do(step.Actions...)
		for _, a := range step.Actions {
			switch x := a.(type) {
			case nodegroup.AddCapacity:
				m := current(fmt.Sprintf("fresh-a-%d", s.Now.Unix()))
				m.Node.CreationTimestamp = metav1.NewTime(s.Now)
				m.Node.Spec.Unschedulable = true
				s.add(m)
			case nodegroup.Terminate:
				s.remove(x.Node)
				if !x.Shrink {
					m := current(fmt.Sprintf("fresh-a-%d", s.Now.Unix()))
					m.Node.CreationTimestamp = metav1.NewTime(s.Now)
					m.Node.Spec.Unschedulable = true // the node never takes pods
					s.add(m)
				}
			}
		}
		s.pass(time.Minute)
	}
	t.Errorf("after a day it waits for %q; %d started", step.Status.Waiting, len(step.Record.Nodes))
}

// TestReturnToFormerTargetDrainsWithoutWaitingForNewNode: the target moves back, so that nodes from before the upgrade are current again.
// They take pods, so the node of the earlier target is drained at once.
func TestReturnToFormerTargetDrainsWithoutWaitingForNewNode(t *testing.T) {
	s := retargeted(t)
	s.Request.Surge, s.Record.Request.Surge = 1, 1
	for _, name := range []string{"old-a-2", "old-a-3"} {
		s.at(name).Outdated = false
	}
	s.editBooks(func(b *ledger.Books) { b.Zones["a"] = ledger.Zone{Launched: 2, Shrunk: 1, Removed: 1} }) // one new node has not joined yet
	s.at("new-a-1").Pods = []*corev1.Pod{build.Pod("web", build.On("new-a-1"))}
	step := s.next()
	s.do(step.Actions...)
	wantState(t, s.next(), "new-a-1", record.NodeDraining)
}

// TestAbortKeepsRevisionThatTheUserSetDuringUpgrade: the target moved because the owner of the group pointed it at another revision. An
// abort does not change that.
func TestAbortKeepsRevisionThatTheUserSetDuringUpgrade(t *testing.T) {
	s := retargeted(t)
	s.Record.Pointed = nodegroup.Revision{ID: "2", Name: "workers:2"}
	s.Record = s.Record.AsAborting()
	for range 20 {
		step := s.next()
		if set := actionsOf(step, "set the group"); len(set) > 0 {
			t.Fatalf("it asks to %v", set)
		}
		if step.Finished {
			return
		}
		s.do(step.Actions...)
		s.pass(10 * time.Second)
	}
	t.Error("the abort does not end within 20 steps")
}

// TestAbortOfRollbackRestoresRevisionThatTheUserSet: the owner of the group pointed it at another revision during the upgrade. A
// rollback points it back. An abort of the rollback points it at the owner's last revision.
func TestAbortOfRollbackRestoresRevisionThatTheUserSet(t *testing.T) {
	s := retargeted(t)
	s.Record.Pointed = nodegroup.Revision{ID: "2", Name: "workers:2"}
	first, owners := s.Record.Previous, s.Group.Pointed
	s.Record = upgrade.AsRollback(&s.Record, first, s.Now)
	s.Group.Wanted = first
	step := s.next()
	if set := actionsOf(step, "set the group"); len(set) != 1 || step.Record.Pointed.ID != owners.ID && step.Record.Previous.ID != owners.ID {
		t.Fatalf("it asks for %v, and knows that the group pointed at %q or %q", step.Actions, step.Record.Pointed.ID, step.Record.Previous.ID)
	}
	s.do(step.Actions...)
	s.Group.Pointed = first
	s.Record = s.Record.AsAborting()
	for range 20 {
		s.pass(10 * time.Second)
		step = s.next()
		if set := actionsOf(step, "set the group"); len(set) > 0 {
			if !strings.Contains(set[0].String(), owners.Name) {
				t.Errorf("it asks to %v, want %s", set, owners.Name)
			}
			return
		}
		s.do(step.Actions...)
	}
	t.Error("the abort does not point the group back")
}

// serving counts the nodes that are Ready and not being replaced, fenced or not.
func serving(w upgrade.World, rec record.Record) int {
	n := 0
	for i := range w.Members {
		m := &w.Members[i]
		state := rec.Nodes[m.Name()].State
		leaving := state != "" && state != record.NodeQuarantined
		if m.Node != nil && !leaving && m.HasStarted(nil) {
			n++
		}
	}
	return n
}
