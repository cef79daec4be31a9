package drain_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
)

// pods is a node whose pods need a slot of the budgets, a negative one for none, and are gone after
// 3 s.
func pods(gates ...int) drain.NodeDrain {
	var l drain.NodeDrain
	for _, gate := range gates {
		l.Pods = append(l.Pods, drain.PodEviction{Budget: gate, Gone: 3 * time.Second})
	}
	return l
}

// gates are budgets that let one pod be missing each, for 2 s.
func gates(opens ...time.Duration) []drain.BudgetSlots {
	var all []drain.BudgetSlots
	for _, at := range opens {
		all = append(all, drain.BudgetSlots{Open: []time.Duration{at}, Refill: 2 * time.Second})
	}
	return all
}

func TestQueueNext(t *testing.T) {
	const soon = time.Second
	cases := map[string]struct {
		queue drain.Queue
		want  int
	}{
		"nobody waits":                           {drain.Queue{Window: 1}, -1},
		"the first where nothing is lost":        {drain.Queue{Window: 2, Waiting: []drain.NodeDrain{pods(-1), pods(-1, -1), pods()}}, 0},
		"one that loses nothing":                 {drain.Queue{Window: 2, Budgets: gates(soon, 0), Waiting: []drain.NodeDrain{pods(0), pods(1)}}, 1},
		"none of whose pods could go now":        {drain.Queue{Window: 2, Budgets: gates(soon), Started: []drain.NodeDrain{pods(-1)}, Waiting: []drain.NodeDrain{pods(0)}}, -1},
		"all may wait while nothing is started":  {drain.Queue{Window: 2, Budgets: gates(soon), Waiting: []drain.NodeDrain{pods(0)}}, 0},
		"one of whose pods can go":               {drain.Queue{Window: 2, Budgets: gates(soon), Started: []drain.NodeDrain{pods(-1)}, Waiting: []drain.NodeDrain{pods(0), pods(0, -1)}}, 1},
		"one with nothing to move":               {drain.Queue{Window: 2, Budgets: gates(soon), Started: []drain.NodeDrain{pods(-1)}, Waiting: []drain.NodeDrain{pods(0), pods()}}, 1},
		"what is open is the started node's":     {drain.Queue{Window: 2, Budgets: gates(0, 0), Started: []drain.NodeDrain{pods(0)}, Waiting: []drain.NodeDrain{pods(0), pods(1)}}, 1},
		"a tight budget before none":             {drain.Queue{Window: 2, Budgets: gates(0), Waiting: []drain.NodeDrain{pods(-1), pods(-1), pods(0)}}, 2},
		"but not where one goes after the other": {drain.Queue{Window: 1, Budgets: gates(0), Waiting: []drain.NodeDrain{pods(-1), pods(-1), pods(0)}}, 0},
		"a budget that has most before it":       {drain.Queue{Window: 2, Budgets: gates(0, 0), Waiting: []drain.NodeDrain{pods(0), pods(1), pods(1), pods(1)}}, 1},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := c.queue.Next(); got != c.want {
				t.Errorf("got %d, want %d", got, c.want)
			}
		})
	}
}

// Of many nodes the one that loses least goes first.
func TestQueueOfMany(t *testing.T) {
	q := drain.Queue{Window: 2, Budgets: gates(time.Second)}
	for range 30 {
		q.Waiting = append(q.Waiting, pods(0, -1))
	}
	q.Waiting = append(q.Waiting, pods(-1))
	if got := q.Next(); got != 30 {
		t.Errorf("got %d, want 30", got)
	}
}

// Whatever the queue, the answer is the same each time and a node that waits, and the queue is not
// changed.
func TestQueueProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := anyQueue(t)
		before := fmt.Sprint(q)
		next := q.Next()
		if again := q.Next(); again != next {
			t.Fatalf("%d, and then %d", next, again)
		}
		if next < -1 || next >= len(q.Waiting) {
			t.Fatalf("%d is none of %d nodes", next, len(q.Waiting))
		}
		if after := fmt.Sprint(q); after != before {
			t.Errorf("the queue was %s\nand is %s", before, after)
		}
	})
}

func anyQueue(t *rapid.T) drain.Queue {
	span := func(name string) time.Duration {
		return time.Duration(rapid.IntRange(0, 60).Draw(t, name)) * time.Second / 2
	}
	q := drain.Queue{Window: rapid.IntRange(1, 4).Draw(t, "window")}
	for range rapid.IntRange(0, 4).Draw(t, "gates") {
		gate := drain.BudgetSlots{Refill: span("turn")}
		for range rapid.IntRange(1, 3).Draw(t, "capacity") {
			gate.Open = append(gate.Open, min(gate.Refill, span("opens")))
		}
		slices.Sort(gate.Open)
		q.Budgets = append(q.Budgets, gate)
	}
	loads := func(most int) (all []drain.NodeDrain) {
		for range rapid.IntRange(0, most).Draw(t, "nodes") {
			l := drain.NodeDrain{Least: span("least")}
			for range rapid.IntRange(0, 4).Draw(t, "pods") {
				l.Pods = append(l.Pods, drain.PodEviction{Budget: rapid.IntRange(-1, len(q.Budgets)-1).Draw(t, "gate"), Gone: span("gone")})
			}
			all = append(all, l)
		}
		return all
	}
	q.Started, q.Waiting = loads(q.Window), loads(8)
	return q
}
