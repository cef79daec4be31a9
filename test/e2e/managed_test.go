package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/report"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/awscloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/fixture"
)

// namedWithin is the maximum time from the first pod that leaves a node until the pod that blocks the drain is named.
const namedWithin = 10 * time.Second

// TestManagedGroups upgrades node groups that EKS manages, in parallel, and checks that the plugin itself changes neither nodes
// nor pods.
func TestManagedGroups(t *testing.T) {
	t.Parallel()
	options := quick()
	options.Cloud.EKS = awscloud.EKSOptions{Settle: 500 * time.Millisecond, DrainLimit: 25 * time.Second, NodeLimit: time.Minute}
	shared := fixture.ForTest(t, options)
	t.Run("cases", func(t *testing.T) {
		for name, test := range map[string]func(*testing.T, *fixture.Fixture){
			"default":     upgradeDefault,
			"minimal":     upgradeMinimal,
			"blocked":     blockManaged,
			"forced":      forceManaged,
			"others":      followOthers,
			"interrupted": interruptManaged,
			"aborted":     abortManaged,
			"both kinds":  showBothKinds,
		} {
			t.Run(name, func(t *testing.T) {
				inSample(t)
				t.Parallel()
				test(t, shared)
			})
		}
	})
	written, err := shared.Mutations(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, request := range written {
		if kind := strings.Fields(request)[1]; kind != "configmaps" && kind != "leases" {
			t.Errorf("the plugin asked the API server to %s", request)
		}
	}
}

// managedCase is a case whose group EKS manages. First all its nodes are outdated.
type managedCase struct {
	*testCase
	size int
	// wedges is the number of pods of "stubborn".
	wedges int32
	// first receives the time at which the first pod of "web" began to leave a node with a pod of "stubborn".
	first chan time.Time
}

// openManaged begins a case: one node in each of two zones unless the group says otherwise, four pods of "web" with a budget that
// allows two disruptions, and the extra workloads.
func openManaged(t *testing.T, shared *fixture.Fixture, group fixture.ManagedGroup, extra ...fixture.Workload) *managedCase {
	t.Helper()
	own, err := shared.In(t.Context(), group.Name)
	if err != nil {
		t.Fatal(err)
	}
	if group.Zones == nil {
		group.Zones, group.Counts = []string{zoneA, zoneB}, []int{1, 1}
	}
	s := &managedCase{testCase: &testCase{Fixture: own, t: t, group: group.Name}, first: make(chan time.Time, 1)}
	t.Cleanup(s.explain)
	if _, err := own.AddManagedGroup(group); err != nil {
		t.Fatal(err)
	}
	for _, n := range group.Counts {
		s.size += n
	}
	for _, w := range extra {
		if w.Name == "stubborn" {
			s.wedges = w.Replicas
		}
	}
	s.waitForNodes(s.size)
	s.add(append([]fixture.Workload{{Name: "web", Replicas: 4, MaxUnavailable: "2"}}, extra...)...)
	s.settle()
	s.watchLeaving()
	if s.budgets, err = s.WatchBudgets(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.budgets.Stop() })
	return s
}

// watchLeaving waits in the background until the first pod of "web" leaves a node with a pod of "stubborn". From then on it is
// visible that the pod of "stubborn" blocks a drain.
func (s *managedCase) watchLeaving() {
	s.t.Helper()
	wedged := map[string]bool{}
	for _, pod := range s.pods() {
		if pod.Labels["app"] == "stubborn" {
			wedged[pod.Spec.NodeName] = true
		}
	}
	pods, err := s.Cluster.Client().CoreV1().Pods(s.Namespace).Watch(s.t.Context(), metav1.ListOptions{LabelSelector: "app=web"})
	if err != nil {
		s.t.Fatal(err)
	}
	go func() {
		defer pods.Stop()
		for e := range pods.ResultChan() {
			if pod, ok := e.Object.(*corev1.Pod); ok && wedged[pod.Spec.NodeName] && (e.Type == watch.Deleted || pod.DeletionTimestamp != nil) {
				s.first <- time.Now()
				return
			}
		}
	}()
}

// firstLeft returns when watchLeaving saw the first pod leave.
func (s *managedCase) firstLeft() time.Time {
	s.t.Helper()
	select {
	case first := <-s.first:
		return first
	case <-time.After(commandLimit):
		s.t.Fatalf("no pod of web has left a node that is to be blocked within %s", commandLimit)
		return time.Time{}
	}
}

// toNew sets the Kubernetes version of the control plane. Without it EKS keeps the group's version.
const toNew = "--to=1.36"

