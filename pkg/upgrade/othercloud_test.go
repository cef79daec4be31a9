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

// otherManaged returns the properties of a made-up cloud that differs from EKS in every property.
func otherManaged() *nodegroup.Managed {
	return &nodegroup.Managed{
		MaxUnavailable: nodegroup.Quantity{}, MaxSurge: nodegroup.Quantity{N: 1}, TakesWidth: true,
		DrainTimeout: time.Hour, Settle: 0, DeletesRest: true, Cancels: true,
	}
}

// TestRequestUsesNumbersAndLimitsOfCloud: the width comes from the user if the cloud takes one.
func TestRequestUsesNumbersAndLimitsOfCloud(t *testing.T) {
	group := nodegroup.Group{Name: "workers", Provider: "othercloud", Zones: []string{"a", "b"}, Can: nodegroup.FullControl(), Managed: otherManaged()}
	req, err := upgrade.Settings{BootTimeout: time.Minute}.ResolveRequest(&group, 10, 9)
	if err != nil || req.MaxUnavailable != 0 || req.Surge != 1 || req.Window != 1 || req.DrainTimeout.Duration != time.Hour || req.OnTimeout != record.Force {
		t.Errorf("%+v, %v", req, err)
	}
	three := nodegroup.Quantity{N: 3}
	req, err = upgrade.Settings{BootTimeout: time.Minute, MaxUnavailable: &three, MaxSurge: &nodegroup.Quantity{}}.ResolveRequest(&group, 10, 9)
	if err != nil || req.MaxUnavailable != 3 || req.Surge != 0 {
		t.Errorf("with a width: %+v, %v", req, err)
	}
	if got := upgrade.DescribeRequest(&req, "othercloud"); got != "the cloud upgrades the group itself: at most 3 unavailable; 1h to drain a node, then its pods are deleted even against their budgets" {
		t.Error(got)
	}
	req, err = upgrade.Settings{BootTimeout: time.Minute, MaxUnavailable: &three, MaxSurge: &nodegroup.Quantity{N: 30}}.ResolveRequest(&group, 40, 40)
	if err != nil || req.Window != record.MaxSurgeWindow { // GKE G12
		t.Errorf("with a wide surge: %+v, %v", req, err)
	}
	if got := upgrade.DescribeRequest(&req, "gke"); !strings.HasPrefix(got, "GKE upgrades the group itself: at most 20 at a time (max surge 30, max unavailable 3); 1h to drain") {
		t.Error(got)
	}
	_, err = upgrade.Settings{BootTimeout: time.Minute, OnTimeout: record.Fail}.ResolveRequest(&group, 10, 9)
	checkError(t, err, `--on-timeout=fail: the cloud upgrades group "workers" itself, with its own rules: remove the flag`)
}

// followingOther returns a scene whose operation u1 another cloud carries out.
func followingOther(t *testing.T) *scene {
	s := newScene(t, old("old-a-1"), old("old-a-2"))
	s.Group.Managed, s.Group.Provider = otherManaged(), "othercloud"
	s.Request.Strategy, s.Request.OnTimeout, s.Request.MaxUnavailable, s.Request.Surge = record.Delegated, record.Force, 2, 1
	step := s.next()
	if width := step.Actions[0].(nodegroup.Delegate).Width; width != (nodegroup.Width{MaxUnavailable: 2, MaxSurge: 1}) {
		t.Errorf("asked for the width %+v", width)
	}
	if step.Record.Version != record.DelegationVersion {
		t.Errorf("a record of version %d: older programs would forget what the cloud can do", step.Record.Version)
	}
	s.shows(nodegroup.OperationRunning)
	if step = s.next(); step.Record.Delegation.ID != "u1" {
		t.Fatalf("not followed: %+v", step.Record)
	}
	return s
}

// shows makes the other cloud show its operation u1 in the state.
func (s *scene) shows(state nodegroup.OperationState) {
	managed := otherManaged()
	managed.Operation = nodegroup.Operation{ID: "u1", State: state, To: s.Group.Wanted, Kind: "UPGRADE_NODES"}
	s.Group.Managed = managed
	s.pass(time.Second)
}

// TestRequestHasEtagOfReading: a cloud without tokens refuses a request that rests on an older reading.
func TestRequestHasEtagOfReading(t *testing.T) {
	s := newScene(t, old("old-a-1"))
	s.Group.Managed, s.Group.Provider = otherManaged(), "othercloud"
	s.Request.Strategy, s.Request.OnTimeout, s.Request.MaxUnavailable, s.Request.Surge = record.Delegated, record.Force, 2, 1
	for _, etag := range []string{"e1", "e2"} {
		s.Group.Managed.Etag = etag
		if got := s.next().Actions[0].(nodegroup.Delegate); got.Etag != etag || got.Token != "r1-force-2-1-1" {
			t.Errorf("%+v, want the etag %s and the same token", got, etag)
		}
	}
}

