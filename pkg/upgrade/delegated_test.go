package upgrade_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/build"
)

// newManagedScene returns a group that its cloud upgrades, before its upgrade.
func newManagedScene(t *testing.T, members ...nodegroup.Member) *scene {
	s := newScene(t, members...)
	s.Group.Managed = managedLikeEKS()
	s.Request.Strategy, s.Request.EvictUnmanaged = record.Delegated, true
	return s
}

// managedLikeEKS returns the properties of an EKS managed node group of the default width.
func managedLikeEKS() *nodegroup.Managed {
	return &nodegroup.Managed{
		MaxUnavailable: nodegroup.Quantity{N: 1}, MaxSurge: nodegroup.Quantity{N: 2, PerZone: true}, SurgeCoversUnavailable: true,
		DrainTimeout: 15 * time.Minute, Settle: time.Minute, DrawsNodes: true, ChangeWidth: "aws eks update-nodegroup-config",
	}
}

// operate sets the group's newest operation as its cloud shows it.
func (s *scene) operate(id string, state nodegroup.OperationState, to nodegroup.Revision) *nodegroup.Operation {
	s.Group.Managed = managedLikeEKS()
	s.Group.Managed.Operation = nodegroup.Operation{ID: id, State: state, To: to, Kind: "VersionUpdate"}
	s.pass(time.Second)
	return &s.Group.Managed.Operation
}

// following returns a scene whose operation u1 is running and followed.
func following(t *testing.T, members ...nodegroup.Member) *scene {
	s := newManagedScene(t, members...)
	s.next()
	s.operate("u1", nodegroup.OperationRunning, s.Group.Wanted)
	if step := s.next(); step.Record.Phase != record.PhaseFollow || step.Record.Delegation.ID != "u1" {
		t.Fatalf("not followed: %+v", step.Record)
	}
	return s
}

// again continues with the same command.
func (s *scene) again() {
	s.Record = s.Record.Reopened()
	s.crash()
}

func delegateToken(step upgrade.Step) string {
	for _, a := range step.Actions {
		if d, ok := a.(nodegroup.Delegate); ok {
			return d.Token
		}
	}
	return ""
}

// TestDelegateStartsCloudUpdateUnlessOneIsRunning checks, for each newest operation of the group, whether the cloud is asked to begin.
func TestDelegateStartsCloudUpdateUnlessOneIsRunning(t *testing.T) {
	older := nodegroup.Revision{ID: "1", Name: "workers:1"}
	cases := map[string]struct {
		newest         nodegroup.Operation
		token, waiting string
		phase          record.Phase
		stops          string
	}{
		"none yet":                      {token: "r1-update-1", waiting: "EKS to start the upgrade", phase: record.PhaseSetup},
		"an older one is over":          {newest: nodegroup.Operation{ID: "u0", State: nodegroup.OperationSucceeded, To: older}, token: "r1-update-1", phase: record.PhaseSetup},
		"an older one to it failed":     {newest: nodegroup.Operation{ID: "u0", State: nodegroup.OperationFailed, To: nodegroup.Revision{ID: "2"}}, token: "r1-update-1", phase: record.PhaseSetup},
		"another actor's to it":         {newest: nodegroup.Operation{ID: "u0", State: nodegroup.OperationRunning, To: nodegroup.Revision{ID: "2"}}, phase: record.PhaseFollow},
		"another actor's to another":    {newest: nodegroup.Operation{ID: "u0", State: nodegroup.OperationRunning, To: older}, phase: record.PhaseSetup, stops: "EKS is running update u0 to workers:1, which another process started"},
		"one of another kind is waited": {newest: nodegroup.Operation{ID: "u0", State: nodegroup.OperationRunning, Kind: "ConfigUpdate"}, waiting: "EKS to finish update u0 (ConfigUpdate)", phase: record.PhaseSetup},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := newManagedScene(t, old("old-a-1"), current("new-a-1"))
			s.Group.Managed.Operation = c.newest
			step := s.next()
			if got := delegateToken(step); got != c.token {
				t.Errorf("token %q, want %q", got, c.token)
			}
			if c.waiting != "" && step.Status.Waiting != c.waiting {
				t.Errorf("waits for %q, want %q", step.Status.Waiting, c.waiting)
			}
			if step.Record.Phase != c.phase || step.Record.Version != 2 || !step.Persist {
				t.Errorf("phase %q, version %d, persist %t", step.Record.Phase, step.Record.Version, step.Persist)
			}
			if c.stops != "" && (step.Record.Stopping != record.Paused || !strings.HasPrefix(step.Record.Message, c.stops)) {
				t.Errorf("stops as %q: %s", step.Record.Stopping, step.Record.Message)
			}
		})
	}
}

