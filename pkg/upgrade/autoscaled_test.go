package upgrade_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain/schedule"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/build"
)

// newAutoscaled returns the autoscaled blue-green upgrade of a group. It waits for three days before it drains.
func newAutoscaled(t *testing.T, members ...nodegroup.Member) *scene {
	t.Helper()
	s := newScene(t, members...)
	s.Group.Max, s.Stay = len(members), true
	r := &s.Request
	r.Strategy, r.MaxUnavailable, r.Window, r.DrainTimeout, r.OnTimeout = record.AutoscaledBlueGreen, 0, 20, duration(time.Hour), record.Force
	r.WaitForDrain = duration(72 * time.Hour)
	return s
}

func daemon(name string) *corev1.Pod { return build.Pod(name, build.OwnedBy("DaemonSet", "logs")) }

func protected(pod *corev1.Pod, key, value string) *corev1.Pod {
	pod.Annotations = map[string]string{key: value}
	return pod
}

// G77: the maximum is raised by the number of outdated nodes, once, and nothing is launched (G70).
func TestAutoscaledRaisesGroupMaxAndLaunchesNothing(t *testing.T) {
	s := newAutoscaled(t, old("old-a-1", build.Pod("web-0")), old("old-b-1", build.Pod("web-1")), current("cur-c-1"))
	step := s.next()
	wantActions(t, step, "raise the group's max from 3 to 5")
	if step.Record.Version != 5 {
		t.Errorf("the record's version is %d", step.Record.Version)
	}
	s.do(step.Actions...)
	s.until(record.PhaseWait)
	s.Group.Desired = 4 // the autoscaler has added a node
	s.pass(time.Hour)
	if step = s.next(); len(step.Actions) > 0 {
		t.Errorf("it does %v", step.Actions)
	}
}

// TestAutoscaledLaunchesNoReplacement: the upgrade launches no replacement for a removed node. The autoscaler decides whether one
// is needed (G70).
func TestAutoscaledLaunchesNoReplacement(t *testing.T) {
	s := newAutoscaled(t, old("old-a-1", build.Pod("web-0")), old("old-b-1"))
	s.until(record.PhaseWait)
	s.rest()
	s.pass(5 * time.Minute)
	step := s.rest()
	if s.at("old-b-1").Instance.State != nodegroup.InstanceLeaving {
		t.Fatalf("the idle node is not removed; it waits for %q", step.Status.Waiting)
	}
	if owed := step.Record.Ledger.Contribution(); owed != 0 {
		t.Errorf("the ledger has %d nodes to launch", -owed)
	}
}

// G80: without an autoscaler the upgrade does not begin, and the error names what is missing.
func TestAutoscaledRefusesMissingAutoscalerAndInvalidSettings(t *testing.T) {
	eight, minute := 8*24*time.Hour, time.Minute
	cases := map[string]struct {
		change func(*upgrade.Settings, *nodegroup.Group)
		want   string
	}{
		"G80 served": {func(*upgrade.Settings, *nodegroup.Group) {}, ""},
		"G80 not served": {func(_ *upgrade.Settings, g *nodegroup.Group) {
			g.Autoscaler = nodegroup.Autoscaler{Missing: "no status"}
		}, "no status: set one up, or use blue-green"},
		"G80 no size":           {func(_ *upgrade.Settings, g *nodegroup.Group) { g.Can = nodegroup.Capabilities{} }, "have no size that an autoscaler could change"},
		"G71 more than 7 days":  {func(s *upgrade.Settings, _ *nodegroup.Group) { s.WaitForDrain = &eight }, "--wait-for-drain=192h0m0s: use a time from 0 to 168h0m0s"},
		"G71 of another":        {func(s *upgrade.Settings, _ *nodegroup.Group) { s.Strategy, s.WaitForDrain = record.BlueGreen, &minute }, "only --strategy=autoscaled-blue-green waits"},
		"G75 a width":           {func(s *upgrade.Settings, _ *nodegroup.Group) { s.MaxUnavailable = &nodegroup.Quantity{N: 1} }, "--max-unavailable"},
		"G75 no skipping":       {func(s *upgrade.Settings, _ *nodegroup.Group) { s.OnTimeout = record.Skip }, "--on-timeout=skip"},
		"G76 no soak":           {func(s *upgrade.Settings, _ *nodegroup.Group) { s.Soak = &minute }, "--soak"},
		"G77 no room to keep":   {func(s *upgrade.Settings, _ *nodegroup.Group) { s.KeepMax = true }, "--keep-max: group \"workers\" has room for 0 new nodes and may need 9"},
		"G77 room that is kept": {func(s *upgrade.Settings, g *nodegroup.Group) { s.KeepMax, g.Max = true, 18 }, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			group := &nodegroup.Group{
				Name: "workers", Provider: "aws", Can: nodegroup.FullControl(), Zones: zones(3), Desired: 9, Max: 9, Wanted: revisionOf("2"), Autoscaler: nodegroup.Autoscaler{Serves: true},
			}
			req, err := settings(func(s *upgrade.Settings) { s.Strategy = record.AutoscaledBlueGreen; c.change(s, group) }).ResolveRequest(group, 9, 9)
			checkError(t, err, c.want)
			if err == nil && (req.WaitForDrain.Duration != 72*time.Hour || req.Window != 20 || req.DrainTimeout.Duration != time.Hour || req.To != "2") {
				t.Errorf("got %+v", req)
			}
		})
	}
}

