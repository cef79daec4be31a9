package simulate_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/simulate"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/build"
)

// shop returns a group of three outdated nodes in one zone. Each has a pod of web and a pod of cache. The pods of web
// take 20 s to become ready, and their budget lets one be missing. cache has no budget.
func shop() simulate.Spec {
	revision := nodegroup.Revision{ID: "2", Name: "workers:2"}
	spec := simulate.Spec{
		Now: start, Outdated: func(*corev1.Node) bool { return true },
		Group: nodegroup.Group{
			Name: "workers", Provider: "aws", Can: nodegroup.FullControl(), Wanted: revision, Pointed: revision, Desired: 3, Max: 3, Zones: []string{"a"},
		},
	}
	for i := range 3 {
		name := fmt.Sprintf("old-%d", i)
		n := node(name, "a", allocatable("2", "4Gi", "10"))
		n.Spec.ProviderID = "sim:///a/i-" + name
		spec.Nodes = append(spec.Nodes, n)
		spec.Group.Instances = append(spec.Group.Instances, nodegroup.Instance{ID: "i-" + name, Zone: "a", State: nodegroup.InstanceInService, Outdated: true})
		for app, ready := range map[string]time.Duration{"web": 20 * time.Second, "cache": 5 * time.Second} {
			spec.Pods = append(spec.Pods, build.Pod(fmt.Sprintf("%s-%d", app, i), build.App(app), build.On(name), requests("500m", "1Gi"), started(start.Add(-time.Hour), ready)))
		}
	}
	return spec
}

func allow(spec *simulate.Spec, missing int32) {
	spec.Budgets = append(spec.Budgets, build.Budget("web", build.Counts(3, 3, 3-missing)))
}

// predict returns a forecast as a few lines of text.
func predict(t *testing.T, spec simulate.Spec, req record.Request) string {
	t.Helper()
	spec.Times, _ = simulate.Estimate(&spec)
	f, err := simulate.Predict(t.Context(), spec, req)
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, n := range f.Nodes {
		fmt.Fprintf(&text, "%d %s start %s-%s end %s-%s waits %s %q stuck %t\n", n.Batch, n.Name, n.Start.Earliest, n.Start.Latest, n.End.Earliest, n.End.Latest, n.Waits, n.WaitsFor, n.Stuck != "")
	}
	fmt.Fprintf(&text, "%s in %s-%s, peak %d, %.2f extra hours, %d evictions\n", f.Slow.Result, f.Duration.Earliest, f.Duration.Latest, f.Peak, f.ExtraHours, f.Evictions)
	if e := f.Slow; e.Node != "" {
		fmt.Fprintf(&text, "at node %s, %s; %d not reached\n", e.Node, e.Blocker, e.NotReached)
	}
	for _, d := range f.Deletions {
		fmt.Fprintf(&text, "deleted %d of %s after %s, %d past their budgets\n", d.Pods, d.Workload, d.After, d.PastBudget)
	}
	for _, u := range f.Unplaced {
		fmt.Fprintf(&text, "unplaced %s of %s: %s\n", u.Pod, u.Owner, u.Reason)
	}
	return text.String()
}

