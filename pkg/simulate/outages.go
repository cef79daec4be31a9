package simulate

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
)

// outages add up for how long workloads have no ready pod that had one.
type outages struct {
	clock *clock
	// ready counts the ready pods of a controller; since is from when on it has none.
	ready map[types.UID]int
	since map[types.UID]time.Time
	total time.Duration
}

// countReady notes that a ready pod came, or began to leave. Pods of one node or of one task are no
// workload that others could miss.
func (o *outages) countReady(u *simPod, change int) {
	owner := u.key.owner
	if owner == "" || u.key.kind == daemonSet || u.key.kind == "Job" || drain.IsForeignJob(u.pod) || (change < 0 && !drain.Ready(u.pod)) {
		return
	}
	o.ready[owner] += change
	since, out := o.since[owner]
	switch {
	case o.ready[owner] <= 0:
		o.since[owner] = o.clock.now
	case out:
		o.total += o.clock.now.Sub(since)
		delete(o.since, owner)
	}
}

// sum is the time so far, of workloads that are without a ready pod now, too.
func (o *outages) sum() time.Duration {
	total := o.total
	for _, since := range o.since {
		total += o.clock.now.Sub(since)
	}
	return total
}
