package runner

import (
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// RequestSource returns the user's requests for the upgrade; *cluster.Follower implements it.
type RequestSource interface {
	CurrentRequest() record.Asked
	RequestChanged() <-chan struct{}
}

// stepChannels returns a channel that receives when the next step is due, and a channel for user requests. Both are nil
// for a finished upgrade, which waits only for answers.
func (s *run) stepChannels(step *upgrade.Step) (wake <-chan time.Time, asked <-chan struct{}) {
	if step.Finished {
		return nil, nil
	}
	return time.After(time.Until(s.nextStepTime(step))), s.Requests.RequestChanged()
}
