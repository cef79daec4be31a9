package upgrade_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/build"
)

// started returns the names of the nodes in a record, sorted.
func started(record record.Record) string {
	var names []string
	for name := range record.Nodes {
		names = append(names, name)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// windowed returns a group in its upgrade phase with all outdated nodes fenced. unavailable nodes may be unavailable.
func windowed(t *testing.T, unavailable int, members ...nodegroup.Member) *scene {
	s := newScene(t, members...)
	s.Request.MaxUnavailable, s.Request.Window = unavailable, unavailable
	s.do(s.next().Actions...)
	return s
}

func TestDrainedNodesStayWithinMaxUnavailable(t *testing.T) {
	silent := unready
	cases := map[string]struct {
		unavailable int
		others      []nodegroup.Member
		want        string
	}{
		"E40 one at a time":                           {1, nil, "old-a-1"},
		"E40 as many as may be unavailable":           {3, nil, "old-a-1 old-a-2 old-a-3"},
		"CAP003 unready nodes that are not ours":      {3, []nodegroup.Member{silent(current("cur-a-1"))}, "old-a-1 old-a-2"},
		"CAP003 but never to a halt":                  {2, []nodegroup.Member{silent(current("cur-a-1")), silent(current("cur-a-2"))}, "old-a-1"},
		"CAP003 more than may be unavailable":         {1, []nodegroup.Member{silent(current("cur-a-1")), silent(current("cur-a-2"))}, "old-a-1"},
		"a current node that is going is not unready": {2, []nodegroup.Member{leaving(silent(current("cur-a-1")))}, "old-a-1 old-a-2"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			members := append([]nodegroup.Member{old("old-a-1"), old("old-a-2"), old("old-a-3"), old("old-a-4")}, c.others...)
			s := windowed(t, c.unavailable, members...)
			if got := started(s.next().Record); got != c.want {
				t.Errorf("started %q, want %q", got, c.want)
			}
		})
	}
}

// E40: added nodes do not increase the number of nodes that are drained at a time.
func TestSurgeDoesNotIncreaseConcurrentDrains(t *testing.T) {
	s := newScene(t, old("old-a-1"), old("old-a-2"), old("old-a-3"))
	s.Request.Surge = 2
	s.do(s.next().Actions...)
	s.add(current("new-a-1"))
	s.add(current("new-a-2"))
	s.do(s.until(record.PhaseUpgrade).Actions...)
	if got := started(s.next().Record); got != "old-a-1" {
		t.Errorf("started %q, want one", got)
	}
}

func leaving(m nodegroup.Member) nodegroup.Member {
	m.Instance.State = nodegroup.InstanceLeaving
	return m
}

func TestNextNodeIsChosenByReadinessZoneAndName(t *testing.T) {
	cases := map[string]struct {
		members []nodegroup.Member
		want    string
	}{
		"an instance without a node goes first":      {[]nodegroup.Member{old("old-a-1"), old("old-a-2"), booting(old("old-b-1"))}, "i-old-b-1"},
		"then a node that is not Ready":              {[]nodegroup.Member{old("old-a-1"), old("old-a-2"), unready(old("old-b-1"))}, "old-b-1"},
		"then the zone with the most":                {[]nodegroup.Member{old("old-a-1"), old("old-b-1"), old("old-b-2")}, "old-b-1"},
		"then by name":                               {[]nodegroup.Member{old("old-a-2"), old("old-a-1")}, "old-a-1"},
		"an instance that is going is not started":   {[]nodegroup.Member{leaving(booting(old("old-a-1"))), old("old-b-1")}, "old-b-1"},
		"a node without instance has a zone as well": {[]nodegroup.Member{{Node: build.Node("old-b-1", "b"), Outdated: true}, old("old-a-1"), old("old-b-2")}, "old-b-1"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := windowed(t, 1, c.members...)
			if got := started(s.next().Record); got != c.want {
				t.Errorf("started %q, want %q", got, c.want)
			}
		})
	}
}

// An instance that never had a node has no pods to move: it is terminated at once, without a drain.
func TestInstanceWithoutNodeIsTerminated(t *testing.T) {
	step := newScene(t, booting(old("old-a-1"))).next()
	wantActions(t, step, "terminate instance i-old-a-1 and shrink the group by one")
	if !step.Persist || step.Record.Ledger.Contribution() != -1 {
		t.Errorf("persist %t, contribution %d: a termination is written ahead", step.Persist, step.Record.Ledger.Contribution())
	}
}