// G72, G73: idle nodes are removed during the wait, unless a pod asks autoscalers to keep them or the group is at its
// minimum.
func TestAutoscaledRemovesIdleNodes(t *testing.T) {
	cases := map[string]struct {
		pods    []*corev1.Pod
		minimum int
		gone    bool
	}{
		"G72 nothing on it":       {nil, 0, true},
		"G72 a daemon":            {[]*corev1.Pod{daemon("logs-0")}, 0, true},
		"G72 a pod":               {[]*corev1.Pod{build.Pod("web-1")}, 0, false},
		"G72 not safe to evict":   {[]*corev1.Pod{protected(daemon("logs-0"), drain.AnnotationSafeToEvict, "false")}, 0, false},
		"G72 safe to evict":       {[]*corev1.Pod{protected(daemon("logs-0"), drain.AnnotationSafeToEvict, "true")}, 0, true},
		"G72 do not disrupt":      {[]*corev1.Pod{protected(daemon("logs-0"), drain.AnnotationDoNotDisrupt, "true")}, 0, false},
		"G73 the group's minimum": {nil, 2, false},
		"G73 above its minimum":   {nil, 1, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := newAutoscaled(t, old("old-a-1", build.Pod("web-0")), old("old-b-1", c.pods...))
			s.Group.Min = c.minimum
			s.until(record.PhaseWait)
			s.rest()
			s.pass(5 * time.Minute)
			step := s.rest()
			gone := s.at("old-b-1").Instance.State == nodegroup.InstanceLeaving
			if gone != c.gone || s.at("old-a-1").Instance.State == nodegroup.InstanceLeaving || step.Record.Phase != record.PhaseWait {
				t.Errorf("gone: %t, want %t, in phase %q", gone, c.gone, step.Record.Phase)
			}
			if gone && s.Group.Desired != 1 {
				t.Errorf("the group's desired size is %d", s.Group.Desired)
			}
		})
	}
}

// G72: a node that gets a pod before its machine is terminated is left alone.
func TestAutoscaledKeepsNodeThatGetsAPod(t *testing.T) {
	s := newAutoscaled(t, old("old-a-1", build.Pod("web-0")), old("old-b-1"))
	s.until(record.PhaseWait)
	s.rest()
	if s.Record.Nodes["old-b-1"].State != record.NodeEmpty {
		t.Fatalf("got %+v", s.Record.Nodes)
	}
	s.at("old-b-1").Pods = []*corev1.Pod{build.Pod("web-9", build.On("old-b-1"))}
	s.pass(5 * time.Minute)
	if step := s.rest(); len(step.Record.Nodes) > 0 || s.at("old-b-1").Instance.State == nodegroup.InstanceLeaving {
		t.Errorf("got %+v", step.Record.Nodes)
	}
}

