package schedule_test

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain/schedule"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/build"
)

// freeWorkload is the workload of the app free.
var freeWorkload = drain.Workload{Namespace: build.Namespace, Kind: "ReplicaSet", Name: "free"}

// served returns an input in which the app free is behind a Service, has no budget, and has these pods.
func served(pods []*corev1.Pod, nodes ...schedule.Node) schedule.Input {
	index := drain.NewWorkloadIndex(drain.Webhooks{}.FactsOf([]*corev1.Service{{
		ObjectMeta: metav1.ObjectMeta{Namespace: build.Namespace}, Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "free"}},
	}}))
	for _, pod := range pods {
		index.Store(pod)
	}
	in := newInput(0, nodes...)
	in.Budgets, in.Workloads, in.Guarded = in.Budgets.WithLastReady(index.Current()), index.Current(), true
	return in
}

// recovering makes the workload the only one whose pods left nodes, with this Recovery.
func recovering(in *schedule.Input, w drain.Workload, r schedule.Recovery) {
	in.RecoveryOf = func(asked drain.Workload) (schedule.Recovery, bool) {
		if asked != w {
			return schedule.Recovery{}, false
		}
		return r, true
	}
	in.AnyUnhealthy = r.Unhealthy
}

// placed returns a pod that is not ready, on node n2 since the given time ago.
func placed(ago time.Duration) *corev1.Pod {
	pod := build.Pod("placed", build.App("free"), build.On("n2"), build.Unready)
	pod.Status.StartTime = &metav1.Time{Time: now.Add(-ago)}
	return pod
}