// The instance's node may join while the instance is being terminated.
func TestNodeThatJoinsDuringTerminationIsTheSameMachine(t *testing.T) {
	s := newScene(t, booting(old("old-a-1")))
	s.answer(action[nodegroup.Terminate](t, s.next()), nodegroup.OutcomeUnclear, "timeout")
	*s.at("i-old-a-1") = old("old-a-1")
	step := s.next()
	wantActions(t, step)
	if got := started(step.Record); got != "i-old-a-1" || step.Record.Replaced != 0 {
		t.Errorf("started %q, replaced %d", got, step.Record.Replaced)
	}
	s.pass(31 * time.Second)
	wantActions(t, s.next(), "terminate instance i-old-a-1 and shrink the group by one")
}

// Nodes that need the same tight budget are not drained together, as long as others can be.
func TestNodesOfOneTightBudgetAreNotDrainedTogether(t *testing.T) {
	web := func(name string) *corev1.Pod { return build.Pod(name) }
	cart := func(name string) *corev1.Pod { return build.Pod(name, build.App("cart")) }
	db := func(name string) *corev1.Pod { return build.Pod(name, build.App("db")) }
	cases := map[string]struct {
		members []nodegroup.Member
		web     *policyv1.PodDisruptionBudget
		want    string
	}{
		"15 the one that contends least": {
			[]nodegroup.Member{old("old-a-1", web("web-0")), old("old-a-2", web("web-1")), old("old-a-3", cart("cart-0"))},
			build.Budget("web"), "old-a-1 old-a-3",
		},
		"15 none whose pods would all wait": {
			[]nodegroup.Member{old("old-a-1", web("web-0")), old("old-a-2", web("web-1"))},
			build.Budget("web"), "old-a-1",
		},
		"one some of whose pods can move": {
			[]nodegroup.Member{old("old-a-1", web("web-0")), old("old-a-2", web("web-1"), cart("cart-0"))},
			build.Budget("web"), "old-a-1 old-a-2",
		},
		"one with nothing to move": {
			[]nodegroup.Member{old("old-a-1", web("web-0")), old("old-a-2", web("web-1")), old("old-a-3")},
			build.Budget("web"), "old-a-1 old-a-3",
		},
		"the budget has room for both": {
			[]nodegroup.Member{old("old-a-1", web("web-0")), old("old-a-2", web("web-1"))},
			build.Budget("web", build.Counts(4, 4, 2)), "old-a-1 old-a-2",
		},
		"nodes that can never be empty, side by side": {
			[]nodegroup.Member{old("old-a-1", web("web-0")), old("old-a-2", web("web-1"))},
			build.Budget("web", build.Counts(2, 2, 2)), "old-a-1 old-a-2",
		},
		"one that can never be empty comes last": {
			[]nodegroup.Member{old("old-a-1", web("web-0"), cart("cart-0")), old("old-a-2", cart("cart-1")), old("old-a-3", cart("cart-2"))},
			build.Budget("web", build.Counts(2, 2, 2)), "old-a-2 old-a-3",
		},
		"one whose workload is broken comes last": {
			[]nodegroup.Member{old("old-a-1", web("web-0"), cart("cart-0")), old("old-a-2", cart("cart-1")), old("old-a-3", cart("cart-2"))},
			build.Budget("web", build.Counts(4, 2, 3)), "old-a-2 old-a-3",
		},
		"one with a pod that nobody brings back comes last": {
			[]nodegroup.Member{old("old-a-1", build.Pod("bare", build.Bare), cart("cart-0")), old("old-a-2", cart("cart-1")), old("old-a-3", cart("cart-2"))},
			build.Budget("web"), "old-a-2 old-a-3",
		},
		"unready pods of a broken workload that may always go": {
			[]nodegroup.Member{old("old-a-1", build.Pod("web-0", build.App("web"), build.Unready)), old("old-a-2", cart("cart-1")), old("old-a-3", cart("cart-2"))},
			build.Budget("web", build.Counts(4, 2, 3), build.AlwaysAllow), "old-a-1 old-a-2",
		},
		"a budget that would lie idle is used": {
			[]nodegroup.Member{old("old-a-1", cart("cart-0")), old("old-a-2", cart("cart-1")), old("old-a-3", web("web-0"))},
			build.Budget("web"), "old-a-1 old-a-3",
		},
		"the tighter a budget the sooner": {
			[]nodegroup.Member{old("old-a-1", web("web-0")), old("old-a-2", web("web-1")), old("old-a-3", db("db-0"))},
			build.Budget("web", build.Counts(8, 8, 4)), "old-a-1 old-a-3",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := windowed(t, 2, c.members...)
			s.budgets(c.web, build.Budget("db"))
			if got := started(s.next().Record); got != c.want {
				t.Errorf("started %q, want %q", got, c.want)
			}
		})
	}
}

