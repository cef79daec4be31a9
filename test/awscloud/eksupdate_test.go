package awscloud_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/awscloud"
)

// waitForEnd waits until the newest update has ended and returns the update as EKS describes it.
func (m *managed) waitForEnd() *ekstypes.Update {
	m.t.Helper()
	return m.update(m.waitForUpdate(awscloud.UpdateState.Ended).ID)
}

// images lists the instances in service of the node group by image.
func (m *managed) images() map[string][]string {
	m.t.Helper()
	out := map[string][]string{}
	for _, i := range must(m.Group(m.group))(m.t).Instances {
		if i.State == "InService" || i.State == "Pending" {
			out[i.Image] = append(out[i.Image], i.ID)
		}
	}
	return out
}

// sizes lists the desired sizes that the group has had.
func (m *managed) sizes() []int {
	var out []int
	for _, s := range m.Timeline(m.group) {
		if len(out) == 0 || out[len(out)-1] != s.Desired {
			out = append(out, s.Desired)
		}
	}
	return out
}

func minimal(s *awscloud.NodegroupSpec) { s.Strategy = ekstypes.NodegroupUpdateStrategiesMinimal }

func TestEKSUpdateReplacesAllNodes(t *testing.T) {
	m := startManaged(t, awscloud.EKSOptions{}, nil)
	begun := must(m.requestUpdate(nil))(t)
	equal(t, "type and status", [2]string{string(begun.Type), string(begun.Status)}, [2]string{"VersionUpdate", "InProgress"})
	equal(t, "status meanwhile", m.nodegroup().Status, ekstypes.NodegroupStatusUpdating)
	u := m.waitForEnd()
	equal(t, "end", u.Status, ekstypes.UpdateStatusSuccessful)
	n, images := m.nodegroup(), m.images()
	equal(t, "what is shown", [3]string{string(n.Status), *n.Version, *n.ReleaseVersion}, [3]string{"ACTIVE", "1.33", release133})
	equal(t, "images", [2]int{len(images["ami-133"]), len(images)}, [2]int{3, 1})
	// Up by twice the two zones at once (EKS E21), and down again one by one (EKS E60).
	equal(t, "desired sizes", m.sizes(), []int{3, 7, 6, 5, 4, 3})
	equal(t, "maximum", must(m.Group(m.group))(t).Max, 4)
}

// TestEKSUpdateRaisesGroupSizeBySurge checks by how many instances an update raises the group's size (EKS E21, E22).
func TestEKSUpdateRaisesGroupSizeBySurge(t *testing.T) {
	for name, test := range map[string]struct {
		nodes                         []int // by zone
		unavailable, percentage, want int
	}{
		"one zone":                   {nodes: []int{4}, unavailable: 1, want: 2},
		"three zones":                {nodes: []int{2, 1, 1}, unavailable: 1, want: 6},
		"more unavailable":           {nodes: []int{2, 1, 1}, unavailable: 7, want: 7},
		"a percentage of four nodes": {nodes: []int{4}, percentage: 75, want: 3},
	} {
		t.Run(name, func(t *testing.T) {
			m := startManaged(t, awscloud.EKSOptions{DrainLimit: time.Hour}, func(s *awscloud.NodegroupSpec) {
				s.MaxUnavailable, s.Percentage = test.unavailable, test.percentage
				s.Group.Zones, s.Group.Counts = []string{zoneA, zoneB, zoneC}[:len(test.nodes)], test.nodes
			})
			m.BlockDrains()
			must(m.requestUpdate(nil))(t)
			m.waitForUpdate(func(s awscloud.UpdateState) bool { return s.Phase == awscloud.PhaseUpgrade })
			equal(t, "desired", m.sizes(), []int{4, 4 + test.want})
		})
	}
}

// TestMinimalUpdateStrategyNeverGrowsTheGroup checks that the group never grows, and that each node is replaced before the next (EKS E09, E50).
func TestMinimalUpdateStrategyNeverGrowsTheGroup(t *testing.T) {
	m := startManaged(t, awscloud.EKSOptions{}, minimal)
	must(m.requestUpdate(nil))(t)
	equal(t, "end", m.waitForEnd().Status, ekstypes.UpdateStatusSuccessful)
	equal(t, "new nodes", len(m.images()["ami-133"]), 3)
	equal(t, "desired sizes", m.sizes(), []int{3})
	for _, s := range m.Timeline(m.group) {
		if s.InService < 2 {
			t.Errorf("%d nodes in service after %v, want 2 and more", s.InService, s.At)
		}
	}
}