func TestForecastOfSmallGroupMatchesExpectedText(t *testing.T) {
	one, all, forced := request(), request(), request()
	forced.OnTimeout = record.Force
	skipping := func(r record.Request) record.Request { r.OnTimeout = record.Skip; return r }
	one.Surge, all.Surge, all.MaxUnavailable, all.Window = 1, 3, 3, 3
	cases := map[string]struct {
		change func(*simulate.Spec)
		req    record.Request
		want   string
	}{
		"one after the other": {func(s *simulate.Spec) { allow(s, 1) }, one, `
1 old-0 start 2m0s-2m0s end 3m31s-4m0s waits 2m0s "new nodes" stuck false
2 old-1 start 3m1s-3m30s end 4m32s-5m30s waits 1m30s "earlier nodes" stuck false
3 old-2 start 5m1s-5m30s end 6m32s-7m30s waits 1m30s "earlier nodes" stuck false
succeeded in 6m32s-7m30s, peak 4, 0.12 extra hours, 6 evictions
`},
		"all at once, one budget": {func(s *simulate.Spec) { allow(s, 1) }, all, `
1 old-0 start 2m0s-2m0s end 3m31s-4m0s waits 2m0s "new nodes" stuck false
1 old-1 start 2m5s-2m5s end 3m51s-4m20s waits 15s "PDB shop/web" stuck false
1 old-2 start 2m5s-2m5s end 4m11s-4m40s waits 35s "PDB shop/web" stuck false
succeeded in 4m11s-4m40s, peak 6, 0.19 extra hours, 6 evictions
`},
		"a budget that is never open": {func(s *simulate.Spec) { allow(s, 0) }, one, `
1 old-0 start 2m0s-2m0s end 0s-0s waits 15m0s "PDB shop/web" stuck true
PodEvictionFailure in 17m0s-17m0s, peak 4, 0.28 extra hours, 1 evictions
at node old-0, PDB shop/web; 2 not reached
`},
		"a budget that is never open, and nodes left behind": {func(s *simulate.Spec) { allow(s, 0) }, skipping(one), `
1 old-0 start 2m0s-2m0s end 0s-0s waits 15m0s "PDB shop/web" stuck true
2 old-1 start 17m0s-17m0s end 0s-0s waits 15m0s "PDB shop/web" stuck true
3 old-2 start 32m0s-32m0s end 0s-0s waits 15m0s "PDB shop/web" stuck true
left-behind in 47m0s-47m0s, peak 4, 0.78 extra hours, 3 evictions
`},
		"a budget that is overruled": {func(s *simulate.Spec) { allow(s, 0) }, forced, `
1 old-0 start 2m0s-2m0s end 18m31s-19m0s waits 15m0s "PDB shop/web" stuck false
2 old-1 start 18m1s-18m30s end 34m32s-35m30s waits 16m30s "earlier nodes" stuck false
3 old-2 start 34m2s-35m0s end 50m33s-52m0s waits 16m30s "earlier nodes" stuck false
succeeded in 50m33s-52m0s, peak 4, 0.86 extra hours, 3 evictions
deleted 3 of shop/ReplicaSet/web after 17m0s, 3 past their budgets
`},
		"a cloud that is asked now and then": {func(s *simulate.Spec) { allow(s, 1); s.Times.Seen = 4 * time.Second }, one, `
1 old-0 start 2m4s-2m4s end 3m35s-4m4s waits 2m4s "new nodes" stuck false
2 old-1 start 3m5s-3m34s end 4m36s-5m34s waits 1m30s "earlier nodes" stuck false
3 old-2 start 5m5s-5m34s end 6m36s-7m34s waits 1m30s "earlier nodes" stuck false
succeeded in 6m40s-7m38s, peak 4, 0.12 extra hours, 6 evictions
`},
		"no room for a pod": {func(s *simulate.Spec) {
			for _, pod := range s.Pods {
				pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: pod.Spec.NodeName}
			}
		}, one, `
1 old-0 start 2m0s-2m0s end 3m31s-4m0s waits 2m0s "new nodes" stuck false
WorkloadUnhealthy in 10m1s-10m30s, peak 4, 0.17 extra hours, 2 evictions
unplaced shop/cache-0-r10 of ReplicaSet shop/cache: 0/4 nodes are available: 4 node(s) didn't match Pod's node affinity/selector
unplaced shop/web-0-r13 of ReplicaSet shop/web: 0/4 nodes are available: 4 node(s) didn't match Pod's node affinity/selector
`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			spec := shop()
			c.change(&spec)
			if got := predict(t, spec, c.req); got != strings.TrimPrefix(c.want, "\n") {
				t.Errorf("got:\n%s\nwant:%s", got, c.want)
			}
		})
	}
}

