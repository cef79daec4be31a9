package upgrade_test

import (
	"strings"
	"testing"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/build"
)

// newShortLived returns the short-lived upgrade of two nodes, whose group points at the older revision.
func newShortLived(t *testing.T) *scene {
	t.Helper()
	s := newScene(t, old("old-a-1", build.Pod("web-0")), old("old-b-1"), current("cur-c-1"))
	s.Group.Pointed = revisionOf("1")
	s.Group.Quiesce = []string{"AZRebalance"}
	s.Request.Strategy = record.ShortLived
	return s
}

// look takes steps until the process exits. The only allowed action is to set the group's revision (GKE G90).
func (s *scene) look() upgrade.Step {
	s.t.Helper()
	for range 5 {
		step := s.next()
		for _, action := range step.Actions {
			set, points := action.(nodegroup.SetRevision)
			if !points {
				s.t.Fatalf("it does %s", action)
			}
			s.Group.Pointed = set.To
		}
		s.do(step.Actions...)
		if step.Finished || len(step.Actions) == 0 {
			return step
		}
	}
	s.t.Fatal("it does not come to rest")
	return upgrade.Step{}
}

// lookAfter runs the same command after a time.
func (s *scene) lookAfter(after time.Duration) upgrade.Step {
	s.crash()
	s.pass(after)
	s.Record = s.Record.Reopened()
	return s.look()
}

// G90: new nodes get the wanted revision, and no node is touched. Each run names the nodes that are left, until a week
// is over.
func TestShortLivedSetsRevisionAndTouchesNoNode(t *testing.T) {
	s := newShortLived(t)
	step := s.look()
	if s.Group.Pointed.ID != "2" || step.Record.Result != record.Waiting || step.Record.Version != 4 {
		t.Fatalf("pointed at %q, result %q, version %d", s.Group.Pointed.ID, step.Record.Result, step.Record.Version)
	}
	checkMessage(t, step, "2 of 2 nodes are left (old-a-1, old-b-1); they end on their own until 2026-01-08T00:00:00Z")
	s.remove("old-a-1")
	s.add(current("new-a-1"))
	step = s.lookAfter(48 * time.Hour)
	checkMessage(t, step, "1 of 2 nodes are left (old-b-1)")
	if step.Record.Replaced != 1 || step.Status.Outdated != 1 {
		t.Errorf("%d are replaced, %d left", step.Record.Replaced, step.Status.Outdated)
	}
	late := *s
	late.remove("old-b-1")
	if step = late.lookAfter(24 * time.Hour); step.Record.Result != record.Succeeded || step.Record.Replaced != 2 {
		t.Errorf("without outdated nodes it ends with %q, %d replaced", step.Record.Result, step.Record.Replaced)
	}
}

// G90: the limit is a week, also for a process that stays.
func TestShortLivedUpgradeEndsAfterAWeek(t *testing.T) {
	s := newShortLived(t)
	s.Stay = true
	step := s.look()
	if end := start.Add(7 * 24 * time.Hour); step.Finished || !step.Due.Equal(end) {
		t.Fatalf("finished %t, due %s, want %s", step.Finished, step.Due, end)
	}
	s.pass(7*24*time.Hour - time.Second)
	if step = s.look(); step.Finished {
		t.Fatalf("it ends early, with %q", step.Record.Result)
	}
	s.pass(time.Second)
	if step = s.look(); step.Record.Result != record.LeftBehind {
		t.Errorf("it ends with %q", step.Record.Result)
	}
	checkMessage(t, step, "2 of 2 nodes are left (old-a-1, old-b-1)")
}

// G90: an abort points the group back, and touches no node either.
func TestAbortOfShortLivedUpgradeRestoresGroupRevision(t *testing.T) {
	s := newShortLived(t)
	s.look()
	s.crash()
	s.pass(time.Hour)
	s.Record = s.Record.AsAborting()
	if step := s.look(); step.Record.Result == "" {
		s.pass(time.Minute)
		if step = s.look(); step.Record.Result != record.Aborted {
			t.Errorf("it ends with %q", step.Record.Result)
		}
	}
	if s.Group.Pointed.ID != "1" {
		t.Errorf("the group points at %q", s.Group.Pointed.ID)
	}
}

// G90: only the target revision can be set.
func TestShortLivedRefusesSettingsExceptTarget(t *testing.T) {
	minute := time.Minute
	cases := map[string]struct {
		change func(*upgrade.Settings)
		sized  bool
		want   string
	}{
		"nothing":      {func(*upgrade.Settings) {}, true, ""},
		"a target":     {func(s *upgrade.Settings) { s.To = "7" }, true, ""},
		"a surge":      {func(s *upgrade.Settings) { s.MaxSurge = &nodegroup.Quantity{N: 1} }, true, "--max-surge"},
		"a limit":      {func(s *upgrade.Settings) { s.DrainTimeout = &minute }, true, "--drain-timeout: --strategy=short-lived drains and removes no node: remove the flag"},
		"an end":       {func(s *upgrade.Settings) { s.OnTimeout = record.Force }, true, "--on-timeout"},
		"a soak":       {func(s *upgrade.Settings) { s.Soak = &minute }, true, "--soak"},
		"GKE's":        {func(s *upgrade.Settings) { s.Like = "gke" }, true, "--like"},
		"MINIMAL":      {func(s *upgrade.Settings) { s.UpdateStrategy = "minimal" }, true, "--update-strategy=minimal"},
		"no revisions": {func(*upgrade.Settings) {}, false, "there is no revision to set: use surge"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			group := &nodegroup.Group{Name: "workers", Provider: "aws", Can: map[bool]nodegroup.Capabilities{true: nodegroup.FullControl()}[c.sized], Zones: zones(3), Desired: 9, Max: 9, Wanted: revisionOf("2")}
			req, err := settings(func(s *upgrade.Settings) { s.Strategy = record.ShortLived; c.change(s) }).ResolveRequest(group, 9, 9)
			checkError(t, err, c.want)
			if err == nil && (req.Surge != 0 || req.To == "") {
				t.Errorf("surge %d, to %q", req.Surge, req.To)
			}
		})
	}
}

func checkMessage(t *testing.T, step upgrade.Step, want string) {
	t.Helper()
	if !strings.HasPrefix(step.Record.Message, want) {
		t.Errorf("it says %q, want %q", step.Record.Message, want)
	}
}
