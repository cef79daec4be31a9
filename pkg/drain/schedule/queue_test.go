package schedule

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// pods returns a node whose pods need slots of the budgets and are gone after 3 s. A negative index means no budget.
func pods(gates ...int) nodeDrain {
	var l nodeDrain
	for _, gate := range gates {
		l.pods = append(l.pods, podEviction{budget: gate, gone: 3 * time.Second})
	}
	return l
}

// gates returns budgets that each let one pod be missing, for 2 s.
func gates(opens ...time.Duration) []budgetSlots {
	var all []budgetSlots
	for _, at := range opens {
		all = append(all, budgetSlots{open: []time.Duration{at}, refill: 2 * time.Second})
	}
	return all
}

// taking sets how many seconds each budget needs for its pods on all waiting nodes.
func taking(budgets []budgetSlots, seconds ...int) []budgetSlots {
	for i := range budgets {
		budgets[i].left = time.Duration(seconds[i]) * time.Second
	}
	return budgets
}

func TestQueueChoosesNextNodeToDrain(t *testing.T) {
	const soon = time.Second
	cases := map[string]struct {
		queue queue
		want  int
	}{
		"nobody waits":                          {queue{}, -1},
		"the first where nothing is lost":       {queue{waiting: []nodeDrain{pods(-1), pods(-1, -1), pods()}}, 0},
		"one that loses nothing":                {queue{budgets: gates(soon, 0), waiting: []nodeDrain{pods(0), pods(1)}}, 1},
		"none of whose pods could go now":       {queue{budgets: gates(soon), started: []nodeDrain{pods(-1)}, waiting: []nodeDrain{pods(0)}}, -1},
		"all may wait while nothing is started": {queue{budgets: gates(soon), waiting: []nodeDrain{pods(0)}}, 0},
		"one of whose pods can go":              {queue{budgets: gates(soon), started: []nodeDrain{pods(-1)}, waiting: []nodeDrain{pods(0), pods(0, -1)}}, 1},
		"one with nothing to move":              {queue{budgets: gates(soon), started: []nodeDrain{pods(-1)}, waiting: []nodeDrain{pods(0), pods()}}, 1},
		"what is open is the started node's":    {queue{budgets: gates(0, 0), started: []nodeDrain{pods(0)}, waiting: []nodeDrain{pods(0), pods(1)}}, 1},
		"a tight budget before none":            {queue{budgets: taking(gates(0), 2), waiting: []nodeDrain{pods(-1), pods(-1), pods(0)}}, 2},
		"a budget that takes longest":           {queue{budgets: taking(gates(0, 0), 2, 6), waiting: []nodeDrain{pods(0), pods(1), pods(1), pods(1)}}, 1},
		"one that takes longer than the nodes":  {queue{places: 4 * time.Second, budgets: taking(gates(soon, 0), 20, 4), waiting: []nodeDrain{pods(1), pods(0, -1)}}, 1},
		"not one that takes less":               {queue{places: 30 * time.Second, budgets: taking(gates(soon, 0), 20, 4), waiting: []nodeDrain{pods(1), pods(0, -1)}}, 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := c.queue.chooseNext(); got != c.want {
				t.Errorf("got %d, want %d", got, c.want)
			}
		})
	}
}

// The node that loses the least time goes first, even among many nodes.
func TestQueueOfManyNodesChoosesNextNodeToDrain(t *testing.T) {
	q := queue{budgets: gates(time.Second)}
	for range 30 {
		q.waiting = append(q.waiting, pods(0, -1))
	}
	q.waiting = append(q.waiting, pods(-1))
	if got := q.chooseNext(); got != 30 {
		t.Errorf("got %d, want 30", got)
	}
}

// For any queue the answer is deterministic and a waiting node, and the queue is not changed.
func TestQueueChoosesWaitingNodeDeterministically(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := anyQueue(t)
		before := fmt.Sprint(q)
		next := q.chooseNext()
		if again := q.chooseNext(); again != next {
			t.Fatalf("%d, and then %d", next, again)
		}
		if next < -1 || next >= len(q.waiting) {
			t.Fatalf("%d is none of %d nodes", next, len(q.waiting))
		}
		if after := fmt.Sprint(q); after != before {
			t.Errorf("the queue was %s\nand is %s", before, after)
		}
	})
}

func anyQueue(t *rapid.T) queue {
	span := func(name string) time.Duration {
		return time.Duration(rapid.IntRange(0, 60).Draw(t, name)) * time.Second / 2
	}
	q := queue{places: span("places")}
	for range rapid.IntRange(0, 4).Draw(t, "gates") {
		gate := budgetSlots{refill: span("turn"), left: span("left")}
		for range rapid.IntRange(1, 3).Draw(t, "capacity") {
			gate.open = append(gate.open, min(gate.refill, span("opens")))
		}
		slices.Sort(gate.open)
		q.budgets = append(q.budgets, gate)
	}
	loads := func(most int) (all []nodeDrain) {
		for range rapid.IntRange(0, most).Draw(t, "nodes") {
			l := nodeDrain{least: span("least")}
			for range rapid.IntRange(0, 4).Draw(t, "pods") {
				l.pods = append(l.pods, podEviction{budget: rapid.IntRange(-1, len(q.budgets)-1).Draw(t, "gate"), gone: span("gone")})
			}
			all = append(all, l)
		}
		return all
	}
	q.started, q.waiting = loads(4), loads(8)
	return q
}
