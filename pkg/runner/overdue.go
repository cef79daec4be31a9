package runner

import (
	"fmt"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
)

// leaseCheckInterval is how often it is looked whether an overdue lease was renewed.
const leaseCheckInterval = 5 * time.Second

// isLeaseOverdue says that the lease should have been renewed by now and was not: the API server is
// out of reach.
func (r *Runner) isLeaseOverdue() bool { return r.requestTimeout() < requestLimit }

// whyUnrenewed is what kept the lease from being renewed last, as the end of a sentence; "" where
// that is not known.
func (r *Runner) whyUnrenewed() string {
	err := r.Unrenewed()
	if err == nil {
		return ""
	}
	return ": " + describeError(err)
}

// nextLook is when a step is due though nothing was seen to change: when the decision asks for it,
// and when the lease becomes overdue or may be overdue no more.
func (r *Runner) nextLook(step *upgrade.Step) time.Time {
	look := r.Expires().Add(-requestLimit + time.Millisecond)
	if r.isLeaseOverdue() {
		look = time.Now().Add(leaseCheckInterval)
	}
	if wake := r.localTime(step.Wake); wake.Before(look) {
		return wake
	}
	return look
}

const (
	// outageTold is how long requests to the API server fail before that is told: many an outage is
	// over by then.
	outageTold = 3 * time.Second
	// outageGap is how far apart failures are at most that are of one outage: requests are tried
	// again that often.
	outageGap = 10 * time.Second
)

// recordReachability notes whether the API server answered a request that was begun then, and tells
// of an outage that lasts. Without credentials no request has an answer.
func (s *run) recordReachability(began time.Time, answered bool, detail string) {
	now := time.Now()
	if answered {
		s.outageSince, detail = time.Time{}, ""
	} else {
		if s.outageSince.IsZero() || began.Sub(s.lastFailure) > outageGap {
			s.outageSince = began
		}
		s.lastFailure = now
		if now.Sub(s.outageSince) < outageTold {
			return
		}
	}
	s.Unreached(detail)
}

// recordWatchFailure notes that a watch could not be opened. One that was refused may be followed by
// a list that is not; where that lasts the right to read is gone. One that fails otherwise is tried
// again, and the upgrade ends when that lasts: it would decide by what was known long ago.
func (s *run) recordWatchFailure(err error) {
	a := ClassifyAnswer(err)
	if a.Outcome == nodegroup.OutcomeFatal {
		s.refusedWatch.record(err, watchRefused)
		s.Unreached(a.Detail)
		return
	}
	s.recordReachability(time.Now(), false, a.Detail)
	if s.failedWatch.record(err, saveLimit) >= watchTold {
		s.Unreached(a.Detail) // though other requests are answered
	}
}

const (
	// watchTold is how long watches fail, now and then, before that is told while other requests are
	// answered.
	watchTold = time.Minute
	// watchRefused is how long watches must be refused for good until the right to read counts as
	// gone, watchGap how far apart failures are at most that follow each other: client-go tries again
	// within a minute.
	watchRefused = 20 * time.Second
	watchGap     = 2 * time.Minute
)

// failingWatch is what is known of watches that failed. err is set when that has lasted for so long
// that the upgrade cannot continue.
type failingWatch struct {
	since, last time.Time
	err         error
}

// record notes a failure, and returns for how long watches have failed.
func (f *failingWatch) record(err error, limit time.Duration) time.Duration {
	now := time.Now()
	if now.Sub(f.last) > watchGap {
		f.since = now
	}
	f.last = now
	lasted := now.Sub(f.since)
	if lasted >= limit {
		f.err = err
	}
	return lasted
}

// fatalLeaseError is the error of an upgrade whose lease may not be renewed any more, or has not been
// for too long: then nothing may be written.
func (s *run) fatalLeaseError() error {
	if !s.isLeaseOverdue() {
		s.leaseOverdue = time.Time{}
		return nil
	}
	if s.leaseOverdue.IsZero() {
		s.leaseOverdue = time.Now()
	}
	err := s.Unrenewed()
	if err == nil {
		return nil
	}
	waited := time.Since(s.leaseOverdue)
	if ClassifyAnswer(err).Outcome == nodegroup.OutcomeFatal || waited > saveLimit {
		return fmt.Errorf("renewing the upgrade's lease: %w", err)
	}
	return nil
}

// showStep hands a step to whoever watches. What it waits for is the API server while that is out
// of reach.
func (s *run) showStep(step upgrade.Step) {
	s.lastShown = step
	if s.isLeaseOverdue() {
		step.Status.Waiting = "the API server, which has not renewed the lease in time" + s.whyUnrenewed()
	}
	s.Watch(step)
}
