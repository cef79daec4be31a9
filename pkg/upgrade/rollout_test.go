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

// blueGroup returns a group of another cloud, which upgrades it in its own blue-green way.
func blueGroup() *nodegroup.Group {
	managed := otherManaged()
	managed.TakesRollout, managed.EndsSoaks, managed.RollsBack = true, true, true
	managed.Rollout = nodegroup.Rollout{Strategy: "blue-green", Batch: nodegroup.Quantity{N: 25, Percent: true}, Soak: time.Hour}
	return &nodegroup.Group{Name: "workers", Provider: "gke", Zones: []string{"a", "b"}, Can: nodegroup.FullControl(), Managed: managed}
}

// TestCloudUsesStrategyOfGroupUnlessFlagsChangeIt: sent settings stay those of the group, so they are sent only if a flag asks for them.
func TestCloudUsesStrategyOfGroupUnlessFlagsChangeIt(t *testing.T) {
	minute, week := time.Minute, 7*24*time.Hour
	two := nodegroup.Quantity{N: 2}
	for name, c := range map[string]struct {
		change func(*upgrade.Settings, *nodegroup.Group)
		// strategy, sets and the text of the plan are those of the request.
		strategy record.Strategy
		sets     bool
		text     string
	}{
		"the group's own": {
			func(*upgrade.Settings, *nodegroup.Group) {}, record.BlueGreen, false,
			"GKE upgrades the group itself: blue-green, 2 nodes at a time: a new node for each outdated one; 1h to drain each, pods that are left are deleted at the end; a soak of 1h before the outdated nodes are deleted",
		},
		"its own strategy by name": {func(s *upgrade.Settings, _ *nodegroup.Group) { s.Strategy = record.BlueGreen }, record.BlueGreen, false, ""},
		"another soak": {
			func(s *upgrade.Settings, _ *nodegroup.Group) {
				s.Strategy, s.Batch, s.Soak, s.BatchSoak = record.BlueGreen, &two, &week, &minute
			}, record.BlueGreen, true,
			"1m after each batch; a soak of 168h before the outdated nodes are deleted; GKE keeps this as the group's own strategy",
		},
		"a surge instead": {
			func(s *upgrade.Settings, _ *nodegroup.Group) { s.Strategy = record.Surge }, record.Surge, true,
			"at most 1 at a time (max surge 1, max unavailable 0); 1h to drain a node, then its pods are deleted even against their budgets; GKE keeps this",
		},
		"blue-green instead of a surge": {
			func(s *upgrade.Settings, g *nodegroup.Group) {
				s.Strategy, g.Managed.Rollout = record.BlueGreen, nodegroup.Rollout{}
			}, record.BlueGreen, true, "one node at a time",
		},
		"autoscaled": {
			func(s *upgrade.Settings, g *nodegroup.Group) {
				s.Strategy, s.WaitForDrain, g.Autoscaler.Serves = record.AutoscaledBlueGreen, &minute, true
			}, record.AutoscaledBlueGreen, true,
			"for 1m only idle ones are removed; then at most 20 nodes are drained at a time",
		},
		"a group whose nodes end by themselves": {
			func(_ *upgrade.Settings, g *nodegroup.Group) {
				g.Managed.Rollout = nodegroup.Rollout{Strategy: "short-lived"}
			}, record.ShortLived, false,
			"no node is fenced, drained or removed",
		},
	} {
		group, settings := blueGroup(), upgrade.Settings{BootTimeout: time.Minute}
		c.change(&settings, group)
		req, err := settings.ResolveRequest(group, 10, 9)
		if err != nil || req.Strategy != record.Delegated || req.ReplacedBy() != c.strategy || req.SetsRollout != c.sets {
			t.Errorf("%s: %+v, %v", name, req, err)
		}
		if got := upgrade.DescribeRequest(&req, "gke"); !strings.Contains(got, c.text) {
			t.Errorf("%s: %s", name, got)
		}
	}
	for want, change := range map[string]func(*upgrade.Settings, *nodegroup.Group){
		"upgrades group \"workers\" with its strategy blue-green, which has neither": func(s *upgrade.Settings, _ *nodegroup.Group) { s.MaxSurge = &two },
		"GKE is upgrading group \"workers\" already, and keeps the settings": func(s *upgrade.Settings, g *nodegroup.Group) {
			s.Strategy, s.Soak = record.BlueGreen, &week
			g.Managed.Operation = nodegroup.Operation{ID: "u1", State: nodegroup.OperationRunning, To: g.Wanted}
		},
		"its own rules": func(s *upgrade.Settings, _ *nodegroup.Group) { s.DrainTimeout = &minute },
		"the autoscaler of group \"workers\" is off":                      func(s *upgrade.Settings, _ *nodegroup.Group) { s.Strategy = record.AutoscaledBlueGreen },
		"GKE has this strategy only for groups that were created with it": func(s *upgrade.Settings, _ *nodegroup.Group) { s.Strategy = record.ShortLived },
		"--strategy: GKE upgrades group \"workers\" itself": func(s *upgrade.Settings, g *nodegroup.Group) {
			s.Strategy, g.Managed.TakesRollout = record.Surge, false
		},
		"--batch, --batch-soak and --soak: only --strategy=blue-green has":   func(s *upgrade.Settings, _ *nodegroup.Group) { s.Soak = &minute },
		"--max-surge, --max-unavailable and --batch-barrier: --strategy=blu": func(s *upgrade.Settings, _ *nodegroup.Group) { s.Strategy, s.MaxSurge = record.BlueGreen, &two },
	} {
		group, settings := blueGroup(), upgrade.Settings{BootTimeout: time.Minute}
		change(&settings, group)
		_, err := settings.ResolveRequest(group, 10, 9)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got the error %v, want %q", err, want)
		}
	}
}

