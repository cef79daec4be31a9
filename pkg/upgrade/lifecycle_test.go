package upgrade_test

import (
	"fmt"
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
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodemark"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/build"
)

// draining returns a group with one outdated node, whose drain begins with the next step.
func draining(t *testing.T, pods ...*corev1.Pod) *scene {
	s := newScene(t, old("old-a-1", pods...), current("cur-a-1"))
	s.do(s.next().Actions...) // the fence
	return s
}

func TestStartedNodeGetsDeadlineAndItsPodsAreEvicted(t *testing.T) {
	s := draining(t, build.Pod("web-0"), build.Pod("agent", build.OwnedBy("DaemonSet", "agent")))
	step := s.next()
	wantActions(t, step, "start draining node old-a-1", "evict pod shop/web-0")
	if got := step.Record.Nodes["old-a-1"]; !got.Deadline.Equal(start.Add(15*time.Minute)) || got.UID != "old-a-1" || !step.Persist {
		t.Errorf("E41: record %+v, persist %t", got, step.Persist)
	}
	got := action[schedule.Eviction](t, step)
	if got.UID != "web-0" || got.Node != "old-a-1" {
		t.Errorf("I3: the eviction is of UID %q on node %q", got.UID, got.Node)
	}
	if n, _ := step.Status.FindNode("old-a-1"); n.Pods != 1 || n.Staying != 1 {
		t.Errorf("%d pods to go and %d to stay, want 1 and 1", n.Pods, n.Staying)
	}
}

// Pods whose eviction does not use a budget are evicted first, so that the budget is open for the others.
func TestUnreadyPodsAreEvictedFirst(t *testing.T) {
	s := draining(t, build.Pod("web-0"), build.Pod("web-1", build.Unready), build.Pod("web-2"))
	if got := evicted(s.next()); got != "web-1 web-0 web-2" {
		t.Errorf("evicted in the order %s", got)
	}
}

// evicted returns the pods that a step evicts, in order.
func evicted(step upgrade.Step) string {
	var pods []string
	for _, a := range step.Actions {
		if evict, ok := a.(schedule.Eviction); ok {
			pods = append(pods, evict.Pod)
		}
	}
	return strings.Join(pods, " ")
}

func TestEvictionsStayWithinTheBudget(t *testing.T) {
	pods := func(n int) (pods []*corev1.Pod) {
		for i := range n {
			pods = append(pods, build.Pod("web-"+string(rune('a'+i))))
		}
		return pods
	}
	cases := map[string]struct {
		pods   int
		budget *policyv1.PodDisruptionBudget
		evict  int
		block  int
	}{
		"I5 as many as it allows": {3, build.Budget("web", build.Counts(6, 6, 4)), 2, 1},
		"none":                    {3, build.Budget("web", build.Counts(6, 4, 4)), 0, 3},
		"K06 four at once":        {8, build.Budget("web", build.Counts(9, 9, 1)), 4, 0},
		"another's budget":        {8, build.Budget("cart", build.Counts(6, 4, 4)), 8, 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := draining(t, pods(c.pods)...)
			s.budgets(c.budget)
			evictions, blocked := s.unanswered()
			if evictions != c.evict || blocked != c.block {
				t.Errorf("%d evictions and %d blocked, want %d and %d", evictions, blocked, c.evict, c.block)
			}
		})
	}
}

// The pods of the tightest budget are evicted first, and those without a budget last.
func TestPodsOfTightestBudgetAreEvictedFirst(t *testing.T) {
	s := draining(t, build.Pod("api-0", build.App("api")), build.Pod("cart-0", build.App("cart")), build.Pod("web-0"))
	s.budgets(build.Budget("web", build.Counts(4, 4, 3)), build.Budget("cart", build.Counts(4, 4, 2)))
	if got := evicted(s.next()); got != "web-0 cart-0 api-0" {
		t.Errorf("evicted in the order %s", got)
	}
}

