package upgrade_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/simulate"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// TestScenarios runs the files of testdata: a cluster in a sketch, a command, and the transcript
// of what became of the group. Renew them with -rewrite, and read the difference.
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		s := &sketch{}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "group":
				s = newSketch(t, d)
			case "workload":
				s.workload(t, d)
			case "pod":
				s.pod(t, d)
			case "run":
				return s.run(t, d)
			default:
				t.Fatalf("%s: unknown command %q", d.Pos, d.Cmd)
			}
			return ""
		})
	})
}

// sketch is a cluster described in a few words.
type sketch struct {
	spec simulate.Spec
}

// newSketch reads: group zones=(a:3,b:2) [current=(a:1)] [max=N] [provider=manual] [zonal=false].
// zones counts outdated nodes, current those of the wanted revision.
func newSketch(t *testing.T, d *datadriven.TestData) *sketch {
	outdated, current := counts(t, d, "zones"), counts(t, d, "current")
	s := &sketch{spec: simulate.Spec{
		Now: start,
		Group: upgrade.Group{
			Name: "workers", Provider: option(d, "provider", "aws"), Sized: true, Zonal: option(d, "zonal", "true") == "true",
			Wanted: upgrade.Revision{ID: "2", Name: "workers:2"}, Pointed: upgrade.Revision{ID: "2", Name: "workers:2"},
			Quiesce: []string{"AZRebalance"},
		},
		Outdated: func(n *corev1.Node) bool { return n.Labels["revision"] != "2" },
		Times:    simulate.Times{Boot: 2 * time.Minute, Leave: 30 * time.Second, Ready: 10 * time.Second, Gone: func(*corev1.Pod) time.Duration { return 5 * time.Second }},
	}}
	for _, zone := range []string{"a", "b", "c"} {
		if _, ok := outdated[zone]; ok {
			s.spec.Group.Zones = append(s.spec.Group.Zones, zone)
		}
		for i := range outdated[zone] {
			s.node(fmt.Sprintf("old-%s-%d", zone, i+1), zone, true)
		}
		for i := range current[zone] {
			s.node(fmt.Sprintf("cur-%s-%d", zone, i+1), zone, false)
		}
	}
	s.spec.Group.Desired = len(s.spec.Nodes)
	s.spec.Group.Max = number(t, d, "max", len(s.spec.Nodes))
	if s.spec.Group.Provider == "manual" {
		s.spec.Group.Sized, s.spec.Group.Instances, s.spec.Group.Quiesce = false, nil, nil
	}
	return s
}

func (s *sketch) node(name, zone string, outdated bool) {
	revision := "2"
	if outdated {
		revision = "1"
	}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), ResourceVersion: "1", Labels: map[string]string{corev1.LabelTopologyZone: zone, "revision": revision}},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}
	if s.spec.Group.Provider != "manual" {
		node.Spec.ProviderID = "sim:///" + zone + "/i-" + name
		s.spec.Group.Instances = append(s.spec.Group.Instances, upgrade.Instance{
			ID: "i-" + name, Zone: zone, State: upgrade.InstanceInService, Outdated: outdated,
		})
	}
	s.spec.Nodes = append(s.spec.Nodes, node)
}

// workload reads: workload name=web replicas=6 [allow=1]: its pods are dealt out to the nodes in turn, under
// a PodDisruptionBudget that allows that many to be missing; without allow there is none.
func (s *sketch) workload(t *testing.T, d *datadriven.TestData) {
	name, replicas := option(d, "name", "web"), number(t, d, "replicas", 1)
	for i := range replicas {
		node := s.spec.Nodes[i%len(s.spec.Nodes)].Name
		s.spec.Pods = append(s.spec.Pods, newPod(fmt.Sprintf("%s-%d", name, i), node, name))
	}
	if !d.HasArg("allow") {
		return
	}
	allow := number(t, d, "allow", 0)
	s.spec.Budgets = append(s.spec.Budgets, &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Generation: 1, ResourceVersion: "1"},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}},
		Status: policyv1.PodDisruptionBudgetStatus{
			ObservedGeneration: 1, ExpectedPods: int32(replicas), CurrentHealthy: int32(replicas),
			DesiredHealthy: int32(replicas - allow), DisruptionsAllowed: int32(allow),
		},
	})
}

// pod reads: pod name=x node=old-a-1: a pod without a controller.
func (s *sketch) pod(_ *testing.T, d *datadriven.TestData) {
	pod := newPod(option(d, "name", "bare"), option(d, "node", ""), "bare")
	pod.OwnerReferences = nil
	s.spec.Pods = append(s.spec.Pods, pod)
}

func newPod(name, node, app string) *corev1.Pod {
	yes := true
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: name, UID: types.UID(name), ResourceVersion: "1", Labels: map[string]string{"app": app},
			OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: app, UID: types.UID("rs-" + app), Controller: &yes}},
		},
		Spec:   corev1.PodSpec{NodeName: node},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
}

// run reads: run [max-unavailable=1] [surge=N] [on-timeout=skip] [stop-at=90s] [barrier=true] and upgrades the group in virtual time.
// The transcript has a line for each moment at which sizes, zones or node states changed.
func (s *sketch) run(t *testing.T, d *datadriven.TestData) string {
	unavailable := number(t, d, "max-unavailable", 1)
	req := upgrade.Request{
		Group: "workers", Run: "r1", Strategy: upgrade.Surge, Like: "eks",
		MaxUnavailable: unavailable, Window: unavailable,
		Surge:        number(t, d, "surge", min(max(2*len(s.spec.Group.Zones), unavailable), len(s.spec.Nodes)-currentNodes(s.spec.Nodes))),
		DrainTimeout: duration(15 * time.Minute), Settle: duration(time.Minute), BootTimeout: duration(20 * time.Minute),
		OnTimeout: upgrade.OnTimeout(option(d, "on-timeout", "fail")), BatchBarrier: option(d, "barrier", "false") == "true",
		WaitReplacement: option(d, "wait-replacement", "true") == "true",
	}
	cluster := simulate.New(s.spec)
	transcript := &transcript{cluster: cluster, states: map[string]upgrade.NodeState{}}
	record, err := cluster.Run(req, func(w upgrade.World, step upgrade.Step) { transcript.add(t, w, step) })
	if err != nil {
		t.Fatalf("%s: %v", d.Pos, err)
	}
	transcript.line(fmt.Sprintf("%s %s", record.Result, record.Message))
	s.spec = simulate.Spec{} // a sketch is used once
	return transcript.text.String()
}