// TestLastReadyPodWithoutBudgetWaits: the last ready pod of a workload without a budget waits for up to two minutes. It waits without a
// limit while the other pods do not become ready.
func TestLastReadyPodWithoutBudgetWaits(t *testing.T) {
	a, b, c := free("a"), free("b"), free("c")
	starting := build.Pod("starting", build.App("free"), build.Unready)
	ending := leaving("ending")
	build.App("free")(ending)
	first, second := build.Pod("a", build.App("free"), build.OwnedBy("StatefulSet", "free")), build.Pod("second", build.App("free"), build.OwnedBy("StatefulSet", "free"))
	second.DeletionTimestamp = &metav1.Time{Time: now}
	third := build.Pod("third", build.App("free"), build.OwnedBy("StatefulSet", "free"), build.Unready)
	freeBudget, none := freeWorkload.LastReadyBudget(), types.NamespacedName{}
	cases := map[string]struct {
		in   schedule.Input
		want string
	}{
		"two of three go": {served([]*corev1.Pod{a, b, c}, node("n1", a, b, c)), "a b c:last-ready"},
		"the last stays":  {served([]*corev1.Pod{a, starting}, node("n1", a)), "a:last-ready"},
		"one that is not ready goes, and the last stays": {served([]*corev1.Pod{a, starting, ending}, node("n1", starting, a)), "starting a:last-ready"},
		"it waits on before its time":                    {waitedFor(served([]*corev1.Pod{a, starting}, node("n1", a)), 119*time.Second), "a:last-ready"},
		"its time is over":                               {waitedFor(served([]*corev1.Pod{a, starting}, node("n1", a)), 2*time.Minute), "a"},
		"another got a node only now":                    {waitedFor(served([]*corev1.Pod{a, placed(29 * time.Second)}, node("n1", a)), time.Hour), "a:last-ready"},
		"another has had a node for long":                {waitedFor(served([]*corev1.Pod{a, placed(30 * time.Second)}, node("n1", a)), time.Hour), "a"},
		"another has to end before one takes its place":  {waitedFor(served([]*corev1.Pod{first, second, third}, node("n1", first)), time.Hour), "a:last-ready"},
		"none has to end":                                {waitedFor(served([]*corev1.Pod{first, third}, node("n1", first)), time.Hour), "a"},
		"the others do not come up":                      {unhealthy(waitedFor(served([]*corev1.Pod{a, starting}, node("n1", a)), time.Hour)), "a:last-ready"},
		"those of another workload do not come up":       {otherUnhealthy(waitedFor(served([]*corev1.Pod{a, starting}, node("n1", a)), time.Hour)), "a:last-ready"},
		"another is still to leave":                      {waitedFor(sent(served([]*corev1.Pod{a, b}, node("n1", a)), "b", freeBudget), time.Hour), "a:last-ready"},
		"it was blocked for long by something else":      {deniedFor(served([]*corev1.Pod{a, starting}, node("n1", a)), time.Hour), "a:last-ready"},
		"an eviction is answered, and seen late":         {sentBefore(served([]*corev1.Pod{a, b}, node("n1", b)), "a", freeBudget, 20*time.Second), "b:last-ready"},
		"an eviction is answered, and was of no effect":  {sentBefore(served([]*corev1.Pod{a, b}, node("n1", b)), "a", freeBudget, time.Minute), "b"},
		"an eviction is answered and not seen yet":       {sent(served([]*corev1.Pod{a, b}, node("n1", b)), "a", freeBudget), "b:last-ready"},
		"an eviction is answered and seen":               {sent(served([]*corev1.Pod{ending, b, c}, node("n1", b)), "ending", freeBudget), "b"},
		"a pod that leaves became ready since":           {sentBefore(served([]*corev1.Pod{a, b}, node("n1", b)), "a", none, 20*time.Second), "b:last-ready"},
		"a pod that leaves is still not ready":           {sent(served([]*corev1.Pod{starting, b, c}, node("n1", b)), "starting", none), "b"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := describe(schedule.NewPlan(tc.in)); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}

// TestLastReadyPodUnderWeakBudgetWaits: even under a weak budget, the last ready pod of a workload does not leave at once (A6).
// A slow starter has the time that it usually takes (A7).
func TestLastReadyPodUnderWeakBudgetWaits(t *testing.T) {
	a, b, starting := free("a"), free("b"), build.Pod("starting", build.App("free"), build.Unready)
	weak := func(in schedule.Input) schedule.Input {
		in.Budgets = drain.NewBudgets([]*policyv1.PodDisruptionBudget{build.Budget("free", build.Counts(3, 3, 0))}).WithLastReady(in.Workloads)
		return in
	}
	watched := func(in schedule.Input) schedule.Input {
		recovering(&in, freeWorkload, schedule.Recovery{Ready: 2})
		return in
	}
	slow := func(in schedule.Input) schedule.Input {
		recovering(&in, freeWorkload, schedule.Recovery{Usual: 5 * time.Minute})
		return in
	}
	for name, tc := range map[string]struct {
		in   schedule.Input
		want string
	}{
		"of two ready ones one goes":  {weak(served([]*corev1.Pod{a, b}, node("n1", a), node("n2", b))), "a b:last-ready"},
		"the last stays":              {weak(served([]*corev1.Pod{a, starting}, node("n1", a))), "a:last-ready"},
		"its time is over":            {weak(waitedFor(served([]*corev1.Pod{a, starting}, node("n1", a)), 2*time.Minute)), "a"},
		"the others do not come up":   {weak(unhealthy(waitedFor(served([]*corev1.Pod{a, starting}, node("n1", a)), time.Hour))), "a:last-ready"},
		"the others are usually slow": {slow(waitedFor(served([]*corev1.Pod{a, placed(9 * time.Minute)}, node("n1", a)), 9*time.Minute)), "a:last-ready"},
		"they are later than usually": {slow(waitedFor(served([]*corev1.Pod{a, placed(10 * time.Minute)}, node("n1", a)), 10*time.Minute)), "a"},
		"another has no node":         {watched(waitedFor(served([]*corev1.Pod{a, starting}, node("n1", a)), time.Hour)), "a:last-ready"},
		"another was late on a node":  {watched(waitedFor(served([]*corev1.Pod{a, placed(time.Hour)}, node("n1", a)), time.Hour)), "a"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := describe(schedule.NewPlan(tc.in)); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}

// A pod that was restarted and has just become ready does not allow another pod to leave (A3).
func TestRestartedPodDoesNotAllowAnotherEviction(t *testing.T) {
	restarted := func(workload string, ready time.Duration) *corev1.Pod {
		pod := build.Pod("restarted", build.App("free"), build.OwnedBy("ReplicaSet", workload))
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{RestartCount: 1}}
		pod.Status.Conditions[0].LastTransitionTime = metav1.NewTime(now.Add(-ready))
		return pod
	}
	a, b, stays := free("a"), free("b"), free("stays")
	for name, tc := range map[string]struct {
		workload string
		ready    time.Duration
		allowed  int32
		want     string
	}{
		"it has just become ready":                        {"free", time.Second, 1, "a:unhealthy b:unhealthy"},
		"it is of another workload under the same budget": {"other", time.Second, 1, "a:unhealthy b:unhealthy"},
		"it has been ready for a while":                   {"free", time.Minute, 1, "a b:budget"},
		"the budget allows one more":                      {"free", time.Second, 2, "a b:unhealthy"},
	} {
		t.Run(name, func(t *testing.T) {
			in := served([]*corev1.Pod{a, b, stays, restarted(tc.workload, tc.ready)}, node("n1", a, b))
			in.Budgets = drain.NewBudgets([]*policyv1.PodDisruptionBudget{build.Budget("free", build.Counts(4, 2+tc.allowed, 2))}).WithLastReady(in.Workloads)
			if got := describe(schedule.NewPlan(in)); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}

func waitedFor(in schedule.Input, long time.Duration) schedule.Input {
	in.LastReadySince = map[string]time.Time{"a": now.Add(-long)}
	return in
}

func unhealthy(in schedule.Input) schedule.Input {
	recovering(&in, freeWorkload, schedule.Recovery{Unhealthy: true})
	return in
}

// otherUnhealthy makes another workload unhealthy. The upgrade may stop because of that, so it starts no nodes.
func otherUnhealthy(in schedule.Input) schedule.Input {
	recovering(&in, drain.Workload{Namespace: build.Namespace, Kind: "DaemonSet", Name: "agent"}, schedule.Recovery{Unhealthy: true})
	return in
}

// deniedFor makes the pod a have been blocked for the time.
func deniedFor(in schedule.Input, long time.Duration) schedule.Input {
	in.Waited = map[string]time.Time{"a": now.Add(-long)}
	return in
}

// sentBefore is sent for an eviction that was answered some time ago.
func sentBefore(in schedule.Input, pod string, budget types.NamespacedName, ago time.Duration) schedule.Input {
	send(&in, pod, budget, ago, nodegroup.OutcomeDone)
	return in
}

func sent(in schedule.Input, pod string, budget types.NamespacedName) schedule.Input {
	send(&in, pod, budget, time.Second, nodegroup.OutcomeDone)
	return in
}

// TestEvictionTextNamesLastReadyPod: the text of an eviction says if it evicts the last ready pod.
func TestEvictionTextNamesLastReadyPod(t *testing.T) {
	a, starting := free("a"), build.Pod("starting", build.App("free"), build.Unready)
	plan := schedule.NewPlan(waitedFor(served([]*corev1.Pod{a, starting}, node("n1", a)), 2*time.Minute))
	const want = "evict pod shop/a, the last ready one of ReplicaSet/free: no other became ready within 2m0s"
	if got := plan.Decide().Evict; len(got) != 1 || got[0].String() != want {
		t.Errorf("%v, want %s", got, want)
	}
}

// The text about a pod that waits for a restart contains the known reason (EKS E52).
func TestRestartWaitMessageContainsReason(t *testing.T) {
	web := func(pod *corev1.Pod) {
		build.OwnedBy("ReplicaSet", "web-1")(pod)
		pod.Labels = map[string]string{"pod-template-hash": "1"}
	}
	a, next := build.Pod("a", web), build.Pod("next", web, build.Unready)
	for name, c := range map[string]struct {
		pods    []*corev1.Pod
		attempt nodegroup.Attempt
		want    string
	}{
		"it is asked for":          {[]*corev1.Pod{a}, nodegroup.Attempt{InFlight: true, Begun: now}, "its Deployment is restarted to start another pod first"},
		"a webhook denies it":      {[]*corev1.Pod{a}, nodegroup.Attempt{Outcome: nodegroup.OutcomeLater, Detail: "no changes by hand", Begun: now}, "a restart of its Deployment is denied: no changes by hand"},
		"another is not ready yet": {[]*corev1.Pod{a, next}, nodegroup.Attempt{Outcome: nodegroup.OutcomeDone, Begun: now}, "pod next must be ready first"},
	} {
		t.Run(name, func(t *testing.T) {
			index := drain.NewWorkloadIndex(drain.Facts{})
			for _, pod := range c.pods {
				index.Store(pod)
			}
			in := newInput(0, node("n1", a))
			in.Workloads = index.Current()
			in.Movable = drain.NewMovable([]*appsv1.Deployment{{ObjectMeta: metav1.ObjectMeta{Namespace: build.Namespace, Name: "web", UID: "web"}}}, nil)
			in.Open[schedule.Restart{Pod: a.UID}.Key()] = c.attempt
			blocked := schedule.NewPlan(in).Blocked()
			if len(blocked) != 1 || blocked[0].Kind != drain.Moving || blocked[0].Detail != c.want {
				t.Errorf("blocked %v, want one that says %q", blocked, c.want)
			}
		})
	}
}

// The only ready pod of a Deployment leaves by one rolling restart, or by an eviction if that is not possible (L23).
func TestOnlyReadyPodMovesByRestart(t *testing.T) {
	web := func(hash string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			build.OwnedBy("ReplicaSet", "web-"+hash)(pod)
			pod.Labels = map[string]string{"app": "free", "pod-template-hash": hash}
		}
	}
	a, b, next := build.Pod("a", web("1")), build.Pod("b", web("1")), build.Pod("next", web("2"), build.Unready)
	input := func(pods ...*corev1.Pod) schedule.Input {
		index := drain.NewWorkloadIndex(drain.Facts{})
		for _, pod := range pods {
			index.Store(pod)
		}
		in := newInput(0, node("n1", a))
		in.Workloads = index.Current()
		in.Movable = drain.NewMovable([]*appsv1.Deployment{{ObjectMeta: metav1.ObjectMeta{Namespace: build.Namespace, Name: "web", UID: "web"}}}, nil)
		return in
	}
	restart := schedule.Restart{Namespace: build.Namespace, Deployment: "web", UID: "web", Pod: "a", Node: "n1"}
	tried := func(in schedule.Input, attempt nodegroup.Attempt) schedule.Input {
		attempt.Action = restart
		in.Open[restart.Key()] = attempt
		return in
	}
	back := build.Pod("back", web("1"), build.Created(now)) // a minute after the drain began
	cameUp := input(back)
	cameUp.Draining = []schedule.Node{node("n1", back)}
	unasked := input(a)
	unasked.Movable = drain.Movable{}
	for name, c := range map[string]struct {
		in       schedule.Input
		want     string
		restarts bool
	}{
		"it is the only one":              {input(a), "a:moving", true},
		"it was not asked for":            {unasked, "a", false},
		"another is ready":                {input(a, b), "a", false},
		"its successor is on its way":     {tried(input(a, next), nodegroup.Attempt{Outcome: nodegroup.OutcomeDone, Begun: now}), "a:moving", false},
		"the request is in flight":        {tried(input(a), nodegroup.Attempt{InFlight: true, Begun: now}), "a:moving", false},
		"it came up on the node in drain": {cameUp, "back", false},
		"it is refused":                   {tried(input(a), nodegroup.Attempt{Outcome: nodegroup.OutcomeFatal, Begun: now}), "a", false},
		"it has changed":                  {tried(input(a), nodegroup.Attempt{Outcome: nodegroup.OutcomeMoved, Begun: now, Tries: 1}), "a:moving", true},
		"it changes each time":            {tried(input(a), nodegroup.Attempt{Outcome: nodegroup.OutcomeMoved, Begun: now, Tries: 3}), "a", false},
		"no answer came: ask once more":   {tried(input(a), nodegroup.Attempt{Outcome: nodegroup.OutcomeUnclear, Begun: now}), "a:moving", true},
	} {
		t.Run(name, func(t *testing.T) {
			plan := schedule.NewPlan(c.in)
			decision := plan.Decide()
			if got := describe(schedule.NewPlan(c.in)); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
			if asked := len(decision.Restarts) == 1 && decision.Restarts[0] == restart; asked != c.restarts || len(decision.Restarts) > 1 {
				t.Errorf("restarts %v, want one: %t", decision.Restarts, c.restarts)
			}
		})
	}
}