// G73, G74: after another process removed a node, the group is at its minimum, so the upgrade may no longer remove an idle node.
// It continues to wait.
func TestAutoscaledKeepsIdleNodeAtGroupMinimum(t *testing.T) {
	s := newAutoscaled(t, old("old-a-1"), old("old-b-1"))
	s.Group.Min, s.Request.Settle = 1, duration(time.Minute)
	s.until(record.PhaseWait)
	s.rest()
	s.at("old-a-1").Instance.State = nodegroup.InstanceLeaving // an autoscaler terminates the node
	s.Group.Desired = 1
	s.pass(time.Second)
	if step := s.rest(); step.Record.Phase != record.PhaseWait || len(step.Record.Nodes) > 0 {
		t.Errorf("it is in phase %q, with %v under way", step.Record.Phase, step.Record.Nodes)
	}
}

// G74: the wait ends when autoscalers have removed all outdated nodes. These nodes count as replaced.
func TestAutoscaledEndsWhenAutoscalerRemovedAllOutdatedNodes(t *testing.T) {
	s := newAutoscaled(t, old("old-a-1", build.Pod("web-0")), old("old-b-1", build.Pod("web-1")))
	s.until(record.PhaseWait)
	s.rest()
	s.remove("old-a-1")
	s.pass(time.Hour)
	if step := s.rest(); step.Record.Replaced != 1 || step.Record.Phase != record.PhaseWait {
		t.Errorf("%d are replaced, in phase %q", step.Record.Replaced, step.Record.Phase)
	}
	s.remove("old-b-1")
	s.Group.Desired = 0
	s.pass(time.Hour)
	if step := s.rest(); step.Record.Result != record.Succeeded || step.Record.Replaced != 2 || s.Group.Max != 2 {
		t.Errorf("%q in phase %q, %d are replaced, the maximum is %d", step.Record.Result, step.Record.Phase, step.Record.Replaced, s.Group.Max)
	}
}

// G81: autoscalers are kept from outdated nodes while these are drained, but not during the wait (G72).
func TestAutoscaledDisablesScaleDownOnlyDuringDrain(t *testing.T) {
	s := newAutoscaled(t, old("old-a-1", build.Pod("web-0")), current("cur-b-1"))
	held := func(name string) bool { return s.at(name).IsHeld() }
	s.until(record.PhaseWait)
	if s.rest(); held("old-a-1") || held("cur-b-1") {
		t.Error("they are held while it waits")
	}
	s.pass(72 * time.Hour)
	s.until(record.PhaseDrainBlue)
	s.do(s.next().Actions...)
	s.next()
	if !held("old-a-1") || held("cur-b-1") {
		t.Errorf("held: outdated %t, current %t", held("old-a-1"), held("cur-b-1"))
	}
}

// G75: at most twenty nodes are drained at once.
func TestAutoscaledDrainsAtMostTwentyNodesTogether(t *testing.T) {
	var members []nodegroup.Member
	for i := range 25 {
		name := "old-a-" + string(rune('a'+i))
		members = append(members, old(name, build.Pod("web-"+name)))
	}
	s := newAutoscaled(t, members...)
	s.Request.WaitForDrain = duration(0)
	step := s.until(record.PhaseDrainBlue)
	if n := len(step.Record.Nodes); n != 20 {
		t.Errorf("%d nodes are drained at once", n)
	}
}