// TestDelegateKilledDuringRequestStartsOneUpdate: the process is killed before and after it sends the request.
func TestDelegateKilledDuringRequestStartsOneUpdate(t *testing.T) {
	s := newManagedScene(t, old("old-a-1"))
	first := delegateToken(s.next())
	s.again() // killed before or after the request was sent; nobody knows which
	if got := delegateToken(s.next()); got != first {
		t.Fatalf("token %q, was %q", got, first)
	}
	s.operate("u1", nodegroup.OperationRunning, s.Group.Wanted)
	s.again()
	if step := s.next(); delegateToken(step) != "" || step.Record.Delegation.ID != "u1" {
		t.Errorf("begun again, or not followed: %v, %+v", step.Actions, step.Record.Delegation)
	}
}

// TestDelegateUsesNewTokenIfItsUpdateFailedBeforeItWasSeen: the upgrade's operation began and failed unseen, before another user's. The next
// request uses another token: the cloud would take the same request for a repetition, and begin nothing.
func TestDelegateUsesNewTokenIfItsUpdateFailedBeforeItWasSeen(t *testing.T) {
	s := newManagedScene(t, old("old-a-1"))
	first := s.next()
	s.do(first.Actions...)
	s.operate("u2", nodegroup.OperationSucceeded, nodegroup.Revision{}) // u1 failed, and was not seen
	if got := delegateToken(s.next()); got == "" || got == delegateToken(first) {
		t.Errorf("token %q, was %q", got, delegateToken(first))
	}
}

// TestDelegateRepeatsRequestOnlyAfterNewReading: a request was accepted, or another operation prevented it. It is repeated only
// after a reading that is new enough does not show its operation.
func TestDelegateRepeatsRequestOnlyAfterNewReading(t *testing.T) {
	for _, outcome := range []nodegroup.Outcome{nodegroup.OutcomeDone, nodegroup.OutcomeMoved} {
		s := newManagedScene(t, old("old-a-1"))
		s.answer(s.next().Actions[0], outcome, "")
		s.pass(20 * time.Second)
		if got := delegateToken(s.next()); got != "" {
			t.Errorf("%s: %q is sent again", outcome, got)
		}
		s.pass(20 * time.Second)
		if got := delegateToken(s.next()); got != "r1-update-1" {
			t.Errorf("%s: token %q", outcome, got)
		}
	}
}

// TestDelegatePassesForceToTheCloud checks that --on-timeout=force is passed on (EKS E43).
func TestDelegatePassesForceToTheCloud(t *testing.T) {
	for onTimeout, want := range map[record.OnTimeout]bool{record.Fail: false, record.Force: true} {
		s := newManagedScene(t, old("old-a-1"))
		s.Request.OnTimeout = onTimeout
		i := slices.IndexFunc(s.next().Actions, func(a nodegroup.Action) bool { return a.(nodegroup.Delegate).Force == want })
		if i < 0 {
			t.Errorf("%s: force is not %t", onTimeout, want)
		}
	}
}

// TestDelegateNamesPodsThatTheCloudCannotEvict: the upgrade names the pods that the cloud cannot evict. It names those on all cordoned
// nodes until a drain is seen, then those on draining nodes with the time at which the cloud gives up (EKS E41, E52).
func TestDelegateNamesPodsThatTheCloudCannotEvict(t *testing.T) {
	web := func(name string) *corev1.Pod { return build.Pod(name, build.App("web")) }
	s := following(t, old("old-a-1", web("web-1"), build.Pod("free", build.App("free"))), old("old-b-1", web("web-2")))
	s.budgets(build.Budget("web", build.Counts(2, 2, 2)))
	if step := s.next(); len(step.Blocked) != 0 {
		t.Fatalf("blocked on open nodes: %v", step.Blocked)
	}
	for _, name := range []string{"old-a-1", "old-b-1"} {
		s.mark(name, func(n *corev1.Node) { n.Spec.Unschedulable = true })
	}
	step := s.next()
	if len(step.Blocked) != 2 || !step.Blocked[0].Until.IsZero() {
		t.Fatalf("before a drain is seen: %v", step.Blocked)
	}
	s.at("old-a-1").Pods = s.at("old-a-1").Pods[:1] // the other pod has left
	s.pass(time.Second)
	step = s.next()
	if len(step.Blocked) != 1 || step.Blocked[0].Pod.Name != "web-1" || step.Blocked[0].Budget.Name != "web" || !step.Blocked[0].Until.Equal(s.Now.Add(15*time.Minute)) {
		t.Fatalf("in drain: %+v", step.Blocked)
	}
	if node, _ := step.Status.FindNode("old-a-1"); node.State != record.NodeDraining || node.Pods != 1 {
		t.Errorf("status %+v", node)
	}
	until, since := step.Blocked[0].Until, step.Blocked[0].Since
	s.pass(2 * time.Minute)
	s.next()
	s.crash() // the record outlives the process
	s.pass(time.Minute)
	if step = s.next(); len(step.Blocked) != 1 || !step.Blocked[0].Until.Equal(until) || !step.Blocked[0].Since.Equal(since) {
		t.Errorf("after a crash: %+v, want until %s, since %s", step.Blocked, until, since)
	}
}

