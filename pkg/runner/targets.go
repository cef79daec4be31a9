package runner

import (
	"context"
	"slices"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
)

// targetPolls are the questions about load balancers.
type targetPolls struct {
	inFlight bool
	// last is when the last was asked.
	last time.Time
}

// nextTime is when load balancers are to be read, no later than the time.
func (p *targetPolls) nextTime(step *upgrade.Step, latest time.Time) time.Time {
	next := p.last.Add(step.Targets.Every)
	if p.inFlight || step.Targets.Every == 0 || next.After(latest) {
		return latest
	}
	return next
}

// pollTargets reads the targets of the nodes in drain.
func (s *run) pollTargets(ctx context.Context, ids []string) {
	balancer, ok := cloud.As[cloud.Balancer](s.Cloud)
	if !ok {
		return
	}
	s.targetPolls = targetPolls{inFlight: true, last: time.Now()}
	read := nodegroup.Targets{Groups: s.Targets.Groups, Observed: s.now()}
	go func() {
		ctx, cancel := context.WithTimeout(ctx, requestLimit)
		defer cancel()
		all, err := balancer.Targets(ctx, read.Groups, ids)
		for _, target := range all {
			if slices.Contains(ids, target.ID) {
				read.List = append(read.List, target)
			}
		}
		s.answers <- func() { s.recordTargets(read, err) }
	}()
}

// recordTargets keeps what the cloud said of load balancers. While it does not answer the last answer
// stands: no wait that rests on it is without an end. Where it refuses for good the upgrade ends.
func (s *run) recordTargets(read nodegroup.Targets, err error) {
	s.targetPolls.inFlight = false
	switch {
	case err == nil:
		s.Targets, s.refusedTargets = read, 0
	case ClassifyAnswer(err).Outcome == nodegroup.OutcomeFatal:
		s.refusedTargets++
		s.targetPolls.last = time.Time{} // asked again at once
	default:
		s.refusedTargets = 0
	}
	s.lastTargetsError = err
	s.BalancersRead(err)
}
