package upgrade

import (
	"slices"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
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
	// outstanding is true if an action was asked for whose effect is still to be seen, or whose next try is not due.
	outstanding bool
	// requested are the keys of the actions that the step asks for: those that are begun in it, that are under way, and
	// that are to be tried again later.
	requested []string
	// retried is the request that has been tried again for the longest time.
	retried record.Retried
	// leftOut are the actions that a stop or an abort does not take, because they were refused for good.
	leftOut []nodegroup.Action
	// blocked are the pods that stay for now, waiting is what the upgrade waits for.
	blocked []drain.Blocked
	waiting string
	// unhealthy lists the workloads that do not recover. The runner watches the pods of the workloads in awaited, and
	// reads the controllers of those in unscaled.
	unhealthy         []unhealthy
	awaited, unscaled []drain.Workload
	// choosing is true once the decision has looked for a node to start.
	choosing bool
	// wake is when the runner decides again if nothing happens before. due is the earliest time that anything asked
	// for: zero if nothing did, and wake is only the usual look then. The simulator skips the usual looks.
	wake, due time.Time
	// poll is how often the cloud is read until then, 0 for seldom.
	poll     time.Duration
	targets  TargetWatch
	finished bool
}

// waitFor says what the upgrade waits for.
func (o *outbox) waitFor(what string) { o.waiting = what }

// requeueAt has the next decision follow at the time, if that is still to come. A time that is over asks for nothing:
// whoever named it has decided on it in this step.
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

// watchWorkload says what the upgrade waits for of a workload, which the runner watches.
func (o *outbox) watchWorkload(w drain.Workload, what string) {
	o.waitFor(what)
	o.awaited = append(o.awaited, w)
}
