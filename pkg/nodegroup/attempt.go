package nodegroup

import (
	"errors"
	"time"
)

// Attempt is the state of one action: it is in flight, or has ended with Outcome.
type Attempt struct {
	Action Action
	// Begun is when the last try was started. Ended is when its answer was classified.
	Begun, Ended time.Time
	InFlight     bool
	Outcome      Outcome
	// Detail is the server's answer, for people.
	Detail string
	// Tries counts how often the action was started.
	Tries int
	// NotBefore is the earliest time of the next try. The runner adds jitter.
	NotBefore time.Time
}

// SeenWithin is how long the effect of an accepted request may take to become visible. Only after that is the request
// repeated.
const SeenWithin = 30 * time.Second

// Outcome is the classified answer of a server. Only package runner classifies answers.
type Outcome string

const (
	// OutcomeDone means that the request was accepted.
	OutcomeDone Outcome = "done"
	// OutcomeMoved means that the object is gone or is no longer the one that the decision was based on (404, 409).
	OutcomeMoved Outcome = "moved"
	// OutcomeRefused means that a budget refused the eviction (429 with a DisruptionBudget cause).
	OutcomeRefused Outcome = "refused"
	// OutcomeLater means that the request had no effect now but may have one later: overload, throttling, a webhook's
	// denial.
	OutcomeLater Outcome = "later"
	// OutcomeUnclear means that the answer was lost. The request may have had its effect.
	OutcomeUnclear Outcome = "unclear"
	// OutcomeExhausted means that the cloud has no capacity or quota for the request, or that a termination would
	// shrink the group below its minimum.
	OutcomeExhausted Outcome = "exhausted"
	// OutcomeUnsupported means that nodes cannot be launched in a named zone, because a permission or the operation
	// itself is missing. The group can still be made larger as a whole.
	OutcomeUnsupported Outcome = "unsupported"
	// OutcomeFatal means that the request will never be accepted in this form: forbidden, invalid.
	OutcomeFatal Outcome = "fatal"
)

// ErrMoved is returned for an action whose object is gone, or is no longer the one that the decision was based on.
var ErrMoved = errors.New("the object changed after the decision was made")
