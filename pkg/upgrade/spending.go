package upgrade

import (
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

const (
	// evictionsPerBudget is how many evictions of one budget are in flight at once.
	evictionsPerBudget = 4
	// leastSpacing and mostSpacing bound how long an eviction has its budget for itself: as long as
	// answers take at present. The API server writes each into the budget's status, and one that
	// finds it changed under its hands tries again only half a second later (eviction.go,
	// EvictionsRetry; Kubernetes K06).
	leastSpacing = 100 * time.Millisecond
	mostSpacing  = 400 * time.Millisecond
	// present is how long ago an answer may be for its time to be that of the next.
	present = 5 * time.Second
	// statusLag is how long a budget's status may take to show an accepted eviction, should the
	// moment it did be missed.
	statusLag = 2 * time.Second
)

// evictionsSent are the evictions of one budget that have no answer.
type evictionsSent struct {
	count int
	// last is when the last of them was sent.
	last time.Time
}

func (f evictionsSent) withEviction(sent time.Time) evictionsSent {
	f.count++
	if sent.After(f.last) {
		f.last = sent
	}
	return f
}

// nextAllowed is when one more may be sent; the zero time is not before an answer.
func (f evictionsSent) nextAllowed(now time.Time, spacing time.Duration) time.Time {
	switch {
	case f.count == 0:
		return now
	case f.count >= evictionsPerBudget:
		return time.Time{}
	default:
		return f.last.Add(spacing)
	}
}

// isHiddenFromStatus reports whether an eviction may have spent budget that the status does not
// show.
func isHiddenFromStatus(w *World, evict Evict, a nodegroup.Attempt) bool {
	accepted := a.Outcome == nodegroup.OutcomeDone || a.Outcome == nodegroup.OutcomeUnclear
	young := a.InFlight || (accepted && w.Now.Before(a.Ended.Add(statusLag)))
	if !young {
		return false // most are long over, and are not looked up
	}
	shown, ok := w.Disrupted[evict.podName()]
	return !ok || shown.Before(a.Begun)
}
