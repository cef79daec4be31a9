package upgrade

import (
	"fmt"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// Step is what to do about a World.
type Step struct {
	// Notes go into the next World.
	Notes Notes
	// Record is to be stored before the actions when Persist is true.
	Record  record.Record
	Persist bool
	// Actions to be in flight now; those that are already are not repeated here.
	Actions []nodegroup.Action
	// Blocked says what keeps nodes from going on. It is data, never an error.
	Blocked []drain.Blocked
	// Wake is the latest moment to look again, should nothing be seen to change before. It is never
	// zero while the upgrade runs.
	Wake time.Time
	// Due is the next moment that is known to matter, as the end of a wait or of a limit: until
	// then nothing but a change would make another step. Zero when none is known.
	Due time.Time
	// Poll is how often the provider, which has no watch, is to be asked while something of ours is
	// under way there; 0 while nothing is.
	Poll time.Duration
	// Targets are those of load balancers that are to be read.
	Targets TargetWatch
	// Awaited are the workloads whose pods are waited for. Unscaled are those whose controllers are
	// to be read again and again: they have fewer pods than before.
	Awaited, Unscaled []drain.Workload
	// Choosing is true if the step looked for a node to start: any budget that changes may decide which, and when.
	Choosing bool
	// Status is the upgrade as a person wants to see it.
	Status record.Status
	// Finished is true when nothing is left to do or to wait for; Record.Result says how it ended.
	Finished bool
}

// TargetWatch is what is to be known of load balancers.
type TargetWatch struct {
	// IDs are the machines of the nodes in drain, and the addresses of the pods that leave them.
	IDs []string
	// Every is how often their targets are to be read; 0 while no one needs to know.
	Every time.Duration
}

// summarizeBlocked joins the first few blocked pods of a node into one line and counts the rest.
func summarizeBlocked(blocked []drain.Blocked, now time.Time) string {
	parts := make([]string, 0, len(blocked))
	for _, b := range blocked {
		part := b.String()
		if waited := now.Sub(b.Since).Round(time.Second); waited > 0 {
			part += fmt.Sprintf(", for %s", waited)
		}
		parts = append(parts, part)
	}
	return joinFirst(parts)
}