// unanswered counts the evictions that are sent within a second in which none is answered, and the pods that are
// blocked then.
func (s *scene) unanswered() (evictions, blocked int) {
	s.t.Helper()
	for end := s.Now.Add(time.Second); s.Now.Before(end); s.pass(50 * time.Millisecond) {
		step := s.next()
		for _, a := range step.Actions {
			if _, ok := a.(schedule.Eviction); ok {
				evictions++
			}
			s.begun(a)
		}
		blocked = len(step.Blocked)
	}
	return evictions, blocked
}

// If the API server writes two evictions into one budget's status at the same time, it retries one of them half a second
// later. So the second eviction waits for the answer to the first, or for as long as the answer should take.
func TestEvictionsOfOneBudgetAreSpacedInTime(t *testing.T) {
	s := draining(t, build.Pod("web-0"), build.Pod("web-1"), build.Pod("web-2"))
	s.budgets(build.Budget("web", build.Counts(6, 6, 1)))
	wantActions(t, s.next(), "start draining node old-a-1", "evict pod shop/web-0")
	s.begun(schedule.Eviction{Namespace: "shop", Pod: "web-0", UID: "web-0", Node: "old-a-1", Budget: types.NamespacedName{Namespace: "shop", Name: "web"}})
	step := s.next()
	if want := s.Now.Add(100 * time.Millisecond); !step.Wake.Equal(want) {
		t.Errorf("wakes at %s, want %s", step.Wake, want)
	}
	wantActions(t, step, "start draining node old-a-1")
	s.pass(100 * time.Millisecond)
	wantActions(t, s.next(), "start draining node old-a-1", "evict pod shop/web-1")
}

// The time between two evictions of one budget is the time that answers take now, within bounds, because a server that
// was slow to write one eviction is as slow to write the next.
func TestEvictionSpacingFollowsAPIServerLatency(t *testing.T) {
	cases := map[string]struct{ took, ago, want time.Duration }{
		"quick":         {20 * time.Millisecond, time.Second, 100 * time.Millisecond},
		"slow":          {250 * time.Millisecond, time.Second, 250 * time.Millisecond},
		"very slow":     {3 * time.Second, time.Second, 400 * time.Millisecond},
		"slow long ago": {250 * time.Millisecond, 5 * time.Second, 100 * time.Millisecond},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := draining(t, build.Pod("web-0"), build.Pod("web-1"))
			s.budgets(build.Budget("web", build.Counts(6, 6, 1)))
			web := types.NamespacedName{Namespace: "shop", Name: "web"}
			ended := s.Now.Add(-c.ago)
			s.Open["earlier"] = nodegroup.Attempt{
				Action: schedule.Eviction{Namespace: "shop", Pod: "web-9", UID: "web-9", Budget: web}, Outcome: nodegroup.OutcomeDone, Begun: ended.Add(-c.took), Ended: ended,
			}
			s.begun(schedule.Eviction{Namespace: "shop", Pod: "web-0", UID: "web-0", Node: "old-a-1", Budget: web})
			if got := s.next().Wake.Sub(s.Now); got != c.want {
				t.Errorf("the next is sent after %s, want %s", got, c.want)
			}
		})
	}
}

// No more evictions are in flight than there is room for, and pods of the tightest budgets go first, whatever node they
// are on.
func TestConcurrentEvictionsAreLimited(t *testing.T) {
	s := draining(t, build.Pod("a-0", build.App("a")), build.Pod("b-0", build.App("b")), build.Pod("web-0"))
	s.budgets(build.Budget("web", build.Counts(4, 4, 3)))
	s.EvictionsAtOnce = 2
	if got := evicted(s.next()); got != "web-0 a-0" {
		t.Errorf("with room for two it evicts %s", got)
	}
	s.begun(schedule.Eviction{Namespace: "shop", Pod: "web-0", UID: "web-0", Node: "old-a-1", Budget: types.NamespacedName{Namespace: "shop", Name: "web"}})
	if got := evicted(s.next()); got != "a-0" {
		t.Errorf("with one in flight it evicts %s", got)
	}
	s.begun(schedule.Eviction{Namespace: "shop", Pod: "a-0", UID: "a-0", Node: "old-a-1"})
	if got := evicted(s.next()); got != "" {
		t.Errorf("with two in flight it evicts %s", got)
	}
}