// TestDelegateDetectsDrainFromEvictedPods: a node counts as draining if one of its pods was evicted or has gone unseen. It
// does not if a pod completes or is deleted by its controller, or was evicted before the operation began and takes long
// to end (EKS E52).
func TestDelegateDetectsDrainFromEvictedPods(t *testing.T) {
	cases := map[string]struct {
		ends     []func(*corev1.Pod)
		gone     bool
		draining bool
	}{
		"it is evicted":                {ends: []func(*corev1.Pod){build.Evicted(start)}, draining: true},
		"it is evicted and deleted":    {ends: []func(*corev1.Pod){build.Evicted(start), build.Ending(start)}, draining: true},
		"it was evicted before":        {ends: []func(*corev1.Pod){build.Evicted(start.Add(-time.Minute)), build.Ending(start)}},
		"it was, and goes":             {ends: []func(*corev1.Pod){build.Evicted(start.Add(-time.Minute)), build.Ending(start)}, gone: true},
		"it has gone since":            {gone: true, draining: true},
		"it completes":                 {ends: []func(*corev1.Pod){build.Phase(corev1.PodSucceeded)}},
		"it completes and goes":        {ends: []func(*corev1.Pod){build.Phase(corev1.PodSucceeded)}, gone: true},
		"its controller deletes it":    {ends: []func(*corev1.Pod){build.Ending(start)}},
		"it is deleted, and then goes": {ends: []func(*corev1.Pod){build.Ending(start)}, gone: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := following(t, old("old-a-1", build.Pod("job", build.App("job"), build.OwnedBy("Job", "job"))), old("old-b-1", build.Pod("web-1", build.App("web"))))
			s.Group.Managed.Operation.Began = start.Add(time.Millisecond) // the API server writes times in whole seconds
			s.budgets(build.Budget("web", build.Counts(1, 1, 1)))
			for _, name := range []string{"old-a-1", "old-b-1"} {
				s.mark(name, func(n *corev1.Node) { n.Spec.Unschedulable = true })
			}
			s.next()
			pod := s.at("old-a-1").Pods[0].DeepCopy()
			for _, end := range c.ends {
				end(pod)
				s.at("old-a-1").Pods = []*corev1.Pod{pod}
				s.pass(time.Second)
				s.next()
			}
			if c.gone {
				s.at("old-a-1").Pods = nil
			}
			s.pass(time.Second)
			step := s.next()
			if _, draining := step.Record.Delegation.Draining["old-a-1"]; draining != c.draining {
				t.Errorf("in drain: %t, want %t", draining, c.draining)
			}
			if blocked := len(step.Blocked) > 0; blocked == c.draining {
				t.Errorf("what may block the other node: %v", step.Blocked)
			}
		})
	}
}

// TestDelegateNamesPodsThatMayBlockConcurrentDrains: the cloud drains more nodes at once than are seen draining. The upgrade also names the
// pods of nodes that none has left yet (EKS E52).
func TestDelegateNamesPodsThatMayBlockConcurrentDrains(t *testing.T) {
	for width, want := range map[int]int{1: 0, 2: 1} {
		s := following(t, old("old-a-1", build.Pod("free", build.App("free"))), old("old-b-1", build.Pod("web-1", build.App("web"))))
		s.Request.Window, s.Record.Request.Window = width, width
		s.budgets(build.Budget("web", build.Counts(1, 1, 1)))
		for _, name := range []string{"old-a-1", "old-b-1"} {
			s.mark(name, func(n *corev1.Node) { n.Spec.Unschedulable = true })
		}
		s.next()
		s.at("old-a-1").Pods = nil
		s.pass(time.Second)
		if step := s.next(); len(step.Blocked) != want || want > 0 && (step.Blocked[0].Node != "old-b-1" || !step.Blocked[0].Until.IsZero()) {
			t.Errorf("width %d: %v", width, step.Blocked)
		}
	}
}

