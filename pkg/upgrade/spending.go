package upgrade

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
)

const (
	// evictionsPerBudget is how many evictions of one budget are in flight at once.
	evictionsPerBudget = 4
	// evictionSpacing is how long an eviction has its budget for itself. The API server writes each into the budget's status, and
	// one that finds it changed under its hands tries again only half a second later (eviction.go, EvictionsRetry; semantics 3.2.6).
	evictionSpacing = 100 * time.Millisecond
	// statusLag is how long a budget's status may take to show an accepted eviction, should the moment it did be missed.
	statusLag = 2 * time.Second
)

// flight are the evictions of one budget that have no answer.
type flight struct {
	count int
	// last is when the last of them was sent.
	last time.Time
}

// spending counts, by budget, the evictions that its status may not show yet, and those in flight. An eviction shows
// from the moment its pod was seen in status.disruptedPods.
func spending(w *World) (drain.Spending, map[types.NamespacedName]flight) {
	spent, flights := drain.Spending{}, map[types.NamespacedName]flight{}
	for _, a := range w.Open {
		evict, ok := a.Action.(Evict)
		if !ok || evict.Budget.Name == "" {
			continue
		}
		if a.InFlight {
			flights[evict.Budget] = flights[evict.Budget].with(a.Begun)
		}
		if hidden(w, evict, a) {
			spent[evict.Budget]++
		}
	}
	return spent, flights
}

func (f flight) with(sent time.Time) flight {
	f.count++
	if sent.After(f.last) {
		f.last = sent
	}
	return f
}

// next is when one more may be sent; the zero time is not before an answer.
func (f flight) next(now time.Time) time.Time {
	switch {
	case f.count == 0:
		return now
	case f.count >= evictionsPerBudget:
		return time.Time{}
	default:
		return f.last.Add(evictionSpacing)
	}
}

// hidden reports whether an eviction may have spent budget that the status does not show.
func hidden(w *World, evict Evict, a Attempt) bool {
	pod := evict.podName()
	if shown, ok := w.Disrupted[pod]; ok && !shown.Before(a.Begun) {
		return false
	}
	switch {
	case a.InFlight:
		return true
	case a.Outcome == OutcomeDone, a.Outcome == OutcomeUnclear:
		return w.Now.Before(a.Ended.Add(statusLag))
	default:
		return false
	}
}