func TestMissingNewNodesFailTheUpdate(t *testing.T) {
	m := startManaged(t, awscloud.EKSOptions{NodeLimit: 300 * time.Millisecond}, nil)
	m.LimitCapacity(zoneB, 0)
	must(m.requestUpdate(nil))(t)
	u := m.waitForEnd()
	equal(t, "end", u.Status, ekstypes.UpdateStatusFailed)
	equal(t, "code (EKS E25, E33)", u.Errors[0].ErrorCode, ekstypes.ErrorCodeNodeCreationFailure)
	equal(t, "old nodes (EKS E24)", len(m.images()["ami-132"]), 3)
	n := m.nodegroup()
	equal(t, "what is shown", [2]string{string(n.Status), *n.ReleaseVersion}, [2]string{"ACTIVE", release132})
}

// TestBlockedDrainFailsTheUpdate checks that the error of an update with a blocked drain names the node (EKS E42, E52). A second update must
// keep the nodes that the first update has replaced (EKS E31).
func TestBlockedDrainFailsTheUpdate(t *testing.T) {
	m := startManaged(t, awscloud.EKSOptions{DrainLimit: 300 * time.Millisecond, Seed: 3}, minimal)
	blocked := must(m.Group(m.group))(t).Instances[0].Node
	m.BlockDrains(blocked)
	first := must(m.requestUpdate(nil))(t)
	u := m.waitForEnd()
	equal(t, "end", u.Status, ekstypes.UpdateStatusFailed)
	equal(t, "errors", u.Errors, []ekstypes.ErrorDetail{{
		ErrorCode:    ekstypes.ErrorCodePodEvictionFailure,
		ErrorMessage: aws.String("Reached max retries while trying to evict pods from nodes in node group web"),
		ResourceIds:  []string{blocked},
	}})
	replaced := m.images()["ami-133"]
	m.UnblockDrains()
	second := must(m.requestUpdate(nil))(t)
	if *second.Id == *first.Id {
		t.Error("the second update is the first")
	}
	equal(t, "end of the second", m.waitForEnd().Status, ekstypes.UpdateStatusSuccessful)
	now := m.images()["ami-133"]
	equal(t, "nodes", len(now), 3)
	for _, id := range replaced {
		if !slices.Contains(now, id) {
			t.Errorf("instance %s was current and is gone", id)
		}
	}
}

// TestSecondUpdateStartsFromTheFirstSize checks that the second update raises the size from before the first update, and returns to that
// size.
func TestSecondUpdateStartsFromTheFirstSize(t *testing.T) {
	m := startManaged(t, awscloud.EKSOptions{DrainLimit: 100 * time.Millisecond}, nil)
	m.BlockDrains()
	must(m.requestUpdate(nil))(t)
	equal(t, "end", m.waitForEnd().Status, ekstypes.UpdateStatusFailed)
	m.UnblockDrains()
	must(m.requestUpdate(nil))(t)
	equal(t, "end", m.waitForEnd().Status, ekstypes.UpdateStatusSuccessful)
	equal(t, "desired sizes", m.sizes(), []int{3, 7, 6, 5, 4, 3})
}

func TestUpdateKeepsSizeThatAutoscalerSet(t *testing.T) {
	m := startManaged(t, awscloud.EKSOptions{DrainLimit: time.Hour}, nil)
	m.BlockDrains()
	must(m.requestUpdate(nil))(t)
	m.waitForUpdate(func(s awscloud.UpdateState) bool { return len(s.Draining) == 1 })
	if err := m.SetDesired(m.group, 8); err != nil {
		t.Fatal(err)
	}
	m.UnblockDrains()
	equal(t, "end (EKS E61)", m.waitForEnd().Status, ekstypes.UpdateStatusSuccessful)
	s := must(m.Group(m.group))(t)
	equal(t, "desired and maximum", [2]int{s.Desired, s.Max}, [2]int{8, 8})
}