// followingBlue returns a scene in which another cloud carries out a blue-green upgrade of two nodes.
func followingBlue(t *testing.T) *scene {
	s := newScene(t, old("old-a-1"), old("old-a-2"))
	s.Group.Managed, s.Group.Provider = blueGroup().Managed, "gke"
	req, err := upgrade.Settings{BootTimeout: time.Minute, Strategy: record.BlueGreen, Batch: &nodegroup.Quantity{N: 1}}.ResolveRequest(&s.Group, 2, 2)
	if err != nil {
		t.Fatal(err)
	}
	req.Run = s.Request.Run
	s.Request = req
	step := s.next()
	if got := step.Actions[0].(nodegroup.Delegate).Rollout; got.Strategy != "blue-green" || got.Batch.N != 1 || got.Soak != time.Hour {
		t.Errorf("asked for %+v", got)
	}
	if step.Record.Version != record.RolloutVersion {
		t.Errorf("a record of version %d: older programs would forget the strategy", step.Record.Version)
	}
	s.showsBlue(nodegroup.OperationRunning, time.Time{})
	if step = s.next(); step.Record.Delegation.ID != "u1" || step.Record.Phase != record.PhaseFollow {
		t.Fatalf("not followed: %+v", step.Record)
	}
	return s
}

// showsBlue makes the cloud show its operation u1, with the end of its soak.
func (s *scene) showsBlue(state nodegroup.OperationState, soaksUntil time.Time) {
	s.Group.Managed = blueGroup().Managed
	s.Group.Managed.Operation = nodegroup.Operation{ID: "u1", State: state, To: s.Group.Wanted, Kind: "UPGRADE_NODES", SoaksUntil: soaksUntil, Soaks: !soaksUntil.IsZero()}
	s.pass(time.Second)
}

// soakingBlue returns a scene in which the cloud has drained both nodes and keeps them for an hour. The process that followed has
// ended.
func soakingBlue(t *testing.T) *scene {
	s := followingBlue(t)
	for _, name := range []string{"old-a-1", "old-a-2"} {
		s.mark(name, func(n *corev1.Node) { n.Spec.Unschedulable = true })
	}
	s.showsBlue(nodegroup.OperationRunning, s.Now.Add(time.Hour))
	step := s.next()
	if !step.Finished {
		step = s.next()
	}
	if rec := step.Record; rec.Result != record.Waiting || rec.Phase != record.PhaseSoak || !strings.HasPrefix(rec.Message, "the drained nodes are kept until ") || !rec.Soak.Until.Equal(s.Group.Managed.Operation.SoaksUntil) {
		t.Fatalf("%s in phase %q: %s", rec.Result, rec.Phase, rec.Message)
	}
	if len(step.Status.Nodes) != 2 || step.Status.Nodes[0].State != record.NodeParked {
		t.Errorf("the nodes are shown as %+v", step.Status.Nodes)
	}
	return s
}