// While a budget decides when the upgrade ends, or while that is unknown, few evictions are in flight: as many as nodes
// may be in drain, but at least four and at most eight.
func TestCriticalBudgetsLimitEvictionsInFlight(t *testing.T) {
	cases := map[string]struct {
		gone time.Duration // how long nodes take, as learned; 0 if not learned yet
		rest string        // the app of the remaining pods; "db" has a budget of which one pod may be missing
		window,
		want int
	}{
		"nobody knows how long nodes take": {0, "a", 2, 4},
		"a budget is critical":             {3 * time.Second, "db", 2, 4},
		"of some nodes at once":            {3 * time.Second, "db", 6, 6},
		"of many nodes at once":            {3 * time.Second, "db", 20, 8},
		"none is":                          {3 * time.Second, "a", 2, 12},
		"no other node waits for it":       {3 * time.Second, "db", 1, 12},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var pods []*corev1.Pod
			for i := range 20 {
				pods = append(pods, build.Pod(fmt.Sprint("a-", i), build.App("a")), build.Pod(fmt.Sprint("rest-", i), build.App(c.rest)))
			}
			s := newScene(t, old("old-a-1", pods...), current("cur-a-1"))
			s.Request.Settle, s.Request.Window, s.Request.MaxUnavailable = duration(0), c.window, c.window
			s.do(s.next().Actions...) // the fence
			s.budgets(build.Budget("db", build.Counts(4, 4, 3)))
			s.EvictionsAtOnce = 12
			if c.gone > 0 {
				s.Notes.Gone = map[types.UID]time.Duration{"": c.gone}
			}
			if got := len(strings.Fields(evicted(s.next()))); got != c.want {
				t.Errorf("%d evictions at once, want %d", got, c.want)
			}
		})
	}
}

// Evictions that the upgrade sent count against the budget until its status shows them.
func TestSentEvictionCountsUntilBudgetStatusShowsIt(t *testing.T) {
	cases := map[string]struct {
		outcome nodegroup.Outcome // of the first eviction; none while it is in flight
		later   time.Duration
		shown   bool
		want    []string
	}{
		"in flight":             {"", 0, false, nil},
		"just accepted":         {nodegroup.OutcomeDone, time.Second, false, nil},
		"accepted, and shown":   {nodegroup.OutcomeDone, time.Second, true, []string{"evict pod shop/web-1"}},
		"accepted a while ago":  {nodegroup.OutcomeDone, 2 * time.Second, false, []string{"evict pod shop/web-1"}},
		"its answer was lost":   {nodegroup.OutcomeUnclear, time.Second, false, nil},
		"it was not accepted":   {nodegroup.OutcomeLater, time.Second, false, []string{"evict pod shop/web-1"}},
		"it was refused itself": {nodegroup.OutcomeRefused, time.Second, false, []string{"evict pod shop/web-1"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := draining(t, build.Pod("web-0"), build.Pod("web-1"))
			s.budgets(build.Budget("web", build.Counts(3, 3, 2)))
			step := s.next()
			s.do(action[nodemark.StartDrain](t, step))
			evict := action[schedule.Eviction](t, step)
			s.begun(evict)
			if c.outcome != "" {
				s.answer(evict, c.outcome, "")
			}
			if c.outcome == nodegroup.OutcomeDone {
				s.end("old-a-1", evict.UID)
			}
			s.pass(c.later)
			if c.shown {
				s.Disrupted = map[types.NamespacedName]time.Time{{Namespace: "shop", Name: "web-0"}: s.Now}
			}
			wantActions(t, s.next(), c.want...)
		})
	}
}

