package simulate_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain/schedule"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodemark"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/simulate"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/build"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// twoNodes returns a group with an outdated node old-a-1 in zone a and a current node cur-b-1 in zone b. The pods are
// on the first.
func twoNodes(pods ...*corev1.Pod) simulate.Spec {
	revision := nodegroup.Revision{ID: "2", Name: "workers:2"}
	spec := simulate.Spec{
		Now: start,
		Group: nodegroup.Group{
			Name: "workers", Provider: "aws", Can: nodegroup.FullControl(), Wanted: revision, Pointed: revision,
			Desired: 2, Max: 3, Zones: []string{"a", "b"}, WantedLabels: map[string]string{"image": "ami-2"},
		},
		Outdated: func(*corev1.Node) bool { return false },
		Times: simulate.Times{
			Boot: 2 * time.Minute, Leave: 30 * time.Second, Ready: 10 * time.Second, Gone: func(*corev1.Pod) time.Duration { return 5 * time.Second },
		},
	}
	for name, outdated := range map[string]bool{"old-a-1": true, "cur-b-1": false} {
		zone := strings.Split(name, "-")[1]
		spec.Nodes = append(spec.Nodes, build.Node(name, zone, func(n *corev1.Node) { n.Spec.ProviderID = "sim:///" + zone + "/i-" + name }))
		spec.Group.Instances = append(spec.Group.Instances, nodegroup.Instance{ID: "i-" + name, Zone: zone, State: nodegroup.InstanceInService, Outdated: outdated})
	}
	for _, pod := range pods {
		build.On("old-a-1")(pod)
	}
	spec.Pods = pods
	return spec
}

func request() record.Request {
	span := func(d time.Duration) record.Duration { return record.Duration{Duration: d} }
	return record.Request{
		Group: "workers", Run: "r1", Strategy: record.Surge, Like: "eks", MaxUnavailable: 1, Window: 1, Surge: 1, OnTimeout: record.Fail,
		DrainTimeout: span(15 * time.Minute), Settle: span(time.Minute), BootTimeout: span(20 * time.Minute),
	}
}

// execute executes one action.
func execute(c *simulate.Cluster, action nodegroup.Action) nodegroup.Attempt {
	c.Do(upgrade.Step{Record: record.Record{Run: "r1"}, Actions: []nodegroup.Action{action}})
	return c.World(request()).Open[action.Key()]
}

// advanceBy runs the simulation for the duration.
func advanceBy(c *simulate.Cluster, d time.Duration) {
	for end := c.Now().Add(d); c.Now().Before(end); {
		c.Advance(end)
	}
}

// podsOf lists the pods of a node with their states. "web-0 again" is a new pod with an old name, "another" is one
// with a new name.
func podsOf(c *simulate.Cluster, node string) string {
	var pods []string
	for _, m := range c.World(request()).Members {
		if m.Node == nil || m.Node.Name != node {
			continue
		}
		for _, pod := range m.Pods {
			name := pod.Name
			switch {
			case string(pod.UID) == name:
			case name == "web-0":
				name += " again"
			default:
				name = "another"
			}
			if pod.DeletionTimestamp != nil {
				name += " leaving"
			} else if pod.Status.Phase == corev1.PodPending {
				name += " starting"
			}
			pods = append(pods, name)
		}
	}
	return strings.Join(pods, ", ")
}

func evict(name string) schedule.Eviction {
	return schedule.Eviction{Namespace: build.Namespace, Pod: name, UID: types.UID(name), Node: "old-a-1"}
}

func fence(c *simulate.Cluster, node string) {
	execute(c, nodemark.Fence{NodeVersion: nodemark.NodeVersion{Node: node, UID: types.UID(node)}})
}

