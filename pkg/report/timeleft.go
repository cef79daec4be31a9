package report

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/simulate"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// ForecastPending is the value of TimeLeft.RemainingUnknown until the first forecast is ready.
const ForecastPending = "working it out"

// TimeLeft is a forecast of how long a running upgrade still takes. The zero value means that there is no
// forecast.
type TimeLeft struct {
	// Remaining is how long the upgrade still takes, counted from the time of the status.
	Remaining simulate.Span `json:"remaining,omitzero"`
	// RemainingEnds is how the upgrade ends if it does not reach its goal; nil otherwise.
	RemainingEnds *PlanEnds `json:"remainingEnds,omitempty"`
	// RemainingAsOf is when the forecast was made.
	RemainingAsOf time.Time `json:"remainingAsOf,omitzero"`
	// RemainingUnknown says why Remaining is not known; "" if it is known.
	RemainingUnknown string `json:"remainingUnknown,omitempty"`
}

// NewTimeLeft returns the forecast for an upgrade with this duration and these endings. If the upgrade fails,
// the time left ends with the failure.
func NewTimeLeft(span simulate.Span, fast, slow simulate.Ending) TimeLeft {
	if !fast.IsIncomplete() && !slow.IsIncomplete() {
		return TimeLeft{Remaining: span}
	}
	if fast.IsIncomplete() {
		span.Earliest = fast.After
	}
	if slow.IsIncomplete() {
		span.Latest = slow.After
	}
	if span.Latest.Duration < span.Earliest.Duration { // the upgrade fails earlier than it could succeed
		span.Earliest, span.Latest = span.Latest, span.Earliest
	}
	return TimeLeft{Remaining: span, RemainingEnds: &PlanEnds{Fast: fast, Slow: slow}}
}

// CountedFrom returns the forecast counted from a later time, as if everything had gone as forecast. After the
// latest end of the forecast, the time left is unknown.
func (r TimeLeft) CountedFrom(now time.Time) TimeLeft {
	age := now.Sub(r.RemainingAsOf)
	switch {
	case r.RemainingUnknown != "" || r.RemainingAsOf.IsZero() || age <= 0:
		return r
	case r.Remaining.Latest.Duration < age:
		return TimeLeft{RemainingAsOf: r.RemainingAsOf, RemainingUnknown: "it takes longer than forecast"}
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

// formatLeft returns the time left in a few words, such as "6m-15m left". If the forecast is old, it adds the
// age. It returns "" if there is no forecast yet, and if the upgrade is forecast to fail.
func (r *TimeLeft) formatLeft(now time.Time) string {
	switch {
	case r.RemainingUnknown == ForecastPending, r.RemainingUnknown == "" && r.RemainingAsOf.IsZero(), r.RemainingEnds != nil:
		return ""
	case r.RemainingUnknown != "":
		return "time left not known"
	default:
		return FormatSpan(r.Remaining) + " left" + r.formatAge(now, staleAfter)
	}
}

// staleAfter is the age from which a view shows how old its forecast is. By then a newer forecast is overdue.
const staleAfter = 2 * time.Minute

// formatAge returns the age of the forecast in parentheses, "" if it is younger than least.
func (r *TimeLeft) formatAge(now time.Time, least time.Duration) string {
	if age := now.Sub(r.RemainingAsOf); !r.RemainingAsOf.IsZero() && age >= least {
		return fmt.Sprintf(" (forecast %s ago)", duration.HumanDuration(age))
	}
	return ""
}

// describe returns how long the upgrade still takes and how it ends, "" without a forecast. manager is the
// cloud service that upgrades the group, "" if this tool does.
func (r *TimeLeft) describe(manager string) string {
	switch {
	case r.RemainingUnknown == ForecastPending:
		return ForecastPending
	case r.RemainingUnknown != "":
		return "not known: " + r.RemainingUnknown
	case r.RemainingAsOf.IsZero():
		return ""
	case r.RemainingEnds != nil && manager != "" && r.RemainingEnds.Fast.Node != "":
		text := fmt.Sprintf("%s gives up in %s: %s", manager, FormatSpan(r.Remaining), r.RemainingEnds.Fast.Result)
		if e := &r.RemainingEnds.Fast; e.Node == r.RemainingEnds.Slow.Node { // the manager picks nodes at random, so the node is named only if both cases agree
			text += " at node " + e.Node + Parenthesize(e.Blocker)
		}
		return text
	case r.RemainingEnds != nil:
		return describeEnds(r.RemainingEnds)
	default:
		return FormatSpan(r.Remaining) + ", if nothing else interferes"
	}
}

// TimeLeftLines returns a line with the time left, nil without a forecast. manager is the cloud service that
// upgrades the group, "" if this tool does.
func TimeLeftLines(r *TimeLeft, manager string, now time.Time) []string {
	text := r.describe(manager)
	if text == "" {
		return nil
	}
	if r.RemainingUnknown != ForecastPending {
		text += r.formatAge(now, time.Second)
	}
	return []string{"Remaining   " + text}
}

// DescribeTimeLeftChange returns an event if two forecasts differ in more than their times: the time left has
// become known or unknown, or the upgrade would end in another way.
func DescribeTimeLeftChange(before, now *TimeLeft, manager string) (event Event, differs bool) {
	if now.RemainingUnknown == ForecastPending || now.outcome() == before.outcome() {
		return Event{}, false
	}
	return Event{Type: NoteEvent, Text: "time left: " + now.describe(manager)}, now.describe(manager) != ""
}

// outcome returns the content of a forecast without its times.
func (r *TimeLeft) outcome() string {
	if r.RemainingUnknown != "" || r.RemainingAsOf.IsZero() || r.RemainingEnds == nil {
		return fmt.Sprint(r.RemainingAsOf.IsZero(), r.RemainingUnknown)
	}
	fast, slow := &r.RemainingEnds.Fast, &r.RemainingEnds.Slow
	return fmt.Sprint(fast.Result, fast.Node, slow.Result, slow.Node)
}