// TestStageOfCloudIsShown: what the cloud itself reports stands behind what the nodes show.
func TestStageOfCloudIsShown(t *testing.T) {
	s := followingOther(t)
	s.shows(nodegroup.OperationRunning)
	s.Group.Managed.Operation.Stage = "1 of 2 nodes done"
	if step := s.next(); step.Status.Waiting != "the cloud to replace the next nodes (1 of 2 nodes done)" {
		t.Error(step.Status.Waiting)
	}
}

// TestPauseCancelsTheOperation: the cloud cancels its operation for a pause. Another operation begins when the upgrade
// continues.
func TestPauseCancelsTheOperation(t *testing.T) {
	s := followingOther(t)
	s.Asked = record.Asked{Verb: record.VerbPause, Run: s.Record.Run, By: "alice"}
	step := s.next()
	if got := actionsOf(step, "cancel the cloud's operation u1"); len(got) != 1 || !step.Persist || step.Finished {
		t.Fatalf("%v, stored first: %t", step.Actions, step.Persist)
	}
	s.shows(nodegroup.OperationCancelled)
	s.next()
	if step = s.next(); !step.Finished || step.Record.Result != record.Paused || step.Record.PausedBy != "alice" {
		t.Fatalf("finished %t, %s: %s", step.Finished, step.Record.Result, step.Record.Message)
	}
	s.Asked = record.Asked{}
	s.again()
	if step = s.next(); delegateToken(step) != "r1-force-2-1-2" {
		t.Errorf("again: %v", step.Actions)
	}
}

// TestWithdrawnPauseRestartsCancelledOperation: after an operation was cancelled for a pause that was withdrawn since, another one begins.
func TestWithdrawnPauseRestartsCancelledOperation(t *testing.T) {
	s := followingOther(t)
	s.Asked = record.Asked{Verb: record.VerbPause, Run: s.Record.Run, By: "alice"}
	s.next()
	s.Asked = record.Asked{}
	s.shows(nodegroup.OperationCancelled)
	s.next()
	if step := s.next(); delegateToken(step) != "r1-force-2-1-2" || step.Record.Stopping != "" {
		t.Errorf("%v, stopping %q", step.Actions, step.Record.Stopping)
	}
}

// TestPauseWaitsUntilNoOperationCanBegin: a pause takes effect when it is certain that no operation began. Until then no request is
// sent.
func TestPauseWaitsUntilNoOperationCanBegin(t *testing.T) {
	begun := nodegroup.Delegate{To: revisionOf("2"), Force: true, Width: nodegroup.Width{MaxUnavailable: 2, MaxSurge: 1}, Token: "r1-force-2-1-1"}
	cases := map[string]func(*scene){
		"nothing was sent":   func(*scene) {},
		"an answer was lost": func(s *scene) { s.answer(begun, nodegroup.OutcomeUnclear, "timeout") },
		"an answer was lost, then not": func(s *scene) {
			s.answer(begun, nodegroup.OutcomeUnclear, "timeout")
			s.answer(begun, nodegroup.OutcomeLater, "throttled")
		},
		"there is no quota": func(s *scene) { s.answer(begun, nodegroup.OutcomeExhausted, "quota") },
	}
	for name, befalls := range cases {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, old("old-a-1"))
			s.Group.Managed, s.Group.Provider = otherManaged(), "othercloud"
			s.Request.Strategy, s.Request.OnTimeout, s.Request.MaxUnavailable, s.Request.Surge = record.Delegated, record.Force, 2, 1
			s.next()
			befalls(s)
			s.Asked = record.Asked{Verb: record.VerbPause, Run: s.Record.Run, By: "alice"}
			if step := s.next(); step.Record.Stopping != "" || delegateToken(step) != "" {
				t.Fatalf("stopping %q, %v", step.Record.Stopping, step.Actions)
			}
			s.pass(time.Minute)
			s.Group.Observed = s.Now
			s.next()
			if step := s.next(); !step.Finished || step.Record.Result != record.Paused {
				t.Errorf("finished %t, %s: %s", step.Finished, step.Record.Result, step.Record.Message)
			}
		})
	}
}

