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
	// cloudIdleInterval is how often the cloud is read while none of our changes is in progress there.
	cloudIdleInterval = time.Minute
	// MinCloudInterval is the shortest average time between two readings of the cloud. A change of ours is
	// seen at most that late.
	MinCloudInterval = 250 * time.Millisecond
	// cloudBurst is how many readings may follow each other without a pause.
	cloudBurst = 4
	// cloudRepeatPause is the pause before the cloud is read again, because its first answer may not show
	// the latest change.
	cloudRepeatPause = time.Second
	// maxRefusedPolls is the number of refusals in a row after which the credentials count as invalid for reading what
	// the upgrade waits for.
	maxRefusedPolls = 2
)

// nextPollTime returns when to read the cloud next: often while a change of ours is in progress
// there, and soon after a change.
func (s *run) nextPollTime(step upgrade.Step) time.Time {
	if s.pollInFlight {
		return time.Now().Add(cloudIdleInterval)
	}
	next := s.lastPoll.Add(cloudIdleInterval)
	if step.Poll > 0 {
		next = s.lastPoll.Add(step.Poll)
	}
	if !s.pollAt.IsZero() && s.pollAt.Before(next) {
		next = s.pollAt
	}
	return next
}

// requestPollBy schedules a reading of the cloud at the time at the latest, or later if the cloud
// was read too often just now.
func (s *run) requestPollBy(at time.Time) {
	if len(s.recentPolls) == cloudBurst {
		if earliest := s.recentPolls[0].Add(cloudBurst * MinCloudInterval); at.Before(earliest) {
			at = earliest
		}
	}
	if s.pollAt.IsZero() || at.Before(s.pollAt) {
		s.pollAt = at
	}
}

// nextReadTime returns when to read the cloud, load balancers or controllers next, because no watch reports their
// changes.
func (s *run) nextReadTime(step *upgrade.Step) time.Time {
	next := s.targetPolls.nextTime(step, s.nextPollTime(*step))
	if s.Controllers == nil {
		return next
	}
	return s.controllers.nextTime(step, next, s.localTime)
}

// readDueSources reads the cloud, load balancers and controllers that are due.
func (s *run) readDueSources(ctx context.Context, step *upgrade.Step) {
	now := time.Now()
	s.readControllers(ctx, step)
	never := now.Add(cloudIdleInterval)
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
		s.requestPollBy(s.lastPoll.Add(cloudRepeatPause))
	}
	go func() {
		ctx, cancel := context.WithTimeout(ctx, requestLimit)
		defer cancel()
		group, err := s.Cloud.Observe(ctx, cloud.Ref{Name: s.Request.Group, To: s.Request.To})
		s.answers <- func() { s.recordPoll(group, err) }
	}()
}

// fatalCloudError returns an error if the upgrade must wait for the cloud, or for the load balancers of draining
// nodes, and cannot read them. It returns an error if the reading was refused (expired credentials, a missing
// permission) or has failed for saveLimit. While the upgrade does not wait for the cloud there is time to fix this,
// so earlier failures do not count; see recordPoll.
func (s *run) fatalCloudError(step *upgrade.Step) error {
	if step.Targets.Every == 0 {
		s.refusedTargets = 0
	}
	switch {
	case s.refusedTargets >= maxRefusedPolls:
		return s.lastTargetsError
	case step.Poll == 0:
		s.refusedPolls, s.unreadSince = 0, time.Time{}
	case s.refusedPolls >= maxRefusedPolls:
		return s.lastPollError
	case !s.unreadSince.IsZero() && time.Since(s.unreadSince) >= saveLimit:
		return fmt.Errorf("the cloud could not be read for %s: %w", saveLimit, s.lastPollError)
	}
	return nil
}

// recordPoll stores a reading of the cloud. If the reading failed, the previous one stays in use.
// That is safe, because the provider reads the group again before every destructive action.
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
	s.CloudRead(&group, err)
}
