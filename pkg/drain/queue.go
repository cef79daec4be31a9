package drain

import (
	"slices"
	"time"
)

// Queue is a window of nodes under drain and the nodes that wait to join it. A pod leaves when its
// budget is open, those of nodes that were started first before others, and a node makes room for
// the next when its last pod has gone.
//
// It is a model: time only passes with budgets and with the ends of pods. All times are from now.
type Queue struct {
	// Window is how many nodes are drained at a time.
	Window int
	// Budgets are the budgets in the way.
	Budgets []BudgetSlots
	// Started are the nodes in the window, in order of their start, Waiting those to come.
	Started, Waiting []NodeDrain
}

// BudgetSlots is a budget over time: an eviction takes one of its slots for a while.
type BudgetSlots struct {
	// Open are the times at which the disruptions it allows at once may be spent, sorted; 0 for
	// those it allows now. There is one at least, and none after Refill.
	Open []time.Duration
	// Refill is how long after an eviction its pod is made up for.
	Refill time.Duration
}

// NodeDrain is a node as far as its drain takes time.
type NodeDrain struct {
	Pods []PodEviction
	// Least is how long the drain takes even where no budget is in the way.
	Least time.Duration
}

// PodEviction is a pod that is to be evicted.
type PodEviction struct {
	// Budget is the index of its budget, negative for a pod that no budget holds.
	Budget int
	// Gone is how long after its eviction the pod is gone.
	Gone time.Duration
}

// Next returns the index of the waiting node to start next: of those of which a pod could go now,
// the one that loses least time at budgets. Among equals it is the one whose budgets have most
// before them, for time in which a tight budget is not used is lost where nodes are drained side by
// side. It is -1 when no pod of any of them could go.
func (q *Queue) Next() int {
	line, waiting := newTimeline(q), q.countWaiting()
	best, least, most := -1, time.Duration(0), 0
	open, next := slices.Clone(line.open), slices.Clone(line.next)
	for i := range q.Waiting {
		node := &q.Waiting[i]
		if !line.canStart(node) {
			continue
		}
		lost := line.drainNode(node)
		copy(line.open, open)
		copy(line.next, next)
		uses := 0
		if q.Window > 1 {
			uses = q.pendingUsesOf(node, waiting)
		}
		if best < 0 || lost < least || (lost == least && uses > most) {
			best, least, most = i, lost, uses
		}
	}
	return best
}

// countWaiting counts, by budget, the pods of all waiting nodes.
func (q *Queue) countWaiting() []int {
	counts := make([]int, len(q.Budgets))
	for i := range q.Waiting {
		for _, pod := range q.Waiting[i].Pods {
			if pod.Budget >= 0 {
				counts[pod.Budget]++
			}
		}
	}
	return counts
}

// pendingUsesOf is what the node's budgets have before them, in thousandths of their refills.
func (q *Queue) pendingUsesOf(node *NodeDrain, waiting []int) (sum int) {
	for _, pod := range node.Pods {
		if pod.Budget >= 0 {
			sum += 1000 * waiting[pod.Budget] / len(q.Budgets[pod.Budget].Open)
		}
	}
	return sum
}

// timeline is a queue at the moment at which the started nodes have taken their slots.
type timeline struct {
	*Queue
	// open are the slots of all budgets, those of a budget a ring that begins at first, of which
	// next is the one to be taken next.
	open        []time.Duration
	first, next []int
}

func newTimeline(q *Queue) *timeline {
	l := &timeline{Queue: q, first: []int{0}}
	for i := range q.Budgets {
		l.next = append(l.next, len(l.open))
		l.open = append(l.open, q.Budgets[i].Open...)
		l.first = append(l.first, len(l.open))
	}
	for i := range q.Started {
		l.drainNode(&q.Started[i])
	}
	return l
}

// canStart reports whether a pod of the node could go now; every node can while nothing is started.
func (l *timeline) canStart(node *NodeDrain) bool {
	return len(l.Started) == 0 || len(node.Pods) == 0 || slices.ContainsFunc(node.Pods, func(pod PodEviction) bool {
		return pod.Budget < 0 || l.open[l.next[pod.Budget]] <= 0
	})
}

// drainNode takes the slots that the node needs, and returns how much time it loses at budgets.
func (l *timeline) drainNode(node *NodeDrain) (lost time.Duration) {
	end, free := node.Least, node.Least
	for _, pod := range node.Pods {
		at := time.Duration(0)
		if b := pod.Budget; b >= 0 {
			slot := l.next[b]
			at = max(0, l.open[slot])
			l.open[slot] = at + l.Budgets[b].Refill
			if l.next[b]++; l.next[b] == l.first[b+1] {
				l.next[b] = l.first[b]
			}
		}
		free = max(free, pod.Gone)
		end = max(end, at+pod.Gone)
	}
	return end - free
}
