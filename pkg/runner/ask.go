package runner

import (
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// Asker tells what others ask of the upgrade; *cluster.Follower implements it.
type Asker interface {
	Asked() record.Asked
	AskedChanged() <-chan struct{}
}

// wakeChannels are the time to look again without an event, and the news of what others ask. Of a
// finished upgrade only answers are waited for.
func (s *run) wakeChannels(step *upgrade.Step) (wake <-chan time.Time, asked <-chan struct{}) {
	if step.Finished {
		return nil, nil
	}
	return time.After(time.Until(s.nextLook(step))), s.Asks.AskedChanged()
}