// TestProcessEndsInSoakOfCloud: the cloud goes on alone (GKE G49), and the same command sees how it ended.
func TestProcessEndsInSoakOfCloud(t *testing.T) {
	s := soakingBlue(t)
	s.again()
	if step := s.next(); !step.Finished || step.Record.Result != record.Waiting {
		t.Errorf("again during the soak: %q", step.Record.Result)
	}
	s.again()
	s.remove("old-a-1")
	s.remove("old-a-2")
	s.showsBlue(nodegroup.OperationSucceeded, time.Time{})
	if step := s.next(); step.Record.Result != record.Succeeded && s.next().Record.Result != record.Succeeded {
		t.Errorf("after the soak: %s: %s", s.Record.Result, s.Record.Message)
	}
}

// TestCloudEndsItsSoakOnRequest (GKE G52): the request is sent once, and the phase after the soak cannot be stopped (GKE G53).
func TestCloudEndsItsSoakOnRequest(t *testing.T) {
	s := soakingBlue(t)
	until := s.Record.Soak.Until
	s.again()
	s.ask(record.VerbComplete)
	step := s.next()
	if got := actionsOf(step, "end the soak of the cloud's operation u1"); len(got) != 1 || step.Finished {
		t.Fatalf("%v, finished %t", step.Actions, step.Finished)
	}
	s.answer(nodegroup.EndSoak{Operation: "u1"}, nodegroup.OutcomeDone, "")
	if step = s.next(); len(step.Actions) > 0 || step.Finished {
		t.Errorf("asked again before a new reading: %v", step.Actions)
	}
	s.Asked = record.Asked{}
	s.pass(time.Minute)
	s.showsBlue(nodegroup.OperationRunning, until)
	if step = s.next(); len(actionsOf(step, "end the soak of the cloud's operation u1")) != 1 {
		t.Errorf("a new reading shows the soak, and the request is not sent again: %v", step.Actions)
	}
	s.showsBlue(nodegroup.OperationRunning, time.Time{})
	if step = s.next(); step.Record.Phase != record.PhaseSoak || upgrade.Allows(&s.Record, record.VerbRollback) != nil {
		t.Errorf("after a reading from before the soak: phase %q", step.Record.Phase)
	}
	s.Group.Managed.Operation.Deletes = true
	if step = s.next(); step.Record.Phase != record.PhaseDeleteBlue {
		t.Errorf("phase %q", step.Record.Phase)
	}
	for _, verb := range []record.Verb{record.VerbPause, record.VerbRollback, record.VerbComplete} {
		if upgrade.Allows(&s.Record, verb) == nil {
			t.Errorf("%s is allowed while the cloud deletes the old nodes", verb)
		}
	}
}

// TestObeyedRequestDoesNotEndTheNextSoak: the request stays stored. If the operation is cancelled and another one begins, a user must
// ask again.
func TestObeyedRequestDoesNotEndTheNextSoak(t *testing.T) {
	s := soakingBlue(t)
	s.again()
	s.ask(record.VerbComplete)
	s.next()
	s.pass(time.Minute)
	s.showsBlue(nodegroup.OperationCancelled, time.Time{})
	s.next()
	if s.Record.Result == "" {
		s.next()
	}
	s.again()
	s.next()
	s.showsBlue(nodegroup.OperationRunning, s.Now.Add(time.Hour))
	s.Group.Managed.Operation.ID, s.Group.Managed.Operation.Began = "u2", s.Now
	for range 3 {
		s.pass(time.Minute)
		step := s.next()
		if len(actionsOf(step, "end the soak of the cloud's operation u2")) > 0 || step.Record.Delegation.Completing != "" {
			t.Fatalf("the old request ends the new soak: %v", step.Actions)
		}
		s.again()
	}
	if s.Record.Phase != record.PhaseSoak || s.Record.Delegation.ID != "u2" {
		t.Errorf("phase %q of operation %q", s.Record.Phase, s.Record.Delegation.ID)
	}
	s.pass(time.Minute)
	s.ask(record.VerbComplete)
	if step := s.next(); len(actionsOf(step, "end the soak of the cloud's operation u2")) != 1 {
		t.Errorf("a new request is not obeyed: %v", step.Actions)
	}
}

