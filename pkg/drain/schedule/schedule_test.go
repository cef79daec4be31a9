package schedule_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain/schedule"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/build"
)

var (
	now = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	web = types.NamespacedName{Namespace: "shop", Name: "web"}
)

// node returns a node that has been in drain for one minute and whose deadline is in 14 minutes. The pods must still be
// evicted.
func node(name string, pods ...*corev1.Pod) schedule.Node {
	n := schedule.Node{Name: name, Stage: schedule.Evicting, Began: now.Add(-time.Minute), Deadline: now.Add(14 * time.Minute)}
	n.Evict = pods
	return n
}

// free returns a pod without a budget.
func free(name string) *corev1.Pod { return build.Pod(name, build.App("free")) }

// dns returns a pod that others need.
func dns() *corev1.Pod {
	pod := free("dns")
	pod.Labels["k8s-app"] = "kube-dns"
	return pod
}

// leaving returns a pod that is being deleted.
func leaving(name string) *corev1.Pod {
	pod := build.Pod(name)
	pod.DeletionTimestamp = &metav1.Time{Time: now}
	return pod
}

// newInput returns an input in which two nodes are drained at a time, and a budget lets that many pods of web be
// missing.
func newInput(allowed int32, nodes ...schedule.Node) schedule.Input {
	return schedule.Input{
		Now: now, Snapshot: drain.Snapshot{Budgets: drain.NewBudgets([]*policyv1.PodDisruptionBudget{build.Budget("web", build.Counts(4, 3+allowed, 3))})},
		Draining: nodes, Open: map[string]nodegroup.Attempt{}, Bound: slices.Values([]*corev1.Pod{}),
		Window: 2, DrainTimeout: 15 * time.Minute,
	}
}

// send adds the eviction of a pod, sent the given time ago, and its answer.
func send(in *schedule.Input, pod string, budget types.NamespacedName, ago time.Duration, outcome nodegroup.Outcome) {
	e := schedule.Eviction{Namespace: "shop", Pod: pod, UID: types.UID(pod), Budget: budget, BudgetVersion: "1", Workload: freeWorkload}
	in.Open[e.Key()] = nodegroup.Attempt{
		Action: e, Begun: now.Add(-ago), Ended: now.Add(-ago), Outcome: outcome, InFlight: outcome == "", NotBefore: now.Add(time.Minute), Tries: 1,
	}
}

// describe returns the evicted pods, the blocked pods with their obstacles, and the yielding nodes.
func describe(p *schedule.Plan) string {
	decision := p.Decide()
	var parts []string
	for _, e := range decision.Evict {
		parts = append(parts, e.Pod)
	}
	for _, b := range p.Blocked() {
		parts = append(parts, fmt.Sprintf("%s:%s", b.Pod.Name, b.Kind))
	}
	for _, name := range decision.Yielding {
		parts = append(parts, name+" yields")
	}
	return strings.Join(parts, " ")
}