// TestRefusedOrLatePauseDoesNotStopUpgrade: an upgrade whose nodes are all replaced is not paused. A cancellation that is refused
// permanently does not stop the upgrade.
func TestRefusedOrLatePauseDoesNotStopUpgrade(t *testing.T) {
	s := followingOther(t)
	s.Asked = record.Asked{Verb: record.VerbPause, Run: s.Record.Run, By: "alice"}
	s.next()
	s.answer(nodegroup.CancelOperation{Operation: "u1"}, nodegroup.OutcomeFatal, "you may not")
	if step := s.next(); step.Record.Stopping != "" || !strings.Contains(step.Status.Waiting, "does not cancel: you may not") {
		t.Errorf("stopping %q: %s", step.Record.Stopping, step.Status.Waiting)
	}
	s.remove("old-a-1")
	s.remove("old-a-2")
	s.shows(nodegroup.OperationCancelled)
	s.next()
	if step := s.next(); step.Record.Result != record.Succeeded {
		t.Errorf("%s: %s", step.Record.Result, step.Record.Message)
	}
}

// TestCancellationByAnotherUserIsDetected: after the upgrade's cancellation had no effect, a later one counts as another user's.
func TestCancellationByAnotherUserIsDetected(t *testing.T) {
	s := followingOther(t)
	s.Asked = record.Asked{Verb: record.VerbPause, Run: s.Record.Run, By: "alice"}
	s.next()
	s.answer(nodegroup.CancelOperation{Operation: "u1"}, nodegroup.OutcomeLater, "throttled")
	s.Asked = record.Asked{}
	s.next()
	s.shows(nodegroup.OperationCancelled)
	s.next()
	if step := s.next(); step.Record.Result != record.Paused || !strings.Contains(step.Record.Message, "run the command again") {
		t.Errorf("%s: %s", step.Record.Result, step.Record.Message)
	}
}

// rollingBack returns a scene in which a rollback of the running operation u1 has begun. One of two nodes has been replaced.
func rollingBack(t *testing.T) *scene {
	s := followingOther(t)
	s.Group.Managed.RollsBack, s.Record.Delegation.RollsBack = true, true
	checkError(t, upgrade.Allows(&s.Record, record.VerbRollback), "")
	s.Record.Previous = revisionOf("1")
	s.Record = upgrade.AsRollback(&s.Record, revisionOf("1"), s.Now)
	s.Group.Wanted, s.Request = revisionOf("1"), s.Record.Request
	return s
}

// showsRolling makes the other cloud show its operation u1 to revision 2 in the state.
func (s *scene) showsRolling(id string, state nodegroup.OperationState, to string) {
	s.shows(state)
	s.Group.Managed.RollsBack = true
	s.Group.Managed.Operation.ID, s.Group.Managed.Operation.To = id, revisionOf(to)
}

// TestRollbackCancelsOperationAndThenStartsRollback: a cloud takes back only an operation that has ended.
func TestRollbackCancelsOperationAndThenStartsRollback(t *testing.T) {
	s := rollingBack(t)
	s.showsRolling("u1", nodegroup.OperationRunning, "2")
	step := s.next()
	if got := actionsOf(step, "cancel the cloud's operation u1"); len(got) != 1 || len(step.Actions) != 1 {
		t.Fatalf("%v", step.Actions)
	}
	s.showsRolling("u1", nodegroup.OperationCancelled, "2")
	step = s.next()
	started := step.Actions[0].(nodegroup.Delegate)
	if !started.Rollback || started.To.ID != revisionOf("1").ID || started.Token != "r1-force-2-1-2" {
		t.Fatalf("%+v", started)
	}
	s.showsRolling("u2", nodegroup.OperationRunning, "1")
	s.next()
	s.remove("old-a-1")
	s.remove("old-a-2")
	s.showsRolling("u2", nodegroup.OperationSucceeded, "1")
	s.next()
	if step = s.next(); step.Record.Result != record.Succeeded || !strings.Contains(step.Record.Message, "rolled back to ") {
		t.Errorf("%s: %s", step.Record.Result, step.Record.Message)
	}
}

// TestFailedRollbackIsNotTakenBack: after the cloud's rollback failed, the group is moved to the older revision by an upgrade, because
// to take the failed rollback back would move it to the newer one.
func TestFailedRollbackIsNotTakenBack(t *testing.T) {
	s := rollingBack(t)
	s.showsRolling("u1", nodegroup.OperationCancelled, "2")
	s.next()
	s.showsRolling("u2", nodegroup.OperationRunning, "1")
	s.next()
	s.showsRolling("u2", nodegroup.OperationFailed, "1")
	s.next()
	if s.Record.Result == "" {
		s.next()
	}
	s.again()
	step := s.next()
	if len(step.Actions) == 0 {
		step = s.next()
	}
	if started := step.Actions[0].(nodegroup.Delegate); started.Rollback || started.To.ID != revisionOf("1").ID {
		t.Errorf("%+v", started)
	}
}

