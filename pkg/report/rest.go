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

// Rest is what a forecast says of the rest of an upgrade under way.
type Rest struct {
	// Remaining is how long the rest would take, counted from the moment of the status.
	Remaining simulate.Span `json:"remaining,omitzero"`
	// RemainingEnds is how the upgrade would end then, where that is not its goal.
	RemainingEnds *PlanEnds `json:"remainingEnds,omitempty"`
	// RemainingAsOf is when the forecast was made.
	RemainingAsOf time.Time `json:"remainingAsOf,omitzero"`
	// RemainingUnknown says why Remaining is not known; "" where it is.
	RemainingUnknown string `json:"remainingUnknown,omitempty"`
}

// NewRest is what a forecast says that takes so long and ends in these ways. Where it fails, it takes as
// long as that.
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

// At is the rest as it stands later, if all went as forecast since.
func (r Rest) At(now time.Time) Rest {
	age := now.Sub(r.RemainingAsOf)
	switch {
	case r.RemainingUnknown != "" || age <= 0:
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

// RestLines say how long the rest takes and how it ends, none where no forecast was asked for. manager
// upgrades the group itself, "" where this tool does.
func RestLines(r *Rest, manager string, now time.Time) []string {
	line := "Remaining   "
	switch {
	case r.RemainingUnknown == WorkingItOut:
		return []string{line + WorkingItOut}
	case r.RemainingUnknown != "":
		line += "not known: " + r.RemainingUnknown
	case r.RemainingAsOf.IsZero():
		return nil
	case r.RemainingEnds != nil && manager != "" && r.RemainingEnds.Fast.Node != "":
		line += fmt.Sprintf("%s gives up in %s: %s", manager, formatSpan(r.Remaining), r.RemainingEnds.Fast.Result)
		if e := &r.RemainingEnds.Fast; e.Node == r.RemainingEnds.Slow.Node { // it picks nodes at random
			line += " at node " + e.Node + Parenthesize(e.Blocker)
		}
	case r.RemainingEnds != nil:
		line += describeEnds(r.RemainingEnds)
	default:
		line += formatSpan(r.Remaining) + ", if nothing else interferes"
	}
	if age := now.Sub(r.RemainingAsOf); !r.RemainingAsOf.IsZero() && age >= time.Second {
		line += fmt.Sprintf(" (forecast %s ago)", duration.HumanDuration(age))
	}
	return []string{line}
}