func TestForecastDoesNotDependOnOrderOfObjects(t *testing.T) {
	spec := shop()
	allow(&spec, 1)
	first := predict(t, spec, request())
	for range 5 {
		again := shop() // its lists are in another order
		allow(&again, 1)
		if got := predict(t, again, request()); got != first {
			t.Fatalf("first:\n%s\nthen:\n%s", first, got)
		}
	}
}

func TestForecastMeasuresFreeRoomAndMovedPods(t *testing.T) {
	spec := shop()
	spec.Others = []*corev1.Node{
		node("other", "a", allocatable("4", "8Gi", "10")), node("gpu", "a", allocatable("4", "8Gi", "10"), build.Tainted("gpu")), node("small", "a", allocatable("1", "1Gi", "1")),
	}
	spec.Pods = append(spec.Pods, pods("x", "other", requests("1", "2Gi")), pods("agent", "old-0", build.OwnedBy("DaemonSet", "agent"), requests("1", "1Gi")))
	req := request()
	req.Surge = 2
	f, err := simulate.Predict(t.Context(), spec, req)
	if err != nil {
		t.Fatal(err)
	}
	text := func(a simulate.Amount) string {
		return fmt.Sprintf("%s %s %d", a.CPU.String(), a.Memory.String(), a.Pods)
	}
	r := f.Room
	if got := fmt.Sprintf("%s; %d nodes %s; surge %s", text(r.Moves), r.Nodes, text(r.Free), text(r.Added)); got != "3 6Gi 6; 2 nodes 4 7Gi 10; surge 4 8Gi 20" {
		t.Error(got)
	}
}

// No sum of requests is negative, whatever the pods request.
func TestForecastSumsHugeAndNegativeRequests(t *testing.T) {
	for _, cpu := range []string{"9Pi", "-15"} {
		spec := shop()
		spec.Pods = append(spec.Pods, pods("x", "old-0", requests(cpu, "1Gi")))
		f, err := simulate.Predict(t.Context(), spec, request())
		if _, isEndless := errors.AsType[*simulate.EndlessError](err); err != nil && !isEndless {
			t.Fatal(err)
		}
		if r := f.Room; r.Moves.CPU.Sign() < 0 || r.Moves.Pods == 0 {
			t.Errorf("%s: got %s CPU of %d pods", cpu, r.Moves.CPU.String(), r.Moves.Pods)
		}
	}
}

// A node's settle time ends at the very moment at which the pod that left it becomes ready elsewhere. At that moment,
// the upgrade does not know yet that the pod is ready.
func TestSimulatedUpgradeSeesSimultaneousChangesLater(t *testing.T) {
	web := build.Pod("web-0")
	spec := twoNodes(web)
	spec.Budgets = []*policyv1.PodDisruptionBudget{build.Budget("web", build.Counts(1, 1, 0))}
	req := request()
	req.Settle.Duration = 5 * time.Second // with 5 s for the pod's end, these are the 10 s that its successor needs
	terminated := false
	_, err := simulate.New(spec).Run(t.Context(), req, func(w upgrade.World, step upgrade.Step) {
		for _, action := range step.Actions {
			if _, ok := action.(nodegroup.Terminate); ok {
				terminated = true
				if healthy := w.Budgets.Covering(web)[0].Status.CurrentHealthy; healthy != 0 {
					t.Errorf("%d pods are known to be healthy when the node has settled, want none", healthy)
				}
			}
		}
	})
	if err != nil || !terminated {
		t.Errorf("terminated %t, error %v", terminated, err)
	}
}

