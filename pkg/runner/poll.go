package runner

import (
	"context"
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

// poll is the cloud's answer.
type poll struct {
	group nodegroup.Group
	err   error
}

// nextPoll is when the cloud is to be asked: often while something of ours is under way there, soon
// after a change.
func (s *run) nextPoll(step upgrade.Step) time.Time {
	if s.polling {
		return time.Now().Add(cloudIdle)
	}
	next := s.asked.Add(cloudIdle)
	if step.Poll > 0 {
		next = s.asked.Add(step.Poll)
	}
	if !s.soon.IsZero() && s.soon.Before(next) {
		next = s.soon
	}
	return next
}

// askBy has the cloud asked no later than that, as far as it was not asked too often just now.
func (s *run) askBy(at time.Time) {
	if len(s.asks) == cloudBurst {
		if earliest := s.asks[0].Add(cloudBurst * CloudSoon); at.Before(earliest) {
			at = earliest
		}
	}
	if s.soon.IsZero() || at.Before(s.soon) {
		s.soon = at
	}
}

func (s *run) pollCloud(ctx context.Context) {
	s.polling, s.asked, s.soon = true, time.Now(), time.Time{}
	s.asks = append(s.asks, s.asked)
	s.asks = s.asks[max(0, len(s.asks)-cloudBurst):]
	if s.doubtful {
		s.doubtful = false
		s.askBy(s.asked.Add(cloudAgain))
	}
	go func() {
		ctx, cancel := context.WithTimeout(ctx, requestLimit)
		defer cancel()
		group, err := s.Cloud.Observe(ctx, cloud.Ref{Name: s.Request.Group, To: s.Request.To})
		s.polls <- poll{group: group, err: err}
	}()
}

// stuck is the error of an upgrade that cannot go on before the cloud was read, when that is
// refused for good: credentials that have ended, or a permission that is gone. Elsewhere there is
// time to mend it, see setIf.
func (s *run) stuck(step *upgrade.Step) error {
	if step.Poll > 0 && s.refusals >= refusalsBelieved {
		return s.refused
	}
	return nil
}

// take keeps what the cloud said. While it cannot be asked the last answer stands: nothing
// destructive rests on it that would not be re-read by the provider first.
func (s *run) take(p poll) {
	s.polling = false
	switch {
	case p.err == nil:
		s.Group, s.refusals, s.roster = p.group, 0, roster{}
	case Sort(p.err).Outcome == nodegroup.OutcomeFatal:
		s.refusals++
	default:
		s.refusals = 0
	}
	s.refused = p.err
	if s.Polled != nil {
		s.Polled(p.err)
	}
}
