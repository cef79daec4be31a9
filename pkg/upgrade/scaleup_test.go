package upgrade_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/build"
)

func TestUpgradeWithNothingToDoEndsWithoutActions(t *testing.T) {
	cases := map[string]struct {
		member nodegroup.Member
		stop   bool
		want   record.Result
	}{
		"E31 nothing is outdated":   {current("cur-a-1"), false, record.Succeeded},
		"stopped before it began":   {old("old-a-1"), true, record.Interrupted},
		"stopped with nothing left": {current("cur-a-1"), true, record.Interrupted},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, c.member)
			s.Stop = c.stop
			step := s.next()
			wantActions(t, step)
			if !step.Finished || step.Persist || step.Record.Result != c.want {
				t.Errorf("finished %t, persist %t, result %q; want true, false, %q", step.Finished, step.Persist, step.Record.Result, c.want)
			}
		})
	}
}

func TestUpgradeSetsGroupRevisionFirst(t *testing.T) {
	s := newScene(t, old("old-a-1"))
	s.Group.Pointed = nodegroup.Revision{ID: "1", Name: "workers:1"}
	s.Group.Quiesce = []string{"AZRebalance"}

	step := s.next()
	wantActions(t, step, "set the group's revision to workers:2")
	if !step.Persist || step.Record.Previous.ID != "1" || step.Record.Target.ID != "2" {
		t.Errorf("E03: persist %t, previous %q, target %q", step.Persist, step.Record.Previous.ID, step.Record.Target.ID)
	}
	s.begun(step.Actions[0])
	wantActions(t, s.next())

	s.answer(step.Actions[0], nodegroup.OutcomeDone, "")
	s.Group.Pointed = s.Group.Wanted
	wantActions(t, s.next(), "suspend AZRebalance")
}

// If another user points the group elsewhere in the middle of an upgrade, every new node would be replaced in turn.
func TestUpgradeSetsGroupRevisionAgainAfterUserChangedIt(t *testing.T) {
	s := windowed(t, 1, old("old-a-1", build.Pod("web-0")), old("old-a-2"))
	s.do(s.next().Actions...)
	s.Group.Pointed = nodegroup.Revision{ID: "1", Name: "workers:1"}
	wantActions(t, s.next(), "set the group's revision to workers:2")
}

func TestRecordContainsOnlyProcessesThatTheUpgradeSuspended(t *testing.T) {
	s := newScene(t, old("old-a-1"))
	s.Group.Quiesce, s.Group.Suspended = []string{"AZRebalance", "AlarmNotification"}, []string{"AlarmNotification", "Launch"}

	step := s.next()
	wantActions(t, step, "suspend AZRebalance")
	if got := strings.Join(step.Record.Suspended, " "); got != "AZRebalance" || !step.Persist {
		t.Errorf("recorded %q as suspended by us, persist %t", got, step.Persist)
	}
	s.do(step.Actions...)
	s.until(record.PhaseUpgrade)

	s.Members = nil // the node does not matter here
	step = s.next()
	wantActions(t, step, "resume AZRebalance")
	s.do(step.Actions...)
	if step = s.next(); step.Record.Result != record.Succeeded || strings.Join(s.Group.Suspended, " ") != "AlarmNotification Launch" {
		t.Errorf("result %q, suspended %v", step.Record.Result, s.Group.Suspended)
	}
}

func TestMaxIsRaisedOnlyWhenNeeded(t *testing.T) {
	cases := map[string]struct {
		room int
		want []string
	}{
		"E21 no room":    {0, []string{"raise the group's max from 2 to 4"}},
		"too little":     {1, []string{"raise the group's max from 3 to 4"}},
		"enough":         {2, []string{"add 1 nodes in zone a", "add 1 nodes in zone b"}},
		"more than that": {9, []string{"add 1 nodes in zone a", "add 1 nodes in zone b"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, old("old-a-1"), old("old-b-1"))
			s.Request.Surge, s.Group.Max = 2, s.Group.Desired+c.room
			wantActions(t, s.next(), c.want...)
		})
	}
}