// Drawn node orders widen the forecast, because a cloud may start the nodes in any order (EKS E40): a node may be
// first in one order and last in another.
func TestRandomNodeOrdersWidenForecast(t *testing.T) {
	spec := shop()
	spec.Times, _ = simulate.Estimate(&spec)
	one, err := simulate.Predict(t.Context(), spec, request())
	if err != nil {
		t.Fatal(err)
	}
	spec.Draws = 5
	drawn, err := simulate.Predict(t.Context(), spec, request())
	if err != nil {
		t.Fatal(err)
	}
	wider := 0
	for i, n := range drawn.Nodes {
		if n.Start.Earliest.Duration < one.Nodes[i].Start.Earliest.Duration || n.Start.Latest.Duration > one.Nodes[i].Start.Latest.Duration {
			wider++
		}
	}
	if wider == 0 || drawn.Duration.Latest.Duration < one.Duration.Latest.Duration {
		t.Errorf("no node of %d starts at another time: %+v, in one order %+v", len(drawn.Nodes), drawn.Nodes, one.Nodes)
	}
}

// A managed group without outdated nodes has nothing to replace and no surplus node to remove.
func TestForecastOfCurrentManagedGroupReplacesNothing(t *testing.T) {
	spec := shop()
	for i := range spec.Group.Instances {
		spec.Group.Instances[i].Outdated = false
	}
	spec.Group.Min, spec.Group.Managed = 1, &nodegroup.Managed{}
	req := request()
	spec.Group, spec.Record, req = upgrade.DelegatedAsOwn(spec.Group, nil, &record.Record{}, req, spec.Now)
	if got, want := predict(t, spec, req), "succeeded in 0s-0s, peak 3, 0.00 extra hours, 0 evictions\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Pods under a tight budget leave two nodes. A cloud that terminates first fences each node only when its turn comes,
// so pods move to the other old node and must move twice. A cloud that adds nodes first fences all old nodes before
// any drain. At the end, it removes a surplus node, to which all the pods went (EKS E30, E50, E60, E62).
func TestForecastCordonsNodesInOrderOfManagedUpdate(t *testing.T) {
	for minimal, want := range map[bool]string{true: "peak 2, 0.00 extra hours, 6 evictions", false: "peak 3, 0.12 extra hours, 8 evictions"} {
		spec := shop()
		spec.Nodes, spec.Pods, spec.Group.Instances = spec.Nodes[:2], nil, spec.Group.Instances[:2]
		for i := range 4 {
			spec.Pods = append(spec.Pods, build.Pod(fmt.Sprintf("web-%d", i), build.App("web"), build.On(spec.Nodes[i%2].Name), started(start.Add(-time.Hour), 5*time.Second)))
		}
		spec.Budgets = append(spec.Budgets, build.Budget("web", build.Counts(4, 4, 3)))
		spec.Group.Desired, spec.Group.Max, spec.Group.Managed = 2, 2, &nodegroup.Managed{TerminateFirst: minimal}
		req := request()
		if minimal {
			req.Surge = 0
		}
		spec.Group, spec.Record, req = upgrade.DelegatedAsOwn(spec.Group, nil, &record.Record{}, req, spec.Now)
		if got := predict(t, spec, req); strings.Contains(got, "stuck true") || !strings.Contains(got, want) {
			t.Errorf("TerminateFirst %t: want %q in\n%s", minimal, want, got)
		}
	}
}

// A workload of one pod runs beside others of three, and one budget never opens.
func TestForecastCountsOutagesAndForcedPods(t *testing.T) {
	force := func(spec *simulate.Spec, req *record.Request) { allow(spec, 0); req.OnTimeout = record.Force }
	single := func(spec *simulate.Spec, _ *record.Request) {
		spec.Pods = append(spec.Pods, build.Pod("one", build.App("one"), build.On("old-1"), started(start.Add(-time.Hour), 40*time.Second)))
	}
	cases := map[string]struct {
		with   func(*simulate.Spec, *record.Request)
		outage time.Duration
		forced int
	}{
		"nothing":                    {func(*simulate.Spec, *record.Request) {}, 0, 0},
		"a pod that stands alone":    {single, 40 * time.Second, 0},
		"pods deleted past a budget": {force, 0, 3},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			spec, req := shop(), request()
			c.with(&spec, &req)
			spec.Times, _ = simulate.Estimate(&spec)
			f, err := simulate.Predict(t.Context(), spec, req)
			if err != nil {
				t.Fatal(err)
			}
			if f.Outage != c.outage || f.Forced != c.forced {
				t.Errorf("%s without a ready pod and %d pods deleted past a budget, want %s and %d", f.Outage, f.Forced, c.outage, c.forced)
			}
		})
	}
}