// TestRefusedEndOfSoakIsTold: the soak continues. The user who asked for its end sees why, and can ask again with the missing right.
func TestRefusedEndOfSoakIsTold(t *testing.T) {
	s := soakingBlue(t)
	s.again()
	s.ask(record.VerbComplete)
	s.next()
	s.answer(nodegroup.EndSoak{Operation: "u1"}, nodegroup.OutcomeFatal, "you may not")
	if step := s.next(); step.Record.Result != record.Waiting || !strings.Contains(step.Record.Message, "GKE refuses to end the soak of upgrade u1: you may not; the drained nodes are kept until 2026-") {
		t.Errorf("%s: %s", step.Record.Result, step.Record.Message)
	}
	s.Asked = record.Asked{}
	s.Record = s.Record.AsCompleting(s.Now)
	s.again()
	s.pass(time.Minute)
	if step := s.next(); len(actionsOf(step, "end the soak of the cloud's operation u1")) != 1 {
		t.Errorf("asked again: %v in phase %q", step.Actions, step.Record.Phase)
	}
}

// TestPauseInSoakCancelsTheOperation: both kinds of nodes stay (GKE G54).
func TestPauseInSoakCancelsTheOperation(t *testing.T) {
	s := soakingBlue(t)
	s.again()
	s.ask(record.VerbPause)
	if step := s.next(); len(actionsOf(step, "cancel the cloud's operation u1")) != 1 || step.Finished {
		t.Fatalf("%v, finished %t", step.Actions, step.Finished)
	}
	s.showsBlue(nodegroup.OperationCancelled, time.Time{})
	s.next()
	if step := s.next(); step.Record.Result != record.Paused || !step.Record.Soak.Until.IsZero() {
		t.Errorf("%s: %s, soaks until %s", step.Record.Result, step.Record.Message, step.Record.Soak.Until)
	}
}

// TestCloudNamesOnlyBlockersOfBatch: all outdated nodes are cordoned, but only the pods of the batch keep the cloud waiting.
func TestCloudNamesOnlyBlockersOfBatch(t *testing.T) {
	s := followingBlue(t)
	for _, name := range []string{"old-a-1", "old-a-2"} {
		s.at(name).Pods = append(s.at(name).Pods, build.Pod("web-"+name, build.App("web")), build.Pod("job-"+name, build.App("job")))
		s.mark(name, func(n *corev1.Node) { n.Spec.Unschedulable = true })
	}
	s.budgets(build.Budget("web", build.Counts(2, 2, 2)))
	s.pass(time.Second)
	s.next()
	s.at("old-a-1").Pods = s.at("old-a-1").Pods[:1]
	s.pass(time.Second)
	step := s.next()
	if len(step.Blocked) != 1 || step.Blocked[0].Node != "old-a-1" || step.Blocked[0].Until.IsZero() {
		t.Errorf("blocked: %+v", step.Blocked)
	}
	s.empty("old-a-1")
	s.pass(time.Second)
	if step = s.next(); len(step.Record.Delegation.Draining) > 0 || len(step.Blocked) == 0 || step.Blocked[0].Node != "old-a-2" {
		t.Errorf("drains %v, blocked: %+v", step.Record.Delegation.Draining, step.Blocked)
	}
}

// TestNodesOfShortLivedGroupEndByThemselves (GKE G90): after the cloud's operation, which drains nothing, the nodes are listed.
func TestNodesOfShortLivedGroupEndByThemselves(t *testing.T) {
	s := followingBlue(t)
	s.Record.Request.CloudStrategy = record.ShortLived
	s.showsBlue(nodegroup.OperationSucceeded, time.Time{})
	step := s.next()
	if !step.Finished {
		step = s.next()
	}
	if step.Record.Result != record.Waiting || step.Record.Phase != record.PhaseExpire || !strings.Contains(step.Record.Message, "2 of 2 nodes are left (old-a-1, old-a-2); they end on their own until ") {
		t.Fatalf("%s in phase %q: %s", step.Record.Result, step.Record.Phase, step.Record.Message)
	}
	s.again()
	s.remove("old-a-1")
	s.remove("old-a-2")
	if step := s.next(); step.Record.Result != record.Succeeded && s.next().Record.Result != record.Succeeded {
		t.Errorf("at the end: %s: %s", s.Record.Result, s.Record.Message)
	}
}

