package upgrade_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/build"
)

// Two nodes are in drain, and there is room for two evictions. The test checks which pods go first.
func TestPodsThatDelayUpgradeMostAreEvictedFirst(t *testing.T) {
	web := func(name string) *corev1.Pod { return build.Pod(name) }
	free := func(name string) *corev1.Pod { return build.Pod(name, build.App("free")) }
	open := build.Budget("web", build.Counts(4, 4, 3))
	closed := build.Budget("web", build.Counts(4, 3, 3))
	cases := map[string]struct {
		first, second []*corev1.Pod
		budget        *policyv1.PodDisruptionBudget
		// gone is how long pods take to leave, 0 if not learned.
		gone time.Duration
		want string
	}{
		"one node after the other": {
			[]*corev1.Pod{free("a-0"), free("a-1")}, []*corev1.Pod{free("b-0")}, open, 0, "a-0 a-1",
		},
		"nobody knows how long nodes take": {
			[]*corev1.Pod{free("a-0"), free("a-1")}, []*corev1.Pod{web("web-0")}, open, 0, "a-0 a-1",
		},
		"the budget decides when the upgrade ends": {
			[]*corev1.Pod{free("a-0"), free("a-1")}, []*corev1.Pod{web("web-0"), web("web-1"), web("web-2")}, open, 3 * time.Second, "web-0 a-0",
		},
		"a node's tightest budget": {
			[]*corev1.Pod{free("a-0"), web("web-0")}, []*corev1.Pod{free("b-0")}, open, 0, "web-0 a-0",
		},
		"a node that waits for a budget has time": {
			[]*corev1.Pod{free("a-0"), web("web-0")}, []*corev1.Pod{free("b-0")}, closed, 0, "b-0 a-0",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, old("old-a-1", c.first...), old("old-a-2", c.second...), current("cur-a-1"))
			s.Request.MaxUnavailable, s.Request.Window, s.EvictionsAtOnce = 2, 2, 2
			s.Request.Settle = duration(0)
			s.budgets(c.budget)
			s.do(s.next().Actions...) // the fences
			if c.gone > 0 {
				s.Notes.Gone = map[types.UID]time.Duration{"": c.gone}
			}
			s.next()
			s.pass(time.Millisecond)
			if got := evicted(s.next()); got != c.want {
				t.Errorf("evicts %s, want %s", got, c.want)
			}
		})
	}
}

// A budget whose pods have left long before the nodes are empty does not decide anything.
func TestBudgetsWithSlackAreNotCritical(t *testing.T) {
	budgets := []*policyv1.PodDisruptionBudget{build.Budget("web", build.Counts(4, 4, 3)), build.Budget("cart", build.Counts(12, 12, 11))}
	var carts []*corev1.Pod
	for i := range 12 {
		carts = append(carts, build.Pod(fmt.Sprint("cart-", i), build.App("cart")))
	}
	s := newScene(t, old("old-a-1", build.Pod("web-0")), old("old-a-2", carts...), old("old-a-3"), old("old-a-4"), current("cur-a-1"))
	s.budgets(budgets...)
	s.Request.MaxUnavailable, s.Request.Window, s.Request.Settle = 2, 2, duration(0)
	s.do(s.next().Actions...) // the fences
	s.Notes.Gone = map[types.UID]time.Duration{"": 30 * time.Second}
	s.next()
	cart, web := types.NamespacedName{Namespace: "shop", Name: "cart"}, types.NamespacedName{Namespace: "shop", Name: "web"}
	if !s.Notes.Critical[cart] || s.Notes.Critical[web] {
		t.Errorf("critical budgets: %v", s.Notes.Critical)
	}
}