// The cloud has already added its node and replaced the first of three. The forecast of the rest takes as long as a
// whole forecast from that moment on.
func TestForecastContinuesRunningManagedUpdate(t *testing.T) {
	whole := shop()
	whole.Group.Managed = &nodegroup.Managed{}
	rec := record.Record{
		Run: "r1", Started: start, Delegation: &record.Delegation{}, Total: 3, Target: whole.Group.Wanted, Provider: "aws",
		Sizes: nodegroup.Sizes{Desired: 3, Max: 3, Zones: map[string]int{"a": 3}},
	}
	forecast := func(spec simulate.Spec, record record.Record) simulate.Forecast {
		t.Helper()
		req := request()
		spec.Group, spec.Record, req = upgrade.DelegatedAsOwn(spec.Group, nil, &record, req, spec.Now)
		spec.Times, _ = simulate.Estimate(&spec)
		f, err := simulate.Predict(t.Context(), spec, req)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	all := forecast(whole, rec)

	rest := shop()
	rest.Group.Managed, rest.Group.Desired, rest.Group.Max = &nodegroup.Managed{}, 4, 4
	rest.Nodes, rest.Group.Instances = rest.Nodes[1:], rest.Group.Instances[1:]
	for _, name := range []string{"new-0", "new-1"} {
		n := node(name, "a", allocatable("2", "4Gi", "10"))
		n.Spec.ProviderID = "sim:///a/i-" + name
		rest.Nodes = append(rest.Nodes, n)
		rest.Group.Instances = append(rest.Group.Instances, nodegroup.Instance{ID: "i-" + name, Zone: "a", State: nodegroup.InstanceInService})
	}
	for _, pod := range rest.Pods {
		if pod.Spec.NodeName == "old-0" {
			pod.Spec.NodeName = "new-0"
		}
	}
	for _, n := range rest.Nodes[:2] {
		n.Spec.Unschedulable = true
	}
	rec.Replaced = 1
	left := forecast(rest, rec)
	if left.Slow.Result != record.Succeeded || len(left.Nodes) != 2 || left.Peak != 4 {
		t.Fatalf("%s, peak %d: %+v", left.Slow.Result, left.Peak, left.Nodes)
	}
	want := all.Duration.Latest.Duration - all.Nodes[0].End.Latest.Duration
	if off := (left.Duration.Latest.Duration - want).Abs(); off > 10*time.Second {
		t.Errorf("%s are left, of %s with %s until the first has gone", left.Duration, all.Duration, all.Nodes[0].End)
	}
}

// A DaemonSet pod that crashes on a current node may or may not recover. The forecast contains both endings.
func TestForecastIncludesThatCrashingPodMayNotRecover(t *testing.T) {
	agent := func(name, on string, with ...func(*corev1.Pod)) *corev1.Pod {
		return build.Pod(name, append([]func(*corev1.Pod){build.OwnedBy("DaemonSet", "agent"), build.On(on)}, with...)...)
	}
	crashing := func(pod *corev1.Pod) {
		build.Unready(pod)
		pod.CreationTimestamp, pod.Status.StartTime = metav1.Time{Time: start}, &metav1.Time{Time: start}
		waiting := &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "agent", RestartCount: 5, State: corev1.ContainerState{Waiting: waiting}}}
	}
	spec := twoNodes(agent("agent-0", "old-a-1"))
	spec.Pods, spec.Times = append(spec.Pods, agent("agent-1", "cur-b-1", crashing)), simulate.Times{}
	spec.Times, _ = simulate.Estimate(&spec)
	f, err := simulate.Predict(t.Context(), spec, request())
	if err != nil {
		t.Fatal(err)
	}
	if f.Fast.Result != record.Succeeded || f.Slow.Result != record.WorkloadUnhealthy || !strings.Contains(f.Slow.Why, "CrashLoopBackOff") {
		t.Errorf("it ends %+v, in the slow case %+v", f.Fast, f.Slow)
	}
}

