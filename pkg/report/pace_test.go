package report

import (
	"slices"
	"testing"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

func TestPaceShowsNextChanges(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	after := func(hours, nodes int) Pace { return Pace{now.Add(time.Duration(hours) * time.Hour), nodes} }
	cases := map[string]struct {
		pace []Pace
		want []string
	}{
		"unknown":   {nil, nil},
		"constant":  {[]Pace{after(0, 1)}, []string{"Pace        at most 1 node at a time"}},
		"closed":    {[]Pace{after(0, 0), after(5, 3)}, []string{"Pace        the budgets allow no node; at most 3 nodes at a time from Mon 2026-11-30 17:00 UTC on (in 5h)"}},
		"only some": {[]Pace{after(0, 1), after(1, 2), after(2, 3), after(3, 4)}, []string{"Pace        at most 1 node at a time; at most 2 nodes at a time from Mon 2026-11-30 13:00 UTC on (in 60m); at most 3 nodes at a time from Mon 2026-11-30 14:00 UTC on (in 120m)"}},
	}
	for name, c := range cases {
		if got := paceLines(c.pace, now); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

// TestRolloutIsStuckIfNothingMoves checks when a roll-out goes no further until a person changes something.
func TestRolloutIsStuckIfNothingMoves(t *testing.T) {
	kept := func(node string, kind drain.ObstacleKind) drain.Blocked {
		return drain.Blocked{Node: node, Obstacle: drain.Obstacle{Kind: kind}, Passed: true}
	}
	pending := func(name string) record.NodeStatus { return record.NodeStatus{Name: name, State: record.NodePending} }
	cases := map[string]struct {
		nodes   []record.NodeStatus
		blocked []drain.Blocked
		pace    []Pace
		want    bool
	}{
		"nothing is left":              {},
		"an annotation ends":           {[]record.NodeStatus{pending("a")}, []drain.Blocked{{Node: "a", Passed: true, Obstacle: drain.Obstacle{Kind: drain.Keeps, Detail: "2026-11-30 11:06:16 UTC"}}}, nil, false},
		"an annotation keeps a drain":  {[]record.NodeStatus{{Name: "b", State: record.NodeFenced}}, []drain.Blocked{kept("b", drain.Keeps)}, nil, true},
		"a node is free":               {[]record.NodeStatus{pending("a"), pending("b")}, []drain.Blocked{kept("a", drain.Keeps)}, nil, false},
		"all are kept":                 {[]record.NodeStatus{pending("a"), pending("b")}, []drain.Blocked{kept("a", drain.Keeps), kept("b", drain.BudgetNever)}, nil, true},
		"a budget opens by itself":     {[]record.NodeStatus{pending("a")}, []drain.Blocked{kept("a", drain.BudgetSpent)}, nil, false},
		"a budget and an annotation":   {[]record.NodeStatus{pending("a")}, []drain.Blocked{kept("a", drain.BudgetSpent), kept("a", drain.Keeps)}, nil, true},
		"one is drained":               {[]record.NodeStatus{pending("a"), {Name: "b", State: record.NodeDraining}}, []drain.Blocked{kept("a", drain.Keeps)}, nil, false},
		"blocked in the drain":         {[]record.NodeStatus{pending("a")}, []drain.Blocked{{Node: "a", Obstacle: drain.Obstacle{Kind: drain.BudgetNever}}}, nil, false},
		"the budgets open later":       {[]record.NodeStatus{pending("a")}, nil, []Pace{{Nodes: 0}, {Nodes: 1}}, false},
		"the budgets stay as they are": {[]record.NodeStatus{pending("a")}, nil, []Pace{{Nodes: 0}}, true},
	}
	for name, c := range cases {
		s := &UpgradeStatus{Status: record.Status{Nodes: c.nodes}, Blocked: c.blocked, Pace: c.pace}
		if got := s.IsStuck(); got != c.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}

// TestLiveViewShowsKeptNodes checks that a node that a service passes over has a row, which does not say that it has no pods.
func TestLiveViewShowsKeptNodes(t *testing.T) {
	l := &LiveView{Record: &record.Record{}}
	l.Status.Nodes = []record.NodeStatus{{Name: "free", State: record.NodePending}, {Name: "held", State: record.NodePending}, {Name: "gone", State: record.NodeDraining, Pods: 2}}
	l.Blocked = []drain.Blocked{{Node: "held", Obstacle: drain.Obstacle{Kind: drain.Keeps}, Passed: true}}
	var got []string
	for _, row := range l.listRows() {
		got = append(got, row.node+" "+row.state+" "+row.pods+" "+row.waits)
	}
	want := []string{"held kept - its annotation karpenter.sh/do-not-disrupt keeps it", "gone draining 2 "}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