func TestSimulatedControllersReplaceEvictedPods(t *testing.T) {
	cases := map[string]struct {
		pod                     *corev1.Pod
		atOnce, gone, ready     string
		sourceAtOnce, sourceEnd string
	}{
		"a ReplicaSet brings another up at once": {
			build.Pod("web-0"), "another starting", "another starting", "another", "web-0 leaving", "",
		},
		"a StatefulSet waits until the name is free": {
			build.Pod("web-0", build.OwnedBy("StatefulSet", "web")), "", "web-0 again starting", "web-0 again", "web-0 leaving", "",
		},
		"nobody brings back a pod without a controller": {
			build.Pod("web-0", build.Bare), "", "", "", "web-0 leaving", "",
		},
		"a pod that tolerates everything comes back": {
			build.Pod("web-0", build.Tolerating(corev1.Toleration{Operator: corev1.TolerationOpExists})), "another starting", "another starting", "another", "web-0 leaving", "",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			cluster := simulate.New(twoNodes(c.pod))
			fence(cluster, "old-a-1")
			if got := execute(cluster, evict("web-0")); got.Outcome != nodegroup.OutcomeDone {
				t.Fatalf("the eviction is answered %q", got.Outcome)
			}
			expect := func(when, source, target string) {
				t.Helper()
				if got := podsOf(cluster, "old-a-1"); got != source {
					t.Errorf("%s the node has %q, want %q", when, got, source)
				}
				if got := podsOf(cluster, "cur-b-1"); got != target {
					t.Errorf("%s the other node has %q, want %q", when, got, target)
				}
			}
			expect("at once", c.sourceAtOnce, c.atOnce)
			advanceBy(cluster, 5*time.Second)
			expect("after its end", c.sourceEnd, c.gone)
			advanceBy(cluster, 10*time.Second)
			expect("in the end", c.sourceEnd, c.ready)
		})
	}
}

// A cordoned node takes only pods that tolerate the cordon. If there are only such nodes, a pod waits for a new node.
func TestPodStaysPendingWhileAllNodesAreCordoned(t *testing.T) {
	cluster := simulate.New(twoNodes(build.Pod("web-0")))
	fence(cluster, "old-a-1")
	fence(cluster, "cur-b-1")
	execute(cluster, evict("web-0"))
	advanceBy(cluster, time.Minute)
	if got := podsOf(cluster, "old-a-1") + podsOf(cluster, "cur-b-1"); got != "" {
		t.Errorf("pods %q on fenced nodes", got)
	}
	execute(cluster, nodemark.Unfence{NodeVersion: nodemark.NodeVersion{Node: "cur-b-1", UID: "cur-b-1"}})
	if got := podsOf(cluster, "cur-b-1"); got != "another starting" {
		t.Errorf("the node that takes pods again has %q", got)
	}
}

// An eviction spends its budget at once. The budget recovers when the replacement is ready.
func TestEvictionSpendsBudgetUntilReplacementIsReady(t *testing.T) {
	spec := twoNodes(build.Pod("web-0"), build.Pod("web-1"), build.Pod("web-2"))
	spec.Budgets = []*policyv1.PodDisruptionBudget{build.Budget("web")}
	cluster := simulate.New(spec)
	fence(cluster, "old-a-1")
	if got := execute(cluster, evict("web-0")); got.Outcome != nodegroup.OutcomeDone {
		t.Errorf("the first eviction is answered %q", got.Outcome)
	}
	if got := execute(cluster, evict("web-1")); got.Outcome != nodegroup.OutcomeRefused || got.Detail == "" {
		t.Errorf("the second eviction is answered %q: %q", got.Outcome, got.Detail)
	}
	if shown, ok := cluster.World(request()).Disrupted[types.NamespacedName{Namespace: "shop", Name: "web-0"}]; !ok || !shown.Equal(start) {
		t.Errorf("the budget's status shows the first eviction at %s, %t", shown, ok)
	}
	advanceBy(cluster, 10*time.Second-time.Nanosecond)
	if got := execute(cluster, evict("web-1")); got.Outcome != nodegroup.OutcomeRefused {
		t.Errorf("before the replacement is ready it is answered %q", got.Outcome)
	}
	advanceBy(cluster, time.Nanosecond)
	if got := execute(cluster, evict("web-1")); got.Outcome != nodegroup.OutcomeDone {
		t.Errorf("when the replacement is ready it is answered %q", got.Outcome)
	}
	if spec.Budgets[0].Status.DisruptionsAllowed != 1 {
		t.Error("the budget it was made from changed")
	}
}