// If the API server refuses the replacements of pods, the forecast fails like the real upgrade, with the server's
// reason.
func TestForecastFailsIfReplacementPodsAreRefused(t *testing.T) {
	spec := shop()
	spec.Refused = func(pod *corev1.Pod, _ bool) string {
		if pod.Labels["app"] == "web" {
			return "exceeded quota"
		}
		return ""
	}
	spec.Times, _ = simulate.Estimate(&spec)
	f, err := simulate.Predict(t.Context(), spec, request())
	if err != nil {
		t.Fatal(err)
	}
	if f.Fast.Result != record.WorkloadUnhealthy || !strings.Contains(f.Fast.Why, "shop/ReplicaSet/web (2 of 3 ready): 1 pod is not created: exceeded quota") || f.Evictions > 2 {
		t.Errorf("it ends %+v after %d evictions", f.Fast, f.Evictions)
	}
}

// A quota that is used up refuses a pod that is created before the old one is deleted. After the deletion, it admits
// the pod.
func TestUsedUpQuotaRefusesPodUntilOldOneIsDeleted(t *testing.T) {
	spec := twoNodes(build.Pod("solo-0", build.App("solo"), build.On("old-a-1"), build.OwnedBy("ReplicaSet", "solo-1"), func(pod *corev1.Pod) { pod.Labels["pod-template-hash"] = "1" }))
	spec.Movable = drain.NewMovable([]*appsv1.Deployment{{ObjectMeta: metav1.ObjectMeta{Namespace: build.Namespace, Name: "solo", UID: "solo"}}}, nil)
	spec.Refused = func(_ *corev1.Pod, beside bool) string {
		if beside {
			return "exceeded quota"
		}
		return ""
	}
	for _, c := range []struct {
		timeout record.OnTimeout
		ends    record.Result
		blocker string
	}{{record.Fail, record.PodEvictionFailure, "pod shop/solo-0"}, {record.Force, record.Succeeded, ""}} {
		req := request()
		req.Move, req.OnTimeout = record.MoveBySurge, c.timeout
		f, err := simulate.Predict(t.Context(), spec, req)
		if err != nil {
			t.Fatal(err)
		}
		if f.Fast.Result != c.ends || f.Fast.Blocker != c.blocker {
			t.Errorf("%s: it ends %+v", c.timeout, f.Fast)
		}
	}
}

// Pods whose template names an outdated node start there again until the drain is given up. When the node is gone,
// none of them is left.
func TestPodsThatNameOutdatedNodeStartThereAgain(t *testing.T) {
	for _, c := range []struct {
		timeout record.OnTimeout
		ends    record.Result
		why     string
	}{
		{record.Fail, record.PodEvictionFailure, "it still has pods after 15m0s"},
		{record.Force, record.WorkloadUnhealthy, "its pod template names node old-0, which is gone"},
	} {
		spec := shop()
		spec.Workloads = map[types.UID]simulate.Workload{}
		for _, pod := range spec.Pods {
			if owner := metav1.GetControllerOfNoCopy(pod); pod.Name == "web-0" {
				spec.Workloads[owner.UID] = simulate.Workload{Replicas: 3, NodeName: "old-0"}
			}
		}
		req := request()
		req.OnTimeout = c.timeout
		spec.Times, _ = simulate.Estimate(&spec)
		f, err := simulate.Predict(t.Context(), spec, req)
		if err != nil {
			t.Fatal(err)
		}
		if f.Fast.Result != c.ends || !strings.Contains(f.Fast.Why, c.why) {
			t.Errorf("%s: it ends %+v", c.timeout, f.Fast)
		}
	}
}