// TestAnsweredCancellationIsNotRepeatedBeforeNewReading: readings may lag behind the answer, for a pause and for a rollback.
func TestAnsweredCancellationIsNotRepeatedBeforeNewReading(t *testing.T) {
	paused := followingOther(t)
	paused.Asked = record.Asked{Verb: record.VerbPause, Run: paused.Record.Run, By: "alice"}
	back := rollingBack(t)
	back.showsRolling("u1", nodegroup.OperationRunning, "2")
	for name, s := range map[string]*scene{"pause": paused, "rollback": back} {
		cancel := nodegroup.CancelOperation{Operation: "u1"}
		if step := s.next(); len(actionsOf(step, cancel.String())) != 1 {
			t.Fatalf("%s: %v", name, step.Actions)
		}
		for _, outcome := range []nodegroup.Outcome{nodegroup.OutcomeDone, nodegroup.OutcomeMoved} {
			s.answer(cancel, outcome, "it is over")
			if step := s.next(); len(step.Actions) > 0 {
				t.Errorf("%s: asked again after %q: %v", name, outcome, step.Actions)
			}
		}
		s.pass(time.Minute)
		s.Group.Observed = s.Now
		if step := s.next(); len(actionsOf(step, cancel.String())) != 1 {
			t.Errorf("%s: not asked again after a new reading: %v", name, step.Actions)
		}
	}
}

// TestRollbackToAnotherRevisionIsAnUpgrade: the cloud goes back only to the revision that the group had before.
func TestRollbackToAnotherRevisionIsAnUpgrade(t *testing.T) {
	s := rollingBack(t)
	s.Record.Target, s.Group.Wanted = revisionOf("0"), revisionOf("0")
	s.showsRolling("u1", nodegroup.OperationCancelled, "2")
	if started := s.next().Actions[0].(nodegroup.Delegate); started.Rollback || started.To.ID != revisionOf("0").ID {
		t.Errorf("%+v", started)
	}
}

// TestRollbackStopsIfCancellationIsRefused: it also leaves an operation to another revision alone.
func TestRollbackStopsIfCancellationIsRefused(t *testing.T) {
	s := rollingBack(t)
	s.showsRolling("u1", nodegroup.OperationRunning, "2")
	s.next()
	s.answer(nodegroup.CancelOperation{Operation: "u1"}, nodegroup.OutcomeFatal, "you may not")
	s.next()
	if step := s.next(); step.Record.Result != record.Paused || !strings.Contains(step.Record.Message, "which it does not cancel: you may not") {
		t.Errorf("%s: %s", step.Record.Result, step.Record.Message)
	}
	s = rollingBack(t)
	s.showsRolling("u9", nodegroup.OperationRunning, "3")
	s.next()
	if step := s.next(); step.Record.Result != record.Paused || len(step.Actions) > 0 || !strings.Contains(step.Record.Message, "which another process started") {
		t.Errorf("%s: %s, %v", step.Record.Result, step.Record.Message, step.Actions)
	}
}

// TestPauseOfEKSUpdateIsRefused: EKS cannot cancel an update, so the command pause ends with an error (containers-roadmap#1531).
func TestPauseOfEKSUpdateIsRefused(t *testing.T) {
	s := following(t, old("old-a-1"))
	err := upgrade.Allows(&s.Record, record.VerbPause)
	checkError(t, err, "EKS cannot pause an update: it runs until it has finished, or until a node cannot be drained")
}

// TestOtherCloudNamesPodsOfNodesThatItAddsFirst: a cloud that only adds nodes first drains nodes although none may be unavailable. Its
// budgets may prevent the first eviction (GKE G10, G15).
func TestOtherCloudNamesPodsOfNodesThatItAddsFirst(t *testing.T) {
	s := followingOther(t)
	for _, r := range []*record.Request{&s.Request, &s.Record.Request} {
		r.MaxUnavailable, r.Surge, r.Window = 0, 1, 1
	}
	s.at("old-a-1").Pods = append(s.at("old-a-1").Pods, build.Pod("web-1", build.App("web")))
	s.budgets(build.Budget("web", build.Counts(1, 1, 1)))
	s.mark("old-a-1", func(n *corev1.Node) { n.Spec.Unschedulable = true })
	s.pass(time.Second)
	if step := s.next(); len(step.Blocked) != 1 || step.Blocked[0].Node != "old-a-1" || !step.Blocked[0].Until.IsZero() {
		t.Errorf("blocked: %v", step.Blocked)
	}
}