func TestActionOnReplacedObjectHasOutcomeMoved(t *testing.T) {
	cluster := simulate.New(twoNodes(build.Pod("web-0")))
	for name, action := range map[string]nodegroup.Action{
		"another UID":  schedule.Eviction{Namespace: build.Namespace, Pod: "web-0", UID: "other", Node: "old-a-1"},
		"another node": schedule.Eviction{Namespace: build.Namespace, Pod: "web-0", UID: "web-0", Node: "cur-b-1"},
		"deletion":     schedule.Deletion{Namespace: build.Namespace, Pod: "web-0", UID: "other", Node: "old-a-1"},
		"a node":       nodemark.Fence{NodeVersion: nodemark.NodeVersion{Node: "old-a-1", UID: "other"}},
	} {
		if got := execute(cluster, action); got.Outcome != nodegroup.OutcomeMoved {
			t.Errorf("%s: answered %q, want %q", name, got.Outcome, nodegroup.OutcomeMoved)
		}
	}
}

func TestSimulatedCloudAnswersLaunchesAndTerminations(t *testing.T) {
	launch := nodegroup.AddCapacity{Zone: "a", N: 1, Token: "t1"}
	cases := map[string]struct {
		actions []nodegroup.Action
		want    string // the last answer, desired and max sizes, zones
	}{
		"a launch in a zone":                  {[]nodegroup.Action{launch}, "done 3 3 a:2 b:1"},
		"the same launch again":               {[]nodegroup.Action{launch, launch}, "done 3 3 a:2 b:1"},
		"a launch over the maximum":           {[]nodegroup.Action{launch, nodegroup.AddCapacity{Zone: "a", N: 1, Token: "t2"}}, "exhausted 3 3 a:2 b:1"},
		"one after the maximum was raised":    {[]nodegroup.Action{nodegroup.RaiseMax{Max: 4}, launch, nodegroup.AddCapacity{Zone: "b", N: 1, Token: "t2"}}, "done 4 4 a:2 b:2"},
		"the group as a whole":                {[]nodegroup.Action{nodegroup.AddCapacity{N: 2, Desired: 2, Token: "t1"}}, "done 4 5 a:2 b:2"},
		"a termination that shrinks":          {[]nodegroup.Action{nodegroup.Terminate{Instance: "i-old-a-1", Shrink: true}}, "done 1 3 a:0 b:1"},
		"one that is replaced, by the group":  {[]nodegroup.Action{nodegroup.Terminate{Instance: "i-cur-b-1"}}, "done 2 3 a:1 b:1"},
		"one that is going already":           {[]nodegroup.Action{nodegroup.Terminate{Instance: "i-old-a-1", Shrink: true}, nodegroup.Terminate{Instance: "i-old-a-1", Shrink: true}}, "moved 1 3 a:0 b:1"},
		"one that nobody knows":               {[]nodegroup.Action{nodegroup.Terminate{Instance: "i-0"}}, "moved 2 3 a:1 b:1"},
		"the maximum is lowered":              {[]nodegroup.Action{nodegroup.LowerMax{Max: 2}}, "done 2 2 a:1 b:1"},
		"the maximum is not below the group":  {[]nodegroup.Action{nodegroup.LowerMax{Max: 1}}, "done 2 2 a:1 b:1"},
		"what the group cannot do is refused": {[]nodegroup.Action{nil}, "fatal 2 3 a:1 b:1"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			cluster := simulate.New(twoNodes())
			var last nodegroup.Outcome
			for _, action := range c.actions {
				if action == nil {
					action = unknown{}
				}
				last = execute(cluster, action).Outcome
			}
			group := cluster.World(request()).Group
			if got := fmt.Sprintf("%s %d %d %s", last, group.Desired, group.Max, build.ZoneSizes(&group)); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// unknown is an action that no cloud supports.
type unknown struct{}

func (unknown) Key() string    { return "unknown" }
func (unknown) String() string { return "do something" }

func TestProcessesAreSuspendedAndResumed(t *testing.T) {
	spec := twoNodes()
	spec.Group.Suspended = []string{"Launch"}
	cluster := simulate.New(spec)
	suspended := func() string { return strings.Join(cluster.World(request()).Group.Suspended, " ") }
	execute(cluster, nodegroup.Quiesce{Processes: []string{"AZRebalance"}})
	if got := suspended(); got != "Launch AZRebalance" {
		t.Errorf("suspended %q", got)
	}
	execute(cluster, nodegroup.Resume{Processes: []string{"AZRebalance"}})
	if got := suspended(); got != "Launch" {
		t.Errorf("suspended %q", got)
	}
}

func TestNewNodeIsReadyAfterItsBootTime(t *testing.T) {
	cluster := simulate.New(twoNodes())
	execute(cluster, nodegroup.AddCapacity{Zone: "a", N: 1, Token: "t1"})
	find := func() *nodegroup.Member {
		for _, m := range cluster.World(request()).Members {
			if !strings.HasPrefix(m.Name(), "old-") && !strings.HasPrefix(m.Name(), "cur-") {
				return &m
			}
		}
		return nil
	}
	advanceBy(cluster, 2*time.Minute-time.Nanosecond)
	if m := find(); m == nil || m.Node != nil || m.Instance.State != nodegroup.InstancePending {
		t.Errorf("before its boot time the new member is %+v", m)
	}
	advanceBy(cluster, time.Nanosecond)
	m := find()
	if m == nil || m.Node == nil || m.Outdated || m.Zone() != "a" || !m.Usable(map[string]string{"image": "ami-2"}) {
		t.Errorf("after its boot time the new member is %+v", m)
	}
}

// A terminated machine is listed as leaving until it and its node are gone.
func TestSimulatedTerminationRemovesInstanceAndNode(t *testing.T) {
	cluster := simulate.New(twoNodes())
	execute(cluster, nodegroup.Terminate{Instance: "i-old-a-1", Shrink: true})
	members := func() string {
		var all []string
		for _, m := range cluster.World(request()).Members {
			all = append(all, fmt.Sprintf("%s %s", m.Name(), m.Instance.State))
		}
		return strings.Join(all, ", ")
	}
	if got := members(); got != "cur-b-1 InService, old-a-1 Terminating" {
		t.Errorf("members: %s", got)
	}
	advanceBy(cluster, 30*time.Second)
	if got := members(); got != "cur-b-1 InService" {
		t.Errorf("members: %s", got)
	}
}

func TestAdvanceStopsAtNextEventAndNeverGoesBack(t *testing.T) {
	cluster := simulate.New(twoNodes())
	if cluster.Advance(time.Time{}) {
		t.Error("a cluster in which nothing is to happen moved")
	}
	if cluster.Advance(start.Add(-time.Second)) || !cluster.Now().Equal(start) {
		t.Error("it moved back")
	}
	if !cluster.Advance(start.Add(time.Second)) || !cluster.Now().Equal(start.Add(time.Second)) {
		t.Errorf("it is %s, want a second later", cluster.Now())
	}
	execute(cluster, nodegroup.AddCapacity{Zone: "a", N: 1, Token: "t1"})
	if !cluster.Advance(start.Add(time.Hour)) || !cluster.Now().Equal(start.Add(2*time.Minute+time.Second)) {
		t.Errorf("it is %s, want the time of the boot", cluster.Now())
	}
}

// steps runs the upgrade and returns all actions with their times.
func steps(t *testing.T, spec simulate.Spec) string {
	t.Helper()
	var text strings.Builder
	_, err := simulate.New(spec).Run(t.Context(), request(), func(w upgrade.World, step upgrade.Step) {
		for _, action := range step.Actions {
			fmt.Fprintf(&text, "%s %s\n", w.Now.Sub(start), action)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return text.String()
}

func manyPods() simulate.Spec {
	var pods []*corev1.Pod
	for i := range 12 {
		pods = append(pods, build.Pod(fmt.Sprintf("web-%02d", i)))
	}
	spec := twoNodes(pods...)
	spec.Budgets = []*policyv1.PodDisruptionBudget{build.Budget("web", build.Counts(12, 12, 9))}
	return spec
}

func TestSimulationsOfSameClusterAreEqual(t *testing.T) {
	first := steps(t, manyPods())
	if !strings.Contains(first, "evict pod shop/web-00") || !strings.Contains(first, "terminate instance i-old-a-1") {
		t.Errorf("the run does not do what an upgrade does:\n%s", first)
	}
	for range 5 {
		if again := steps(t, manyPods()); again != first {
			t.Fatalf("another run:\n%s\nand the first:\n%s", again, first)
		}
	}
}

// New copies what it changes, so a Spec can be run twice.
func TestSpecIsNotChanged(t *testing.T) {
	spec := manyPods()
	first := steps(t, spec)
	if again := steps(t, spec); again != first {
		t.Errorf("a second run of one Spec:\n%s\nand the first:\n%s", again, first)
	}
	if unchanged := manyPods(); !reflect.DeepEqual(spec.Pods, unchanged.Pods) || !reflect.DeepEqual(spec.Budgets, unchanged.Budgets) {
		t.Error("the Spec's objects changed")
	}
}

func TestForecastShowsEndsPeakAndStuckNode(t *testing.T) {
	spec := twoNodes(build.Pod("bare", build.Bare))
	spec.Nodes = append(spec.Nodes, build.Node("old-a-2", "a", func(n *corev1.Node) { n.Spec.ProviderID = "sim:///a/i-old-a-2" }))
	spec.Group.Instances = append(spec.Group.Instances, nodegroup.Instance{ID: "i-old-a-2", Zone: "a", State: nodegroup.InstanceInService, Outdated: true})
	spec.Group.Desired = 3
	forecast, err := simulate.Predict(t.Context(), spec, request())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, n := range forecast.Nodes {
		got = append(got, fmt.Sprintf("%s batch %d stuck %t", n.Name, n.Batch, n.Stuck != ""))
	}
	if want := "old-a-2 batch 1 stuck false, old-a-1 batch 2 stuck true"; strings.Join(got, ", ") != want {
		t.Errorf("got %q, want %q", strings.Join(got, ", "), want)
	}
	want := simulate.Ending{Result: record.PodEvictionFailure, After: forecast.Duration.Latest, Node: "old-a-1", Blocker: "pod shop/bare", NotReached: 0}
	for _, ends := range []simulate.Ending{forecast.Fast, forecast.Slow} {
		if ends.Why = ""; ends != want {
			t.Errorf("it ends %+v, want %+v", ends, want)
		}
	}
	if forecast.Peak != 4 {
		t.Errorf("peak %d, want 4", forecast.Peak)
	}
	if !strings.Contains(forecast.Nodes[1].Stuck, "no controller") {
		t.Errorf("stuck: %q", forecast.Nodes[1].Stuck)
	}
}

func TestForecastContinuesBootsAndTerminations(t *testing.T) {
	spec := twoNodes()
	spec.Group.Instances = append(spec.Group.Instances, nodegroup.Instance{ID: "i-late", Zone: "b", State: nodegroup.InstancePending})
	for i := range spec.Group.Instances {
		if spec.Group.Instances[i].ID == "i-old-a-1" {
			spec.Group.Instances[i].State = nodegroup.InstanceLeaving
		}
	}
	c := simulate.New(spec)
	for c.Advance(start.Add(5 * time.Minute)) {
	}
	var names []string
	for _, m := range c.World(request()).Members {
		if m.Node != nil {
			names = append(names, m.Name())
		}
	}
	if want := []string{"cur-b-1", "late"}; !reflect.DeepEqual(names, want) {
		t.Errorf("the nodes are %v in the end, want %v: what was terminating goes and what was booting comes", names, want)
	}
}