// E24–E27: no outdated node is fenced or drained before all of the surge takes pods.
func TestNoNodeIsFencedBeforeSurgeTakesPods(t *testing.T) {
	cases := map[string]func(*scene){
		"not launched":              func(s *scene) { s.remove("new-a-1") },
		"E25 a zone has none":       func(s *scene) { s.at("new-b-1").Instance.Zone = "a" },
		"E26 its node is not there": func(s *scene) { *s.at("new-a-1") = booting(*s.at("new-a-1")) },
		"E26 not in service":        func(s *scene) { s.at("new-a-1").Instance.State = nodegroup.InstancePending },
		"E26 not Ready":             func(s *scene) { s.mark("new-a-1", build.NotReady(start)) },
		"E26 no condition yet":      func(s *scene) { s.mark("new-a-1", func(n *corev1.Node) { n.Status.Conditions = nil }) },
		"E27 a label is missing":    func(s *scene) { s.mark("new-a-1", func(n *corev1.Node) { delete(n.Labels, "image") }) },
		"E27 a label is another's":  func(s *scene) { s.mark("new-a-1", func(n *corev1.Node) { n.Labels["image"] = "ami-1" }) },
		"a cloud has not seen it":   func(s *scene) { s.mark("new-a-1", build.Tainted("node.cloudprovider.kubernetes.io/uninitialized")) },
		"a readiness rule":          func(s *scene) { s.mark("new-a-1", build.Tainted("readiness.k8s.io/network")) },
		"its network":               func(s *scene) { s.mark("new-a-1", build.Tainted("node.cilium.io/agent-not-ready")) },
		"a storage driver":          func(s *scene) { s.mark("new-a-1", build.Tainted("ebs.csi.aws.com/agent-not-ready")) },
		"one more that is not":      func(s *scene) { s.add(booting(current("new-c-9"))) },
	}
	for name, spoil := range cases {
		t.Run(name, func(t *testing.T) {
			s := surged(t)
			s.do(s.next().Actions...)
			s.add(current("new-a-1"))
			s.add(current("new-b-1"))
			spoil(s)
			step := s.next()
			wantActions(t, step)
			if step.Status.Waiting == "" || step.Poll == 0 {
				t.Errorf("waiting for %q, poll %s", step.Status.Waiting, step.Poll)
			}
		})
	}
	t.Run("a launch without an answer", func(t *testing.T) {
		s := surged(t)
		for _, a := range s.next().Actions {
			s.begun(a)
		}
		s.add(current("new-a-1"))
		s.add(current("new-b-1"))
		wantActions(t, s.next())
	})
	t.Run("E31 usable, and never fenced", func(t *testing.T) {
		s := surged(t)
		s.do(s.next().Actions...)
		s.add(current("new-a-1"))
		s.add(current("new-b-1"))
		wantActions(t, s.next(), "fence node old-a-1", "fence node old-b-1")
	})
}

// surged returns a group whose two outdated nodes get one new node each.
func surged(t *testing.T) *scene {
	s := newScene(t, old("old-a-1"), old("old-b-1"))
	s.Request.Surge = 2
	return s
}

// A node that was booting when the upgrade began does not count as surge, although it joins later.
func TestNodeBootingBeforeUpgradeIsNotSurge(t *testing.T) {
	s := newScene(t, old("old-a-1"), booting(current("cur-a-1")))
	s.Request.Surge = 1
	s.do(s.next().Actions...)
	*s.at("i-cur-a-1") = current("cur-a-1")
	step := s.next()
	wantActions(t, step)
	if step.Status.New != 0 {
		t.Errorf("%d new nodes, want none", step.Status.New)
	}
}

func TestNodeCreationFailureNamesItsCause(t *testing.T) {
	cases := map[string]struct {
		spoil func(*scene)
		want  string
	}{
		"E33 capacity": {func(s *scene) {
			s.Group.LaunchFailure = nodegroup.LaunchFailure{At: start.Add(time.Minute), Message: "InsufficientInstanceCapacity in zone a"}
		}, "InsufficientInstanceCapacity in zone a: allow more instance types or zones, or request a higher quota"},
		"E33 permissions": {func(s *scene) {
			s.Group.LaunchFailure = nodegroup.LaunchFailure{At: start.Add(time.Minute), Message: "UnauthorizedOperation: You are not authorized to perform this operation"}
		}, "to perform this operation: allow the group's role to launch instances from its launch template"},
		"E33 image": {func(s *scene) {
			s.Group.LaunchFailure = nodegroup.LaunchFailure{At: start.Add(time.Minute), Message: "The image id '[ami-0123]' does not exist. Launching EC2 instance failed."}
		}, "Launching EC2 instance failed.: check the group's launch template and its scaling activities"},
		"E33 a failure from before is none of ours": {func(s *scene) {
			s.Group.LaunchFailure = nodegroup.LaunchFailure{At: start.Add(-time.Minute), Message: "InsufficientInstanceCapacity"}
		}, "check the group's scaling activities"},
		"E33 user data":           {func(s *scene) { s.add(booting(current("new-a-1"))) }, "instance i-new-a-1 has not joined the cluster: check its user data"},
		"E33 labels missing":      {func(s *scene) { s.add(unlabelled(current("new-a-1"))) }, "node new-a-1 is Ready but lacks the labels of a current node"},
		"E33 not healthy":         {func(s *scene) { s.add(unready(current("new-a-1"))) }, "node new-a-1: its kubelet has been silent since 2026-01-01T00:00:00Z: see kubectl describe node new-a-1"},
		"E33 nothing is known":    {func(*scene) {}, "check the group's scaling activities"},
		"E34 the first of two":    {func(s *scene) { s.add(current("new-a-1")); s.add(unready(current("new-b-1"))) }, "node new-b-1: its kubelet has been silent since "},
		"E33 refused at the door": {func(s *scene) { s.refuse("b", "no spot capacity in b") }, "no spot capacity in b: allow more instance types"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := surged(t)
			s.do(s.next().Actions...)
			c.spoil(s)
			s.pass(20*time.Minute - time.Second)
			if step := s.next(); step.Record.Stopping != "" {
				t.Fatalf("it fails a second early: %s", step.Record.Message)
			}
			s.pass(time.Second)
			step := s.next()
			if step.Record.Stopping != record.NodeCreationFailure || !step.Persist {
				t.Errorf("stopping with %q, persist %t", step.Record.Stopping, step.Persist)
			}
			head := "after 20m0s "
			if !strings.HasPrefix(step.Record.Message, head) || !strings.HasSuffix(step.Record.Message, c.want) && !strings.Contains(step.Record.Message, c.want) {
				t.Errorf("message %q, want %q … %q", step.Record.Message, head, c.want)
			}
			wantUntouched(t, step)
		})
	}
}