func TestEvictionIsRetriedWhenBudgetChangesOrAfterHalfAMinute(t *testing.T) {
	cases := map[string]struct {
		outcome nodegroup.Outcome
		later   time.Duration
		version string
		want    bool
	}{
		"refused, the budget unchanged":          {nodegroup.OutcomeRefused, 10 * time.Second, "1", false},
		"refused, the budget changed":            {nodegroup.OutcomeRefused, 10 * time.Second, "2", true},
		"refused, and half a minute passed":      {nodegroup.OutcomeRefused, 30 * time.Second, "1", true},
		"L5 denied by a webhook a moment ago":    {nodegroup.OutcomeLater, 10 * time.Second, "2", false},
		"L5 denied by a webhook, and it is time": {nodegroup.OutcomeLater, 30 * time.Second, "1", true},
		"its answer was lost":                    {nodegroup.OutcomeUnclear, 30 * time.Second, "1", true},
		"accepted, its end not seen yet":         {nodegroup.OutcomeDone, 29 * time.Second, "1", false},
		"accepted, its end never seen":           {nodegroup.OutcomeDone, 30 * time.Second, "1", true},
		"K01 no longer the pod decided on":       {nodegroup.OutcomeMoved, 29 * time.Second, "2", false},
		"K01 still the pod decided on":           {nodegroup.OutcomeMoved, 30 * time.Second, "1", true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := draining(t, build.Pod("web-0"))
			s.budgets(build.Budget("web"))
			step := s.next()
			s.do(action[nodemark.StartDrain](t, step))
			s.answer(action[schedule.Eviction](t, step), c.outcome, "somebody says no")
			s.pass(c.later)
			s.budgets(build.Budget("web", func(b *policyv1.PodDisruptionBudget) { b.ResourceVersion = c.version }))
			step = s.next()
			var want []string
			if c.want {
				want = []string{"evict pod shop/web-0"}
			}
			wantActions(t, step, want...)
			if blocked := len(step.Blocked) == 1; blocked != (!c.want && c.outcome != nodegroup.OutcomeDone && c.outcome != nodegroup.OutcomeMoved) {
				t.Errorf("blocked: %v", step.Blocked)
			}
		})
	}
}

