package e2e

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/awscloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/controlplane"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/fixture"
)

// quickOptions returns options with machines and nodes that start and stop quickly.
func quickOptions() fixture.Options {
	return fixture.Options{
		Cloud: awscloud.Options{Boot: time.Second, NodeReady: 300 * time.Millisecond, Terminate: 500 * time.Millisecond, NodeGoneAfter: 200 * time.Millisecond},
		// Parallel cases keep two cores busy, and a late heartbeat must not make a node NotReady.
		Cluster: controlplane.Options{NodeMonitorGrace: time.Minute},
	}
}

// The zones of the fixtures. Only the case that removes a zone's capacity uses zoneF.
const (
	zoneA = "us-east-1a"
	zoneB = "us-east-1b"
	zoneC = "us-east-1c"
	zoneF = "us-east-1f"
)

// testCase is one group with its workloads, and their state before the upgrade.
type testCase struct {
	*fixture.Fixture
	t     *testing.T
	group string
	// surge is how far the group's size may rise above its first size. unavailable is how far it may fall below.
	surge, unavailable int
	// mayBreak is true if budgets may be broken.
	mayBreak bool

	before  snapshot
	budgets *fixture.BudgetWatch
}

// snapshot is the state of the group and its workloads at one time.
type snapshot struct {
	group awscloud.GroupStatus
	// marks contains the marks that users may have put on the nodes, by node UID.
	marks map[types.UID]marks
	// movingPods contains the names of the pods that must leave an outdated node, by pod UID.
	movingPods map[types.UID]string
	// ready contains the number of ready pods of each workload, except DaemonSets.
	ready map[string]int
}

// marks contains the parts of a node that users and this tool change.
type marks struct {
	taints              []corev1.Taint
	cordoned            bool
	labels, annotations map[string]string
}

// marksOf returns the node's marks. It omits two that the control plane writes: the taints for the node's conditions, and the TTL
// controller's annotation for caching Secrets, which depends on the number of nodes in the cluster.
func marksOf(node *corev1.Node) marks {
	controlled := func(taint corev1.Taint) bool { return strings.HasPrefix(taint.Key, "node.kubernetes.io/") }
	annotations := maps.Clone(node.Annotations)
	delete(annotations, corev1.ObjectTTLAnnotationKey)
	return marks{
		taints: slices.DeleteFunc(slices.Clone(node.Spec.Taints), controlled), cordoned: node.Spec.Unschedulable,
		labels: node.Labels, annotations: annotations,
	}
}

func (m marks) equal(other marks) bool {
	sameTaint := func(a, b corev1.Taint) bool { return a.MatchTaint(&b) && a.Value == b.Value }
	return slices.EqualFunc(m.taints, other.taints, sameTaint) && m.cordoned == other.cordoned &&
		maps.Equal(m.labels, other.labels) && maps.Equal(m.annotations, other.annotations)
}

// openCase adds a group with workloads on its nodes, in a namespace of its own.
func openCase(t *testing.T, shared *fixture.Fixture, group fixture.Group, extra ...fixture.Workload) *testCase {
	t.Helper()
	s := openEmptyCase(t, shared, group)
	s.addDefaultWorkloads(extra...)
	s.startObserving()
	return s
}

// openEmptyCase adds a group without workloads. The caller must call startObserving.
func openEmptyCase(t *testing.T, shared *fixture.Fixture, group fixture.Group) *testCase {
	t.Helper()
	own, err := shared.InNamespace(t.Context(), group.Name)
	if err != nil {
		t.Fatal(err)
	}
	if len(group.Zones) > 0 {
		if err := own.AddGroup(group); err != nil {
			t.Fatal(err)
		}
		awaitGroupNodes(t, own, group.Name)
	}
	s := &testCase{Fixture: own, t: t, group: group.Name, surge: 2 * len(group.Zones), unavailable: 1}
	t.Cleanup(s.logStateIfFailed)
	return s
}

// logStateIfFailed logs nodes, pods, warnings and evictions if the case has failed.
func (s *testCase) logStateIfFailed() {
	if !s.t.Failed() {
		return
	}
	ctx := context.WithoutCancel(s.t.Context())
	for _, args := range [][]string{
		{"get", "nodes", "-l", "pool=" + s.group, "-L", "image"},
		{"get", "pods,pdb", "-n", s.Namespace, "-o", "wide"},
		{"get", "events", "-n", s.Namespace, "--field-selector", "type=Warning"},
	} {
		result, err := s.Kubectl(ctx, args...)
		s.t.Logf("kubectl %s: %v\n%s%s", strings.Join(args, " "), err, result.Stdout, result.Stderr)
	}
	events, err := s.Cluster.AuditEvents(ctx)
	if err != nil {
		s.t.Log(err)
	}
	for _, e := range events {
		if e.IsMutating() && e.ObjectRef.Resource == "pods" && e.ObjectRef.Subresource == "eviction" && e.ObjectRef.Namespace == s.Namespace {
			s.t.Logf("%s eviction of %s: %d %s %s", e.Received.Format(time.TimeOnly), e.ObjectRef.Name, e.ResponseStatus.Code, e.ResponseStatus.Reason, e.ResponseStatus.Message)
		}
	}
}