// TestDelegateRequestsAnotherTarget: a request for another target has a new token, because a cloud refuses the old one.
func TestDelegateRequestsAnotherTarget(t *testing.T) {
	s := newManagedScene(t, old("old-a-1"))
	seen := map[string]bool{delegateToken(s.next()): true}
	s.Group.Wanted = nodegroup.Revision{ID: "3", Name: "workers:3"}
	s.Record = s.Record.Reopened() // the process was killed, and the target moved
	s.Record = s.Record.WithTarget(s.Group.Wanted)
	seen[delegateToken(s.next())] = true
	s.again()
	s.Record.Request.OnTimeout = record.Force
	seen[delegateToken(s.next())] = true
	if len(seen) != 3 || seen[""] {
		t.Errorf("tokens of three requests: %v", seen)
	}
}

// TestDelegateExplainsFailures: the upgrade ends with the cloud's code as its result, and names the pods that the cloud
// does not name (EKS E33, E42, E52). The same command begins another operation.
func TestDelegateExplainsFailures(t *testing.T) {
	cases := map[nodegroup.FailureCause]struct {
		result record.Result
		text   string
	}{
		nodegroup.DrainFailed:  {record.PodEvictionFailure, "update u1 failed: no luck; this blocks it now: pod shop/web-1: PDB shop/web"},
		nodegroup.LaunchFailed: {record.NodeCreationFailure, "update u1 failed: no luck"},
		"":                     {record.Failed, "update u1 failed: no luck"},
	}
	for cause, c := range cases {
		t.Run(string(cause), func(t *testing.T) {
			s := following(t, old("old-a-1", build.Pod("web-1", build.App("web"), build.In("shop"))), current("new-a-1"))
			budget := build.Budget("web", build.Counts(1, 1, 1))
			budget.Namespace = "shop"
			s.budgets(budget)
			op := s.operate("u1", nodegroup.OperationFailed, s.Group.Wanted)
			op.Cause, op.Failure, op.Resources = cause, "no luck", []string{"old-a-1"}
			s.next()
			step := s.next()
			if !step.Finished || step.Record.Result != c.result || !strings.HasPrefix(step.Record.Message, c.text) {
				t.Fatalf("finished %t, %s: %s", step.Finished, step.Record.Result, step.Record.Message)
			}
			s.again()
			if step = s.next(); delegateToken(step) != "r1-update-2" || step.Record.Result != "" {
				t.Errorf("again: %v, %s", step.Actions, step.Record.Result)
			}
			s.operate("u2", nodegroup.OperationRunning, s.Group.Wanted)
			if step = s.next(); step.Record.Delegation.ID != "u2" {
				t.Errorf("again: %+v", step.Record.Delegation)
			}
		})
	}
}

// TestDelegateWaitsForRemovalOfLastOutdatedNodes: the upgrade waits until the last outdated nodes are gone (EKS E49), but not without limit.
func TestDelegateWaitsForRemovalOfLastOutdatedNodes(t *testing.T) {
	s := following(t, old("old-a-1"), current("new-a-1"))
	s.operate("u1", nodegroup.OperationSucceeded, s.Group.Wanted)
	if step := s.next(); step.Finished || step.Status.Waiting != "the last outdated nodes to be removed" {
		t.Fatalf("finished %t, waits for %q", step.Finished, step.Status.Waiting)
	}
	stuck := *s
	stuck.pass(20 * time.Minute)
	stuck.next()
	if step := stuck.next(); step.Record.Result != record.Failed || !strings.Contains(step.Record.Message, "old-a-1 is still outdated") {
		t.Errorf("%s: %s", step.Record.Result, step.Record.Message)
	}
	s.remove("old-a-1")
	if step := s.next(); step.Record.Result != record.Succeeded || step.Record.Replaced != 1 || step.Record.Total != 1 {
		t.Errorf("%s: %s, %d of %d", step.Record.Result, step.Record.Message, step.Record.Replaced, step.Record.Total)
	}
}

// TestDelegateNamesNodesThatGo: a node disappears before its instance, and keeps one name to the end.
func TestDelegateNamesNodesThatGo(t *testing.T) {
	s := following(t, old("old-a-1"), old("old-b-1"), current("new-a-1"))
	s.next()
	s.at("old-b-1").Node = nil
	slices.SortFunc(s.Members, func(a, b nodegroup.Member) int { return strings.Compare(a.Name(), b.Name()) })
	var texts []string
	for _, node := range s.next().Status.Nodes {
		texts = append(texts, node.Name+" "+string(node.State))
	}
	if want := []string{"old-a-1 Pending", "old-b-1 Removing"}; !slices.Equal(texts, want) {
		t.Errorf("%q, want %q", texts, want)
	}
	s.remove("i-old-b-1")
	if step := s.next(); len(step.Status.Nodes) != 1 || step.Status.Replaced != 1 || len(step.Notes.NodeNames) != 1 {
		t.Errorf("%+v, %v", step.Status, step.Notes.NodeNames)
	}
}