// E52: the message names who refuses an eviction, and the budget if it is one.
func TestRefusedEvictionMessageNamesPodAndBudget(t *testing.T) {
	for outcome, want := range map[nodegroup.Outcome]string{
		nodegroup.OutcomeRefused: "pod shop/web-0: PDB shop/web: somebody says no",
		nodegroup.OutcomeLater:   "pod shop/web-0: somebody says no",
	} {
		t.Run(string(outcome), func(t *testing.T) {
			s := draining(t, build.Pod("web-0"))
			s.budgets(build.Budget("web"))
			s.answer(action[schedule.Eviction](t, s.next()), outcome, "somebody says no")
			step := s.next()
			wantBlocked(t, step, "old-a-1 web-0 denied")
			if got := step.Blocked[0].String(); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

// E52: the failure names the pod, the budget, how many pods it needs and has, for how long, and what to do.
func TestPodEvictionFailureSaysWhy(t *testing.T) {
	cases := map[string]struct {
		pods   []*corev1.Pod
		budget *policyv1.PodDisruptionBudget
		change func(*scene)
		want   string
	}{
		"a spent budget": {
			[]*corev1.Pod{build.Pod("web-0")},
			build.Budget("web", build.Counts(4, 3, 3)), nil,
			`draining node "old-a-1": it still has pods after 15m0s: pod shop/web-0: PDB shop/web allows no disruption (needs 3 healthy, has 3), for 15m0s: wait until its pods are ready, raise its replicas or pass --on-timeout=force`,
		},
		"E51 two budgets": {
			[]*corev1.Pod{build.Pod("web-0")},
			build.Budget("all", build.Selecting(&metav1.LabelSelector{})),
			func(s *scene) {
				s.budgets(build.Budget("all", build.Selecting(&metav1.LabelSelector{})), build.Budget("web"))
			},
			`draining node "old-a-1": it still has pods after 15m0s: pod shop/web-0: PDB shop/all and shop/web cover the same pod, which the eviction API refuses, for 15m0s: delete one of the two budgets`,
		},
		"POD001 no controller": {
			[]*corev1.Pod{build.Pod("bare", build.Bare)},
			nil, nil,
			`draining node "old-a-1": it still has pods after 15m0s: pod shop/bare: it has no controller that would create it again, for 15m0s: delete it or pass --unmanaged-pods=evict`,
		},
		"POD007 its namespace": {
			[]*corev1.Pod{build.Pod("web-0")},
			nil, func(s *scene) { s.EndingNamespaces = map[string]bool{"shop": true} },
			`draining node "old-a-1": it still has pods after 15m0s: pod shop/web-0: its namespace is being deleted, for 15m0s: find out which finalizers keep the namespace`,
		},
		"POD006 terminating": {
			[]*corev1.Pod{build.Pod("web-0", build.Ending(start.Add(time.Minute)))},
			nil, nil,
			`draining node "old-a-1": it still has pods after 15m0s: still terminating: shop/web-0: check their finalizers and grace periods`,
		},
		"the first three of five": {
			[]*corev1.Pod{build.Pod("a"), build.Pod("b"), build.Pod("c"), build.Pod("d"), build.Pod("e")},
			build.Budget("web", build.Counts(3, 1, 2)), nil,
			"and 2 more: repair its unready pods",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := draining(t, c.pods...)
			if c.budget != nil {
				s.budgets(c.budget)
			}
			if c.change != nil {
				c.change(s)
			}
			s.rest()
			s.pass(15*time.Minute - time.Second)
			if step := s.next(); step.Record.Stopping != "" || !step.Wake.Equal(s.Now.Add(time.Second)) {
				t.Errorf("a second early it is stopping with %q, and wakes at %s", step.Record.Stopping, step.Wake)
			}
			s.pass(time.Second)
			s.next()
			step := s.next()
			if !step.Finished || step.Record.Result != record.PodEvictionFailure || !strings.Contains(step.Record.Message, c.want) {
				t.Errorf("finished %t with %q: %q\nwant %q", step.Finished, step.Record.Result, step.Record.Message, c.want)
			}
			wantState(t, step, "old-a-1", record.NodeDraining)
		})
	}
}

// A node whose drain timeout is over is given up in the same step: no more pods are evicted from it.
func TestNodePastItsDrainTimeoutGetsNoMoreEvictions(t *testing.T) {
	for _, end := range []record.OnTimeout{record.Fail, record.Force, record.Skip} {
		t.Run(string(end), func(t *testing.T) {
			s := draining(t, build.Pod("web-0"))
			s.Record.Request.OnTimeout = end
			s.budgets(build.Budget("web", build.Counts(4, 3, 3)))
			s.rest()
			s.pass(15 * time.Minute)
			s.budgets(build.Budget("web", build.Counts(4, 4, 3)))
			wantActions(t, s.next())
		})
	}
}

// E43: remaining pods are deleted, by UID, but not before the drain timeout is over.
func TestForceDeletesPodsOnlyAfterDrainTimeout(t *testing.T) {
	s := draining(t, build.Pod("web-0"), build.Pod("bare", build.Bare))
	s.Request.OnTimeout, s.Record.Request.OnTimeout = record.Force, record.Force
	s.budgets(build.Budget("web", build.Counts(3, 3, 3)))
	s.rest()
	s.pass(15*time.Minute - time.Second)
	wantActions(t, s.next())
	s.pass(time.Second)
	step := s.next()
	wantActions(t, step)
	if !step.Persist || step.Record.Nodes["old-a-1"].State != record.NodeForcing {
		t.Errorf("persist %t, state %q: a force is written ahead", step.Persist, step.Record.Nodes["old-a-1"].State)
	}
	step = s.next()
	wantActions(t, step, "delete pod shop/bare", "delete pod shop/web-0")
	for _, a := range step.Actions {
		if got := a.(schedule.Deletion); string(got.UID) != got.Pod || got.Node != "old-a-1" {
			t.Errorf("the deletion is of UID %q on %q", got.UID, got.Node)
		}
	}
	s.do(step.Actions...)
	s.pass(30 * time.Second) // the pods' own grace period
	wantActions(t, s.next())
	s.pass(31 * time.Second)
	step = s.next()
	wantActions(t, step, "terminate instance i-old-a-1 and shrink the group by one")
	if got := step.Record.Nodes["old-a-1"].Reason; !strings.Contains(got, "PDB shop/web") || !strings.Contains(got, "shop/bare") {
		t.Errorf("I2: the pods that it is terminated with are not named: %q", got)
	}
}

func TestSkipQuarantinesNodeAndDrainsNextOne(t *testing.T) {
	s := newScene(t, old("old-a-1", build.Pod("bare", build.Bare)), old("old-a-2", build.Pod("bare-too", build.Bare)))
	s.Request.OnTimeout = record.Skip
	s.do(s.next().Actions...)
	s.rest()
	s.pass(15 * time.Minute)
	step := s.next()
	wantState(t, step, "old-a-1", record.NodeQuarantined)
	wantActions(t, step, "start draining node old-a-2")
	if node := s.at("old-a-1").Node; !node.Spec.Unschedulable {
		t.Error("a quarantined node takes pods")
	}
	s.at("old-a-2").Pods = nil // a user deleted it
	s.do(step.Actions...)
	s.pass(time.Minute)
	s.rest()
	s.remove("old-a-2")
	if step = s.rest(); step.Record.Result != record.LeftBehind {
		t.Errorf("result %q, want %q", step.Record.Result, record.LeftBehind)
	}
	if !strings.Contains(step.Record.Nodes["old-a-1"].Reason, "pod shop/bare: it has no controller") {
		t.Errorf("reason %q", step.Record.Nodes["old-a-1"].Reason)
	}
}

// E51: a pod that comes back to the fenced node is evicted a second time, but not a third time.
func TestPodThatReturnsTwiceIsNotEvictedAgain(t *testing.T) {
	s := draining(t, build.Pod("web-0"))
	for i := range 3 {
		step := s.next()
		if i < 2 {
			s.do(step.Actions...)
			s.pass(time.Minute)
			s.empty("old-a-1")
			s.at("old-a-1").Pods = []*corev1.Pod{build.Pod("web-"+string(rune('1'+i)), build.On("old-a-1"), build.Created(s.Now))}
			continue
		}
		wantActions(t, step)
		wantBlocked(t, step, "old-a-1 web-2 returns")
	}
}

// A pod of another controller does not count as a returned pod.
func TestNewPodOfOtherControllerIsNotCountedAsReturned(t *testing.T) {
	s := draining(t, build.Pod("web-0"))
	s.do(s.next().Actions...)
	s.pass(time.Minute)
	s.at("old-a-1").Pods = []*corev1.Pod{
		build.Pod("web-1", build.On("old-a-1"), build.Created(s.Now)), build.Pod("cart-1", build.App("cart"), build.On("old-a-1"), build.Created(s.Now)),
	}
	wantActions(t, s.next(), "evict pod shop/web-1", "evict pod shop/cart-1")
}

// L15: an empty node is drained again when a pod comes, and its settle time begins again.
func TestEmptyNodeThatGetsAPodIsDrainedAgain(t *testing.T) {
	s := draining(t)
	wantState(t, s.rest(), "old-a-1", record.NodeEmpty)
	s.pass(50 * time.Second)
	s.at("old-a-1").Pods = []*corev1.Pod{build.Pod("web-0", build.On("old-a-1"))}
	step := s.next()
	wantActions(t, step, "evict pod shop/web-0")
	wantState(t, step, "old-a-1", record.NodeDraining)
	s.do(step.Actions...)
	s.empty("old-a-1")
	s.pass(10 * time.Second)
	wantActions(t, s.next())
	s.pass(time.Minute)
	wantActions(t, s.next(), "terminate instance i-old-a-1 and shrink the group by one")
}

// Two nodes share a budget, and the node that was started first uses it. The other node's drain timeout does not run
// during that time.
func TestDrainTimeoutPausesWhileEarlierNodeUsesTheBudget(t *testing.T) {
	s := newScene(t, old("old-a-1", build.Pod("web-0")), old("old-a-2", build.Pod("web-1")))
	s.Request.MaxUnavailable, s.Request.Window = 2, 2
	s.budgets(build.Budget("web", build.Counts(4, 4, 2))) // pods of both nodes can move when the nodes are started …
	s.do(s.next().Actions...)
	step := s.next()
	s.do(actionsOf(step, "start draining")...)
	s.budgets(build.Budget("web", build.Counts(4, 3, 3))) // … and then the budget blocks both
	s.next()
	for range 20 {
		s.pass(30 * time.Second)
		s.next()
	}
	if got := s.Notes.Yielded["old-a-2"]; got != 10*time.Minute {
		t.Errorf("the second node is credited with %s, want 10m0s", got)
	}
	if got := s.Notes.Yielded["old-a-1"]; got != 0 {
		t.Errorf("the first node is credited with %s, although no node was started before it", got)
	}
	s.pass(5 * time.Minute)
	if step := s.next(); step.Record.Stopping != record.PodEvictionFailure || !strings.Contains(step.Record.Message, "old-a-1") {
		t.Errorf("stopping with %q %q: the first node's time is over", step.Record.Stopping, step.Record.Message)
	}
}

// actionsOf returns the step's actions whose text begins with text.
func actionsOf(step upgrade.Step, text string) (found []nodegroup.Action) {
	for _, a := range step.Actions {
		if strings.HasPrefix(a.String(), text) {
			found = append(found, a)
		}
	}
	return found
}

// After a crash it is unknown what a node waited for. Its drain timeout is then the one on record.
func TestCrashDoesNotExtendDrainTimeout(t *testing.T) {
	s := newScene(t, old("old-a-1", build.Pod("web-0")), old("old-a-2", build.Pod("web-1")))
	s.Request.MaxUnavailable, s.Request.Window, s.Request.OnTimeout = 2, 2, record.Skip
	s.budgets(build.Budget("web", build.Counts(4, 4, 2)))
	s.do(s.next().Actions...)
	s.do(actionsOf(s.next(), "start draining")...)
	s.budgets(build.Budget("web", build.Counts(4, 3, 3)))
	s.pass(time.Minute)
	s.crash()
	s.next()
	if got := s.Notes.Yielded["old-a-2"]; got != 0 {
		t.Errorf("I8: the crash has put %s by", got)
	}
	s.pass(14 * time.Minute)
	s.crash()
	step := s.next()
	wantState(t, step, "old-a-1", record.NodeQuarantined)
	wantState(t, step, "old-a-2", record.NodeQuarantined)
}

// E44, E45: an empty node stays for the settle time, and has a label by which load balancers remove it.
func TestEmptyNodeIsTerminatedAfterSettleTime(t *testing.T) {
	s := draining(t)
	step := s.rest()
	wantState(t, step, "old-a-1", record.NodeEmpty)
	if s.at("old-a-1").Node.Labels[corev1.LabelNodeExcludeBalancers] == "" {
		t.Error("load balancers still send to the node")
	}
	if want := start.Add(time.Minute); step.Wake.After(want) {
		t.Errorf("wakes at %s, after %s", step.Wake, want)
	}
	s.pass(time.Minute - time.Second)
	wantActions(t, s.next())
	s.pass(time.Second)
	wantActions(t, s.next(), "terminate instance i-old-a-1 and shrink the group by one")
}

// The machine is not terminated before its node shows the start of the drain.
func TestTerminationWaitsForDrainAnnotationOnNode(t *testing.T) {
	s := draining(t)
	s.Record.Request.Settle = duration(0)
	wantActions(t, s.next(), "start draining node old-a-1")
	s.pass(10 * time.Minute)
	step := s.next()
	wantActions(t, step, "start draining node old-a-1")
	s.do(step.Actions...)
	wantActions(t, s.next(), "terminate instance i-old-a-1 and shrink the group by one")
}

// L14: the upgrade waits for attached volumes, but not longer than kube-controller-manager does.
func TestTerminationWaitsUntilVolumesAreDetached(t *testing.T) {
	claim := build.Volume(corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}})
	cases := map[string]struct {
		staying []*corev1.Pod
		detach  time.Duration
		want    time.Duration
	}{
		"detached in time":             {nil, 2 * time.Minute, 2 * time.Minute},
		"detached before the settle":   {nil, 30 * time.Second, time.Minute},
		"never detached":               {nil, time.Hour, 6 * time.Minute},
		"of a pod that stays: no wait": {[]*corev1.Pod{build.Pod("agent", build.OwnedBy("DaemonSet", "agent"), claim)}, time.Hour, time.Minute},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := draining(t, c.staying...)
			s.mark("old-a-1", func(n *corev1.Node) { n.Status.VolumesAttached = []corev1.AttachedVolume{{Name: "vol-1"}} })
			s.rest()
			for waited := 10 * time.Second; ; waited += 10 * time.Second {
				s.pass(10 * time.Second)
				if waited == c.detach {
					s.mark("old-a-1", func(n *corev1.Node) { n.Status.VolumesAttached = nil })
				}
				if step := s.next(); len(step.Actions) > 0 {
					if waited != c.want {
						t.Errorf("terminated after %s, want %s", waited, c.want)
					}
					return
				}
				if waited > time.Hour {
					t.Fatal("never terminated")
				}
			}
		})
	}
}