// A run that crashed with its launches unanswered is continued long after. All new nodes are ready, and only the
// answers are missing. They are requested again before the launches count as failed.
func TestUnansweredLaunchesAreRetriedBeforeTheyFail(t *testing.T) {
	s := surged(t)
	step := s.next()
	s.Record = step.Record
	s.add(current("new-a-1"))
	s.add(current("new-b-1"))
	s.Group.Desired += 2
	s.crash()
	s.pass(21 * time.Minute)
	if step = s.next(); step.Record.Stopping != "" || len(actionsOf(step, "add 1 nodes")) != 2 {
		t.Fatalf("stopping with %q: %s, and does %v", step.Record.Stopping, step.Record.Message, step.Actions)
	}
	s.pass(20 * time.Minute)
	if step = s.next(); step.Record.Stopping != record.NodeCreationFailure {
		t.Errorf("without an answer it continues without end: %v", step.Actions)
	}
	if want := "the cloud has not answered 2 launches: check that it can be reached"; !strings.HasSuffix(step.Record.Message, want) {
		t.Errorf("message %q, want %q", step.Record.Message, want)
	}
}

func unready(m nodegroup.Member) nodegroup.Member { build.NotReady(start)(m.Node); return m }

func unlabelled(m nodegroup.Member) nodegroup.Member { delete(m.Node.Labels, "image"); return m }

// refuse makes the cloud refuse the launches in a zone for lack of capacity.
func (s *scene) refuse(zone, detail string) {
	s.Record = s.Record.Reopened()
	for _, l := range s.Record.Ledger.Books().Zones[zone].Open {
		s.answer(nodegroup.AddCapacity{Zone: zone, N: l.N, Token: token(zone, l.Serial)}, nodegroup.OutcomeExhausted, detail)
	}
}

// wantUntouched checks that the step changes no outdated node.
func wantUntouched(t *testing.T, step upgrade.Step) {
	t.Helper()
	for _, a := range step.Actions {
		if strings.Contains(a.String(), "old-") {
			t.Errorf("%s, though the surge is not there", a)
		}
	}
}

// Nodes that a failed scale up has added are given back, except one that pods moved to (EKS E62), and the maximum is
// lowered, too.
func TestFailedScaleUpTerminatesUnusedSurge(t *testing.T) {
	s := surged(t)
	s.Group.Max = s.Group.Desired
	s.do(s.next().Actions...) // the maximum
	s.do(s.next().Actions...) // two launches
	s.add(booting(current("new-a-1")))
	s.add(current("new-b-1", build.Pod("web-0")))
	s.pass(20 * time.Minute)
	s.next()

	step := s.next()
	wantActions(t, step, "terminate instance i-new-a-1 and shrink the group by one")
	if !step.Persist {
		t.Error("a termination is not written ahead")
	}
	s.do(step.Actions...)
	wantActions(t, s.next())
	s.remove("i-new-a-1")
	s.pass(time.Minute)
	step = s.next()
	wantActions(t, step, "lower the group's max from 4 to 3")
	s.do(step.Actions...)
	step = s.next()
	if !step.Finished || step.Record.Result != record.NodeCreationFailure || step.Record.Ledger.Contribution() != 1 {
		t.Errorf("finished %t with %q, contribution %d", step.Finished, step.Record.Result, step.Record.Ledger.Contribution())
	}
	if len(step.Record.Nodes) != 0 || step.Record.Replaced != 0 {
		t.Errorf("nodes %v, replaced %d: what was given back is no replaced node", step.Record.Nodes, step.Record.Replaced)
	}
}

// After a failure, the same command waits for the new nodes again, for as long as the first time.
func TestSameCommandRetriesFailedScaleUp(t *testing.T) {
	s := surged(t)
	s.do(s.next().Actions...)
	s.pass(20 * time.Minute)
	s.rest()
	if s.Record.Result != record.NodeCreationFailure {
		t.Fatalf("result %q", s.Record.Result)
	}
	s.pass(time.Hour)
	s.crash()
	s.Record = s.Record.Reopened()
	if step := s.rest(); step.Finished || step.Record.Stopping != "" {
		t.Fatalf("it fails at once: %s", step.Record.Message)
	}
	s.pass(20*time.Minute - time.Second)
	if step := s.next(); step.Record.Stopping != "" {
		t.Fatalf("it fails early: %s", step.Record.Message)
	}
	s.pass(time.Second)
	if step := s.next(); step.Record.Stopping != record.NodeCreationFailure {
		t.Error("it waits for ever")
	}
}
