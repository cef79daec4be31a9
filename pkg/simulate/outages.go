package simulate

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
)

// outages adds up the time during which workloads that had a ready pod have none.
type outages struct {
	clock *clock
	// ready counts the ready pods of a controller. since is when a controller lost its last one.
	ready map[types.UID]int
	since map[types.UID]time.Time
	total time.Duration
}

// updateReadyCount adds change to the ready pods of the pod's workload. An outage begins when the workload has no ready pod, and
// ends when it has one again. DaemonSets and Jobs have no outages, because each of their pods serves only one node or one task.
func (o *outages) updateReadyCount(u *simPod, change int) {
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

// sum returns the total time so far, including workloads that have no ready pod now.
func (o *outages) sum() time.Duration {
	total := o.total
	for _, since := range o.since {
		total += o.clock.now.Sub(since)
	}
	return total
}