// awaitGroupNodes waits until all nodes of a new group accept pods. Otherwise the first node would get all pods.
func awaitGroupNodes(t *testing.T, s *fixture.Fixture, group string) {
	t.Helper()
	status, err := s.Cloud.Group(group)
	if err == nil {
		err = s.AwaitNodes(t.Context(), "pool="+group, len(status.Instances))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// addDefaultWorkloads deploys the extra workloads, a DaemonSet, and a Deployment and a StatefulSet with budgets.
func (s *testCase) addDefaultWorkloads(extra ...fixture.Workload) {
	s.t.Helper()
	s.deploy(
		fixture.Workload{Name: "web", Replicas: 4, MaxUnavailable: "1"},
		fixture.Workload{Name: "db", Kind: "StatefulSet", Replicas: 2, MaxUnavailable: "1"},
		fixture.Workload{Name: "agent", Kind: "DaemonSet"},
	)
	s.deploy(extra...)
}

// deploy adds workloads whose pods run on the group's nodes.
func (s *testCase) deploy(workloads ...fixture.Workload) {
	s.t.Helper()
	const soon = 200 * time.Millisecond
	for _, w := range workloads {
		w.Ready, w.Gone, w.NodeSelector = soon, soon, map[string]string{"pool": s.group}
		if w.Kind == "StatefulSet" {
			// A StatefulSet's pod returns under the same name. If it returns before the disruption controller has synced, the
			// controller counts it as disrupted for two minutes (disruption.go, buildDisruptedPodMap).
			w.Gone = 2 * time.Second
		}
		if err := s.Add(s.t.Context(), w); err != nil {
			s.t.Fatal(err)
		}
	}
}

// startObserving waits until all workloads run. Then it takes the snapshot before the upgrade and starts to watch the budgets.
func (s *testCase) startObserving() {
	s.t.Helper()
	s.settle()
	s.before = s.takeSnapshot()
	var err error
	// The watch must outlive the test's context, because it is read after the test has ended.
	if s.budgets, err = s.WatchBudgets(context.WithoutCancel(s.t.Context())); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { s.budgets.Stop() })
}

func (s *testCase) settle() {
	s.t.Helper()
	if err := s.Settle(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
}

func (s *testCase) takeSnapshot() snapshot {
	s.t.Helper()
	p := snapshot{marks: map[types.UID]marks{}, movingPods: map[types.UID]string{}, ready: map[string]int{}}
	p.group = s.cloudGroup()
	outdated := map[string]bool{}
	for _, node := range s.nodes() {
		p.marks[node.UID] = marksOf(&node)
		outdated[node.Name] = !s.isCurrent(&node, p.group)
	}
	for _, pod := range s.pods() {
		if outdated[pod.Spec.NodeName] && drain.Judge(&pod, drain.Policy{}, false).Fate == drain.Go {
			p.movingPods[pod.UID] = pod.Name
		}
		if drain.OwnerKind(&pod) != "DaemonSet" && drain.Ready(&pod) && pod.DeletionTimestamp == nil {
			p.ready[pod.Labels["app"]]++
		}
	}
	return p
}

// cloudGroup returns the group's state in the cloud. Without a cloud it returns the zero value.
func (s *testCase) cloudGroup() awscloud.GroupStatus {
	s.t.Helper()
	group, err := s.Cloud.Group(s.group)
	if err != nil && s.surge > 0 {
		s.t.Fatal(err)
	}
	return group
}

// isCurrent reports whether a node is current. It compares the instance's image or, without a cloud, the node's label.
func (s *testCase) isCurrent(node *corev1.Node, group awscloud.GroupStatus) bool {
	for _, i := range group.Instances {
		if i.Node == node.Name {
			return i.Image == fixture.NewImage
		}
	}
	return node.Labels["image"] == "v2"
}

// nodes returns the group's nodes.
func (s *testCase) nodes() []corev1.Node {
	s.t.Helper()
	list, err := s.Cluster.Client().CoreV1().Nodes().List(s.t.Context(), metav1.ListOptions{LabelSelector: "pool=" + s.group})
	if err != nil {
		s.t.Fatal(err)
	}
	return list.Items
}

func (s *testCase) pods() []corev1.Pod {
	s.t.Helper()
	list, err := s.Cluster.Client().CoreV1().Pods(s.Namespace).List(s.t.Context(), metav1.ListOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	return list.Items
}

// skipBudgetChecks is the flag that allows an upgrade to start although a budget blocks evictions.
const skipBudgetChecks = "--skip-check=PDB001,PDB009"

// upgradeArgs returns the arguments of an upgrade of the case's group with short timeouts.
func (s *testCase) upgradeArgs(flags ...string) []string {
	return append([]string{"nodeupgrade", s.group, "--yes", "--parallel-groups", "--progress=json", "--settle=1s", "--boot-timeout=1m", skipBudgetChecks}, flags...)
}

// start starts the upgrade.
func (s *testCase) start(flags ...string) *command {
	s.t.Helper()
	return startKubectl(s.t, s.Fixture, s.upgradeArgs(flags...)...)
}

// runUpgrade runs the upgrade, waits until it exits, and checks its exit code.
func (s *testCase) runUpgrade(code int, flags ...string) *command {
	s.t.Helper()
	c := s.start(flags...)
	c.awaitExit(code)
	return c
}
