package drain

import (
	"math/rand/v2"
	"slices"
	"time"
)

const (
	// searched is how many waiting nodes an order is searched for.
	searched = 24
	// trials bounds a search, in orders tried, and steps in pods that are followed through them: some milliseconds.
	trials = 4000
	steps  = 800_000
)

// Queue is a window of nodes under drain and the nodes that wait to join it. A pod leaves when its budget is open, those of
// nodes that were started first before others, and a node makes room for the next when its last pod has gone.
//
// It is a model: time only passes with budgets and with the ends of pods. All times are from now.
type Queue struct {
	// Window is how many nodes are drained at a time.
	Window int
	// Gates are the budgets in the way.
	Gates []Gate
	// Started are the nodes in the window, in order of their start, Waiting those to come.
	Started, Waiting []Load
}

// Gate is a budget over time: an exit through it closes one of its openings for a turn.
type Gate struct {
	// Opens are the times at which the disruptions it allows at once may be spent, sorted; 0 for those it allows now. There is
	// one at least, and none after a turn.
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

// Next returns the index of the waiting node to start next, as far as any pod of it could go now; -1 when there is none.
// Of few nodes it begins an order that ends all drains as soon as a short search can find, which is returned as well; of many it is
// the one that loses least time. The search begins with the order that was found before, indexes in Waiting, if that is a good one.
// It is the same for the same queue and the same order before.
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
	if len(before) == len(order) && cost(m.follow(before)) <= cost(m.follow(order)) {
		order = slices.Clone(before)
	}
	order = m.search(order)
	return order[slices.IndexFunc(order, func(i int) bool { return slices.Contains(movable, i) })], order
}

// march follows a queue through time.
type march struct {
	*Queue
	// begun and ends are what the started nodes leave behind: gates with their openings to come, and when places in the window are free.
	begun [][]time.Duration
	ends  []time.Duration
	// opens and next are the openings of each gate, of which those before next are used; places are those in the window.
	opens  [][]time.Duration
	next   []int
	places []time.Duration
	// pods are those that wait, and the nodes themselves.
	pods int
}

func newMarch(q *Queue) *march {
	m := &march{
		Queue: q, begun: make([][]time.Duration, len(q.Gates)), ends: make([]time.Duration, max(q.Window, len(q.Started))),
		opens: make([][]time.Duration, len(q.Gates)), next: make([]int, len(q.Gates)),
	}
	for i := range q.Gates {
		m.opens[i] = slices.Clone(q.Gates[i].Opens)
	}
	for i := range q.Started {
		m.ends[i], _ = m.drain(&q.Started[i], 0)
	}
	for i := range m.opens {
		m.begun[i] = slices.Clone(m.opens[i][m.next[i]:])
	}
	for i := range q.Waiting {
		m.pods += len(q.Waiting[i].Exits) + 1
	}
	m.reset()
	return m
}

// reset goes back to the moment at which all started nodes have their share.
func (m *march) reset() {
	m.places = append(m.places[:0], m.ends...)
	for i := range m.begun {
		m.opens[i], m.next[i] = append(m.opens[i][:0], m.begun[i]...), 0
	}
}

// drain spends what the node needs of the gates, from a start on, and returns when its last pod has gone, and how much
// of that was lost at gates. Nodes are followed in order of start, so that what a gate has to give is taken in order, too.
func (m *march) drain(l *Load, start time.Duration) (end, lost time.Duration) {
	end = start + l.Least
	free := end
	for _, exit := range l.Exits {
		at := start
		free = max(free, at+exit.Gone)
		if g := exit.Gate; g >= 0 {
			at = max(at, m.opens[g][m.next[g]])
			m.next[g]++
			m.opens[g] = append(m.opens[g], at+m.Gates[g].Turn)
		}
		end = max(end, at+exit.Gone)
	}
	return end, end - free
}

// undo takes back the drain that was followed last.
func (m *march) undo(l *Load) {
	for _, exit := range l.Exits {
		if g := exit.Gate; g >= 0 {
			m.next[g]--
			m.opens[g] = m.opens[g][:len(m.opens[g])-1]
		}
	}
}

// movable lists the waiting nodes of which a pod could go now, and all while nothing is started.
func (m *march) movable() (all []int) {
	for i := range m.Waiting {
		open := func(e Exit) bool { return e.Gate < 0 || m.opens[e.Gate][m.next[e.Gate]] <= 0 }
		if exits := m.Waiting[i].Exits; len(m.Started) == 0 || len(exits) == 0 || slices.ContainsFunc(exits, open) {
			all = append(all, i)
		}
	}
	return all
}

// place is the index of the place that is free first.
func (m *march) place() int {
	first := 0
	for i, free := range m.places {
		if free < m.places[first] {
			first = i
		}
	}
	return first
}

// byLoss orders the waiting nodes: whenever a place is free the node goes that would lose least time at gates. Among equals it is the
// one whose budgets have most before them, for time in which a tight budget is not used is lost where nodes are drained side by side.
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
		load := &m.Waiting[left[k]]
		m.places[place], _ = m.drain(load, m.places[place])
		load.count(ahead, -1)
		order = append(order, left[k])
		left = slices.Delete(left, k, k+1)
	}
	return order
}

// least is the position of the node among those left that loses least time.
func (m *march) least(left []int, start time.Duration, ahead []int) int {
	best, least, most := -1, time.Duration(0), 0
	for k, i := range left {
		load := &m.Waiting[i]
		_, lost := m.drain(load, start)
		m.undo(load)
		if best >= 0 && lost > least {
			continue
		}
		uses := 0
		if m.Window > 1 {
			uses = m.uses(load, ahead)
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

// follow is how long it takes to go through an order, and how much is lost at gates.
func (m *march) follow(order []int) (last, losses time.Duration) {
	m.reset()
	for _, i := range order {
		place := m.place()
		end, lost := m.drain(&m.Waiting[i], m.places[place])
		m.places[place] = end
		last, losses = max(last, end), losses+lost
	}
	return last, losses
}

// cost weighs an order by the time until its end and, far behind it, by what is lost.
func cost(last, losses time.Duration) time.Duration { return 50*last + losses }

// search betters an order by exchanging and moving nodes. It goes on from what costs no more, and returns what cost least,
// the order itself unless another costs less.
func (m *march) search(best []int) []int {
	n := len(best)
	last, losses := m.follow(best)
	if n < 2 || losses == 0 {
		return best
	}
	draw := rand.New(rand.NewPCG(uint64(n), uint64(m.pods))) // the same draws for the same queue
	order, try := slices.Clone(best), make([]int, n)
	least := cost(last, losses)
	for range min(trials, 16*n*n, steps/m.pods) {
		copy(try, order)
		from, to := draw.IntN(n), draw.IntN(n)
		if moved := try[from]; draw.IntN(2) == 0 {
			try[from], try[to] = try[to], moved
		} else {
			try = slices.Insert(slices.Delete(try, from, from+1), to, moved)
		}
		tried := cost(m.follow(try))
		if tried <= least {
			copy(order, try)
		}
		if tried < least {
			least = tried
			copy(best, try)
		}
	}
	return best
}