// TestTimeLimitDoesNotRunWhileDrainIsPostponed checks that a drain's time limit does not run while the drain is held.
func TestTimeLimitDoesNotRunWhileDrainIsPostponed(t *testing.T) {
	const limit = 300 * time.Millisecond
	m := startManaged(t, awscloud.EKSOptions{DrainLimit: limit}, nil)
	var nodes []string
	for _, i := range must(m.Group(m.group))(t).Instances {
		nodes = append(nodes, i.Node)
	}
	release := m.PostponeDrains(nodes...)
	must(m.requestUpdate(nil))(t)
	m.waitForUpdate(func(s awscloud.UpdateState) bool { return len(s.Draining) == 1 })
	held, end := context.WithTimeout(t.Context(), 2*limit)
	defer end()
	if u, err := m.WaitForUpdate(held, "shop", "web", func(s awscloud.UpdateState) bool { return len(s.Errors) > 0 || len(s.Draining) == 0 }); err == nil {
		t.Errorf("the drain started while it was postponed: %+v", u)
	}
	release()
	equal(t, "end", m.waitForEnd().Status, ekstypes.UpdateStatusSuccessful)
}

// TestFailUpdateInjectsEachErrorCode fails updates with each error code of EKS, in all phases.
func TestFailUpdateInjectsEachErrorCode(t *testing.T) {
	phases := []awscloud.UpdatePhase{awscloud.PhaseSetup, awscloud.PhaseScaleUp, awscloud.PhaseUpgrade, awscloud.PhaseScaleDown}
	m := startManaged(t, awscloud.EKSOptions{}, minimal)
	for i, code := range ekstypes.ErrorCode("").Values() {
		phase := phases[i%len(phases)]
		err := m.FailUpdate("shop", "web", awscloud.UpdateFailure{Phase: phase, Code: code, Message: "so it is", ResourceIDs: []string{"i-1"}})
		if err != nil {
			t.Fatal(err)
		}
		must(m.requestUpdate(nil))(t)
		equal(t, "phase", m.waitForUpdate(awscloud.UpdateState.Ended).Phase, phase)
		equal(t, string(code), m.waitForEnd().Errors, []ekstypes.ErrorDetail{{ErrorCode: code, ErrorMessage: aws.String("so it is"), ResourceIds: []string{"i-1"}}})
	}
	must(m.requestUpdate(nil))(t)
	equal(t, "the next", m.waitForEnd().Status, ekstypes.UpdateStatusSuccessful)
	if err := m.FailUpdate("shop", "x", awscloud.UpdateFailure{}); err == nil {
		t.Error("a failure was planned for a node group that does not exist")
	}
}

func TestNodegroupHealthIssuesAreShown(t *testing.T) {
	m := startManaged(t, awscloud.EKSOptions{}, nil)
	issue := ekstypes.Issue{Code: ekstypes.NodegroupIssueCodeAsgInstanceLaunchFailures, Message: aws.String("no capacity"), ResourceIds: []string{m.group}}
	if err := m.SetNodegroupHealth("shop", "web", issue); err != nil {
		t.Fatal(err)
	}
	n := m.nodegroup()
	equal(t, "status", n.Status, ekstypes.NodegroupStatusDegraded)
	equal(t, "issues", n.Health.Issues, []ekstypes.Issue{issue})
	if err := m.SetNodegroupHealth("shop", "web"); err != nil {
		t.Fatal(err)
	}
	equal(t, "status", m.nodegroup().Status, ekstypes.NodegroupStatusActive)
}

// TestNodegroupStatusLagsBehindUpdateStatus checks that DescribeUpdate shows an update's status at once and DescribeNodegroup does not.
func TestNodegroupStatusLagsBehindUpdateStatus(t *testing.T) {
	m := startManaged(t, awscloud.EKSOptions{StatusLag: time.Hour}, nil)
	u := must(m.requestUpdate(nil))(t)
	equal(t, "status of the group", m.nodegroup().Status, ekstypes.NodegroupStatusActive)
	equal(t, "status of the update", m.update(*u.Id).Status, ekstypes.UpdateStatusInProgress)
	equal(t, "end", m.waitForEnd().Status, ekstypes.UpdateStatusSuccessful)
}

// drainRecorder is a Drainer that records its calls and their nodes. Every Node is Ready.
type drainRecorder struct {
	mu    sync.Mutex
	calls []string
	fail  error // of every drain
}

func (n *drainRecorder) record(verb, node string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.calls = append(n.calls, verb+" "+node)
}

func (n *drainRecorder) IsReady(context.Context, string, map[string]string) (bool, error) {
	return true, nil
}