// TestDelegateCountsNodesOnce: an instance disappears before its node, for example because pods end slowly. The node is
// gone when both are, and no count decreases. Once the cloud is done, the upgrade waits for a node whose machine is
// gone, but not without limit.
func TestDelegateCountsNodesOnce(t *testing.T) {
	s := following(t, old("old-a-1"), old("old-b-1"), current("new-a-1"))
	s.mark("old-b-1", func(n *corev1.Node) { n.Spec.Unschedulable = true })
	check := func(when string, replaced int, nodes ...string) upgrade.Step {
		t.Helper()
		step := s.next()
		var texts []string
		for _, node := range step.Status.Nodes {
			texts = append(texts, node.Name+" "+string(node.State))
		}
		if !slices.Equal(texts, nodes) || step.Status.Replaced != replaced || step.Status.Total != 2 || len(step.Record.Delegation.Draining) != 0 {
			t.Errorf("%s: %q, %d of %d replaced, in drain %v", when, texts, step.Status.Replaced, step.Status.Total, step.Record.Delegation.Draining)
		}
		return step
	}
	gone := func(name string) {
		s.at(name).Instance.State = nodegroup.InstanceLeaving
		check(name+" is terminated", 0, "old-a-1 Pending", "old-b-1 Removing")
		s.at(name).Instance = nodegroup.Instance{}
	}
	check("at first", 0, "old-a-1 Pending", "old-b-1 Fenced")
	gone("old-b-1")
	check("its machine has gone", 0, "old-a-1 Pending", "old-b-1 Removing")
	s.remove("old-b-1")
	check("both have gone", 1, "old-a-1 Pending")

	s.at("old-a-1").Instance.State = nodegroup.InstanceLeaving
	s.operate("u1", nodegroup.OperationSucceeded, s.Group.Wanted)
	if step := check("the cloud is done", 1, "old-a-1 Removing"); step.Finished || step.Status.Waiting != "the last outdated nodes to be removed" {
		t.Fatalf("finished %t, waits for %q", step.Finished, step.Status.Waiting)
	}
	s.pass(20 * time.Minute)
	if step := s.next(); step.Record.Result != record.Succeeded || step.Record.Replaced != 2 {
		t.Errorf("%s: %s, %d replaced", step.Record.Result, step.Record.Message, step.Record.Replaced)
	}
}

// TestDelegateStopsWhileTheCloudContinues: the upgrade ends while the cloud continues, and says so.
func TestDelegateStopsWhileTheCloudContinues(t *testing.T) {
	s := following(t, old("old-a-1"))
	s.Stop = true
	step := s.next()
	if step.Record.Result != record.Interrupted || step.Record.Message != "EKS continues with update u1" || len(step.Actions) != 0 {
		t.Fatalf("%s: %s, %v", step.Record.Result, step.Record.Message, step.Actions)
	}
	s.Stop = false
	s.again()
	if step = s.next(); step.Record.Phase != record.PhaseFollow || len(step.Actions) != 0 {
		t.Fatalf("again: %q, %v", step.Record.Phase, step.Actions)
	}
	s.Record = s.Record.AsAborting()
	if step = s.next(); step.Record.Result != record.Aborted || !strings.HasSuffix(step.Record.Message, "EKS continues with update u1") || len(step.Actions) != 0 {
		t.Errorf("%s: %s, %v", step.Record.Result, step.Record.Message, step.Actions)
	}
}

// TestDelegateFollowsOtherUpdateWithSameTarget: another operation follows the upgrade's own. The upgrade follows it if it has the same
// target, and stops otherwise.
func TestDelegateFollowsOtherUpdateWithSameTarget(t *testing.T) {
	s := following(t, old("old-a-1"))
	s.operate("u2", nodegroup.OperationRunning, s.Group.Wanted)
	if step := s.next(); step.Record.Delegation.ID != "u2" {
		t.Fatalf("not followed: %+v", step.Record.Delegation)
	}
	s.operate("u3", nodegroup.OperationRunning, nodegroup.Revision{ID: "1", Name: "workers:1"})
	s.next()
	if step := s.next(); step.Record.Result != record.Paused || !strings.Contains(step.Record.Message, "another process started update u3 (workers:1, running)") {
		t.Errorf("%s: %s", step.Record.Result, step.Record.Message)
	}
}