// start starts the upgrade.
func (s *managedCase) start(flags ...string) *command {
	s.t.Helper()
	return start(s.t, s.Fixture, append([]string{"nodeupgrade", s.group, "--yes", "--parallel-groups", "--progress=json", beginsBlocked}, flags...)...)
}

// begin starts the update as another user does, and returns the ID of the update.
func (s *managedCase) begin() string {
	s.t.Helper()
	out, err := s.EKS().UpdateNodegroupVersion(s.t.Context(), &eks.UpdateNodegroupVersionInput{
		ClusterName: aws.String(fixture.EKSCluster), NodegroupName: aws.String(s.group), Version: aws.String("1.36"),
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return aws.ToString(out.Update.Id)
}

// tokens lists the tokens of the requests that start an update of the group, in order.
func (s *managedCase) tokens() []string {
	var found []string
	for _, r := range s.Cloud.Requests() {
		if r.Operation == "UpdateNodegroupVersion" && r.Params["nodegroupName"] == s.group {
			found = append(found, r.Params["clientRequestToken"])
		}
	}
	return found
}

// nodesOf returns the group's nodes with an image: names by UID.
func (s *managedCase) nodesOf(image string) map[types.UID]string {
	s.t.Helper()
	found := map[types.UID]string{}
	for _, n := range s.nodes() {
		if n.Labels["eks.amazonaws.com/nodegroup-image"] == image {
			found[n.UID] = n.Name
		}
	}
	return found
}

// checkReplaced checks that the group has its size and only current nodes. It also checks that so many starts were requested,
// each with another token.
func (s *managedCase) checkReplaced(starts int) {
	s.t.Helper()
	s.waitForNodes(s.size)
	s.settle()
	if n := len(s.nodesOf(fixture.NewImage)); n != s.size {
		s.t.Errorf("%d nodes are current, want %d", n, s.size)
	}
	tokens := s.tokens()
	slices.Sort(tokens)
	if n := len(slices.Compact(slices.Clone(tokens))); n != starts || len(tokens) != starts {
		s.t.Errorf("starts were asked for with tokens %q, want %d", tokens, starts)
	}
}

// checkWhole plans and runs the upgrade of a group that nothing blocks, and checks both.
func (s *managedCase) checkWhole(nodes int, flags ...string) {
	s.t.Helper()
	before := len(s.Cloud.Requests())
	dry := append([]string{"nodeupgrade", s.group, "--dry-run"}, flags...)
	plan := run(s.t, s.Fixture, dry...)
	for _, words := range []string{
		"Group       " + s.group + " (EKS managed node group)", "release:" + fixture.NewRelease, fmt.Sprintf("%d of %[1]d nodes are outdated", nodes),
		"EKS upgrades the group itself, rolling update: at most 1 unavailable; 15m to drain a node, then the update fails (PodEvictionFailure)",
	} {
		if plan.Code != 0 || !strings.Contains(plan.Stdout, words) {
			s.t.Errorf("the plan ended with %d and does not say %q:\n%s%s", plan.Code, words, plan.Stdout, plan.Stderr)
		}
	}
	planned := document[report.Plan](s.t, s.Fixture, 0, dry...)
	if planned.Request.Strategy != record.Delegated || len(planned.Nodes) != nodes || planned.Duration.Latest.Duration == 0 {
		s.t.Errorf("the plan is %+v", planned)
	}
	for _, r := range s.Cloud.Requests()[before:] {
		if r.Mutating && r.Params["nodegroupName"] == s.group {
			s.t.Errorf("planning asked the cloud to %s", r.Operation)
		}
	}

	c := s.start(flags...)
	c.end(0)
	c.says(fmt.Sprintf("%d of %[1]d nodes replaced", nodes))
	s.checkReplaced(1)
	s.checkBudgets()
	shown := document[report.UpgradeStatus](s.t, s.Fixture, 0, "nodeupgrade", "status", s.group)
	if shown.Result != record.Succeeded || shown.Operation == nil || shown.Operation.State != "succeeded" {
		s.t.Errorf("the status is %+v with %+v", shown, shown.Operation)
	}
}

// upgradeDefault adds nodes first. The group has the control plane's Kubernetes version and an older release.
func upgradeDefault(t *testing.T, shared *fixture.Fixture) {
	s := openManaged(t, shared, fixture.ManagedGroup{
		Name: "default-first", Zones: []string{zoneA, zoneB}, Counts: []int{2, 1},
		More: func(spec *awscloud.NodegroupSpec) {
			spec.ReleaseVersion, spec.Image = "1.36.0-20260901", fixture.OldImage
		},
	}, fixture.Workload{Name: "db", Kind: "StatefulSet", Replicas: 2, MaxUnavailable: "1"}, fixture.Workload{Name: "agent", Kind: "DaemonSet"})
	s.checkWhole(3)
}

// upgradeMinimal terminates nodes before it adds others. The pods of one of two nodes move to the other node, which is still
// uncordoned. So a tight budget blocks neither the plan nor EKS.
func upgradeMinimal(t *testing.T, shared *fixture.Fixture) {
	s := openManaged(t, shared, fixture.ManagedGroup{Name: "minimal", Strategy: ekstypes.NodegroupUpdateStrategiesMinimal},
		fixture.Workload{Name: "tight", Replicas: 4, MaxUnavailable: "1"})
	s.checkWhole(2, toNew)
}

// namesBlocker reports whether a text names a blocking pod, its budget, how many pods the budget needs and has, and when EKS
// gives up.
func (s *managedCase) namesBlocker(text string) bool {
	health := fmt.Sprintf("needs %d healthy, has %[1]d", s.wedges)
	for _, words := range []string{"pod " + s.Namespace + "/stubborn-", "PDB " + s.Namespace + "/stubborn", health, "EKS gives up in 1"} {
		if !strings.Contains(text, words) {
			return false
		}
	}
	return true
}

// awaitBlocker waits until the command and "status" name the blocking pod, and checks how long they took.
func (s *managedCase) awaitBlocker(c *command) {
	s.t.Helper()
	told := c.until("what blocks", func(e event) bool { return e.Type == "blocked" && s.namesBlocker(e.Text) })
	first := s.firstLeft()
	s.t.Logf("the command named the blocker %s after the first pod left", told.Time.Sub(first))
	if took := told.Time.Sub(first); took > namedWithin {
		s.t.Errorf("what blocks was named after %s, want at most %s", took, namedWithin)
	}
	s.awaitStatus(first)
}

// awaitStatus waits until "status" names the blocking pod, and checks how long it took.
func (s *managedCase) awaitStatus(first time.Time) {
	s.t.Helper()
	var text string
	s.waitFor("the status to name what blocks", func() bool {
		text = run(s.t, s.Fixture, "nodeupgrade", "status", s.group).Stdout
		return s.namesBlocker(text)
	})
	took := time.Since(first)
	s.t.Logf("the status named the blocker %s after the first pod left:\n%s", took, text)
	if took > namedWithin+slack {
		s.t.Errorf("the status named what blocks after %s, want at most %s", took, namedWithin)
	}
}

// blockManaged has a budget that makes the update fail at one of three nodes, two of which are drained at the same time. The same
// command finishes the update when the budget is gone. Nodes that were already replaced stay.
func blockManaged(t *testing.T, shared *fixture.Fixture) {
	s := openManaged(t, shared, fixture.ManagedGroup{
		Name: "blocked", Zones: []string{zoneA, zoneB}, Counts: []int{2, 1},
		Strategy: ekstypes.NodegroupUpdateStrategiesMinimal, MaxUnavailable: 2,
	}, stubborn())
	first := s.start(toNew)
	s.awaitBlocker(first)
	if shown := document[report.UpgradeStatus](t, s.Fixture, 0, "nodeupgrade", "status", s.group); len(shown.Blocked) == 0 || shown.Operation == nil || shown.Remaining.Latest.Duration == 0 {
		t.Errorf("the status is %+v with %+v", shown, shown.Operation)
	}
	first.end(1)
	errorLine := first.errorLine()
	for _, words := range []string{"PodEvictionFailure", "pod blocked/stubborn-", "PDB blocked/stubborn", "to continue"} {
		if !strings.Contains(errorLine, words) {
			t.Errorf("the error does not say %q: %s", words, errorLine)
		}
	}
	if strings.Count(errorLine, "run ") != 1 {
		t.Errorf("the error does not say once what to run: %s", errorLine)
	}
	t.Log(errorLine)
	current := s.nodesOf(fixture.NewImage)
	s.unblock("stubborn")
	s.start(toNew).end(0)
	s.checkReplaced(2)
	now := s.nodesOf(fixture.NewImage)
	for uid, name := range current {
		if now[uid] == "" {
			t.Errorf("node %s was current and is gone", name)
		}
	}
	if len(current) == 0 {
		t.Error("no node was current when the update had failed")
	}
}

// forceManaged checks that EKS deletes the pods that their budget blocks.
func forceManaged(t *testing.T, shared *fixture.Fixture) {
	s := openManaged(t, shared, fixture.ManagedGroup{Name: "forced", Strategy: ekstypes.NodegroupUpdateStrategiesMinimal}, wedge(2))
	c := s.start(toNew, "--on-timeout=force")
	c.end(0)
	s.checkReplaced(1)
	if broken, _ := s.budgets.Stop(); len(broken) == 0 {
		t.Error("the budget was never broken")
	}
}

// followOthers follows an update that another user has started, and then takes it over. The plugin starts no update.
func followOthers(t *testing.T, shared *fixture.Fixture) {
	s := openManaged(t, shared, fixture.ManagedGroup{Name: "others"}, wedge(2))
	release := s.Cloud.PostponeDrains(slices.Collect(maps.Values(s.nodesOf(fixture.OldImage)))...)
	id := s.begin()
	watching := start(t, s.Fixture, "nodeupgrade", "status", s.group, "-w")
	s.waitFor("the update to be shown", func() bool { return strings.Contains(watching.out.String(), id) })
	release() // after the start of the watch, which could not show the drained node otherwise
	first := s.firstLeft()
	s.waitFor("the blocker", func() bool { return s.namesBlocker(watching.out.String()) })
	took := time.Since(first)
	t.Logf("status -w named the blocker %s after the first pod left", took)
	if took > namedWithin {
		t.Errorf("what blocks was named after %s, want at most %s", took, namedWithin)
	}
	joined := s.start(toNew)
	joined.until("the update to be followed", phase(string(record.PhaseFollow)))
	s.unblock("stubborn")
	joined.end(0)
	watching.end(0)
	watching.says(id, "succeeded")
	s.checkReplaced(1)
}

// interruptManaged interrupts the command while EKS continues, and continues it. EKS can neither pause nor roll back.
func interruptManaged(t *testing.T, shared *fixture.Fixture) {
	s := openManaged(t, shared, fixture.ManagedGroup{Name: "interrupted", Strategy: ekstypes.NodegroupUpdateStrategiesMinimal}, wedge(2))
	c := s.start(toNew)
	c.until("what blocks", func(e event) bool { return e.Type == "blocked" })
	s.asked(2, "pause").says("EKS cannot pause an update")
	s.asked(2, "rollback", "--yes").says("EKS cannot take a node group back", "create a node group of the older release")
	c.interrupt()
	c.end(130)
	update, err := s.Cloud.WaitForUpdate(t.Context(), fixture.EKSCluster, s.group, func(awscloud.UpdateState) bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	if errorLine := c.errorLine(); !strings.Contains(errorLine, "EKS continues with update "+update.ID) || !continueCommand.MatchString(errorLine) {
		t.Errorf("the error does not say how it goes on: %s", errorLine)
	}
	s.unblock("stubborn")
	s.start(toNew).end(0)
	s.checkReplaced(1)
}

// abortManaged ends the plugin's upgrade while EKS continues.
func abortManaged(t *testing.T, shared *fixture.Fixture) {
	s := openManaged(t, shared, fixture.ManagedGroup{Name: "aborted", Strategy: ekstypes.NodegroupUpdateStrategiesMinimal}, wedge(2))
	c := s.start(toNew)
	c.until("what blocks", func(e event) bool { return e.Type == "blocked" })
	abort := s.asking("abort", "--yes")
	c.end(5)
	abort.end(0)
	abort.says("nodegroup/"+s.group+" aborted", "EKS continues with update ")
	s.unblock("stubborn")
	end, err := s.Cloud.WaitForUpdate(t.Context(), fixture.EKSCluster, s.group, awscloud.UpdateState.Ended)
	if err != nil || end.Status != ekstypes.UpdateStatusSuccessful {
		t.Errorf("the update ended as %+v (%v)", end, err)
	}
	s.checkReplaced(1)
}

// showBothKinds lists and plans two groups in one answer: one that EKS upgrades and one that the plugin upgrades.
func showBothKinds(t *testing.T, shared *fixture.Fixture) {
	s := openManaged(t, shared, fixture.ManagedGroup{Name: "managed"})
	addGroup(t, s.Fixture, fixture.Group{Name: "own", Zones: []string{zoneA}, Counts: []int{1}})
	list := document[report.NodeGroupList](t, s.Fixture, 0, "nodeupgrade")
	kinds := map[string]string{}
	for _, g := range list.Items {
		kinds[g.Name] = g.Kind
	}
	if kinds["managed"] != "EKS managed node group" || kinds["own"] != "Auto Scaling group" {
		t.Errorf("the list has %v", kinds)
	}
	plans := document[report.PlanList](t, s.Fixture, 0, "nodeupgrade", "managed", "own", "--dry-run")
	var strategies []record.Strategy
	for _, plan := range plans.Items {
		strategies = append(strategies, plan.Request.Strategy)
	}
	if !slices.Equal(strategies, []record.Strategy{record.Delegated, record.Surge}) {
		t.Errorf("the plans are of strategies %q", strategies)
	}
}
