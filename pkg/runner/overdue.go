package runner

import (
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
)

// overdueLook is how often it is looked whether an overdue lease was renewed.
const overdueLook = 5 * time.Second

// overdue says that the lease should have been renewed by now and was not: the API server is out of reach.
func (r *Runner) overdue() bool { return r.limit() < requestLimit }

// lookAgain is when a step is due though nothing was seen to change: when the decision asks for it, and when the lease
// becomes overdue or may be overdue no more.
func (r *Runner) lookAgain(step *upgrade.Step) time.Time {
	if r.Expires == nil {
		return step.Wake
	}
	look := r.Expires().Add(-requestLimit + time.Millisecond)
	if r.overdue() {
		look = time.Now().Add(overdueLook)
	}
	if look.Before(step.Wake) {
		return look
	}
	return step.Wake
}

// show hands a step to whoever watches. What it waits for is the API server while that is out of reach.
func (s *run) show(step upgrade.Step) {
	s.shown = step
	if s.Watch == nil {
		return
	}
	if s.overdue() {
		step.Status.Waiting = "the API server, which has not renewed the lease in time"
	}
	s.Watch(step)
}