func TestPlanReservesEvictionsWithinBudgets(t *testing.T) {
	pod := func(name string) *corev1.Pod { return build.Pod(name) }
	cases := map[string]struct {
		in     schedule.Input
		change func(*schedule.Input)
		want   string
	}{
		"nothing in drain":                {newInput(1), nil, ""},
		"a pod without a budget":          {newInput(0, node("a", free("f-0"))), nil, "f-0"},
		"a budget that is open":           {newInput(1, node("a", pod("w-0"))), nil, "w-0"},
		"a budget that is closed":         {newInput(0, node("a", pod("w-0"))), nil, "w-0:budget"},
		"a budget is not overspent":       {newInput(1, node("a", pod("w-0"), pod("w-1"))), nil, "w-0 w-1:budget"},
		"the first started has it":        {newInput(1, node("a", pod("w-0")), node("b", pod("w-1"))), nil, "w-0 w-1:budget b yields"},
		"nobody before it has the budget": {newInput(0, node("a", free("f-0")), node("b", pod("w-1"))), nil, "f-0 w-1:budget"},
		"a held pod": {newInput(1, schedule.Node{Name: "a", Stage: schedule.Evicting, Leavers: drain.Leavers{Held: []*corev1.Pod{
			build.Pod("h-0", build.Bare),
		}}}), nil, "h-0:unmanaged"},
		"a node that rests": {newInput(1, node("a", pod("w-0"))), func(in *schedule.Input) {
			in.Draining[0].Stage = schedule.Resting
		}, ""},
		"a resting peer has the budget": {newInput(0, node("a"), node("b", pod("w-1"))), func(in *schedule.Input) {
			in.Draining[0].Stage, in.Draining[0].Leaving = schedule.Resting, []*corev1.Pod{leaving("w-0")}
		}, "w-1:budget b yields"},
		"one apart has no say in that": {newInput(0, node("a"), node("b", pod("w-1"))), func(in *schedule.Input) {
			in.Draining[0].Stage, in.Draining[0].Leaving = schedule.Apart, []*corev1.Pod{leaving("w-0")}
		}, "w-1:budget"},
		"an eviction in flight is not sent again": {newInput(1, node("a", free("f-0"))), func(in *schedule.Input) {
			send(in, "f-0", types.NamespacedName{}, time.Second, "")
		}, ""},
		"what is in flight is spent": {newInput(1, node("a", pod("w-0"))), func(in *schedule.Input) {
			send(in, "w-9", web, time.Second, "")
		}, "w-0:budget"},
		"what the status shows is not spent twice": {newInput(1, node("a", pod("w-0"))), func(in *schedule.Input) {
			send(in, "w-9", web, time.Second, nodegroup.OutcomeDone)
			in.Disrupted = map[types.NamespacedName]time.Time{{Namespace: "shop", Name: "w-9"}: now}
		}, "w-0"},
		"K06 evictions of one budget are apart": {newInput(2, node("a", pod("w-0"))), func(in *schedule.Input) {
			send(in, "w-9", web, 50*time.Millisecond, "")
		}, ""},
		"K06 one in flight that the status shows keeps no other waiting": {newInput(2, node("a", pod("w-0"))), func(in *schedule.Input) {
			send(in, "w-9", web, 50*time.Millisecond, "")
			in.Disrupted = map[types.NamespacedName]time.Time{{Namespace: "shop", Name: "w-9"}: now}
		}, "w-0"},
		"K06 one that is tried again may be shown since the try before": {newInput(2, node("a", pod("w-0"))), func(in *schedule.Input) {
			send(in, "w-9", web, 50*time.Millisecond, "")
			for key, attempt := range in.Open {
				attempt.Tries = 2
				in.Open[key] = attempt
			}
			in.Disrupted = map[types.NamespacedName]time.Time{{Namespace: "shop", Name: "w-9"}: now}
		}, ""},
		"K06 what the status showed of an earlier eviction": {newInput(2, node("a", pod("w-0"))), func(in *schedule.Input) {
			send(in, "w-9", web, 50*time.Millisecond, "")
			in.Disrupted = map[types.NamespacedName]time.Time{{Namespace: "shop", Name: "w-9"}: now.Add(-time.Second)}
		}, ""},
		"a refusal holds while the budget is the same": {newInput(1, node("a", pod("w-0"))), func(in *schedule.Input) {
			send(in, "w-0", web, 10*time.Second, nodegroup.OutcomeRefused)
		}, "w-0:denied"},
		"K01 one that was moved is not asked for at once": {newInput(1, node("a", pod("w-0"))), func(in *schedule.Input) {
			send(in, "w-0", web, 10*time.Second, nodegroup.OutcomeMoved)
		}, ""},
		"a namespace that is being deleted": {newInput(1, node("a", free("f-0"))), func(in *schedule.Input) {
			in.EndingNamespaces = map[string]bool{"shop": true}
		}, "f-0:namespace"},
		"no more than may be in flight": {newInput(1, node("a", free("f-0"), free("f-1"))), func(in *schedule.Input) {
			in.AtOnce = 1
		}, "f-0"},
		"what is in flight takes its place": {newInput(1, node("a", free("f-0"))), func(in *schedule.Input) {
			in.AtOnce = 1
			send(in, "f-9", types.NamespacedName{}, time.Second, "")
		}, ""},
		"one node after the other": {newInput(1, node("a", free("f-0")), node("b", pod("w-0"))), nil, "f-0 w-0"},
		"a critical budget first": {newInput(1, node("a", free("f-0")), node("b", pod("w-0"))), func(in *schedule.Input) {
			in.Memory.Critical = map[types.NamespacedName]bool{web: true}
		}, "w-0 f-0"},
		"a node that waits anyway last": {newInput(0, node("a", free("f-0"), pod("w-0")), node("b", free("f-1"))), nil, "f-1 f-0 w-0:budget"},
		"E51 a pod that came back twice": {newInput(1, node("a", build.Pod("w-0", build.OwnedBy("ReplicaSet", "web")))), func(in *schedule.Input) {
			back := in.Draining[0].Evict[0]
			back.CreationTimestamp = metav1.Time{Time: now}
			in.Memory.Returned = map[schedule.Return]int{{Node: "a", Owner: back.OwnerReferences[0].UID}: 1}
		}, "w-0:returns"},
		"L19 what others need goes last": {newInput(1, node("a", free("f-0"), dns())), nil, "f-0"},
		"L19 but not after half of the time": {newInput(1, node("a", free("f-0"), dns())), func(in *schedule.Input) {
			in.Draining[0].Deadline = now.Add(7 * time.Minute)
		}, "f-0 dns"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if c.change != nil {
				c.change(&c.in)
			}
			if got := describe(schedule.NewPlan(c.in)); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// A decision also contains when to decide again, and what to remember.
func TestEvictionDecisionContainsWakeTimeAndLearnedTimes(t *testing.T) {
	t.Run("K06 the next of a budget as soon as answers come", func(t *testing.T) {
		in := newInput(2, node("a", build.Pod("w-0")))
		send(&in, "w-9", web, 50*time.Millisecond, "")
		if got := schedule.NewPlan(in).Decide().Again.Sub(now); got != 50*time.Millisecond {
			t.Errorf("again after %s, want 50ms", got)
		}
	})
	t.Run("E51 a pod that came back is counted once it is evicted", func(t *testing.T) {
		in := newInput(1, node("a", build.Pod("w-0", build.Created(now))))
		owner := schedule.Return{Node: "a", Owner: in.Draining[0].Evict[0].OwnerReferences[0].UID}
		if got := schedule.NewPlan(in).Decide().Memory.Returned[owner]; got != 1 || in.Memory.Returned != nil {
			t.Errorf("counted %d times, and the memory before is %v", got, in.Memory.Returned)
		}
	})
	t.Run("how long a pod took to leave", func(t *testing.T) {
		in := newInput(1, node("a"))
		in.Memory.Leaving = map[types.UID]schedule.Departure{"w-0": {Owner: "rs", Since: now.Add(-7 * time.Second)}}
		memory := schedule.NewPlan(in).Decide().Memory
		if got := memory.Gone["rs"]; got != 7*time.Second || len(memory.Leaving) != 0 {
			t.Errorf("gone after %s, leaving are %v", got, memory.Leaving)
		}
	})
	t.Run("since when a pod leaves", func(t *testing.T) {
		in := newInput(1, node("a"))
		in.Draining[0].Leaving = []*corev1.Pod{leaving("w-0")}
		send(&in, "w-0", web, 3*time.Second, nodegroup.OutcomeDone)
		if got := now.Sub(schedule.NewPlan(in).Decide().Memory.Leaving["w-0"].Since); got != 3*time.Second {
			t.Errorf("for %s, want 3s: since its eviction was sent", got)
		}
	})
}

func TestNextNodeIsOneWhosePodsCanBeEvicted(t *testing.T) {
	pod := func(name string) *corev1.Pod { return build.Pod(name) }
	waiting := func(name string, pods ...*corev1.Pod) schedule.Node {
		return schedule.Node{Name: name, Leavers: drain.Leavers{Evict: pods}}
	}
	stuck := waiting("stuck")
	stuck.Held = []*corev1.Pod{build.Pod("h-0", build.Bare)}
	cases := map[string]struct {
		in      schedule.Input
		waiting []schedule.Node
		want    string
	}{
		"nobody waits":                       {newInput(1), nil, ""},
		"the first where nothing is lost":    {newInput(1), []schedule.Node{waiting("b", free("f-0")), waiting("c", free("f-1"))}, "b"},
		"what is reserved is taken":          {newInput(1, node("a", pod("w-0"))), []schedule.Node{waiting("b", pod("w-1")), waiting("c", free("f-0"))}, "c"},
		"none of whose pods could go":        {newInput(1, node("a", pod("w-0"))), []schedule.Node{waiting("b", pod("w-1"))}, ""},
		"a stuck one goes last":              {newInput(1), []schedule.Node{stuck, waiting("b", free("f-0"))}, "b"},
		"and when there is no other":         {newInput(1), []schedule.Node{stuck}, "stuck"},
		"a tight budget before none":         {newInput(1), []schedule.Node{waiting("b", free("f-0")), waiting("c", pod("w-0"))}, "c"},
		"an empty one while others wait for": {newInput(0, node("a", pod("w-0"))), []schedule.Node{waiting("b", pod("w-1")), waiting("c")}, "c"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := schedule.NewPlan(c.in).NextNode(c.waiting, slices.Values(c.waiting)); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestEvictionsOfAddedNodeAreReservedLast(t *testing.T) {
	p := schedule.NewPlan(newInput(1, node("a", build.Pod("w-0"))))
	p.AddNode(node("b", build.Pod("w-1"), free("f-0")))
	if got, want := describe(p), "w-0 f-0 w-1:budget b yields"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The budgets that decide when the upgrade ends are computed whenever a node is started, once it is known how long
// pods take to leave.
func TestCriticalBudgetsAreRecomputedWhenANodeStarts(t *testing.T) {
	waiting := []schedule.Node{{Name: "b", Leavers: drain.Leavers{Evict: []*corev1.Pod{build.Pod("w-1"), build.Pod("w-2")}}}}
	for gone, want := range map[time.Duration]string{0: "map[]", 3 * time.Second: "map[shop/web:true]", 10 * time.Minute: "map[]"} {
		in := newInput(1)
		waiting := waiting
		if gone > 0 {
			in.Memory.Gone = map[types.UID]time.Duration{"": gone}
		}
		if gone > time.Minute {
			for i := range 20 { // enough nodes that the budget's pods finish long before
				waiting = append(waiting, schedule.Node{Name: fmt.Sprint("c", i)})
			}
		}
		p := schedule.NewPlan(in)
		p.NextNode(waiting[:1], slices.Values(waiting))
		if got := fmt.Sprint(p.Decide().Memory.Critical); got != want {
			t.Errorf("with pods gone after %s the critical budgets are %s, want %s", gone, got, want)
		}
	}
}
