package drain

import (
	"slices"
	"time"
)

// searched is how many waiting nodes an order is searched for.
const searched = 24

// Queue is a window of nodes under drain and the nodes that wait to join it. A pod leaves when its
// budget is open, those of nodes that were started first before others, and a node makes room for
// the next when its last pod has gone.
//
// It is a model: time only passes with budgets and with the ends of pods. All times are from now.
type Queue struct {
	// Window is how many nodes are drained at a time.
	Window int
	// Gates are the budgets in the way.
	Gates []Gate
	// Started are the nodes in the window, in order of their start, Waiting those to come.
	Started, Waiting []Load
	// Quick leaves out the search: the order before was found a moment ago, or the answer will not
	// be used.
	Quick bool
}

// Gate is a budget over time: an exit through it closes one of its openings for a turn.
type Gate struct {
	// Opens are the times at which the disruptions it allows at once may be spent, sorted; 0 for
	// those it allows now. There is one at least, and none after a turn.
	Opens []time.Duration
	// Turn is how long after an eviction its pod is made up for.
	Turn time.Duration
}

// Load is a node as far as its drain takes time.
type Load struct {
	Exits []Exit
	// Least is how long the drain takes even where no budget is in the way.
	Least time.Duration
}

// Exit is a pod that is to be evicted.
type Exit struct {
	// Gate is the index of its budget, negative for a pod that no budget holds.
	Gate int
	// Gone is how long after its eviction the pod is gone.
	Gone time.Duration
}

// Next returns the index of the waiting node to start next, as far as any pod of it could go now;
// -1 when there is none. Of few nodes it begins an order that ends all drains as soon as a short
// search can find, which is returned as well; of many it is the one that loses least time. The
// search begins with the order that was found before, indexes in Waiting, if that is a good one. It
// is the same for the same queue and the same order before.
func (q *Queue) Next(before []int) (next int, order []int) {
	m := newMarch(q)
	movable := m.movable()
	if len(movable) == 0 {
		return -1, before
	}
	if len(q.Waiting) > searched {
		return movable[m.least(movable, 0, m.ahead())], nil
	}
	order = m.byLoss()
	if len(before) == len(order) && m.cost(before) <= m.cost(order) {
		order = slices.Clone(before)
	}
	if !q.Quick {
		order = m.search(order)
	}
	return order[slices.IndexFunc(order, func(i int) bool { return slices.Contains(movable, i) })], order
}

// movable lists the waiting nodes of which a pod could go now, and all while nothing is started.
func (m *march) movable() (all []int) {
	for i := range m.Waiting {
		open := func(e Exit) bool { return e.Gate < 0 || m.opens[m.next[e.Gate]] <= 0 }
		if exits := m.Waiting[i].Exits; len(m.Started) == 0 || len(exits) == 0 || slices.ContainsFunc(exits, open) {
			all = append(all, i)
		}
	}
	return all
}

// byLoss orders the waiting nodes: whenever a place is free the node goes that would lose least
// time at gates. Among equals it is the one whose budgets have most before them, for time in which
// a tight budget is not used is lost where nodes are drained side by side.
func (m *march) byLoss() []int {
	ahead, left := m.ahead(), make([]int, len(m.Waiting))
	for i := range left {
		left[i] = i
	}
	m.reset()
	order := make([]int, 0, len(left))
	for len(left) > 0 {
		place := m.place()
		k := m.least(left, m.places[place], ahead)
		m.places[place], _ = m.drain(&m.tasks[left[k]], m.places[place])
		m.Waiting[left[k]].count(ahead, -1)
		order = append(order, left[k])
		left = slices.Delete(left, k, k+1)
	}
	return order
}

// least is the position of the node among those left that loses least time.
func (m *march) least(left []int, start time.Duration, ahead []int) int {
	best, least, most := -1, time.Duration(0), 0
	was := m.clone()
	for k, i := range left {
		_, lost := m.drain(&m.tasks[i], start)
		m.become(&was)
		if best >= 0 && lost > least {
			continue
		}
		uses := 0
		if m.Window > 1 {
			uses = m.uses(&m.Waiting[i], ahead)
		}
		if best < 0 || lost < least || uses > most {
			best, least, most = k, lost, uses
		}
	}
	return best
}

// ahead counts, by gate, the pods of all waiting nodes.
func (m *march) ahead() []int {
	counts := make([]int, len(m.Gates))
	for i := range m.Waiting {
		m.Waiting[i].count(counts, 1)
	}
	return counts
}

// count adds the node's pods to those that are ahead of each gate, each so many times.
func (l *Load) count(ahead []int, times int) {
	for _, exit := range l.Exits {
		if exit.Gate >= 0 {
			ahead[exit.Gate] += times
		}
	}
}

// uses is what the node's budgets have before them, in thousandths of their turns.
func (m *march) uses(l *Load, ahead []int) (sum int) {
	for _, exit := range l.Exits {
		if exit.Gate >= 0 {
			sum += 1000 * ahead[exit.Gate] / len(m.Gates[exit.Gate].Opens)
		}
	}
	return sum
}
