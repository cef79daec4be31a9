package runner

import (
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
)

// Asker tells what others ask of the upgrade; *cluster.Follower implements it.
type Asker interface {
	Asked() upgrade.Asked
	AskedChanged() <-chan struct{}
}

// asking is what others ask now.
func (r *Runner) asking() upgrade.Asked {
	if r.Asks == nil {
		return upgrade.Asked{}
	}
	return r.Asks.Asked()
}

// reasons are the time to look again without an event, and the news of what others ask. Of a
// finished upgrade only answers are waited for.
func (s *run) reasons(step *upgrade.Step) (wake <-chan time.Time, asked <-chan struct{}) {
	if step.Finished {
		return nil, nil
	}
	if s.Asks != nil {
		asked = s.Asks.AskedChanged()
	}
	return time.After(time.Until(s.lookAgain(step))), asked
}