// transcript writes down what changed, and fails the test when an invariant is broken.
type transcript struct {
	cluster *simulate.Cluster
	text    strings.Builder
	sizes   string
	phase   upgrade.Phase
	states  map[string]upgrade.NodeState
	evicted map[types.UID]bool
}

func (tr *transcript) line(text string) {
	fmt.Fprintf(&tr.text, "%8s  %s\n", tr.cluster.Now().Sub(start), strings.TrimSpace(text))
}

func (tr *transcript) add(t *testing.T, w upgrade.World, step upgrade.Step) {
	tr.check(t, w, step)
	if step.Record.Phase != tr.phase {
		tr.phase = step.Record.Phase
		tr.line("phase " + string(tr.phase))
	}
	sizes := fmt.Sprintf("desired %d max %d  %s", w.Group.Desired, w.Group.Max, tr.cluster.ZoneSizes())
	if sizes != tr.sizes {
		tr.sizes = sizes
		tr.line(sizes)
	}
	seen := map[string]upgrade.NodeState{}
	for _, n := range step.Status.Nodes {
		seen[n.Name] = n.State
		if old := tr.states[n.Name]; old != n.State && n.State != upgrade.NodePending && n.State != upgrade.NodeFenced {
			tr.line(fmt.Sprintf("%s %s", n.Name, n.State))
		}
	}
	for name := range tr.states {
		if _, still := seen[name]; !still {
			delete(tr.states, name)
		}
	}
	tr.states = seen
}

// check holds what must be true of every step (semantics 7.5, as the architecture amends it).
func (tr *transcript) check(t *testing.T, w upgrade.World, step upgrade.Step) {
	if tr.evicted == nil {
		tr.evicted = map[types.UID]bool{}
	}
	for _, action := range step.Actions {
		switch a := action.(type) {
		case upgrade.Terminate:
			checkTermination(t, w, a)
		case upgrade.Evict:
			if tr.evicted[a.UID] {
				t.Errorf("pod %s/%s is evicted twice", a.Namespace, a.Pod)
			}
			tr.evicted[a.UID] = true
		case upgrade.Fence:
			if m := find(w, a.Node); !m.Outdated {
				t.Errorf("I6: current node %s is fenced", a.Node)
			}
		}
	}
	req := w.Request
	if owed := step.Record.Ledger.Contribution(); owed < -req.MaxUnavailable || owed > req.Surge {
		t.Errorf("I9: our contribution is %d, outside [-%d, %d]", owed, req.MaxUnavailable, req.Surge)
	}
	busy := 0
	for _, n := range step.Record.Nodes {
		if n.State == upgrade.NodeDraining || n.State == upgrade.NodeForcing || n.State == upgrade.NodeEmpty {
			busy++
		}
	}
	if busy > req.Window {
		t.Errorf("I1: %d nodes in flight, window %d", busy, req.Window)
	}
}

func checkTermination(t *testing.T, w upgrade.World, a upgrade.Terminate) {
	m := find(w, a.Node)
	for _, pod := range m.Pods {
		if drain.Judge(pod, drain.Policy{}, false).Fate == drain.Stay {
			continue
		}
		if !m.Outdated {
			t.Errorf("current node %s is removed with pod %s on it", a.Node, pod.Name)
		} else if w.Record.Nodes[a.Node].State != upgrade.NodeForcing {
			t.Errorf("I2: node %s is removed with pod %s on it", a.Node, pod.Name)
		}
	}
}

func find(w upgrade.World, name string) upgrade.Member {
	i := slices.IndexFunc(w.Members, func(m upgrade.Member) bool { return m.Name() == name })
	if i < 0 {
		return upgrade.Member{}
	}
	return w.Members[i]
}

func currentNodes(nodes []*corev1.Node) int {
	n := 0
	for _, node := range nodes {
		if node.Labels["revision"] == "2" {
			n++
		}
	}
	return n
}

func duration(d time.Duration) upgrade.Duration { return upgrade.Duration{Duration: d} }

func option(d *datadriven.TestData, key, otherwise string) string {
	for _, arg := range d.CmdArgs {
		if arg.Key == key && len(arg.Vals) > 0 {
			return strings.Join(arg.Vals, ",")
		}
	}
	return otherwise
}

func number(t *testing.T, d *datadriven.TestData, key string, otherwise int) int {
	n, err := strconv.Atoi(option(d, key, strconv.Itoa(otherwise)))
	if err != nil {
		t.Fatalf("%s: %s: %v", d.Pos, key, err)
	}
	return n
}

// counts reads (a:3,b:2).
func counts(t *testing.T, d *datadriven.TestData, key string) map[string]int {
	c := map[string]int{}
	for part := range strings.SplitSeq(option(d, key, ""), ",") {
		zone, text, ok := strings.Cut(strings.TrimSpace(part), ":")
		if !ok {
			continue
		}
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("%s: %s: %v", d.Pos, key, err)
		}
		c[zone] = n
	}
	return c
}