// TestStrategyOfCloudCannotChangeMidway: the cloud has added and cordoned nodes for the strategy that it was asked for.
func TestStrategyOfCloudCannotChangeMidway(t *testing.T) {
	s := followingBlue(t)
	wished := s.Record.Request
	wished.CloudStrategy = ""
	again := s.Record.Request.WithSettings(wished, func(flag string) bool { return flag == "strategy" })
	checkError(t, s.Record.CheckReplan(&again, false), "it was started with --strategy=blue-green, which cannot change: remove --strategy, or run kubectl nodeupgrade abort workers first")
	again = s.Record.Request.WithSettings(wished, func(string) bool { return false })
	checkError(t, s.Record.CheckReplan(&again, false), "")
	wished = s.Record.Request
	wished.BlueGreen = &record.BlueGreenRequest{Batch: 1, Soak: record.Duration{Duration: 24 * time.Hour}}
	again = s.Record.Request.WithSettings(wished, func(flag string) bool { return flag == "soak" })
	checkError(t, s.Record.CheckReplan(&again, false), "the cloud carries it out with the settings that it was started with: remove --batch, --batch-soak, --soak and --wait-for-drain, or run kubectl nodeupgrade abort workers first")
}

// TestSoakOfCancelledOperationIsNotEnded: a user who cancels wants to keep the old nodes. A pause withdraws the request, too.
func TestSoakOfCancelledOperationIsNotEnded(t *testing.T) {
	s := soakingBlue(t)
	s.again()
	s.ask(record.VerbComplete)
	s.Group.Managed.Operation.Cancelling = true
	if step := s.next(); len(step.Actions) > 0 {
		t.Errorf("while the operation is being cancelled: %v", step.Actions)
	}
	s.again()
	s.ask(record.VerbPause)
	s.Group.Managed.Operation.Cancelling = false
	if step := s.next(); len(actionsOf(step, "cancel the cloud's operation u1")) != 1 || step.Record.Delegation.Completing != "" {
		t.Errorf("after a pause: %v, completing %q", step.Actions, step.Record.Delegation.Completing)
	}
}

// TestSoakWithoutKnownEndIsFollowed: if the cloud does not say when the soak ends, the process keeps running, and users can still end
// the soak.
func TestSoakWithoutKnownEndIsFollowed(t *testing.T) {
	s := followingBlue(t)
	s.showsBlue(nodegroup.OperationRunning, time.Time{})
	s.Group.Managed.Operation.Soaks = true
	s.next()
	if step := s.next(); step.Finished || step.Record.Phase != record.PhaseSoak || upgrade.Allows(&s.Record, record.VerbComplete) != nil {
		t.Errorf("finished %t, phase %q", step.Finished, step.Record.Phase)
	}
}

// TestSameCommandContinuesAfterSoak: when the old nodes are gone, the same percentage is another number of nodes.
func TestSameCommandContinuesAfterSoak(t *testing.T) {
	s := soakingBlue(t)
	quarter := nodegroup.Quantity{N: 25, Percent: true}
	settings := upgrade.Settings{BootTimeout: time.Minute, Strategy: record.BlueGreen, Batch: &quarter}
	first, err := settings.ResolveRequest(blueGroup(), 8, 8)
	if err != nil {
		t.Fatal(err)
	}
	again, err := settings.ResolveRequest(blueGroup(), 8, 0)
	if err != nil || first.BlueGreen.Batch != 2 || again.BlueGreen.Batch != 1 {
		t.Fatalf("%+v, then %+v: %v", first.BlueGreen, again.BlueGreen, err)
	}
	s.Record.Request = first
	typed := first.WithSettings(again, func(flag string) bool { return flag == "strategy" || flag == "batch" })
	checkError(t, s.Record.CheckReplan(&typed, false), "")
	if changed := first.DescribeDifferences(typed); changed != "" {
		t.Errorf("the same command is said to change %s", changed)
	}
	half := nodegroup.Quantity{N: 50, Percent: true}
	settings.Batch = &half
	if again, err = settings.ResolveRequest(blueGroup(), 8, 8); err != nil {
		t.Fatal(err)
	}
	typed = first.WithSettings(again, func(flag string) bool { return flag == "batch" })
	if s.Record.CheckReplan(&typed, false) == nil {
		t.Error("another percentage is not refused")
	}
}

// TestSoakOfRollbackIsNotCompleted: a rollback that the cloud carries out as an upgrade may soak, and the command complete refuses to
// end it.
func TestSoakOfRollbackIsNotCompleted(t *testing.T) {
	s := soakingBlue(t)
	s.Record.Rollback = true
	if upgrade.Allows(&s.Record, record.VerbComplete) == nil {
		t.Error("complete is allowed")
	}
}