// L21: a node whose kubelet has not reported for five minutes cannot confirm that its pods ended.
func TestDrainDoesNotWaitForDeletedPodsOfLostNode(t *testing.T) {
	s := draining(t, build.Pod("web-0"))
	s.mark("old-a-1", build.NotReady(start))
	s.do(s.next().Actions...)
	s.pass(5*time.Minute - time.Second)
	wantState(t, s.next(), "old-a-1", record.NodeDraining)
	s.pass(time.Second)
	wantState(t, s.next(), "old-a-1", record.NodeEmpty)
}

// The time since when a pod is blocked is kept over steps, and begins again after the pod was free.
func TestPodBlockedSinceTimeRestartsAfterPodWasFree(t *testing.T) {
	closed, open := build.Budget("web", build.Counts(4, 3, 3)), build.Budget("web", build.Counts(4, 4, 3))
	s := draining(t, build.Pod("web-0"))
	s.budgets(closed)
	since := func(step upgrade.Step) time.Duration {
		t.Helper()
		wantBlocked(t, step, "old-a-1 web-0 "+string(drain.BudgetSpent))
		return s.Now.Sub(step.Blocked[0].Since)
	}
	s.next()
	s.pass(2 * time.Minute)
	if got := since(s.next()); got != 2*time.Minute {
		t.Errorf("blocked for %s, want 2m0s", got)
	}
	s.budgets(open)
	s.next()
	s.budgets(closed)
	s.pass(time.Minute)
	if got := since(s.next()); got != 0 {
		t.Errorf("blocked for %s, want 0s", got)
	}
}

