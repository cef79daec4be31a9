package worlds

import (
	"container/heap"
	"time"
)

// clock is a queue of events in virtual time. Events with the same time run in the order in which they were added.
type clock struct {
	now    time.Time
	queue  events
	serial int
}

// after schedules do to run once, after the given time.
func (c *clock) after(d time.Duration, do func()) {
	c.serial++
	heap.Push(&c.queue, event{at: c.now.Add(max(0, d)), serial: c.serial, do: do})
}

// runNextEvent runs the next event and reports whether there was one.
func (c *clock) runNextEvent() (ran bool) {
	if len(c.queue) == 0 {
		return false
	}
	next := heap.Pop(&c.queue).(event)
	if next.at.After(c.now) {
		c.now = next.at
	}
	next.do()
	return true
}

type event struct {
	at     time.Time
	serial int
	do     func()
}

// events implements heap.Interface.
type events []event

func (q events) Len() int      { return len(q) }
func (q events) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q events) Less(i, j int) bool {
	if q[i].at.Equal(q[j].at) {
		return q[i].serial < q[j].serial
	}
	return q[i].at.Before(q[j].at)
}

// Push implements heap.Interface.
func (q *events) Push(x any) { *q = append(*q, x.(event)) }

// Pop implements heap.Interface.
func (q *events) Pop() any {
	old := *q
	last := old[len(old)-1]
	*q = old[:len(old)-1]
	return last
}
