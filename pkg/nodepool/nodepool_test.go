package nodepool_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodepool"
)

// monday is a Monday at noon, in UTC.
func monday() time.Time { return time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC) }

func poolOf(budgets ...nodepool.Budget) *nodepool.NodePool {
	p := &nodepool.NodePool{}
	p.Spec.Disruption.Budgets = budgets
	return p
}

// scheduled returns a budget that is active for a time after each hit of a schedule.
func scheduled(nodes, schedule, duration string, reasons ...string) nodepool.Budget {
	return nodepool.Budget{Nodes: nodes, Schedule: &schedule, Duration: &duration, Reasons: reasons}
}

func TestStrictestActiveBudgetCounts(t *testing.T) {
	cases := map[string]struct {
		pool  *nodepool.NodePool
		nodes int
		want  int
	}{
		"no budget":                       {poolOf(), 10, nodepool.Unlimited},
		"a number":                        {poolOf(nodepool.Budget{Nodes: "3"}), 10, 3},
		"a percentage, rounded up":        {poolOf(nodepool.Budget{Nodes: "10%"}), 11, 2},
		"a percentage of no node":         {poolOf(nodepool.Budget{Nodes: "10%"}), 0, 0},
		"the smaller one":                 {poolOf(nodepool.Budget{Nodes: "5"}, nodepool.Budget{Nodes: "20%"}), 10, 2},
		"another reason does not count":   {poolOf(nodepool.Budget{Nodes: "0", Reasons: []string{"Empty"}}), 10, nodepool.Unlimited},
		"the reason among others":         {poolOf(nodepool.Budget{Nodes: "1", Reasons: []string{"Empty", "Drifted"}}), 10, 1},
		"active":                          {poolOf(scheduled("0", "0 9 * * mon", "4h")), 10, 0},
		"active from its hit on":          {poolOf(scheduled("0", "0 12 * * mon", "1h")), 10, 0},
		"over at the end of its duration": {poolOf(scheduled("0", "0 9 * * mon", "3h")), 10, nodepool.Unlimited},
		"not active yet":                  {poolOf(scheduled("0", "1 12 * * mon", "3h")), 10, nodepool.Unlimited},
		"an unreadable schedule closes":   {poolOf(nodepool.Budget{Nodes: "5"}, scheduled("1", "0 25 * * *", "1h", "Empty")), 10, 0},
		"an unreadable number closes":     {poolOf(nodepool.Budget{Nodes: "many"}), 10, 0},
		"an unreadable duration closes":   {poolOf(scheduled("5", "@daily", "a day")), 10, 0},
	}
	for name, c := range cases {
		if got := c.pool.Allowance(monday(), c.nodes); got != c.want {
			t.Errorf("%s: got %d, want %d", name, got, c.want)
		}
	}
}

func TestChangesOfAllowanceAreKnownBeforehand(t *testing.T) {
	pool := poolOf(nodepool.Budget{Nodes: "50%"}, scheduled("0", "0 9 * * mon-fri", "8h"))
	got := pool.Changes(monday(), monday().Add(30*time.Hour), 10)
	want := []nodepool.Change{
		{At: monday(), Allowed: 0},
		{At: monday().Add(5 * time.Hour), Allowed: 5},
		{At: monday().Add(21 * time.Hour), Allowed: 0},
		{At: monday().Add(29 * time.Hour), Allowed: 5},
	}
	if len(got) != len(want) {
		t.Fatalf("got %v, want %v", got, want)
	}
	for i := range want {
		if !got[i].At.Equal(want[i].At) || got[i].Allowed != want[i].Allowed {
			t.Errorf("change %d: got %v, want %v", i, got[i], want[i])
		}
	}
}

// TestSchedulesAreInUTC reads a schedule at a time of another zone.
func TestSchedulesAreInUTC(t *testing.T) {
	tokyo := time.FixedZone("JST", 9*3600)
	pool := poolOf(scheduled("0", "0 12 * * mon", "1h"))
	if got := pool.Allowance(monday().In(tokyo), 5); got != 0 {
		t.Errorf("got %d, want 0: it is noon in UTC", got)
	}
}

func TestUnreadableBudgetIsNamed(t *testing.T) {
	err := poolOf(nodepool.Budget{Nodes: "5"}, scheduled("1", "0 25 * * *", "1h")).FindUnreadable(3)
	if err == nil || !strings.Contains(err.Error(), `schedule "0 25 * * *"`) {
		t.Errorf("got %v", err)
	}
	if err := poolOf(nodepool.Budget{Nodes: "5"}).FindUnreadable(3); err != nil {
		t.Errorf("got %v for a readable budget", err)
	}
}

func condition(of, status, reason, message string) metav1.Condition {
	return metav1.Condition{Type: of, Status: metav1.ConditionStatus(status), Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(monday())}
}

func claimWith(conditions ...metav1.Condition) *nodepool.NodeClaim {
	c := &nodepool.NodeClaim{}
	c.Status.Conditions = conditions
	return c
}

func TestClaimDriftsByItsCondition(t *testing.T) {
	drift, drifted := claimWith(condition("Drifted", "True", "AMIDrift", "")).FindDrift()
	if !drifted || drift.Reason != "AMIDrift" || !drift.Since.Equal(monday()) {
		t.Errorf("got %v, %t", drift, drifted)
	}
	for name, c := range map[string]*nodepool.NodeClaim{"no condition": claimWith(), "false": claimWith(condition("Drifted", "False", "x", "")), "unknown": claimWith(condition("Drifted", "Unknown", "x", ""))} {
		if _, drifted := c.FindDrift(); drifted {
			t.Errorf("%s: it counts as drifted", name)
		}
	}
}

func TestClaimExpiresByItsAge(t *testing.T) {
	cases := map[string]time.Time{"720h": monday().Add(720 * time.Hour), "Never": {}, "": {}}
	for after, want := range cases {
		c := claimWith()
		c.CreationTimestamp, c.Spec.ExpireAfter = metav1.NewTime(monday()), after
		if got := c.ExpiresAt(); !got.Equal(want) {
			t.Errorf("%q: got %s, want %s", after, got, want)
		}
	}
	unknown := claimWith()
	unknown.Spec.ExpireAfter = "1h"
	if got := unknown.ExpiresAt(); !got.IsZero() {
		t.Errorf("a claim of unknown age expires at %s", got)
	}
}

func TestPoolSaysWhyItLaunchesNothing(t *testing.T) {
	pool := poolOf()
	pool.Status.Conditions = []metav1.Condition{
		condition("Ready", "False", "UnhealthyDependents", "ValidationSucceeded=True, NodeClassReady=False"), condition("NodeClassReady", "False", "NodeClassNotFound", "NodeClass not found on cluster"),
	}
	if got := pool.WhyNotReady(); got != "NodeClass not found on cluster" {
		t.Errorf("got %q", got)
	}
	pool.Status.Conditions = []metav1.Condition{condition("Ready", "True", "Ready", "")}
	if got := pool.WhyNotReady(); got != "" {
		t.Errorf("a ready pool: got %q", got)
	}
}
