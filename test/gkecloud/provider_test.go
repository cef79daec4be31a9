package gkecloud_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud/gke"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/awscloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/gkecloud"
)

// memory keeps Nodes without an API server. Its Nodes have no pods. A drain sends to begun, and waits until hold is closed.
type memory struct {
	mu          sync.Mutex
	nodes       map[string]*corev1.Node
	begun, hold chan struct{}
	// broken is why no machine starts.
	broken error
}

func (m *memory) Boot(_ context.Context, machine awscloud.Machine) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.broken != nil {
		return m.broken
	}
	m.nodes[machine.Name] = &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: machine.Name, Labels: machine.Labels}, Spec: corev1.NodeSpec{ProviderID: machine.ProviderID},
		Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{KubeletVersion: machine.KubeletVersion}},
	}
	return nil
}

func (m *memory) DeleteNode(_ context.Context, name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.nodes, name)
	return nil
}

// release lets drains end, and keep makes later drains wait again.
func (m *memory) release() { close(m.hold) }

func (m *memory) keep() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hold = make(chan struct{})
}

func (m *memory) Drain(ctx context.Context, _ string, _ time.Duration) error {
	m.mu.Lock()
	hold := m.hold
	m.mu.Unlock()
	select {
	case m.begun <- struct{}{}:
	default: // nobody waits for another one
	}
	select {
	case <-hold:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (*memory) StopKubelet(context.Context, string) error                        { return nil }
func (*memory) IsReady(context.Context, string, map[string]string) (bool, error) { return true, nil }
func (*memory) Fence(context.Context, string, bool) error                        { return nil }
func (*memory) Unfence(context.Context, string) error                            { return nil }
func (*memory) DeletePods(ctx context.Context, node string, limit time.Duration) error {
	return ctx.Err()
}

func (m *memory) list() (nodes []*corev1.Node) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, node := range m.nodes {
		nodes = append(nodes, node)
	}
	return nodes
}

// open starts a stand-in with a pool of three nodes, and the provider for it.
func open(t *testing.T, o gkecloud.Options) (*gkecloud.Cloud, *gke.Provider, *memory) {
	t.Helper()
	nodes := &memory{nodes: map[string]*corev1.Node{}, begun: make(chan struct{}, 1), hold: make(chan struct{})}
	o.Nodes, o.Drainer, o.Boot, o.Delete = nodes, nodes, time.Nanosecond, time.Nanosecond
	standIn, err := gkecloud.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(standIn.Stop)
	env, err := standIn.Env(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, pair := range env {
		name, value, _ := strings.Cut(pair, "=")
		t.Setenv(name, value)
	}
	if err = standIn.AddPool(t.Context(), gkecloud.PoolSpec{Name: "workers", Zones: []string{"us-central1-a"}, Counts: []int{3}}); err != nil {
		t.Fatal(err)
	}
	provider, err := gke.New(t.Context(), nodes.list(), gke.Options{}) // the cluster is found by its pools
	if err != nil {
		t.Fatal(err)
	}
	return standIn, provider, nodes
}

func observe(t *testing.T, p *gke.Provider, to string) nodegroup.Group {
	t.Helper()
	group, err := p.Observe(t.Context(), cloud.Ref{Name: "workers", To: to})
	if err != nil {
		t.Fatal(err)
	}
	return group
}

func outcomeOf(err error) nodegroup.Outcome {
	if answered, ok := errors.AsType[*cloud.Error](err); ok {
		return answered.Outcome
	}
	return ""
}

// awaitState waits until the newest operation has the state.
func awaitState(t *testing.T, p *gke.Provider, want nodegroup.OperationState) nodegroup.Group {
	t.Helper()
	for {
		group := observe(t, p, "")
		if group.Managed.Operation.State == want {
			return group
		}
		select {
		case <-t.Context().Done():
			t.Fatalf("the operation is %s, want %s", group.Managed.Operation.State, want)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// TestUpgradeIsStartedOnceForEachReading: a request that rests on an older reading is refused, also if its first answer was lost.
func TestUpgradeIsStartedOnceForEachReading(t *testing.T) {
	standIn, provider, nodes := open(t, gkecloud.Options{})
	group := observe(t, provider, "")
	if !provider.Outdated(&group, nodes.list()[0]) || !provider.Belongs(&group, nodes.list()[0]) || group.Refusal != "" || group.Managed.Operation.ID != "" {
		t.Fatalf("%+v", group)
	}
	start := nodegroup.Delegate{To: group.Wanted, Width: nodegroup.Width{MaxSurge: 1}, Etag: group.Managed.Etag}
	standIn.LoseAnswers(1)
	if err := provider.Do(t.Context(), "workers", start); outcomeOf(err) != nodegroup.OutcomeUnclear {
		t.Errorf("a lost answer is %q: %v", outcomeOf(err), err)
	}
	if err := provider.Do(t.Context(), "workers", start); outcomeOf(err) != nodegroup.OutcomeMoved {
		t.Errorf("the same request again is %q: %v", outcomeOf(err), err)
	}
	running := observe(t, provider, "")
	if op := running.Managed.Operation; op.State != nodegroup.OperationRunning || op.To.ID != group.Wanted.ID || op.Stage != "0 of 3 nodes done" {
		t.Errorf("the operation is %+v", op)
	}
	start.Etag = running.Managed.Etag
	if err := provider.Do(t.Context(), "workers", start); outcomeOf(err) != nodegroup.OutcomeLater {
		t.Errorf("beside a running operation: %q: %v", outcomeOf(err), err)
	}
	close(nodes.hold)
	awaitState(t, provider, nodegroup.OperationSucceeded)
	for _, node := range nodes.list() {
		if provider.Outdated(&group, node) {
			t.Errorf("node %s has %s", node.Name, node.Status.NodeInfo.KubeletVersion)
		}
	}
	if writes := standIn.Writes(); len(writes) != 1 {
		t.Errorf("GKE accepted %q", writes)
	}
}

// TestTargetOfRunningUpgradeIsFound: an upgrade that another process started has the target that GKE's history shows, or the pool's
// version if the history is empty.
func TestTargetOfRunningUpgradeIsFound(t *testing.T) {
	for name, options := range map[string]gkecloud.Options{"by the history": {KeepsOldVersion: true}, "by the pool": {HidesTargets: true}} {
		t.Run(name, func(t *testing.T) {
			standIn, provider, _ := open(t, options)
			id, err := standIn.Upgrade("workers", "1.34.3-gke.1200")
			if err != nil {
				t.Fatal(err)
			}
			op := observe(t, provider, "").Managed.Operation
			if op.ID != id || op.To.ID != "1.34.3-gke.1200" || op.Kind != "UPGRADE_NODES" {
				t.Errorf("the operation is %+v", op)
			}
		})
	}
}

// TestCancelledOperationEndsAfterTheNodesThatHaveBegun: to cancel an operation that is over has the outcome OutcomeMoved.
func TestCancelledOperationEndsAfterTheNodesThatHaveBegun(t *testing.T) {
	standIn, provider, nodes := open(t, gkecloud.Options{})
	id, err := standIn.Upgrade("workers", "1.34.3-gke.1200")
	if err != nil {
		t.Fatal(err)
	}
	<-nodes.begun
	cancel := nodegroup.CancelOperation{Operation: id}
	if err := provider.Do(t.Context(), "workers", cancel); err != nil {
		t.Fatal(err)
	}
	if op := observe(t, provider, "").Managed.Operation; op.State != nodegroup.OperationRunning || !strings.Contains(op.Stage, "it is being cancelled") {
		t.Errorf("the operation is %+v", op)
	}
	close(nodes.hold)
	awaitState(t, provider, nodegroup.OperationCancelled)
	if err := provider.Do(t.Context(), "workers", cancel); outcomeOf(err) != nodegroup.OutcomeMoved {
		t.Errorf("again: %q: %v", outcomeOf(err), err)
	}
}

// TestUpgradeIsFollowedBesideOtherOperations: a repair or an upgrade of the control plane does not hide the pool's upgrade.
func TestUpgradeIsFollowedBesideOtherOperations(t *testing.T) {
	standIn, provider, nodes := open(t, gkecloud.Options{})
	id, err := standIn.Upgrade("workers", "1.34.3-gke.1200")
	if err != nil {
		t.Fatal(err)
	}
	endRepair, endMaster := standIn.BeginBeside("AUTO_REPAIR_NODES", "workers"), standIn.BeginBeside("UPGRADE_MASTER", "")
	if op := observe(t, provider, "").Managed.Operation; op.ID != id || op.State != nodegroup.OperationRunning {
		t.Errorf("beside a repair: %+v", op)
	}
	endRepair()
	endMaster()
	close(nodes.hold)
	if op := awaitState(t, provider, nodegroup.OperationSucceeded).Managed.Operation; op.ID != id {
		t.Errorf("at the end: %+v", op)
	}
	defer standIn.BeginBeside("UPGRADE_MASTER", "")()
	if group := observe(t, provider, ""); !strings.Contains(group.Refusal, "another operation (UPGRADE_MASTER)") {
		t.Errorf("while GKE upgrades the control plane: %q", group.Refusal)
	}
}

// TestFailureWithoutErrorIsOne: GKE's text is shown.
func TestFailureWithoutErrorIsOne(t *testing.T) {
	standIn, provider, nodes := open(t, gkecloud.Options{FailsByText: true})
	nodes.broken = errors.New("Quota 'CPUS' exceeded")
	if _, err := standIn.Upgrade("workers", "1.34.3-gke.1200"); err != nil {
		t.Fatal(err)
	}
	if op := awaitState(t, provider, nodegroup.OperationFailed).Managed.Operation; !strings.Contains(op.Failure, "a quota of the project is used up") || op.Cause != nodegroup.LaunchFailed {
		t.Errorf("the operation is %+v", op)
	}
}

// TestClusterOfOtherMachinesIsRefused: it has a pool of the same name in the same region.
func TestClusterOfOtherMachinesIsRefused(t *testing.T) {
	standIn, _, nodes := open(t, gkecloud.Options{})
	var others []*corev1.Node
	for _, node := range nodes.list() {
		other := node.DeepCopy()
		other.Spec.ProviderID = strings.Replace(other.Spec.ProviderID, "gke-main-", "gke-blue-", 1)
		others = append(others, other)
	}
	provider, err := gke.New(t.Context(), others, gke.Options{ClusterName: standIn.Name()})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err = provider.Groups(t.Context(), others); !errors.Is(err, cloud.ErrOtherCluster) || !strings.Contains(err.Error(), "--cluster-name") {
			t.Errorf("the groups of another cluster: %v", err)
		}
	}
	if _, err = gke.New(t.Context(), others, gke.Options{}); err == nil {
		t.Error("the cluster was found by its pools")
	}
}

// TestReadingIsAsOldAsItsFirstAnswer: an operation that begins during the reading may be missing.
func TestReadingIsAsOldAsItsFirstAnswer(t *testing.T) {
	_, provider, nodes := open(t, gkecloud.Options{Latency: 20 * time.Millisecond})
	before := time.Now()
	if group := observe(t, provider, ""); group.Observed.Sub(before) > 15*time.Millisecond {
		t.Errorf("observed %s after the first request", group.Observed.Sub(before))
	}
	before = time.Now()
	if groups, err := provider.Groups(t.Context(), nodes.list()); err != nil || groups[0].Observed.Sub(before) > 15*time.Millisecond {
		t.Errorf("%+v, %v", groups, err)
	}
}

// TestUnreadOperationsAreNotNone: a user who may not list operations is told so. While GKE may be changing a pool, it is an error.
func TestUnreadOperationsAreNotNone(t *testing.T) {
	standIn, provider, _ := open(t, gkecloud.Options{})
	standIn.Deny("/operations")
	if group := observe(t, provider, ""); len(group.Unread) != 1 || !strings.Contains(group.Unread[0], "how the last upgrade ended is not known") {
		t.Errorf("not read: %q", group.Unread)
	}
	if _, err := standIn.Upgrade("workers", "1.34.3-gke.1200"); err != nil {
		t.Fatal(err)
	}
	if _, err := provider.Observe(t.Context(), cloud.Ref{Name: "workers"}); err == nil || !strings.Contains(err.Error(), "container.operations.list") {
		t.Errorf("while GKE upgrades the pool: %v", err)
	}
}

func TestTargetsAreChecked(t *testing.T) {
	_, provider, _ := open(t, gkecloud.Options{ValidVersions: []string{"1.35.0-gke.100", "1.34.3-gke.1200", gkecloud.NodeVersion}})
	if group := observe(t, provider, "1.33"); group.Wanted.ID != gkecloud.NodeVersion || group.Refusal != "" {
		t.Errorf("--to=1.33: %s, %q", group.Wanted.ID, group.Refusal)
	}
	if group := observe(t, provider, "1.35"); !strings.Contains(group.Refusal, "newer than the control plane's 1.34.3-gke.1200") || group.AbsentTarget {
		t.Errorf("--to=1.35: %q, absent %t", group.Refusal, group.AbsentTarget)
	}
	if group := observe(t, provider, "1.20"); !group.AbsentTarget {
		t.Errorf("--to=1.20: %q", group.Refusal)
	}
	if _, err := provider.Observe(t.Context(), cloud.Ref{Name: "none"}); !errors.Is(err, cloud.ErrNotFound) {
		t.Errorf("a pool that does not exist: %v", err)
	}
	if err := provider.Do(t.Context(), "workers", nodegroup.Terminate{Instance: "i"}); outcomeOf(err) != nodegroup.OutcomeFatal {
		t.Errorf("to terminate a machine: %v", err)
	}
}

// TestRequestsAreComparedWithDiscoveryDocument shows that the stand-in detects invented fields and values.
func TestRequestsAreComparedWithDiscoveryDocument(t *testing.T) {
	standIn, _, _ := open(t, gkecloud.Options{})
	for name, c := range map[string]struct{ body map[string]any }{
		"an unknown field":        {map[string]any{"nodeVersion": "1", "imageType": "COS", "force": true}},
		"an unknown nested field": {map[string]any{"nodeVersion": "1", "imageType": "COS", "upgradeSettings": map[string]any{"maxSurges": 1.0}}},
		"another type":            {map[string]any{"nodeVersion": 1.0, "imageType": "COS"}},
		"an unknown value":        {map[string]any{"nodeVersion": "1", "imageType": "COS", "upgradeSettings": map[string]any{"strategy": "FAST"}}},
	} {
		if err := standIn.CheckUpdate(c.body); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}
