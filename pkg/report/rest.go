package report

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/simulate"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// WorkingItOut is Rest.RemainingUnknown while the first forecast is being made.
const WorkingItOut = "working it out"

// Rest is a forecast of the rest of a running upgrade. Its zero value means that there is no forecast.
type Rest struct {
	// Remaining is how long the rest takes, counted from the moment of the status.
	Remaining simulate.Span `json:"remaining,omitzero"`
	// RemainingEnds is how the upgrade ends if it does not reach its goal; nil otherwise.
	RemainingEnds *PlanEnds `json:"remainingEnds,omitempty"`
	// RemainingAsOf is when the forecast was made.
	RemainingAsOf time.Time `json:"remainingAsOf,omitzero"`
	// RemainingUnknown says why Remaining is not known; "" if it is known.
	RemainingUnknown string `json:"remainingUnknown,omitempty"`
}

// NewRest returns the forecast of an upgrade that takes so long and ends in these ways. If it fails, it takes until the failure.
func NewRest(span simulate.Span, fast, slow simulate.Ending) Rest {
	if !fast.IsShort() && !slow.IsShort() {
		return Rest{Remaining: span}
	}
	if fast.IsShort() {
		span.Earliest = fast.After
	}
	if slow.IsShort() {
		span.Latest = slow.After
	}
	if span.Latest.Duration < span.Earliest.Duration { // it fails before it would be done
		span.Earliest, span.Latest = span.Latest, span.Earliest
	}
	return Rest{Remaining: span, RemainingEnds: &PlanEnds{Fast: fast, Slow: slow}}
}

// At returns the forecast counted from a later time, if all went as forecast since. After the latest end of the forecast, the time
// left is not known.
func (r Rest) At(now time.Time) Rest {
	age := now.Sub(r.RemainingAsOf)
	switch {
	case r.RemainingUnknown != "" || r.RemainingAsOf.IsZero() || age <= 0:
		return r
	case r.Remaining.Latest.Duration < age:
		return Rest{RemainingAsOf: r.RemainingAsOf, RemainingUnknown: "it takes longer than forecast"}
	}
	rest := func(d record.Duration) record.Duration { return record.Duration{Duration: max(0, d.Duration-age)} }
	r.Remaining = simulate.Span{Earliest: rest(r.Remaining.Earliest), Latest: rest(r.Remaining.Latest)}
	if r.RemainingEnds != nil {
		ends := *r.RemainingEnds
		ends.Fast.After, ends.Slow.After = rest(ends.Fast.After), rest(ends.Slow.After)
		r.RemainingEnds = &ends
	}
	return r
}

// left returns the time left in a few words, such as "6m-15m left", with the age of an old forecast. It returns "" without a
// forecast, while the first one is made, and if the upgrade fails.
func (r *Rest) left(now time.Time) string {
	switch {
	case r.RemainingUnknown == WorkingItOut, r.RemainingUnknown == "" && r.RemainingAsOf.IsZero(), r.RemainingEnds != nil:
		return ""
	case r.RemainingUnknown != "":
		return "time left not known"
	default:
		return FormatSpan(r.Remaining) + " left" + r.formatAge(now, staleAfter)
	}
}

// staleAfter is the age from which a view shows how old its forecast is: a newer one is overdue then.
const staleAfter = 2 * time.Minute

// formatAge returns the age of the forecast in parentheses, "" if it is younger than least.
func (r *Rest) formatAge(now time.Time, least time.Duration) string {
	if age := now.Sub(r.RemainingAsOf); !r.RemainingAsOf.IsZero() && age >= least {
		return fmt.Sprintf(" (forecast %s ago)", duration.HumanDuration(age))
	}
	return ""
}

// describe returns how long the rest takes and how it ends, "" without a forecast. manager is the cloud's part that upgrades the
// group itself, "" if this tool does.
func (r *Rest) describe(manager string) string {
	switch {
	case r.RemainingUnknown == WorkingItOut:
		return WorkingItOut
	case r.RemainingUnknown != "":
		return "not known: " + r.RemainingUnknown
	case r.RemainingAsOf.IsZero():
		return ""
	case r.RemainingEnds != nil && manager != "" && r.RemainingEnds.Fast.Node != "":
		text := fmt.Sprintf("%s gives up in %s: %s", manager, FormatSpan(r.Remaining), r.RemainingEnds.Fast.Result)
		if e := &r.RemainingEnds.Fast; e.Node == r.RemainingEnds.Slow.Node { // it picks nodes at random
			text += " at node " + e.Node + Parenthesize(e.Blocker)
		}
		return text
	case r.RemainingEnds != nil:
		return describeEnds(r.RemainingEnds)
	default:
		return FormatSpan(r.Remaining) + ", if nothing else interferes"
	}
}

// RestLines returns the line about the rest of the upgrade, none without a forecast. manager is the cloud's part that upgrades the
// group itself, "" if this tool does.
func RestLines(r *Rest, manager string, now time.Time) []string {
	text := r.describe(manager)
	if text == "" {
		return nil
	}
	if r.RemainingUnknown != WorkingItOut {
		text += r.formatAge(now, time.Second)
	}
	return []string{"Remaining   " + text}
}

// DescribeRestChange returns an event if a forecast differs from the one before in more than its times: the time left is known for
// the first time, is no longer known, or the upgrade would end in another way.
func DescribeRestChange(before, now *Rest, manager string) (event Event, differs bool) {
	if now.RemainingUnknown == WorkingItOut || now.outcome() == before.outcome() {
		return Event{}, false
	}
	return Event{Type: NoteEvent, Text: "time left: " + now.describe(manager)}, now.describe(manager) != ""
}

// outcome returns what a forecast says apart from its times.
func (r *Rest) outcome() string {
	if r.RemainingUnknown != "" || r.RemainingAsOf.IsZero() || r.RemainingEnds == nil {
		return fmt.Sprint(r.RemainingAsOf.IsZero(), r.RemainingUnknown)
	}
	fast, slow := &r.RemainingEnds.Fast, &r.RemainingEnds.Slow
	return fmt.Sprint(fast.Result, fast.Node, slow.Result, slow.Node)
}
