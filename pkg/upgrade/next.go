package upgrade

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// lookAgain is the longest a running upgrade goes without a look, should no event arrive.
const lookAgain = 30 * time.Second

// pollInterval is how often the cloud is asked while something of ours is under way there.
const pollInterval = 5 * time.Second

// Next says what to do about the world now. The package comment has the caller's contract.
func Next(w World) Step {
	stored := w.Record
	t := newTurn(&w)
	switch {
	case t.rec.Result != "":
		t.finished = true
	case t.rec.Run == "":
		t.begin()
	case t.rec.PhaseBegan.IsZero():
		t.rec.Ledger.MaxSeen = 0 // what happened to it while nobody looked is known to who goes on
		t.enter(t.rec.Phase)
	}
	if !t.finished {
		t.settle()
		t.heed()
		if t.stopping() {
			t.stop()
		} else {
			t.advance()
		}
	}
	step := t.step()
	step.Persist = mustStore(&stored, &step.Record)
	return step
}

// turn is one call of Next: the world it looks at, and the step as far as it is made.
type turn struct {
	w   *World
	rec Record
	// phase is the one that the record is in.
	phase phase
	notes Notes
	count census
	// drains are the pods of each node that is being drained, by node name.
	drains map[string]*drainView
	// spent counts, by budget, the evictions that its status does not show yet, flights are those
	// without an answer.
	spent   drain.Spending
	flights map[types.NamespacedName]flight
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

func newTurn(w *World) *turn {
	if w.Idle > 0 {
		w.Record = w.Record.Extended(w.Idle)
		w.Notes.At = w.Now // a node that waits for others is not credited with the same time twice
	}
	t := &turn{
		w:   w,
		rec: w.Record.Clone(), phase: w.Record.phase(),
		notes:  w.Notes.clone(),
		drains: map[string]*drainView{},
		wake:   w.Now.Add(lookAgain),
	}
	t.count = takeCensus(w, &t.rec)
	t.spend()
	return t
}

// begin starts the record of a new upgrade, or finishes at once when there is nothing to do.
func (t *turn) begin() {
	if len(t.count.pending) == 0 || t.w.Stop {
		t.rec.Result, t.finished = Succeeded, true
		if t.w.Stop {
			t.rec.Result = Interrupted
		}
		return
	}
	w := t.w
	t.rec = Record{
		Version: RecordVersion, Run: w.Request.Run, Request: w.Request,
		Started: w.Now, Phase: PhaseSetup, PhaseBegan: w.Now,
		Previous: t.previous(), Target: w.Group.Wanted, Provider: w.Group.Provider, Unlabelled: unlabelled(t.count.pending),
		Sizes:  Sizes{Desired: w.Group.Desired, Min: w.Group.Min, Max: w.Group.Max, Zones: t.count.zones},
		Total:  len(t.count.pending),
		Ledger: Ledger{Zonal: w.Group.Zonal, Changed: w.Now, Known: t.count.currentNames()},
		Nodes:  map[string]NodeRecord{},
	}
	if w.Group.Pointed.ID != t.rec.Previous.ID {
		t.rec.Pointed = w.Group.Pointed
	}
	t.count = takeCensus(w, &t.rec)
	strategyOf(w.Request.Strategy, false).begin(t)
	t.enter(t.rec.Phase)
}

// stopping reports whether the upgrade is being brought to an end before its goal.
func (t *turn) stopping() bool {
	if t.rec.Stopping == "" && t.w.Stop {
		t.rec.Stopping = Interrupted
	}
	return t.rec.Stopping != ""
}

// fail stops the upgrade. Nothing new is begun from here on; what can be undone safely is.
func (t *turn) fail(result Result, message string) {
	if t.rec.Stopping == "" {
		t.rec.Stopping, t.rec.Message = result, message
		t.actions, t.candidates = nil, nil
		t.again() // and begin to stop
	}
}

func (t *turn) enter(phase Phase) {
	t.rec.Phase, t.rec.PhaseBegan = phase, t.w.Now
	t.phase = t.rec.phase()
}

// want adds an action, unless it is in flight, its next try is not due, or it was accepted a moment
// ago and its effect is still to be observed.
func (t *turn) want(a nodegroup.Action) {
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
		t.wakeAt(due)
		return
	}
	t.actions = append(t.actions, a)
}

// wakeAt makes the next look happen no later than the time, if that is still to come.
func (t *turn) wakeAt(at time.Time) {
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
func (t *turn) waitForCloud(reason string) {
	t.poll = pollInterval
	if reason != "" {
		t.waiting = reason
	}
}

// again has the next turn follow at once.
func (t *turn) again() { t.wake, t.due = t.w.Now, t.w.Now }

// attempt is the last try of the action; the zero Attempt if there was none.
func (t *turn) attempt(a nodegroup.Action) nodegroup.Attempt { return t.w.attempt(a) }

func (t *turn) block(b Blocked, key string) {
	since, was := t.w.Notes.BlockedSince[key]
	if !was {
		since = t.w.Now
	}
	b.Since = since
	t.notes.BlockedSince[key] = since
	t.blocked = append(t.blocked, b)
}

func (t *turn) step() Step {
	t.notes.At = t.w.Now
	if t.rec.Run != "" {
		t.rec.Total = max(t.rec.Total, t.knownTotal()) // outdated nodes may join late
	}
	t.actions = append(t.actions, t.selectEvictions()...)
	if t.finished {
		t.wake, t.due = time.Time{}, time.Time{}
	}
	return Step{
		Record: t.rec, Notes: t.notes, Actions: t.actions, Blocked: t.blocked,
		Wake: t.wake, Due: t.due, Poll: t.poll, Status: t.status(), Finished: t.finished,
	}
}
