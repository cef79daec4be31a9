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

// quick returns options with machines and nodes that start and stop quickly.
func quick() fixture.Options {
	return fixture.Options{
		Cloud: awscloud.Options{Boot: time.Second, NodeReady: 300 * time.Millisecond, Terminate: 500 * time.Millisecond, NodeGoneAfter: 200 * time.Millisecond},
		// Many cases at the same time keep two cores busy, and a late heartbeat must not make a node NotReady.
		Cluster: controlplane.Options{NodeMonitorGrace: time.Minute},
	}
}

// The zones of the fixtures. The last is only for the case that removes its capacity.
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
	// surge and unavailable are how far the group's size may rise above and fall below its first size.
	surge, unavailable int
	// mayBreak says that budgets may be broken.
	mayBreak bool

	before  snapshot
	budgets *fixture.BudgetWatch
}

// snapshot is the state of the group and its workloads at one time.
type snapshot struct {
	group awscloud.GroupStatus
	// marks are the marks that users may have put on the nodes, by node UID.
	marks map[types.UID]marks
	// moves are the pods that must leave an outdated node.
	moves map[types.UID]string
	// ready is the number of ready pods of each workload, except DaemonSets.
	ready map[string]int
}

// marks are the parts of a node that users and this tool write.
type marks struct {
	taints              []corev1.Taint
	cordoned            bool
	labels, annotations map[string]string
}

// marksOf omits the parts that the control plane writes: the taints for the node's conditions, and how long a kubelet may cache
// Secrets, which depends on the number of nodes in the cluster (the TTL controller).
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

// open begins a case for a group. The case has its own namespace, and workloads on the group's nodes.
func open(t *testing.T, shared *fixture.Fixture, group fixture.Group, extra ...fixture.Workload) *testCase {
	t.Helper()
	s := openEmpty(t, shared, group)
	s.addWorkloads(extra...)
	s.ready()
	return s
}

// openEmpty begins a case without workloads. The caller must call ready.
func openEmpty(t *testing.T, shared *fixture.Fixture, group fixture.Group) *testCase {
	t.Helper()
	own, err := shared.In(t.Context(), group.Name)
	if err != nil {
		t.Fatal(err)
	}
	if len(group.Zones) > 0 {
		if err := own.AddGroup(group); err != nil {
			t.Fatal(err)
		}
		awaitGroup(t, own, group.Name)
	}
	s := &testCase{Fixture: own, t: t, group: group.Name, surge: 2 * len(group.Zones), unavailable: 1}
	t.Cleanup(s.explain)
	return s
}

// explain logs the state that a failed case has left.
func (s *testCase) explain() {
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

// awaitGroup waits until all nodes of a new group accept pods. Otherwise the first node would get all pods.
func awaitGroup(t *testing.T, s *fixture.Fixture, group string) {
	t.Helper()
	status, err := s.Cloud.Group(group)
	if err == nil {
		err = s.AwaitNodes(t.Context(), "pool="+group, len(status.Instances))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// addWorkloads adds a Deployment and a StatefulSet with budgets and a DaemonSet, all on the group's nodes, and the extra
// workloads.
func (s *testCase) addWorkloads(extra ...fixture.Workload) {
	s.t.Helper()
	s.add(
		fixture.Workload{Name: "web", Replicas: 4, MaxUnavailable: "1"},
		fixture.Workload{Name: "db", Kind: "StatefulSet", Replicas: 2, MaxUnavailable: "1"},
		fixture.Workload{Name: "agent", Kind: "DaemonSet"},
	)
	s.add(extra...)
}

// add adds workloads to the group's nodes.
func (s *testCase) add(workloads ...fixture.Workload) {
	s.t.Helper()
	const soon = 200 * time.Millisecond
	for _, w := range workloads {
		w.Ready, w.Gone, w.NodeSelector = soon, soon, map[string]string{"pool": s.group}
		if w.Kind == "StatefulSet" {
			// If a StatefulSet's pod returns under its name before the disruption controller has synced, the controller takes it
			// for the evicted pod. It then counts as disrupted for two minutes (disruption.go, buildDisruptedPodMap).
			w.Gone = 2 * time.Second
		}
		if err := s.Add(s.t.Context(), w); err != nil {
			s.t.Fatal(err)
		}
	}
}

// ready waits until all workloads run, takes the first snapshot and starts to watch the budgets.
func (s *testCase) ready() {
	s.t.Helper()
	s.settle()
	s.before = s.takeSnapshot()
	var err error
	// This is not the test's context, because the watch is read after the test has ended.
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
	p := snapshot{marks: map[types.UID]marks{}, moves: map[types.UID]string{}, ready: map[string]int{}}
	p.group = s.cloudGroup()
	outdated := map[string]bool{}
	for _, node := range s.nodes() {
		p.marks[node.UID] = marksOf(&node)
		outdated[node.Name] = !s.current(&node, p.group)
	}
	for _, pod := range s.pods() {
		if outdated[pod.Spec.NodeName] && drain.Judge(&pod, drain.Policy{}, false).Fate == drain.Go {
			p.moves[pod.UID] = pod.Name
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

// current reports whether a node is current. It compares the instance's image or, without a cloud, the node's label.
func (s *testCase) current(node *corev1.Node, group awscloud.GroupStatus) bool {
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

// beginsBlocked skips the checks that would refuse an upgrade with a budget that blocks evictions.
const beginsBlocked = "--skip-check=PDB001,PDB009"

// args returns the arguments of an upgrade of the case's group with short times.
func (s *testCase) args(flags ...string) []string {
	return append([]string{"nodeupgrade", s.group, "--yes", "--parallel-groups", "--progress=json", "--settle=1s", "--boot-timeout=1m", beginsBlocked}, flags...)
}

// start starts the upgrade.
func (s *testCase) start(flags ...string) *command {
	s.t.Helper()
	return start(s.t, s.Fixture, s.args(flags...)...)
}

// upgrade runs the upgrade to its end and checks its exit code.
func (s *testCase) upgrade(code int, flags ...string) *command {
	s.t.Helper()
	c := s.start(flags...)
	c.end(code)
	return c
}
