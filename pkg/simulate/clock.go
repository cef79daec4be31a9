package simulate

import (
	"cmp"
	"slices"
	"strconv"
	"time"
)

// clock is the cluster's time, and what is to happen in it.
type clock struct {
	now    time.Time
	events []event
	// serial numbers events, versions and new objects.
	serial int
	// changed is set by every change that an upgrade might act on.
	changed bool
}

// event is something that happens by itself at a time. Events are sorted by time, and those of one
// moment as they were made.
type event struct {
	at     time.Time
	serial int
	do     func()
}

func (e event) compareEvents(o event) int {
	return cmp.Or(e.at.Compare(o.at), cmp.Compare(e.serial, o.serial))
}

// scheduleAfter has something happen when the time has passed.
func (c *clock) scheduleAfter(d time.Duration, do func()) {
	e := event{at: c.now.Add(d), serial: c.nextSerial(), do: do}
	i, _ := slices.BinarySearchFunc(c.events, e, event.compareEvents)
	c.events = slices.Insert(c.events, i, e)
}

func (c *clock) nextSerial() int {
	c.serial++
	return c.serial
}

// nextVersion is a resourceVersion that no object has had.
func (c *clock) nextVersion() string { return strconv.Itoa(c.nextSerial()) }

// nextEventTime is when the next event is due, and whether there is one.
func (c *clock) nextEventTime() (time.Time, bool) {
	if len(c.events) == 0 {
		return time.Time{}, false
	}
	return c.events[0].at, true
}

// runEvents moves to the time and has everything happen that is due then.
func (c *clock) runEvents(at time.Time) {
	c.now = at
	for len(c.events) > 0 && !c.events[0].at.After(at) {
		next := c.events[0]
		c.events = c.events[1:]
		next.do()
	}
}