// TestDelegateRefusesPauseAndRollback checks the reason why a verb is refused, and the remedy.
func TestDelegateRefusesPauseAndRollback(t *testing.T) {
	s := following(t, old("old-a-1"))
	checkError(t, upgrade.Allows(&s.Record, record.VerbPause), "EKS cannot pause an update: it runs until it has finished, or until a node cannot be drained")
	checkError(t, upgrade.CheckOffered(&s.Record, record.VerbPause), upgrade.Allows(&s.Record, record.VerbPause).Error())
	if err := upgrade.CheckOffered(&s.Record, record.VerbAbort); err != nil {
		t.Error(err)
	}
	checkError(t, upgrade.Allows(&s.Record, record.VerbRollback), "EKS cannot take a node group back to an older version: create a node group of the older release beside it and move the pods there")
}

// TestDelegateWaitsWhileCloudShowsNoUpdates: the upgrade waits while the cloud does not show its operations.
func TestDelegateWaitsWhileCloudShowsNoUpdates(t *testing.T) {
	s := following(t, old("old-a-1"))
	s.Group.Managed, s.Group.Refusal = nil, "eks:DescribeNodegroup is denied"
	if step := s.next(); step.Finished || step.Status.Waiting != "EKS to report on the group: eks:DescribeNodegroup is denied" {
		t.Errorf("finished %t, waits for %q", step.Finished, step.Status.Waiting)
	}
}

// TestDelegateIgnoresOlderReadings: a reading that is older than the last one used changes nothing.
func TestDelegateIgnoresOlderReadings(t *testing.T) {
	s := following(t, old("old-a-1"))
	s.operate("u1", nodegroup.OperationRunning, s.Group.Wanted).Began = s.Now
	s.next()
	s.operate("u0", nodegroup.OperationFailed, s.Group.Wanted).Began = s.Now.Add(-time.Hour)
	for range 2 {
		if step := s.next(); step.Finished || step.Record.Delegation.ID != "u1" || step.Status.Waiting != "EKS to report its newest update" {
			t.Errorf("%s: %s; waits for %q", step.Record.Result, step.Record.Message, step.Status.Waiting)
		}
	}
}

// TestDelegateJudgesByNodesWhenItsUpdateDisappears: the cloud no longer shows the operation. If all readings of several minutes leave it
// out, the nodes show how it ended. The same command begins another operation.
func TestDelegateJudgesByNodesWhenItsUpdateDisappears(t *testing.T) {
	for name, older := range map[string]nodegroup.Operation{
		"no other":            {},
		"an older one failed": {ID: "u0", State: nodegroup.OperationFailed, To: nodegroup.Revision{ID: "2"}, Began: start.Add(-time.Hour)},
	} {
		t.Run(name, func(t *testing.T) {
			lost := func() *scene {
				s := following(t, old("old-a-1"), old("old-b-1"))
				s.operate("u1", nodegroup.OperationRunning, s.Group.Wanted).Began = s.Now
				s.next()
				s.Group.Managed = &nodegroup.Managed{Operation: older}
				return s
			}
			s := lost()
			s.next()
			s.pass(4 * time.Minute)
			if step := s.next(); step.Finished || step.Status.Waiting != "EKS to report its newest update" || step.Due.IsZero() {
				t.Fatalf("after 4m: finished %t, waits for %q until %s", step.Finished, step.Status.Waiting, step.Due)
			}
			s.Now = s.Now.Add(time.Hour) // the cloud did not answer during that time
			if step := s.next(); step.Finished {
				t.Fatalf("it rests on a reading of before: %s", step.Record.Message)
			}
			s.pass(time.Second)
			step := s.next()
			if want := "EKS has not reported on update u1 for 5m0s, and 2 of 2 nodes are still outdated"; !step.Finished || step.Record.Result != record.Failed || step.Record.Message != want {
				t.Fatalf("finished %t, %s: %q, want %q", step.Finished, step.Record.Result, step.Record.Message, want)
			}
			s.again()
			if step = s.next(); delegateToken(step) == "" || delegateToken(step) == "r1-update-1" || step.Finished {
				t.Errorf("again: %v, %s: %s", step.Actions, step.Record.Result, step.Record.Message)
			}

			s = lost()
			s.remove("old-a-1")
			s.remove("old-b-1")
			if step = s.next(); step.Finished {
				t.Fatal("one answer is believed")
			}
			s.pass(lostAfter)
			if step = s.next(); step.Record.Result != record.Succeeded || step.Record.Replaced != 2 {
				t.Errorf("all are current: %s: %s, %d replaced", step.Record.Result, step.Record.Message, step.Record.Replaced)
			}
		})
	}
}

