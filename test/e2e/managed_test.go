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

// namedWithin is the time limit for reporting the pod that blocks a drain. It starts when the first pod leaves the node.
const namedWithin = 10 * time.Second

// TestEKSUpgradesManagedGroups upgrades node groups that EKS manages, in parallel. The plugin itself must change neither nodes nor
// pods.
func TestEKSUpgradesManagedGroups(t *testing.T) {
	t.Parallel()
	options := quickOptions()
	options.Cloud.EKS = awscloud.EKSOptions{Settle: 500 * time.Millisecond, DrainLimit: 25 * time.Second, NodeLimit: time.Minute}
	shared := fixture.ForTest(t, options)
	t.Run("cases", func(t *testing.T) {
		for name, test := range map[string]func(*testing.T, *fixture.Fixture){
			"default":     testDefaultUpdate,
			"minimal":     testMinimalUpdate,
			"blocked":     testBlockedUpdate,
			"forced":      testForcedUpdate,
			"others":      testUpdateOfOtherUser,
			"interrupted": testInterruptWhileEKSContinues,
			"aborted":     testAbortWhileEKSContinues,
			"both kinds":  testBothKindsOfGroups,
		} {
			t.Run(name, func(t *testing.T) {
				skipUnlessSampled(t)
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
			t.Errorf("the plugin sent the API server %s", request)
		}
	}
}

// managedCase is a case whose group EKS manages. All its nodes are outdated at first.
type managedCase struct {
	*testCase
	size int
	// blockingPods is the number of pods of "stubborn".
	blockingPods int32
	// first receives the time at which the first pod of "web" began to leave a node with a pod of "stubborn".
	first chan time.Time
}

// openManaged begins a case with four pods of "web", a budget that allows two of them to be disrupted, and the extra workloads. By
// default the group has one node in each of two zones.
func openManaged(t *testing.T, shared *fixture.Fixture, group fixture.ManagedGroup, extra ...fixture.Workload) *managedCase {
	t.Helper()
	own, err := shared.InNamespace(t.Context(), group.Name)
	if err != nil {
		t.Fatal(err)
	}
	if group.Zones == nil {
		group.Zones, group.Counts = []string{zoneA, zoneB}, []int{1, 1}
	}
	s := &managedCase{testCase: &testCase{Fixture: own, t: t, group: group.Name}, first: make(chan time.Time, 1)}
	t.Cleanup(s.logStateIfFailed)
	if _, err := own.AddManagedGroup(group); err != nil {
		t.Fatal(err)
	}
	for _, n := range group.Counts {
		s.size += n
	}
	for _, w := range extra {
		if w.Name == "stubborn" {
			s.blockingPods = w.Replicas
		}
	}
	s.waitForNodes(s.size)
	s.deploy(append([]fixture.Workload{{Name: "web", Replicas: 4, MaxUnavailable: "2"}}, extra...)...)
	s.settle()
	s.watchFirstDeparture()
	if s.budgets, err = s.WatchBudgets(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.budgets.Stop() })
	return s
}

// watchFirstDeparture waits in the background until the first pod of "web" leaves a node with a pod of "stubborn". From then on,
// the command can see that the pod of "stubborn" blocks a drain.
func (s *managedCase) watchFirstDeparture() {
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

// awaitFirstDeparture returns the time at which watchFirstDeparture saw the first pod leave.
func (s *managedCase) awaitFirstDeparture() time.Time {
	s.t.Helper()
	select {
	case first := <-s.first:
		return first
	case <-time.After(commandLimit):
		s.t.Fatalf("no pod of web has left a node with a blocking pod within %s", commandLimit)
		return time.Time{}
	}
}

// toNewVersion is the flag that selects the control plane's Kubernetes version. Without it EKS keeps the group's version.
const toNewVersion = "--to=1.36"

// start starts the upgrade.
func (s *managedCase) start(flags ...string) *command {
	s.t.Helper()
	return startKubectl(s.t, s.Fixture, append([]string{"nodeupgrade", s.group, "--yes", "--parallel-groups", "--progress=json", skipBudgetChecks}, flags...)...)
}

// startUpdateAsOtherUser starts an update in EKS without the plugin, and returns the ID of the update.
func (s *managedCase) startUpdateAsOtherUser() string {
	s.t.Helper()
	out, err := s.NewEKSClient().UpdateNodegroupVersion(s.t.Context(), &eks.UpdateNodegroupVersionInput{
		ClusterName: aws.String(fixture.EKSCluster), NodegroupName: aws.String(s.group), Version: aws.String("1.36"),
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return aws.ToString(out.Update.Id)
}

// updateTokens lists the client request tokens of the requests that start an update of the group, in order.
func (s *managedCase) updateTokens() []string {
	var found []string
	for _, r := range s.Cloud.Requests() {
		if r.Operation == "UpdateNodegroupVersion" && r.Params["nodegroupName"] == s.group {
			found = append(found, r.Params["clientRequestToken"])
		}
	}
	return found
}

// nodesWithImage returns the names of the group's nodes with an image, by UID.
func (s *managedCase) nodesWithImage(image string) map[types.UID]string {
	s.t.Helper()
	found := map[types.UID]string{}
	for _, n := range s.nodes() {
		if n.Labels["eks.amazonaws.com/nodegroup-image"] == image {
			found[n.UID] = n.Name
		}
	}
	return found
}

// checkAllReplaced checks that the group has its former size and only current nodes. It also checks how many updates were started,
// each with its own token.
func (s *managedCase) checkAllReplaced(starts int) {
	s.t.Helper()
	s.waitForNodes(s.size)
	s.settle()
	if n := len(s.nodesWithImage(fixture.NewImage)); n != s.size {
		s.t.Errorf("%d nodes are current, want %d", n, s.size)
	}
	tokens := s.updateTokens()
	slices.Sort(tokens)
	if n := len(slices.Compact(slices.Clone(tokens))); n != starts || len(tokens) != starts {
		s.t.Errorf("updates were started with tokens %q, want %d updates", tokens, starts)
	}
}

// checkPlanAndUpgrade plans and runs an upgrade whose drains are not blocked, and checks the plan and the upgrade.
func (s *managedCase) checkPlanAndUpgrade(nodes int, flags ...string) {
	s.t.Helper()
	before := len(s.Cloud.Requests())
	dry := append([]string{"nodeupgrade", s.group, "--dry-run"}, flags...)
	plan := runKubectl(s.t, s.Fixture, dry...)
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
			s.t.Errorf("planning sent the cloud %s", r.Operation)
		}
	}

	c := s.start(flags...)
	c.awaitExit(0)
	c.checkOutput(fmt.Sprintf("%d of %[1]d nodes replaced", nodes))
	s.checkAllReplaced(1)
	s.checkBudgetsKept()
	shown := document[report.UpgradeStatus](s.t, s.Fixture, 0, "nodeupgrade", "status", s.group)
	if shown.Result != record.Succeeded || shown.Operation == nil || shown.Operation.State != "succeeded" {
		s.t.Errorf("the status is %+v with %+v", shown, shown.Operation)
	}
}

// testDefaultUpdate checks EKS's default strategy, which adds nodes before it removes others. The group has the control plane's
// Kubernetes version and an older release.
func testDefaultUpdate(t *testing.T, shared *fixture.Fixture) {
	s := openManaged(t, shared, fixture.ManagedGroup{
		Name: "default-first", Zones: []string{zoneA, zoneB}, Counts: []int{2, 1},
		More: func(spec *awscloud.NodegroupSpec) {
			spec.ReleaseVersion, spec.Image = "1.36.0-20260901", fixture.OldImage
		},
	}, fixture.Workload{Name: "db", Kind: "StatefulSet", Replicas: 2, MaxUnavailable: "1"}, fixture.Workload{Name: "agent", Kind: "DaemonSet"})
	s.checkPlanAndUpgrade(3)
}

// testMinimalUpdate checks EKS's minimal strategy, which terminates nodes before it adds others. The pods of the first node move to
// the second node, which is not cordoned yet. So a tight budget blocks neither the plan nor EKS.
func testMinimalUpdate(t *testing.T, shared *fixture.Fixture) {
	s := openManaged(t, shared, fixture.ManagedGroup{Name: "minimal", Strategy: ekstypes.NodegroupUpdateStrategiesMinimal},
		fixture.Workload{Name: "tight", Replicas: 4, MaxUnavailable: "1"})
	s.checkPlanAndUpgrade(2, toNewVersion)
}

// namesBlocker reports whether a text names a blocking pod, its budget, how many pods the budget needs and has, and when EKS
// gives up.
func (s *managedCase) namesBlocker(text string) bool {
	health := fmt.Sprintf("needs %d healthy, has %[1]d", s.blockingPods)
	for _, words := range []string{"pod " + s.Namespace + "/stubborn-", "PDB " + s.Namespace + "/stubborn", health, "EKS gives up in 1"} {
		if !strings.Contains(text, words) {
			return false
		}
	}
	return true
}

// checkBlockerIsNamed waits until the command and "status" name the blocking pod, and checks how long this took.
func (s *managedCase) checkBlockerIsNamed(c *command) {
	s.t.Helper()
	told := c.awaitEvent("the blocking pod", func(e event) bool { return e.Type == "blocked" && s.namesBlocker(e.Text) })
	first := s.awaitFirstDeparture()
	s.t.Logf("the command named the blocker %s after the first pod left", told.Time.Sub(first))
	if took := told.Time.Sub(first); took > namedWithin {
		s.t.Errorf("the blocking pod was named after %s, want at most %s", took, namedWithin)
	}
	s.checkStatusNamesBlocker(first)
}

// checkStatusNamesBlocker waits until "status" names the blocking pod, and checks how long it took.
func (s *managedCase) checkStatusNamesBlocker(first time.Time) {
	s.t.Helper()
	var text string
	s.waitFor("the status to name the blocking pod", func() bool {
		text = runKubectl(s.t, s.Fixture, "nodeupgrade", "status", s.group).Stdout
		return s.namesBlocker(text)
	})
	took := time.Since(first)
	s.t.Logf("the status named the blocker %s after the first pod left:\n%s", took, text)
	if took > namedWithin+slack {
		s.t.Errorf("the status named the blocking pod after %s, want at most %s", took, namedWithin)
	}
}

// testBlockedUpdate has a budget that makes the update fail at one of three nodes. Two nodes are drained at the same time. After the
// budget was deleted, the same command finishes the update. It must keep the nodes that are already current.
func testBlockedUpdate(t *testing.T, shared *fixture.Fixture) {
	s := openManaged(t, shared, fixture.ManagedGroup{
		Name: "blocked", Zones: []string{zoneA, zoneB}, Counts: []int{2, 1},
		Strategy: ekstypes.NodegroupUpdateStrategiesMinimal, MaxUnavailable: 2,
	}, stubbornWorkload())
	first := s.start(toNewVersion)
	s.checkBlockerIsNamed(first)
	if shown := document[report.UpgradeStatus](t, s.Fixture, 0, "nodeupgrade", "status", s.group); len(shown.Blocked) == 0 || shown.Operation == nil || shown.Remaining.Latest.Duration == 0 {
		t.Errorf("the status is %+v with %+v", shown, shown.Operation)
	}
	first.awaitExit(1)
	errorLine := first.errorLine()
	for _, words := range []string{"PodEvictionFailure", "pod blocked/stubborn-", "PDB blocked/stubborn", "to continue"} {
		if !strings.Contains(errorLine, words) {
			t.Errorf("the error does not say %q: %s", words, errorLine)
		}
	}
	if strings.Count(errorLine, "run ") != 1 {
		t.Errorf("the error does not contain exactly one command: %s", errorLine)
	}
	t.Log(errorLine)
	current := s.nodesWithImage(fixture.NewImage)
	s.deleteBudget("stubborn")
	s.start(toNewVersion).awaitExit(0)
	s.checkAllReplaced(2)
	now := s.nodesWithImage(fixture.NewImage)
	for uid, name := range current {
		if now[uid] == "" {
			t.Errorf("node %s was current and is gone", name)
		}
	}
	if len(current) == 0 {
		t.Error("no node was current when the update had failed")
	}
}

// testForcedUpdate checks that with --on-timeout=force EKS deletes pods against their budget.
func testForcedUpdate(t *testing.T, shared *fixture.Fixture) {
	s := openManaged(t, shared, fixture.ManagedGroup{Name: "forced", Strategy: ekstypes.NodegroupUpdateStrategiesMinimal}, blockingWorkload(2))
	c := s.start(toNewVersion, "--on-timeout=force")
	c.awaitExit(0)
	s.checkAllReplaced(1)
	if broken, _ := s.budgets.Stop(); len(broken) == 0 {
		t.Error("the budget was never broken")
	}
}

// testUpdateOfOtherUser follows an update that another user has started: first with "status -w", and then with the upgrade command.
// The plugin must start no update of its own.
func testUpdateOfOtherUser(t *testing.T, shared *fixture.Fixture) {
	s := openManaged(t, shared, fixture.ManagedGroup{Name: "others"}, blockingWorkload(2))
	release := s.Cloud.PostponeDrains(slices.Collect(maps.Values(s.nodesWithImage(fixture.OldImage)))...)
	id := s.startUpdateAsOtherUser()
	watching := startKubectl(t, s.Fixture, "nodeupgrade", "status", s.group, "-w")
	s.waitFor("the update to be shown", func() bool { return strings.Contains(watching.out.String(), id) })
	release() // the drain must begin after the watch has started, because otherwise the watch could miss it
	first := s.awaitFirstDeparture()
	s.waitFor("the blocker", func() bool { return s.namesBlocker(watching.out.String()) })
	took := time.Since(first)
	t.Logf("status -w named the blocker %s after the first pod left", took)
	if took > namedWithin {
		t.Errorf("the blocking pod was named after %s, want at most %s", took, namedWithin)
	}
	joined := s.start(toNewVersion)
	joined.awaitEvent("the update to be followed", phaseBegan(string(record.PhaseFollow)))
	s.deleteBudget("stubborn")
	joined.awaitExit(0)
	watching.awaitExit(0)
	watching.checkOutput(id, "succeeded")
	s.checkAllReplaced(1)
}

// testInterruptWhileEKSContinues interrupts the command while EKS continues, and runs the command again. It also checks that pause and
// rollback are refused, because EKS supports neither.
func testInterruptWhileEKSContinues(t *testing.T, shared *fixture.Fixture) {
	s := openManaged(t, shared, fixture.ManagedGroup{Name: "interrupted", Strategy: ekstypes.NodegroupUpdateStrategiesMinimal}, blockingWorkload(2))
	c := s.start(toNewVersion)
	c.awaitEvent("the blocking pod", func(e event) bool { return e.Type == "blocked" })
	s.runVerb(2, "pause").checkOutput("EKS cannot pause an update")
	s.runVerb(2, "rollback", "--yes").checkOutput("EKS cannot take a node group back", "create a node group of the older release")
	c.interrupt()
	c.awaitExit(130)
	update, err := s.Cloud.WaitForUpdate(t.Context(), fixture.EKSCluster, s.group, func(awscloud.UpdateState) bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	if errorLine := c.errorLine(); !strings.Contains(errorLine, "EKS continues with update "+update.ID) || !continueCommand.MatchString(errorLine) {
		t.Errorf("the error does not say how to continue: %s", errorLine)
	}
	s.deleteBudget("stubborn")
	s.start(toNewVersion).awaitExit(0)
	s.checkAllReplaced(1)
}

// testAbortWhileEKSContinues ends the plugin's upgrade while EKS continues.
func testAbortWhileEKSContinues(t *testing.T, shared *fixture.Fixture) {
	s := openManaged(t, shared, fixture.ManagedGroup{Name: "aborted", Strategy: ekstypes.NodegroupUpdateStrategiesMinimal}, blockingWorkload(2))
	c := s.start(toNewVersion)
	c.awaitEvent("the blocking pod", func(e event) bool { return e.Type == "blocked" })
	abort := s.startVerb("abort", "--yes")
	c.awaitExit(5)
	abort.awaitExit(0)
	abort.checkOutput("nodegroup/"+s.group+" aborted", "EKS continues with update ")
	s.deleteBudget("stubborn")
	end, err := s.Cloud.WaitForUpdate(t.Context(), fixture.EKSCluster, s.group, awscloud.UpdateState.Ended)
	if err != nil || end.Status != ekstypes.UpdateStatusSuccessful {
		t.Errorf("the update ended as %+v (%v)", end, err)
	}
	s.checkAllReplaced(1)
}

// testBothKindsOfGroups lists and plans two groups with one command: one that EKS upgrades and one that the plugin upgrades.
func testBothKindsOfGroups(t *testing.T, shared *fixture.Fixture) {
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