// If only one node is drained at a time, spreading budgets gains nothing, and zones keep their turns.
func TestSingleNodeDrainsKeepZoneOrder(t *testing.T) {
	s := windowed(t, 1, old("old-a-1"), old("old-a-2"), old("old-b-1", build.Pod("web-0")))
	s.budgets(build.Budget("web"))
	if got, want := started(s.next().Record), "old-a-1"; got != want {
		t.Errorf("started %q, want %q", got, want)
	}
}

// A terminating pod uses no budget: as soon as its replacement is ready, the next node may be started, although the
// first node still waits for the pod's end.
func TestTerminatingPodsUseNoBudget(t *testing.T) {
	for name, c := range map[string]struct {
		allowed int32
		want    string
	}{
		"nobody is ready for it yet": {0, "old-a-1"},
		"another pod is ready":       {1, "old-a-1 old-a-2"},
	} {
		t.Run(name, func(t *testing.T) {
			s := windowed(t, 2, old("old-a-1", build.Pod("web-0")), old("old-a-2", build.Pod("web-1")))
			s.budgets(build.Budget("web"))
			s.begun(s.next().Actions[0])
			s.at("old-a-1").Pods[0].DeletionTimestamp = &metav1.Time{Time: s.Now.Add(30 * time.Second)}
			s.pass(5 * time.Second)
			s.budgets(build.Budget("web", build.Counts(2, 1+c.allowed, 1)))
			if got := started(s.next().Record); got != c.want {
				t.Errorf("started %q, want %q", got, c.want)
			}
		})
	}
}

// A terminated node counts as unavailable until its replacement takes pods.
func TestMissingNodesCountAsUnavailable(t *testing.T) {
	s := windowed(t, 1, old("old-a-1"), old("old-a-2"))
	s.Record.Request.Settle = duration(0)
	s.do(s.next().Actions...)
	step := s.next()
	wantActions(t, step, "terminate instance i-old-a-1 and shrink the group by one")

	s.answer(step.Actions[0], nodegroup.OutcomeDone, "") // accepted, but not visible yet
	step = s.next()
	launch := action[nodegroup.AddCapacity](t, step)
	if len(step.Actions) != 1 || launch.Zone != "a" || launch.N != 1 || !step.Persist {
		t.Errorf("actions %v, persist %t, want one launch in zone a, written ahead", step.Actions, step.Persist)
	}
	s.answer(launch, nodegroup.OutcomeDone, "")
	wantWaiting(t, s.next(), "the reading is older than both")

	s.pass(10 * time.Second)
	s.effect(step.Actions[0])
	s.at("old-a-1").Instance.State = nodegroup.InstanceLeaving
	s.Group.Desired = 1 // the launch is not visible yet
	wantWaiting(t, s.next(), "the reading shows the termination alone")

	s.pass(time.Minute)
	s.Group.Desired = 2
	s.remove("old-a-1")
	s.add(booting(current("new-a-1")))
	wantWaiting(t, s.next(), "the new node boots")

	s.remove("i-new-a-1")
	s.add(current("new-a-1"))
	step = s.next()
	wantActions(t, step, "start draining node old-a-2")
	if !step.Persist {
		t.Error("the start of a node is not written ahead")
	}
}

func wantWaiting(t *testing.T, step upgrade.Step, when string) {
	t.Helper()
	wantActions(t, step)
	if step.Status.Waiting != "a replacement to be ready" || step.Poll == 0 {
		t.Errorf("%s: waiting for %q, poll %s", when, step.Status.Waiting, step.Poll)
	}
}

// Missing nodes use up the surge first: with one added node, one node may be missing at no cost.
func TestSurgeCoversMissingNodesBeforeMaxUnavailable(t *testing.T) {
	s := newScene(t, old("old-a-1"), old("old-a-2"), old("old-a-3"))
	s.Request.Surge, s.Request.Settle = 1, duration(0)
	s.do(s.next().Actions...)
	s.add(current("new-a-1"))
	s.do(s.until(record.PhaseUpgrade).Actions...)
	s.do(s.next().Actions...) // terminate old-a-1
	step := s.next()
	wantActions(t, step, "add 1 nodes in zone a", "start draining node old-a-2")
	s.do(step.Actions...)
	s.do(s.next().Actions...) // terminate old-a-2
	s.pass(time.Minute)
	step = s.next()
	if strings.Contains(started(step.Record), "old-a-3") {
		t.Error("a third node is started with two missing and one added")
	}
}