// TestDelegateBeginsNewOperationIfFailedOneDisappears: the cloud no longer shows the failed operation, and showed the end of the one
// before it long ago.
func TestDelegateBeginsNewOperationIfFailedOneDisappears(t *testing.T) {
	s := newManagedScene(t, old("old-a-1"))
	before := nodegroup.Operation{ID: "u0", State: nodegroup.OperationFailed, To: s.Group.Wanted, Began: start.Add(-time.Hour)}
	s.Group.Managed.Operation = before
	s.next()
	s.operate("u1", nodegroup.OperationFailed, s.Group.Wanted).Began = s.Now
	s.next()
	if step := s.next(); step.Record.Result != record.Failed {
		t.Fatalf("%s: %s", step.Record.Result, step.Record.Message)
	}
	s.Group.Managed = &nodegroup.Managed{Operation: before}
	s.again()
	s.next()
	s.pass(lostAfter)
	if step := s.next(); delegateToken(step) != "r1-update-3" || step.Record.Phase != record.PhaseSetup || step.Record.Stopping != "" {
		t.Errorf("%v in phase %q, %s: %s", step.Actions, step.Record.Phase, step.Record.Stopping, step.Record.Message)
	}
}

// TestDelegateUsesNewTokenIfFailureIsShownLate: the upgrade's operation failed before a reading showed it, and the cloud shows that
// failure only after it has shown another user's change. Another operation begins. The cloud answers the first token
// with the failed operation, and begins nothing.
func TestDelegateUsesNewTokenIfFailureIsShownLate(t *testing.T) {
	s := newManagedScene(t, old("old-a-1"))
	if step := s.next(); delegateToken(step) != "r1-update-1" {
		t.Fatalf("%v", step.Actions)
	}
	failed := nodegroup.Operation{ID: "u1", State: nodegroup.OperationFailed, To: s.Group.Wanted, Began: s.Now}
	s.pass(time.Second)
	s.operate("u2", nodegroup.OperationRunning, nodegroup.Revision{}).Began = s.Now
	s.next()
	s.Group.Managed = &nodegroup.Managed{Operation: failed}
	s.next()
	s.pass(lostAfter)
	for range 2 {
		if step := s.next(); delegateToken(step) != "r1-update-2" || step.Record.Stopping != "" || step.Record.Phase != record.PhaseSetup {
			t.Fatalf("%v in phase %q, %s: %s", step.Actions, step.Record.Phase, step.Record.Stopping, step.Record.Message)
		}
	}
}

// TestDelegateIgnoresOldOperationsThatReappear: the cloud showed no operation for long, then shows one again that had
// ended before. It does not count as the one that the last request began, and another operation begins.
func TestDelegateIgnoresOldOperationsThatReappear(t *testing.T) {
	s := newManagedScene(t, old("old-a-1"))
	before := nodegroup.Operation{ID: "u0", State: nodegroup.OperationCancelled, To: s.Group.Wanted, Began: start.Add(-time.Hour)}
	s.Group.Managed.Operation = before
	s.next()
	s.operate("u1", nodegroup.OperationRunning, s.Group.Wanted).Began = s.Now
	s.next()
	s.Group.Managed = &nodegroup.Managed{Operation: nodegroup.Operation{ID: "t", State: nodegroup.OperationFailed, Began: start.Add(-2 * time.Hour)}}
	s.next()
	s.pass(lostAfter)
	if step := s.next(); step.Record.Result != record.Failed {
		t.Fatalf("%s: %s", step.Record.Result, step.Record.Message)
	}
	s.Group.Managed = &nodegroup.Managed{Operation: before}
	s.again()
	if step := s.next(); delegateToken(step) == "" || step.Record.Stopping != "" || step.Record.Phase != record.PhaseSetup {
		t.Errorf("%v in phase %q, %s: %s", step.Actions, step.Record.Phase, step.Record.Stopping, step.Record.Message)
	}
}