func (n *drainRecorder) Fence(_ context.Context, node string, taint bool) error {
	if taint {
		n.record("taint", node)
	} else {
		n.record("cordon", node)
	}
	return nil
}

func (n *drainRecorder) Unfence(_ context.Context, node string) error {
	n.record("unfence", node)
	return nil
}

func (n *drainRecorder) Drain(_ context.Context, node string, _ time.Duration) error {
	n.record("drain", node)
	return n.fail
}

func (n *drainRecorder) DeletePods(_ context.Context, node string, _ time.Duration) error {
	n.record("delete", node)
	return nil
}

// nodesOf lists the nodes of a method's calls, in order.
func (n *drainRecorder) nodesOf(verb string) []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	var out []string
	for _, c := range n.calls {
		if node, ok := strings.CutPrefix(c, verb+" "); ok {
			out = append(out, node)
		}
	}
	return out
}

func TestOldNodesAreFencedBeforeTheFirstDrain(t *testing.T) {
	for verb, taint := range map[string]bool{"cordon": false, "taint": true} {
		n := &drainRecorder{}
		m := startManaged(t, awscloud.EKSOptions{Drainer: n, TaintFirst: taint}, nil)
		must(m.requestUpdate(nil))(t)
		m.waitForEnd()
		var firstDrain int
		for i, c := range slices.Backward(n.calls) {
			if strings.HasPrefix(c, "drain ") {
				firstDrain = i
			}
		}
		equal(t, verb+" of three nodes first (EKS E30, E47)", firstDrain, 3)
		equal(t, verb, len(n.nodesOf(verb)), 7) // including the four nodes that scale down takes
	}
}

func TestForcedUpdateDeletesPodsThatAreLeft(t *testing.T) {
	n := &drainRecorder{fail: context.DeadlineExceeded}
	m := startManaged(t, awscloud.EKSOptions{Drainer: n}, minimal)
	must(m.requestUpdate(func(in *eks.UpdateNodegroupVersionInput) { in.Force = true }))(t)
	equal(t, "end", m.waitForEnd().Status, ekstypes.UpdateStatusSuccessful)
	equal(t, "deleted after the limit (EKS E43)", n.nodesOf("delete"), n.nodesOf("drain"))
}

func TestFailedUpdateLeavesNodesUnschedulable(t *testing.T) {
	for uncordon, want := range map[bool]int{false: 0, true: 3} {
		n := &drainRecorder{fail: context.DeadlineExceeded}
		m := startManaged(t, awscloud.EKSOptions{Drainer: n, UncordonOnFail: uncordon}, nil)
		must(m.requestUpdate(nil))(t)
		equal(t, "end", m.waitForEnd().Status, ekstypes.UpdateStatusFailed)
		equal(t, "opened nodes", len(n.nodesOf("unfence")), want)
	}
}

// TestSeedDecidesOrderOfNodes checks that the order of nodes is random (EKS E40), and that the same seed gives the same order.
func TestSeedDecidesOrderOfNodes(t *testing.T) {
	order := func(seed uint64) []string {
		n := &drainRecorder{}
		m := startManaged(t, awscloud.EKSOptions{Drainer: n, Seed: seed}, func(s *awscloud.NodegroupSpec) {
			minimal(s)
			s.Group.Counts, s.Group.Max = []int{3, 3}, 6
		})
		must(m.requestUpdate(nil))(t)
		m.waitForEnd()
		return n.nodesOf("drain")
	}
	first := order(1)
	equal(t, "the order of the same seed", order(1), first)
	if slices.Equal(order(2), first) {
		t.Error("another seed gives the same order of six nodes")
	}
}

// TestMaxUnavailableNodesAreDrainedInParallel checks that maxUnavailable nodes are drained at the same time, and that a failure names all of them (EKS
// E40).
func TestMaxUnavailableNodesAreDrainedInParallel(t *testing.T) {
	m := startManaged(t, awscloud.EKSOptions{DrainLimit: 500 * time.Millisecond}, func(s *awscloud.NodegroupSpec) { s.MaxUnavailable = 2 })
	m.BlockDrains()
	must(m.requestUpdate(nil))(t)
	two := m.waitForUpdate(func(s awscloud.UpdateState) bool { return len(s.Draining) == 2 })
	failed := m.waitForEnd().Errors[0].ResourceIds
	slices.Sort(two.Draining)
	slices.Sort(failed)
	equal(t, "nodes", failed, two.Draining)
}
