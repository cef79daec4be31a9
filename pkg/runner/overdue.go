package runner

import (
	"fmt"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
)

// leaseCheckInterval is how often an overdue lease is checked for a renewal.
const leaseCheckInterval = 5 * time.Second

// isLeaseOverdue reports whether the lease should have been renewed by now and was not, because the
// API server cannot be reached.
func (r *Runner) isLeaseOverdue() bool { return r.timeoutOfNextRequest() < requestLimit }

// describeRenewalError returns why the last renewal of the lease failed, as the end of a sentence. It
// returns "" if it succeeded or the reason is not known.
func (r *Runner) describeRenewalError() string {
	err := r.RenewalError()
	if err == nil {
		return ""
	}
	return ": " + describeError(err)
}

// nextStepTime returns when the next step is due if no event arrives: at the decision's Wake, when the
// lease becomes overdue, or when an overdue lease may have been renewed.
func (r *Runner) nextStepTime(step *upgrade.Step) time.Time {
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
	// outageReportedAfter is how long requests to the API server must fail before the user is told. Many
	// outages are shorter.
	outageReportedAfter = 3 * time.Second
	// outageGap is the longest time between two failures of one outage. Requests are retried at
	// least that often.
	outageGap = 10 * time.Second
)

// recordReachability records whether the API server answered a request that began at began, and
// reports an outage that lasts. Missing credentials count as no answer.
func (s *run) recordReachability(began time.Time, answered bool, detail string) {
	now := time.Now()
	if answered {
		s.outageSince, detail = time.Time{}, ""
	} else {
		if s.outageSince.IsZero() || began.Sub(s.lastFailure) > outageGap {
			s.outageSince = began
		}
		s.lastFailure = now
		if now.Sub(s.outageSince) < outageReportedAfter {
			return
		}
	}
	s.ReportOutage(detail)
}

// recordWatchFailure records that a watch could not be opened. If it was refused, the next list may
// still succeed; if the refusals last, the permission to read is gone. Other failures are retried.
// If they last, the upgrade ends, because it would decide by an old state of the cluster.
func (s *run) recordWatchFailure(err error) {
	a := ClassifyAnswer(err)
	if a.Outcome == nodegroup.OutcomeFatal {
		s.refusedWatch.record(err, watchRefusalLimit)
		s.ReportOutage(a.Detail)
		return
	}
	s.recordReachability(time.Now(), false, a.Detail)
	if s.failedWatch.record(err, saveLimit) >= watchFailureReportedAfter {
		s.ReportOutage(a.Detail) // even if other requests are answered
	}
}

const (
	// watchFailureReportedAfter is how long watches must fail before the user is told, even if other requests are
	// answered.
	watchFailureReportedAfter = time.Minute
	// watchRefusalLimit is how long watches must be refused before the permission to read counts as
	// gone. watchFailureGap is the longest time between two failures that belong together; client-go
	// retries within a minute.
	watchRefusalLimit = 20 * time.Second
	watchFailureGap   = 2 * time.Minute
)

// failingWatch is the state of watches that fail. err is set when they have failed for so long that
// the upgrade cannot continue.
type failingWatch struct {
	since, last time.Time
	err         error
}

// record records a failure and returns how long watches have failed.
func (f *failingWatch) record(err error, limit time.Duration) time.Duration {
	now := time.Now()
	if now.Sub(f.last) > watchFailureGap {
		f.since = now
	}
	f.last = now
	lasted := now.Sub(f.since)
	if lasted >= limit {
		f.err = err
	}
	return lasted
}

// fatalLeaseError returns an error if the renewal of the lease is refused, or has failed for too
// long. Nothing may be written then.
func (s *run) fatalLeaseError() error {
	if !s.isLeaseOverdue() {
		s.leaseOverdue = time.Time{}
		return nil
	}
	if s.leaseOverdue.IsZero() {
		s.leaseOverdue = time.Now()
	}
	err := s.RenewalError()
	if err == nil {
		return nil
	}
	waited := time.Since(s.leaseOverdue)
	if ClassifyAnswer(err).Outcome == nodegroup.OutcomeFatal || waited > saveLimit {
		return fmt.Errorf("renewing the upgrade's lease: %w", err)
	}
	return nil
}

// showStep passes a step to Watch. If the lease is overdue, the step's status says that it waits
// for the API server.
func (s *run) showStep(step upgrade.Step) {
	s.lastShown = step
	if s.isLeaseOverdue() {
		step.Status.Waiting = "the API server, which has not renewed the lease in time" + s.describeRenewalError()
	}
	s.Watch(step)
}