// TestDelegateCountsOnlyUninterruptedAbsenceOfUpdate: time in which the cloud does show the operation does not count as loss.
func TestDelegateCountsOnlyUninterruptedAbsenceOfUpdate(t *testing.T) {
	s := following(t, old("old-a-1"))
	running := s.operate("u1", nodegroup.OperationRunning, s.Group.Wanted)
	running.Began = s.Now
	told := s.Group.Managed
	for range 3 {
		s.Group.Managed = told
		s.next()
		s.Group.Managed = &nodegroup.Managed{}
		s.next()
		s.pass(lostAfter - time.Minute)
		if step := s.next(); step.Finished {
			t.Fatalf("%s: %s", step.Record.Result, step.Record.Message)
		}
	}
}

// TestDelegateKnowsWhichAddedNodesTheCloudRemoves checks whether it is known which nodes a cloud must give back: its operation began after the upgrade,
// or it adds none (EKS E50, E60).
func TestDelegateKnowsWhichAddedNodesTheCloudRemoves(t *testing.T) {
	ours := record.Record{Started: start, Sizes: nodegroup.Sizes{Desired: 3}}
	for _, c := range []struct {
		record  record.Record
		managed *nodegroup.Managed
		want    bool
	}{
		{ours, &nodegroup.Managed{Operation: nodegroup.Operation{Began: start}}, true},
		{ours, &nodegroup.Managed{Operation: nodegroup.Operation{Began: start.Add(-time.Minute)}}, false},
		{record.Record{Started: start}, &nodegroup.Managed{Operation: nodegroup.Operation{Began: start}}, false},
		{record.Record{Started: start}, &nodegroup.Managed{TerminateFirst: true}, true},
		{record.Record{Started: start, Delegation: &record.Delegation{}}, &nodegroup.Managed{}, true},
		{record.Record{Started: start, Delegation: &record.Delegation{}}, &nodegroup.Managed{Operation: nodegroup.Operation{State: nodegroup.OperationRunning}}, false},
		{ours, nil, false},
	} {
		if got := upgrade.KnowsCloudSurge(&c.record, &nodegroup.Group{Managed: c.managed}); got != c.want {
			t.Errorf("sizes %+v, %+v: %t", c.record.Sizes, c.managed, got)
		}
	}
}

// lostAfter is how long the cloud must not list an operation before it counts as lost.
const lostAfter = 5 * time.Minute

// TestDelegatedRequestUsesNumbersOfGroup: flags for other kinds of groups are refused (EKS E04, E05, E09, E21).
func TestDelegatedRequestUsesNumbersOfGroup(t *testing.T) {
	group := nodegroup.Group{
		Name: "workers", Provider: "aws", Zones: []string{"a", "b"}, Can: nodegroup.FullControl(), Desired: 10, Wanted: nodegroup.Revision{ID: "r", Name: "release:1.33.4-20261101"},
		Managed: managedLikeEKS(),
	}
	group.Managed.MaxUnavailable = nodegroup.Quantity{N: 25, Percent: true}
	usual := upgrade.Settings{BootTimeout: time.Minute, WaitReplacement: true} // the settings without any flag
	req, err := usual.ResolveRequest(&group, 10, 9)
	if err != nil || req.Strategy != record.Delegated || req.MaxUnavailable != 2 || req.Window != 2 || req.Surge != 4 || req.To != "1.33.4-20261101" || req.OnTimeout != record.Fail {
		t.Errorf("%+v, %v", req, err)
	}
	group.Managed.TerminateFirst = true
	if req, _ = (upgrade.Settings{BootTimeout: time.Minute}).ResolveRequest(&group, 10, 9); req.Surge != 0 {
		t.Errorf("E09: surge %d", req.Surge)
	}
	one, second := nodegroup.Quantity{N: 1}, time.Second
	refused := map[string]upgrade.Settings{
		"--max-unavailable and --max-surge: EKS upgrades group \"workers\" with the group's own settings: remove the flags, and change the settings with aws eks update-nodegroup-config": {MaxUnavailable: &one},
		"--settle: EKS upgrades group \"workers\" itself, with its own rules: remove the flag":                                                                                            {Settle: &second},
		"--on-timeout=skip: EKS upgrades group \"workers\" itself, with its own rules: remove the flag":                                                                                   {OnTimeout: record.Skip},
		"--strategy: EKS upgrades group \"workers\" itself, with its own rules: remove the flag":                                                                                          {Strategy: record.Surge},
	}
	for want, settings := range refused {
		settings.BootTimeout = time.Minute
		_, err := settings.ResolveRequest(&group, 10, 9)
		checkError(t, err, want)
	}
	group.Managed = nil
	_, err = upgrade.Settings{BootTimeout: time.Minute, Strategy: record.Delegated}.ResolveRequest(&group, 10, 9)
	checkError(t, err, `--strategy=delegated: this cloud does not upgrade group "workers" itself: remove the flag`)
}
