package drain

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

const (
	// trials bounds a search, in orders tried, and steps in pods that are followed through them:
	// some milliseconds.
	trials = 20_000
	steps  = 6_000_000
	// warmth is what part of its cost an order may cost more, in the mean and at first, to be gone
	// on from: a 240th.
	warmth = 240
	// lateness is what a moment of the end costs, in moments that nodes lose at gates.
	lateness = 50
)

// march follows a queue through time.
type march struct {
	*Queue
	state
	// started is the state that the nodes in the window leave behind.
	started state
	// first is, by gate, where its openings begin among all, and behind the last where they end.
	first []int
	// tasks are the nodes that wait.
	tasks []task
	// pods are those that wait, and the nodes themselves.
	pods int
}

// state is a moment of a march.
type state struct {
	// opens are the openings of all gates, those of a gate a ring, next is which of them each gate
	// spends next.
	opens []time.Duration
	next  []int
	// places are when those in the window are free.
	places []time.Duration
}

func (s *state) clone() state {
	return state{slices.Clone(s.opens), slices.Clone(s.next), slices.Clone(s.places)}
}

// become copies the other, which is of the same size.
func (s *state) become(other *state) {
	copy(s.opens, other.opens)
	copy(s.next, other.next)
	copy(s.places, other.places)
}

// task is a load as a march needs it.
type task struct {
	// least is how long it takes but for its gates, free if they were all open.
	least, free time.Duration
	// gated are the exits that have a gate.
	gated []Exit
}

func newTask(l *Load) task {
	t := task{least: l.Least, free: l.Least}
	for _, exit := range l.Exits {
		t.free = max(t.free, exit.Gone)
		if exit.Gate >= 0 {
			t.gated = append(t.gated, exit)
		} else {
			t.least = max(t.least, exit.Gone)
		}
	}
	return t
}

func newMarch(q *Queue) *march {
	m := &march{Queue: q, first: []int{0}}
	for i := range q.Gates {
		m.next = append(m.next, len(m.opens))
		m.opens = append(m.opens, q.Gates[i].Opens...)
		m.first = append(m.first, len(m.opens))
	}
	m.places = make([]time.Duration, max(q.Window, len(q.Started)))
	for i := range q.Started {
		begun := newTask(&q.Started[i])
		m.places[i], _ = m.drain(&begun, 0)
	}
	for i := range q.Waiting {
		m.tasks = append(m.tasks, newTask(&q.Waiting[i]))
		m.pods += len(q.Waiting[i].Exits) + 1
	}
	m.started = m.clone()
	return m
}

// reset goes back to the moment at which all started nodes have their share.
func (m *march) reset() { m.become(&m.started) }

// drain spends what the node needs of the gates, from a start on, and returns when its last pod has
// gone, and how much of that was lost at gates. Nodes are followed in order of start, so that what
// a gate has to give is taken in order, too.
func (m *march) drain(t *task, start time.Duration) (end, lost time.Duration) {
	end = start + t.least
	for _, exit := range t.gated {
		i := m.next[exit.Gate]
		at := max(start, m.opens[i])
		m.opens[i] = at + m.Gates[exit.Gate].Turn
		if i++; i == m.first[exit.Gate+1] {
			i = m.first[exit.Gate]
		}
		m.next[exit.Gate] = i
		end = max(end, at+exit.Gone)
	}
	return end, end - start - t.free
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

// follow is how long it takes to go through an order, and how much is lost at gates. One that costs
// more than a limit is not followed to its end.
func (m *march) follow(order []int, limit time.Duration) (last, losses time.Duration) {
	m.reset()
	for _, i := range order {
		place := m.place()
		end, lost := m.drain(&m.tasks[i], m.places[place])
		m.places[place] = end
		last, losses = max(last, end), losses+lost
		if cost(last, losses) > limit {
			break
		}
	}
	return last, losses
}

// cost weighs an order by the time until its end and, far behind it, by what is lost.
func cost(last, losses time.Duration) time.Duration { return lateness*last + losses }

// cost is what the whole order costs.
func (m *march) cost(order []int) time.Duration { return cost(m.follow(order, math.MaxInt64)) }

// search betters an order by exchanging and moving nodes, and returns what cost least, the order
// itself unless another costs less. It goes on from an order that costs more as well, the less so
// the longer it takes (simulated annealing): of orders that no single exchange makes better there
// are many, and most are poor. Where one node is drained after the other there is little to gain,
// and what is planned is better kept to.
func (m *march) search(best []int) []int {
	n := len(best)
	last, losses := m.follow(best, math.MaxInt64)
	if n < 2 || losses == 0 {
		return best
	}
	draw := rand.New(rand.NewPCG(uint64(n), uint64(m.pods))) // the same draws for the same queue
	order, try, least := slices.Clone(best), make([]int, n), cost(last, losses)
	now := least
	tries := min(trials, 50*n*n, steps/m.pods)
	for left := tries; left > 0; left-- {
		copy(try, order)
		from, to := draw.IntN(n), draw.IntN(n)
		if moved := try[from]; draw.IntN(2) == 0 {
			try[from], try[to] = try[to], moved
		} else {
			try = slices.Insert(slices.Delete(try, from, from+1), to, moved)
		}
		limit := now
		if m.Window > 1 {
			limit += time.Duration(draw.ExpFloat64() * float64(least) / warmth * float64(left) / float64(tries))
		}
		tried := cost(m.follow(try, limit))
		if tried > limit {
			continue
		}
		order, try, now = try, order, tried
		if now < least {
			least = now
			copy(best, order)
		}
	}
	return best
}
