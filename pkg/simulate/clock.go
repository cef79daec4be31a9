package simulate

import (
	"cmp"
	"slices"
	"strconv"
	"time"
)

// clock is the cluster's time, with its future events.
type clock struct {
	now    time.Time
	events []event
	// serial is the number of the newest event, version or object.
	serial int
	// changed is set by every change that may wake an upgrade.
	changed bool
}

// event is a function that runs at a time. Events are sorted by time, and then in the order in which they were
// scheduled.
type event struct {
	at     time.Time
	serial int
	do     func()
}

func (e event) compareEvents(o event) int {
	return cmp.Or(e.at.Compare(o.at), cmp.Compare(e.serial, o.serial))
}

// scheduleAfter runs do after the time.
func (c *clock) scheduleAfter(d time.Duration, do func()) {
	e := event{at: c.now.Add(d), serial: c.nextSerial(), do: do}
	i, _ := slices.BinarySearchFunc(c.events, e, event.compareEvents)
	c.events = slices.Insert(c.events, i, e)
}

func (c *clock) nextSerial() int {
	c.serial++
	return c.serial
}

// nextVersion returns a new resourceVersion.
func (c *clock) nextVersion() string { return strconv.Itoa(c.nextSerial()) }

// nextEventTime returns when the next event is due, and whether there is one.
func (c *clock) nextEventTime() (time.Time, bool) {
	if len(c.events) == 0 {
		return time.Time{}, false
	}
	return c.events[0].at, true
}

// runEvents sets the time and runs all events that are due.
func (c *clock) runEvents(at time.Time) {
	c.now = at
	for len(c.events) > 0 && !c.events[0].at.After(at) {
		next := c.events[0]
		c.events = c.events[1:]
		next.do()
	}
}
