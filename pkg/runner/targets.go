package runner

import (
	"context"
	"slices"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
)

// targetPolls is the state of the readings of load balancers.
type targetPolls struct {
	inFlight bool
	// last is when they were last read.
	last time.Time
}

// nextTime returns when to read load balancers next, at most latest.
func (p *targetPolls) nextTime(step *upgrade.Step, latest time.Time) time.Time {
	next := p.last.Add(step.Targets.Every)
	if p.inFlight || step.Targets.Every == 0 || next.After(latest) {
		return latest
	}
	return next
}

// pollTargets reads the targets of the draining nodes.
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

// recordTargets stores a reading of load balancers. If the reading failed, the previous one stays
// in use, and every wait for a newer one has a limit. If the readings are refused, the upgrade
// ends.
func (s *run) recordTargets(read nodegroup.Targets, err error) {
	s.targetPolls.inFlight = false
	switch {
	case err == nil:
		s.Targets, s.refusedTargets = read, 0
	case ClassifyAnswer(err).Outcome == nodegroup.OutcomeFatal:
		if s.refusedTargets++; s.refusedTargets < maxRefusedPolls {
			s.targetPolls.last = time.Time{} // read again immediately
		}
	default:
		s.refusedTargets = 0
	}
	s.lastTargetsError = err
	s.BalancersRead(err)
}
