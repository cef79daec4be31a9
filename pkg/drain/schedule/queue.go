package schedule

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// queue is a window of nodes under drain and the nodes that wait to join it. A pod leaves when its
// budget is open, those of nodes that were started first before others, and a node makes room for
// the next when its last pod has gone.
//
// It is a model: time only passes with budgets and with the ends of pods. All times are from now.
type queue struct {
	// measure fills in places and all left, which take long to estimate, before they are asked for; nil where they are there.
	measure func()
	// places estimates how long the waiting nodes take to drain if no budget delays them.
	places time.Duration
	// budgets are the budgets in the way.
	budgets []budgetSlots
	// started are the nodes in the window, in order of their start, waiting those to come.
	started, waiting []nodeDrain
}

// budgetSlots is a budget over time: an eviction takes one of its slots for a while.
type budgetSlots struct {
	// open are the times at which the disruptions it allows at once may be spent, sorted; 0 for
	// those it allows now. There is one at least, and none after refill.
	open []time.Duration
	// refill is the time from an eviction until the budget has room again. left estimates how long the
	// budget needs for its pods on all waiting nodes; it is 0 if nodes are drained one by one.
	refill, left time.Duration
}

// nodeDrain is a node as far as its drain takes time.
type nodeDrain struct {
	pods []podEviction
	// least is how long the drain takes even where no budget is in the way.
	least time.Duration
	// left estimates how long the node's workloads without a budget need for their pods on all waiting
	// nodes: the longest of these times.
	left time.Duration
}

// podEviction is a pod that is to be evicted.
type podEviction struct {
	// budget is the index of its budget, negative for a pod that no budget holds.
	budget int
	// gone is how long after its eviction the pod is gone.
	gone time.Duration
	// free is the pod if its owner has written no budget for it.
	free *corev1.Pod
}

// chooseNext returns the index of the waiting node to start next: of those of which a pod could go
// now, the one that loses least time at budgets. If a budget needs longer than all waiting nodes, the
// upgrade ends with it, so the difference is subtracted from the loss of its nodes. Among equals it
// returns the node whose budgets need longest. It returns -1 if no pod of any node could go.
func (q *queue) chooseNext() int {
	line := newTimeline(q)
	var startable []int
	for i := range q.waiting {
		if line.canStart(&q.waiting[i]) {
			startable = append(startable, i)
		}
	}
	if len(startable) > 0 && q.measure != nil {
		q.measure()
	}
	best, least, longest := -1, time.Duration(0), time.Duration(0)
	open, next := slices.Clone(line.open), slices.Clone(line.next)
	for _, i := range startable {
		node := &q.waiting[i]
		left := q.longestLeft(node)
		lost := line.drainNode(node) - max(0, left-q.places)
		copy(line.open, open)
		copy(line.next, next)
		if best < 0 || lost < least || (lost == least && left > longest) {
			best, least, longest = i, lost, left
		}
	}
	return best
}

// longestLeft returns the longest time that one of the node's budgets or workloads still needs.
func (q *queue) longestLeft(node *nodeDrain) time.Duration {
	left := node.left
	for _, pod := range node.pods {
		if pod.budget >= 0 {
			left = max(left, q.budgets[pod.budget].left)
		}
	}
	return left
}

// timeline is a queue at the moment at which the started nodes have taken their slots.
type timeline struct {
	*queue
	// open are the slots of all budgets, those of a budget a ring that begins at first, of which
	// next is the one to be taken next.
	open        []time.Duration
	first, next []int
}

func newTimeline(q *queue) *timeline {
	l := &timeline{queue: q, first: []int{0}}
	for i := range q.budgets {
		l.next = append(l.next, len(l.open))
		l.open = append(l.open, q.budgets[i].open...)
		l.first = append(l.first, len(l.open))
	}
	for i := range q.started {
		l.drainNode(&q.started[i])
	}
	return l
}

// canStart reports whether a pod of the node could go now; every node can while nothing is started.
func (l *timeline) canStart(node *nodeDrain) bool {
	return len(l.started) == 0 || len(node.pods) == 0 || slices.ContainsFunc(node.pods, func(pod podEviction) bool {
		return pod.budget < 0 || l.open[l.next[pod.budget]] <= 0
	})
}

// drainNode takes the slots that the node needs, and returns how much time it loses at budgets.
func (l *timeline) drainNode(node *nodeDrain) (lost time.Duration) {
	end, free := node.least, node.least
	for _, pod := range node.pods {
		at := time.Duration(0)
		if b := pod.budget; b >= 0 {
			slot := l.next[b]
			at = max(0, l.open[slot])
			l.open[slot] = at + l.budgets[b].refill
			if l.next[b]++; l.next[b] == l.first[b+1] {
				l.next[b] = l.first[b]
			}
		}
		free = max(free, pod.gone)
		end = max(end, at+pod.gone)
	}
	return end - free
}
