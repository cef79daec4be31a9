package schedule

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// queue models a window of nodes in drain and the nodes that wait to join it. A pod leaves when its budget is open.
// Pods of nodes that were started earlier go first. When its last pod is gone, a node makes room for the next.
//
// In the model, time passes only until budgets open and pods end. All times are relative to now.
type queue struct {
	// measure sets places, and left of every budget. It takes long, so it is called only when these are needed. It is nil
	// if nothing is to be measured.
	measure func()
	// places estimates how long the waiting nodes take to drain if no budget delays them.
	places time.Duration
	// budgets are the budgets that the nodes' pods need.
	budgets []budgetSlots
	// started are the nodes in the window, in order of their start. waiting are the nodes that may be started next.
	started, waiting []nodeDrain
}

// budgetSlots models a budget: an eviction takes one of its slots for a while.
type budgetSlots struct {
	// open has the sorted times at which the budget's slots are free; 0 is now. There is at least one, and none later
	// than refill.
	open []time.Duration
	// refill is the time from an eviction until the budget has room again. left estimates how long the
	// budget needs for its pods on all waiting nodes; it is 0 if nodes are drained one by one.
	refill, left time.Duration
}

// nodeDrain models the drain of a node.
type nodeDrain struct {
	pods []podEviction
	// least is how long the drain takes if no budget delays it.
	least time.Duration
	// left estimates how long the node's workloads without a budget need for their pods on all waiting
	// nodes: the longest of these times.
	left time.Duration
}

// podEviction is a pod that must be evicted.
type podEviction struct {
	// budget is the index of the pod's budget, or negative if no budget limits the eviction.
	budget int
	// gone is how long after its eviction the pod is gone.
	gone time.Duration
	// free is the pod if no PodDisruptionBudget covers it, nil otherwise.
	free *corev1.Pod
}

// chooseNext returns the index of the waiting node to start next. Of the nodes from which a pod could go now, it
// chooses the one that loses the least time at budgets. If a budget needs longer than all waiting nodes, that budget
// decides when the upgrade ends, so the difference is subtracted from the loss of its nodes. Among equals, it chooses
// the node whose budgets need longest. It returns -1 if no pod of any node could go.
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

// timeline is a queue after the started nodes have taken their slots.
type timeline struct {
	*queue
	// open has the slots of all budgets, one ring per budget. first has the start of each ring, and next the slot to take
	// next.
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

// canStart reports whether a pod of the node could leave now. Every node can start if none is in drain.
func (l *timeline) canStart(node *nodeDrain) bool {
	return len(l.started) == 0 || len(node.pods) == 0 || slices.ContainsFunc(node.pods, func(pod podEviction) bool {
		return pod.budget < 0 || l.open[l.next[pod.budget]] <= 0
	})
}

// drainNode takes the slots that the node needs, and returns how much time the node loses at budgets.
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
