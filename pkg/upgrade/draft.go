package upgrade

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// draft is the world that a decision looks at, and the step as far as it is made.
type draft struct {
	w   *World
	rec Record
	// phase is the one that the record is in.
	phase phase
	notes Notes
	count memberCounts
	// drains are the pods of each node that is being drained, by node name.
	drains map[string]*nodePods
	// spent counts, by budget, the evictions that its status does not show yet, flights are those
	// without an answer.
	spent   drain.Spending
	flights map[types.NamespacedName]evictionsSent
	// leaving counts, by budget, the pods of nodes in drain that are being deleted; see roomOf.
	leaving map[types.NamespacedName]int32
	// spacing is how long an eviction has its budget for itself.
	spacing time.Duration

	actions []nodegroup.Action
	// candidates are the evictions that could be sent, from which step selects.
	candidates []candidate
	blocked    []Blocked
	// fencing is true while outdated nodes are still open to pods that leave others, pausing once
	// nothing more is to be started.
	fencing  bool
	pausing  bool
	poll     time.Duration
	finished bool
	waiting  string
	wake     time.Time
	due      time.Time
}

func newDraft(w *World) *draft {
	if w.Idle > 0 {
		w.Record = w.Record.Extended(w.Idle)
		w.Notes.At = w.Now // a node that waits for others is not credited with the same time twice
	}
	t := &draft{
		w:   w,
		rec: w.Record.Clone(), phase: w.Record.currentPhase(),
		notes:  w.Notes.cloneNotes(),
		drains: map[string]*nodePods{},
		wake:   w.Now.Add(lookAgain),
	}
	t.count = countMembers(w, &t.rec)
	evictionsOf(t).countSpending()
	return t
}

// stopWith stops the upgrade. Nothing new is begun from here on; what can be undone safely is.
func (t *draft) stopWith(result Result, message string) {
	if t.rec.Stopping == "" {
		t.rec.Stopping, t.rec.Message = result, message
		t.actions, t.candidates = nil, nil
		t.requeueNow() // and begin to stop
	}
}

func (t *draft) enterPhase(phase Phase) {
	t.rec.Phase, t.rec.PhaseBegan = phase, t.w.Now
	t.phase = t.rec.currentPhase()
}

// addAction adds an action, unless it is in flight, its next try is not due, or it was accepted a moment
// ago and its effect is still to be observed.
func (t *draft) addAction(a nodegroup.Action) {
	attempt, begun := t.w.Open[a.Key()]
	if begun && attempt.InFlight {
		return
	}
	due := attempt.NotBefore
	switch {
	case attempt.Outcome == nodegroup.OutcomeFatal && t.rec.Stopping == Aborted:
		return // it was tried; the report names it
	case attempt.Outcome == nodegroup.OutcomeDone:
		due = attempt.Ended.Add(seen)
	case attempt.Outcome == nodegroup.OutcomeMoved && !nodegroup.OfCloud(a) && attempt.Action == a:
		// What moved it is not seen yet, and the answer would be the same.
		due = attempt.Ended.Add(min(time.Second<<min(max(0, attempt.Tries-1), 5), seen))
	}
	if begun && t.w.Now.Before(due) {
		t.requeueAt(due)
		return
	}
	t.actions = append(t.actions, a)
}

// requeueAt makes the next look happen no later than the time, if that is still to come.
func (t *draft) requeueAt(at time.Time) {
	if !at.After(t.w.Now) {
		return
	}
	if at.Before(t.wake) {
		t.wake = at
	}
	if t.due.IsZero() || at.Before(t.due) {
		t.due = at
	}
}

// waitForCloud has the cloud asked often, because something of ours is under way there. reason says
// what the upgrade waits for; with "" what was said before stands.
func (t *draft) waitForCloud(reason string) {
	t.poll = pollInterval
	if reason != "" {
		t.waiting = reason
	}
}

// requeueNow has the next turn follow at once.
func (t *draft) requeueNow() { t.wake, t.due = t.w.Now, t.w.Now }

// lastAttempt is the last try of the action; the zero Attempt if there was none.
func (t *draft) lastAttempt(a nodegroup.Action) nodegroup.Attempt { return t.w.lastAttempt(a) }

func (t *draft) addBlocked(b Blocked, key string) {
	since, was := t.w.Notes.BlockedSince[key]
	if !was {
		since = t.w.Now
	}
	b.Since = since
	t.notes.BlockedSince[key] = since
	t.blocked = append(t.blocked, b)
}

func (t *draft) endWith(result Result, message string) {
	t.rec.Result, t.rec.Message, t.rec.Ended = result, message, t.w.Now
	t.finished = true
	t.actions, t.candidates = nil, nil
}
