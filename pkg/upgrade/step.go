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
	// Record must be stored before the actions start, if Persist is true.
	Record  record.Record
	Persist bool
	// Actions are the actions to start. They do not include actions that are in flight already.
	Actions []nodegroup.Action
	// Blocked lists the obstacles that keep nodes from going on. They are data, never errors.
	Blocked []drain.Blocked
	// Wake is when the next step is due if no change is observed before. It is never zero while the upgrade runs.
	Wake time.Time
	// Due is the next moment that is known to matter, such as the end of a wait or of a limit. Until then, only a
	// change would lead to another step. It is zero if no such moment is known.
	Due time.Time
	// Poll is how often to read the provider, which has no watch, while an action of the upgrade is under way there. It
	// is 0 if none is.
	Poll time.Duration
	// Targets says which load balancer targets to read, and how often.
	Targets TargetWatch
	// Awaited are the workloads whose pods the upgrade waits for. Unscaled are the workloads that have fewer pods than
	// before; their controllers must be read repeatedly.
	Awaited, Unscaled []drain.Workload
	// Choosing is true if the step looked for a node to start. A change of any budget may then decide which node
	// starts, and when.
	Choosing bool
	// Status describes the upgrade for people.
	Status record.Status
	// Finished is true when nothing is left to do or to wait for. Record.Result is the result.
	Finished bool
}

// TargetWatch says which load balancer targets to read.
type TargetWatch struct {
	// IDs are the machines of the nodes in drain, and the IPs of the pods that leave them.
	IDs []string
	// Every is how often they must be read; 0 if not at all.
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