// G75: pods keep their own grace period up to a day, whether they are deleted or were evicted.
func TestAutoscaledLimitsGracePeriodToADay(t *testing.T) {
	two, day := int64(48*3600), int64(24*3600)
	late := build.Pod("slow-0")
	late.Spec.TerminationGracePeriodSeconds = &two
	s := newAutoscaled(t, old("old-a-1", late))
	s.Request.WaitForDrain = duration(0)
	s.budgets(build.Budget("web", build.Counts(1, 1, 1)))
	s.until(record.PhaseDrainBlue)
	s.rest()
	s.pass(time.Hour)
	deleted := schedule.Deletion{}
	for range 3 {
		step := s.next()
		for _, a := range step.Actions {
			if del, ok := a.(schedule.Deletion); ok {
				deleted = del
			}
		}
	}
	if deleted.Grace != day {
		t.Fatalf("it is deleted with a grace period of %ds", deleted.Grace)
	}
	s.do(deleted)
	ends := s.Now.Add(47 * time.Hour) // it was evicted with its own grace period
	late.DeletionTimestamp.Time, late.DeletionGracePeriodSeconds = ends, &two
	s.pass(23*time.Hour - time.Second)
	if step := s.rest(); step.Record.Nodes["old-a-1"].State != record.NodeForcing {
		t.Errorf("it is %q after less than a day", step.Record.Nodes["old-a-1"].State)
	}
	s.pass(time.Minute)
	if s.rest(); s.at("old-a-1").Instance.State != nodegroup.InstanceLeaving {
		t.Error("it is waited for after a day")
	}
}

// G78: a rollback is impossible, and the error says so.
func TestRollbackOfAutoscaledUpgradeIsRefused(t *testing.T) {
	s := newAutoscaled(t, old("old-a-1", build.Pod("web-0")))
	s.until(record.PhaseWait)
	_, err := upgrade.RollbackTarget(&s.Record)
	checkError(t, err, "its strategy is autoscaled-blue-green, which has no rollback")
	if upgrade.AbortKeepsBoth(&s.Record) {
		t.Error("an abort is said to leave what a rollback would not")
	}
}

// A lost record is rebuilt. Nodes that the autoscaler added are not given back, and the wait begins again.
func TestAutoscaledRebuildsLostRecord(t *testing.T) {
	s := newAutoscaled(t, old("old-a-1", build.Pod("web-0")), old("old-b-1", build.Pod("web-1")))
	s.until(record.PhaseWait)
	s.rest()
	s.add(current("new-a-1"))
	s.Group.Desired = 3
	s.crash()
	s.Record = record.Record{}
	s.pass(time.Hour)
	rebuilt, err := upgrade.RebuildRecord(s.World)
	if err != nil || rebuilt.Version != 5 {
		t.Fatalf("version %d, error %v", rebuilt.Version, err)
	}
	s.Record = rebuilt
	s.next()
	s.pass(time.Minute)
	s.until(record.PhaseWait)
	step := s.rest()
	books := step.Record.Ledger.Books()
	if owed := step.Record.Ledger.Contribution(); owed != 0 || books.MaxFrom != 2 || books.MaxTo != 4 {
		t.Errorf("%d nodes to give back, and the raise is from %d to %d", owed, books.MaxFrom, books.MaxTo)
	}
	if until := step.Record.Soak.Until; until.Before(s.Now.Add(71 * time.Hour)) {
		t.Errorf("it waits until %s", until)
	}
}

// An autoscaled upgrade may not continue to a target that moved, not even with --replan: its new nodes would be outdated.
func TestAutoscaledUpgradeMayNotContinueToNewTarget(t *testing.T) {
	rec := record.Record{Request: record.Request{Group: "workers", Strategy: record.AutoscaledBlueGreen}, Target: revisionOf("2")}
	err := rec.CheckReplan(&rec.Request, true)
	if err == nil || !strings.Contains(err.Error(), "does not allow") {
		t.Errorf("got error %v", err)
	}
}

// G72, G74: if the same command runs before the wait is over, it checks the group and exits again.
func TestAutoscaledChecksDuringTheWait(t *testing.T) {
	s := newAutoscaled(t, old("old-a-1", build.Pod("web-0")))
	s.Stay = false
	s.until(record.PhaseWait)
	step := s.rest()
	if step.Record.Result != record.Waiting || upgrade.IsWaiting(&step.Record, s.Now) {
		t.Errorf("result %q, nothing to look at: %t", step.Record.Result, upgrade.IsWaiting(&step.Record, s.Now))
	}
	checkMessage(t, step, "it waits with the drain until 2026-01-04T")
}