func TestUpgradeDoesNotWaitForNodeThatAutoscalerRemoved(t *testing.T) {
	s := windowed(t, 1, old("old-a-1"), old("old-a-2"), current("cur-a-1"))
	s.Record.Request.Settle = duration(0)
	for range 3 {
		s.do(s.next().Actions...) // drain, terminate, launch
	}
	s.remove("old-a-1")
	s.Group.Desired = 2 // the new node is removed before it joined
	s.pass(time.Minute)
	wantActions(t, s.next(), "start draining node old-a-2")
}

// TestUpgradeStopsIfReplacementNeverComes: the old nodes that are left stay as they are.
func TestUpgradeStopsIfReplacementNeverComes(t *testing.T) {
	s := windowed(t, 1, old("old-a-1"), old("old-a-2"))
	s.Record.Request.Settle = duration(0)
	s.pass(time.Hour) // the phase began so long ago that the boot timeout is over
	for range 3 {
		s.do(s.next().Actions...)
	}
	s.remove("old-a-1")
	s.add(booting(current("new-a-1")))
	s.pass(20*time.Minute - time.Second)
	wantWaiting(t, s.next(), "a second early")
	s.pass(time.Second)
	step := s.next()
	want := "after 20m0s 0 of 1 new nodes are ready: instance i-new-a-1 has not joined the cluster"
	if step.Record.Stopping != record.NodeCreationFailure || !strings.HasPrefix(step.Record.Message, want) {
		t.Errorf("stopping with %q: %q, want %q", step.Record.Stopping, step.Record.Message, want)
	}
	step = s.next()
	wantActions(t, step, "unfence node old-a-2")
	s.do(step.Actions...)
	s.rest()

	s.crash()
	s.Record = s.Record.Reopened()
	s.rest()
	s.pass(19 * time.Minute)
	if step = s.next(); step.Record.Stopping != "" {
		t.Errorf("the same command waits no time at all: %s", step.Record.Message)
	}
}

// Without a cloud a drained node stays until its owner replaces it. The next node waits for that, if the user asked for
// it.
func TestManualProviderWaitsForReplacement(t *testing.T) {
	for name, wait := range map[string]bool{"waits": true, "goes on": false} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, manual("old-a-1", true), manual("old-a-2", true))
			s.Group.Provider, s.Group.Can = "manual", nodegroup.Capabilities{}
			s.Request.WaitReplacement, s.Request.Settle = wait, duration(0)
			s.do(s.next().Actions...)
			s.do(s.next().Actions...)
			step := s.next()
			wantState(t, step, "old-a-1", record.NodeDrained)
			if begun := strings.Contains(started(step.Record), "old-a-2"); begun == wait {
				t.Errorf("the second node is started: %t", begun)
			}
			s.pass(24 * time.Hour)
			if step = s.next(); step.Record.Stopping != "" {
				t.Errorf("a person is given %s and no more: %s", s.Record.Request.BootTimeout, step.Record.Message)
			}
			s.add(manual("new-a-1", false))
			if step = s.next(); !strings.Contains(started(step.Record), "old-a-2") {
				t.Error("the second node is not started when the first is replaced")
			}
		})
	}
}

func manual(name string, outdated bool) nodegroup.Member {
	m := member(name, outdated, nil)
	m.Instance = nodegroup.Instance{}
	return m
}

// A new node with the name of an old one is a different node.
func TestNewNodeWithNameOfOldNodeIsAnotherNode(t *testing.T) {
	for name, outdated := range map[string]bool{"current": false, "outdated still": true} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, manual("old-a-1", true), manual("old-b-1", true))
			s.Group.Provider, s.Group.Can = "manual", nodegroup.Capabilities{}
			s.Request.Settle = duration(0)
			s.do(s.next().Actions...)
			s.do(s.next().Actions...)
			s.next()
			again := manual("old-a-1", outdated)
			again.Node.UID = "another"
			*s.at("old-a-1") = again
			step := s.next()
			if got := step.Record.Nodes["old-a-1"].UID; got == "old-a-1" {
				t.Error("the record is still the old node's")
			}
			if fenced := len(actionsOf(step, "fence node old-a-1")) == 1; fenced != outdated {
				t.Errorf("fenced: %t", fenced)
			}
		})
	}
}
