package upgrade

import (
	"slices"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

const (
	// maxWake is the longest time between two decisions if no event arrives.
	maxWake = 30 * time.Second
	// pollInterval is how often the cloud is read while one of our requests is under way.
	pollInterval = 5 * time.Second
	// seenWithin is how long the effect of an accepted request may take to be visible. After that the request is
	// repeated.
	seenWithin = nodegroup.SeenWithin
)

// outbox collects what a decision requests and reports: the step without its record.
type outbox struct {
	now     time.Time
	actions []nodegroup.Action
	// outstanding is true if an action was requested whose effect is not observed yet, or whose next try is not due.
	outstanding bool
	// requested are the keys of the actions that the step requests: actions that it starts, that are in flight, or that
	// will be tried again later.
	requested []string
	// retried is the request that has been tried again for the longest time.
	retried record.Retried
	// leftOut are the actions that a stop or an abort skips because they were refused permanently.
	leftOut []nodegroup.Action
	// blocked are the pods that must stay for now, waiting is what the upgrade waits for.
	blocked []drain.Blocked
	waiting string
	// unhealthy lists the workloads that do not recover. lacking are the workloads that have fewer ready pods than they
	// should have. The pods of the workloads in awaited may change the next step, so the simulator decides again when they
	// change. The runner reads the controllers of the workloads in unscaled.
	unhealthy                  []unhealthy
	lacking, awaited, unscaled []drain.Workload
	// choosing is true once the decision has looked for a node to start.
	choosing bool
	// wake is when the runner decides again if nothing happens before. due is the earliest time that a part of the
	// decision requested. It is zero if none did: wake is then only the next regular decision, which the simulator
	// skips.
	wake, due time.Time
	// poll is how often the cloud is read until the next decision, 0 for rarely.
	poll     time.Duration
	targets  TargetWatch
	finished bool
}

// setWaiting sets what the upgrade waits for.
func (o *outbox) setWaiting(what string) { o.waiting = what }

// requeueAt schedules the next decision for the time. Past times are ignored, because this decision has handled them.
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

// requeueNow schedules the next decision immediately.
func (o *outbox) requeueNow() { o.wake, o.due = o.now, o.now }

// pollCloudSoon makes the runner read the cloud often, because one of our requests is under way there. A reason other
// than "" is set as what the upgrade waits for.
func (o *outbox) pollCloudSoon(reason string) {
	o.poll = pollInterval
	if reason != "" {
		o.setWaiting(reason)
	}
}

// requestController makes the runner read the workload's controller.
func (o *outbox) requestController(w drain.Workload) {
	if !slices.Contains(o.unscaled, w) {
		o.unscaled = append(o.unscaled, w)
	}
}

// watchWorkload makes the runner watch the workload's pods, and sets what the upgrade waits for.
func (o *outbox) watchWorkload(w drain.Workload, what string) {
	o.setWaiting(what)
	o.awaited = append(o.awaited, w)
}
