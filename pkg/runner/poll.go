package runner

import (
	"context"
	"fmt"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
)

const (
	// cloudIdle is how often the cloud is asked while nothing of ours is under way there.
	cloudIdle = time.Minute
	// CloudSoon is how far apart questions to the cloud are at least in the long run: so late a
	// change of ours is seen.
	CloudSoon = 250 * time.Millisecond
	// cloudBurst is how many of them may follow each other at once, after a while without any.
	cloudBurst = 4
	// cloudAgain is the pause before the cloud is asked about what it may not show at once.
	cloudAgain = time.Second
	// refusalsBelieved is how many refusals in a row it takes that the cloud will not let us read
	// what an upgrade waits for.
	refusalsBelieved = 2
)

// nextPollTime is when the cloud is to be asked: often while something of ours is under way there,
// soon after a change.
func (s *run) nextPollTime(step upgrade.Step) time.Time {
	if s.pollInFlight {
		return time.Now().Add(cloudIdle)
	}
	next := s.lastPoll.Add(cloudIdle)
	if step.Poll > 0 {
		next = s.lastPoll.Add(step.Poll)
	}
	if !s.pollAt.IsZero() && s.pollAt.Before(next) {
		next = s.pollAt
	}
	return next
}

// requestPollBy has the cloud asked no later than that, as far as it was not asked too often just
// now.
func (s *run) requestPollBy(at time.Time) {
	if len(s.recentPolls) == cloudBurst {
		if earliest := s.recentPolls[0].Add(cloudBurst * CloudSoon); at.Before(earliest) {
			at = earliest
		}
	}
	if s.pollAt.IsZero() || at.Before(s.pollAt) {
		s.pollAt = at
	}
}

// nextQuestionTime is when something is to be asked that no watch tells.
func (s *run) nextQuestionTime(step *upgrade.Step) time.Time {
	next := s.targetPolls.nextTime(step, s.nextPollTime(*step))
	if s.Controllers == nil {
		return next
	}
	return s.controllers.nextTime(step, next, s.localTime)
}

// ask asks what is due of the cloud and of controllers.
func (s *run) ask(ctx context.Context, step *upgrade.Step) {
	now := time.Now()
	s.readControllers(ctx, step)
	never := now.Add(cloudIdle)
	if !s.targetPolls.nextTime(step, never).After(now) {
		s.pollTargets(ctx, step.Targets.IDs)
	}
	if !s.nextPollTime(*step).After(now) {
		s.pollCloud(ctx)
	}
}

func (s *run) pollCloud(ctx context.Context) {
	s.pollInFlight, s.lastPoll, s.pollAt = true, time.Now(), time.Time{}
	s.recentPolls = append(s.recentPolls, s.lastPoll)
	s.recentPolls = s.recentPolls[max(0, len(s.recentPolls)-cloudBurst):]
	if s.cloudStale {
		s.cloudStale = false
		s.requestPollBy(s.lastPoll.Add(cloudAgain))
	}
	go func() {
		ctx, cancel := context.WithTimeout(ctx, requestLimit)
		defer cancel()
		group, err := s.Cloud.Observe(ctx, cloud.Ref{Name: s.Request.Group, To: s.Request.To})
		s.answers <- func() { s.recordPoll(group, err) }
	}()
}

// fatalCloudError is the error of an upgrade that cannot continue before the cloud, or the load
// balancers of the nodes in drain, were read, when that is refused for good (credentials that have
// ended, a permission that is gone) or has failed for saveLimit. Elsewhere there is time to fix it, see
// recordPoll: what failed before the upgrade waited for the cloud does not count.
func (s *run) fatalCloudError(step *upgrade.Step) error {
	if step.Targets.Every == 0 {
		s.refusedTargets = 0
	}
	switch {
	case s.refusedTargets >= refusalsBelieved:
		return s.lastTargetsError
	case step.Poll == 0:
		s.refusedPolls, s.unreadSince = 0, time.Time{}
	case s.refusedPolls >= refusalsBelieved:
		return s.lastPollError
	case !s.unreadSince.IsZero() && time.Since(s.unreadSince) >= saveLimit:
		return fmt.Errorf("the cloud has not been read for %s: %w", saveLimit, s.lastPollError)
	}
	return nil
}

// recordPoll keeps what the cloud said. While it cannot be asked the last answer stands: nothing
// destructive rests on it that would not be re-read by the provider first.
func (s *run) recordPoll(group nodegroup.Group, err error) {
	s.pollInFlight = false
	switch {
	case err == nil:
		s.Group, s.refusedPolls, s.memberCache = group, 0, memberCache{}
	case ClassifyAnswer(err).Outcome == nodegroup.OutcomeFatal:
		s.refusedPolls++
	default:
		s.refusedPolls = 0
	}
	if err == nil {
		s.unreadSince = time.Time{}
	} else if s.unreadSince.IsZero() {
		s.unreadSince = time.Now()
	}
	s.lastPollError = err
	s.Polled(&group, err)
}