// The record contains since when a pod has been blocked, if for longer than a minute, so that other processes know it. It
// is removed once the pod is free.
func TestRecordStoresSinceWhenAPodIsBlocked(t *testing.T) {
	blocked := func(step upgrade.Step) map[string]time.Time { return step.Record.Nodes["old-a-1"].Blocked }
	s := draining(t, build.Pod("web-0"))
	s.budgets(build.Budget("web", build.Counts(4, 3, 3)))
	s.next()
	s.pass(30 * time.Second)
	if step := s.next(); len(blocked(step)) != 0 || step.Persist {
		t.Errorf("after 30s %v is recorded, to be stored %t", blocked(step), step.Persist)
	}
	s.pass(time.Minute)
	if step := s.next(); len(blocked(step)) != 1 || !step.Persist {
		t.Fatalf("after 90s %v is recorded, to be stored %t", blocked(step), step.Persist)
	}
	s.pass(time.Minute)
	if s.next().Persist {
		t.Error("it is stored again")
	}
	s.Notes = upgrade.Notes{} // another process
	step := s.next()
	wantBlocked(t, step, "old-a-1 web-0 "+string(drain.BudgetSpent))
	if got, want := s.Now.Sub(step.Blocked[0].Since), 150*time.Second; got != want {
		t.Errorf("blocked for %s, want %s", got, want)
	}
	s.budgets(build.Budget("web", build.Counts(4, 4, 3)))
	if step := s.next(); len(blocked(step)) != 0 {
		t.Errorf("the pod is free, and %v is recorded", blocked(step))
	}
}
