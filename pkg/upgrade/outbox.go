package upgrade

import (
	"slices"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

const (
	// lookAgain is the longest a running upgrade goes without a look, should no event arrive.
	lookAgain = 30 * time.Second
	// pollInterval is how often the cloud is asked while something of ours is under way there.
	pollInterval = 5 * time.Second
	// seen is how long the effect of an accepted request may take to be observed before it is asked
	// for again.
	seen = nodegroup.SeenWithin
)

// outbox collects what a decision asks for and what it says: the step but for its record.
type outbox struct {
	now     time.Time
	actions []nodegroup.Action
	// unsettled is true where an action was asked for and its effect is still to be seen, or its
	// next try is not due.
	unsettled bool
	// asked are the keys of the actions that the step asks for, whether they are begun in it, under
	// way or to be tried again later; retried is the one that has been tried for longest.
	asked   []string
	retried Retried
	// undone are the actions that a stop or an undoing leaves out because they were refused for good.
	undone []nodegroup.Action
	// blocked are the pods that stay for now, waiting is what the upgrade waits for.
	blocked []Blocked
	waiting string
	// unhealthy lists the workloads that do not recover, awaited the
	// workloads whose pods the upgrade waits for, and unscaled the workloads whose controllers the
	// runner reads next.
	unhealthy         []Unhealthy
	awaited, unscaled []drain.Workload
	// wake is when the next decision is due at the latest, and due when something of this one is; zero for never.
	// poll is how often the cloud is read until then, 0 for seldom.
	wake, due time.Time
	poll      time.Duration
	targets   TargetWatch
	finished  bool
}

// waitFor says what the upgrade waits for.
func (o *outbox) waitFor(what string) { o.waiting = what }

// requeueAt makes the next look happen no later than the time, if that is still to come.
func (o *outbox) requeueAt(at time.Time) {
	if !at.After(o.now) {
		return
	}
	if at.Before(o.wake) {
		o.wake = at
	}
	if o.due.IsZero() || at.Before(o.due) {
		o.due = at
	}
}

// requeueNow has the next step follow at once.
func (o *outbox) requeueNow() { o.wake, o.due = o.now, o.now }

// askCloudOften has the cloud be asked often, because something of ours is under way there. reason says
// what the upgrade waits for; with "" what was said before stands.
func (o *outbox) askCloudOften(reason string) {
	o.poll = pollInterval
	if reason != "" {
		o.waitFor(reason)
	}
}

// askController has the runner read the workload's controller.
func (o *outbox) askController(w drain.Workload) {
	if !slices.Contains(o.unscaled, w) {
		o.unscaled = append(o.unscaled, w)
	}
}

// awaitWorkload says what the upgrade waits for of a workload, which the runner watches.
func (o *outbox) awaitWorkload(w drain.Workload, what string) {
	o.waitFor(what)
	o.awaited = append(o.awaited, w)
}
