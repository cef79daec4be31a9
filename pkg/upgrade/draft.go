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
	// leaving counts, by budget, the pods of nodes in drain that are being deleted; see
	// budgetRoomOf.
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
		w.Record = w.Record.WithMoreTime(w.Idle)
		w.Notes.At = w.Now // a node that waits for others is not credited with the same time twice
	}
	d := &draft{
		w:   w,
		rec: w.Record.Clone(), phase: w.Record.currentPhase(),
		notes:  w.Notes.cloneNotes(),
		drains: map[string]*nodePods{},
		wake:   w.Now.Add(lookAgain),
	}
	d.count = countMembers(w, &d.rec)
	evictionsOf(d).countSpending()
	return d
}

// stopUpgradeWith stops the upgrade. Nothing new is begun from here on; what can be undone safely
// is.
func (d *draft) stopUpgradeWith(result Result, message string) {
	if d.rec.Stopping == "" {
		d.rec.Stopping, d.rec.Message = result, message
		d.actions, d.candidates = nil, nil
		d.requeueNow() // and begin to stop
	}
}

func (d *draft) enterPhase(phase Phase) {
	d.rec.Phase, d.rec.PhaseBegan = phase, d.w.Now
	d.phase = d.rec.currentPhase()
}

// addAction adds an action, unless it is in flight, its next try is not due, or it was accepted a
// moment ago and its effect is still to be observed.
func (d *draft) addAction(a nodegroup.Action) {
	attempt, begun := d.w.Open[a.Key()]
	if begun && attempt.InFlight {
		return
	}
	due := attempt.NotBefore
	switch {
	case attempt.Outcome == nodegroup.OutcomeFatal && d.rec.Stopping == Aborted:
		return // it was tried; the report names it
	case attempt.Outcome == nodegroup.OutcomeDone:
		due = attempt.Ended.Add(seen)
	case attempt.Outcome == nodegroup.OutcomeMoved && !nodegroup.OfCloud(a) && attempt.Action == a:
		// What moved it is not seen yet, and the answer would be the same.
		due = attempt.Ended.Add(min(time.Second<<min(max(0, attempt.Tries-1), 5), seen))
	}
	if begun && d.w.Now.Before(due) {
		d.requeueAt(due)
		return
	}
	d.actions = append(d.actions, a)
}

// requeueAt makes the next look happen no later than the time, if that is still to come.
func (d *draft) requeueAt(at time.Time) {
	if !at.After(d.w.Now) {
		return
	}
	if at.Before(d.wake) {
		d.wake = at
	}
	if d.due.IsZero() || at.Before(d.due) {
		d.due = at
	}
}

// waitForCloud has the cloud asked often, because something of ours is under way there. reason says
// what the upgrade waits for; with "" what was said before stands.
func (d *draft) waitForCloud(reason string) {
	d.poll = pollInterval
	if reason != "" {
		d.waiting = reason
	}
}

// requeueNow has the next step follow at once.
func (d *draft) requeueNow() { d.wake, d.due = d.w.Now, d.w.Now }

// lastAttempt is the last try of the action; the zero Attempt if there was none.
func (d *draft) lastAttempt(a nodegroup.Action) nodegroup.Attempt { return d.w.lastAttempt(a) }

// addBlocked adds an obstacle. key is the pod's UID, or the node's name where no pod is in the way.
func (d *draft) addBlocked(b Blocked, key string) {
	since, was := d.w.Notes.BlockedSince[key]
	if !was {
		since, was = d.w.Record.Nodes[b.Node].Blocked[b.Pod.String()]
	}
	if !was {
		since = d.w.Now
	}
	b.Since = since
	d.notes.BlockedSince[key] = since
	d.blocked = append(d.blocked, b)
}

func (d *draft) endUpgradeWith(result Result, message string) {
	d.rec.Result, d.rec.Message, d.rec.Ended = result, message, d.w.Now
	d.finished = true
	d.actions, d.candidates = nil, nil
}
