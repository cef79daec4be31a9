package nodegroup

import (
	"errors"
	"time"
)

// Attempt is the memory of one action: it is in flight, or has ended in Outcome.
type Attempt struct {
	Action Action
	// Begun is when the last try was started, Ended when its answer was sorted.
	Begun, Ended time.Time
	InFlight     bool
	Outcome      Outcome
	// Detail is the server's answer for people.
	Detail string
	// Tries counts how often the action was started.
	Tries int
	// NotBefore is the earliest next try; the runner draws the jitter.
	NotBefore time.Time
}

// SeenWithin is how long the effect of an accepted request may take to be observed before it is
// asked for again.
const SeenWithin = 30 * time.Second

// Outcome is an answer of a server, sorted once and in one place (package runner).
type Outcome string

const (
	// OutcomeDone is a request that was accepted.
	OutcomeDone Outcome = "done"
	// OutcomeMoved is an object that is gone or is no longer the one that was decided on (404,
	// 409).
	OutcomeMoved Outcome = "moved"
	// OutcomeRefused is an eviction that a budget refused (429 with a DisruptionBudget cause).
	OutcomeRefused Outcome = "refused"
	// OutcomeLater is a request that had no effect and may have one later: overload, throttling, a
	// webhook's denial.
	OutcomeLater Outcome = "later"
	// OutcomeUnclear is a request whose answer was lost: it may have had its effect.
	OutcomeUnclear Outcome = "unclear"
	// OutcomeExhausted is a request the cloud has no capacity or quota for, or a termination that
	// would shrink a group below its minimum.
	OutcomeExhausted Outcome = "exhausted"
	// OutcomeUnsupported is a launch in a named zone that is not to be had here, for want of a
	// permission or of the operation itself. The group can still be made larger as a whole.
	OutcomeUnsupported Outcome = "unsupported"
	// OutcomeFatal is a request that will never be accepted as it is: forbidden, invalid.
	OutcomeFatal Outcome = "fatal"
)

// ErrMoved is the error of an action whose object is gone, or is no longer the one that was decided
// on.
var ErrMoved = errors.New("the object has changed since it was decided on")
