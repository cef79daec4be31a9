package upgrade

import (
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain/schedule"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// Notes are what one Step remembers for the next and a crash may lose: they only
// make messages exact and patience fair.
type Notes struct {
	// BlockedSince tells, by pod UID or node name, since when it has been blocked.
	BlockedSince map[string]time.Time
	// LastReadySince tells, by UID, since when a pod waits as the last ready one of its workload.
	LastReadySince map[string]time.Time
	// Yielded is how long each node was blocked only by other nodes of this run; its limit does not
	// run meanwhile.
	Yielded map[string]time.Duration
	// Yielding are the nodes that were so blocked when the notes were taken.
	Yielding map[string]bool
	// PodsLeft are, by node name, the pods that must leave a node which its cloud may be draining
	// and that nothing is known to end.
	PodsLeft map[string][]types.UID
	// NodeNames are, by instance ID, the names of outdated nodes of a group that its cloud
	// upgrades: a Node may be seen to go before its instance.
	NodeNames map[string]string
	// Pending are the outdated nodes that were not started when the notes were taken.
	Pending []string
	// Lacking are the workloads that have fewer ready pods than before; true for those with none.
	Lacking map[string]bool
	// DoubtfulSince tells since when a workload has had fewer pods than before, where it is not known
	// yet whether its owner scaled it.
	DoubtfulSince map[string]time.Time
	// Evicting are, by pod UID, the workloads of pods whose eviction has no answer yet.
	Evicting map[types.UID]string
	// MissingSince tells, by NAMESPACE/KIND/NAME, since when a workload has fewer pods than it should
	// have, and by "NAMESPACE/DaemonSet/NAME on NODE" since when a current node has had no pod of it.
	MissingSince map[string]time.Time
	// CreatableSince is the time since which no other pod prevents the creation of the workload's missing
	// pods, by NAMESPACE/KIND/NAME.
	CreatableSince map[string]time.Time
	// Unhealthy tells, by NAMESPACE/KIND/NAME, since when a workload does not recover.
	Unhealthy map[string]Spell
	// Coming contains, by NAMESPACE/KIND/NAME, the new pod of the workload that is starting.
	Coming map[string]Coming
	// Late contains, by UID, the pods of such workloads that are late or were shortly before.
	Late map[types.UID]Late
	// Retries are, by Action.Key, the requests that have not had their effect.
	Retries map[string]Retry
	// OlderSince is since when the cloud has told of no operation as new as one that was seen.
	OlderSince time.Time
	// Addresses are, by node that was started, those of its pods that leave it, and until when each
	// pod was seen and not yet about to end.
	Addresses map[string]map[string]time.Time
	// DrainingSince is since when a target has been seen to drain, by its key.
	DrainingSince map[string]time.Time
	// ExcludedSince is since when a node in drain has been seen to be taken out of load balancers.
	ExcludedSince map[string]time.Time
	// UnreadSince is since when an empty node has waited for load balancers to be read, zero when none
	// does.
	UnreadSince time.Time
	// PausingSince is when a pause was first seen before the cloud's operation was.
	PausingSince time.Time
	// ClosedSince is the time since which a group without a cloud has had enough new nodes, but at least one
	// of them takes no pods. It is zero while all of them take pods.
	ClosedSince time.Time
	// Memory is the schedule's own.
	schedule.Memory
	// At is when the notes were taken.
	At time.Time
}

// Spell says since when a workload has not recovered. Since is when Pod, the first late pod, became late.
// When that pod is ready and another is late, Pod is the other one, and Since is when that became late. Each
// pod restarts the time at most once, because pods may crash in turn.
type Spell struct {
	Since time.Time
	// Pod is the UID of the late pod with which the time started; "" if the pod was not created.
	Pod types.UID
	// Earlier are the UIDs of the late pods with which the time started before, and which became ready.
	Earlier []types.UID
}

// Coming is the pod of a workload that has been starting for the longest time, and when it will be late. If it
// ends before it is ready, the next pod is late at the same time.
type Coming struct {
	Pod  types.UID
	Late time.Time
	// Ended counts the pods before it that ended before they were ready.
	Ended int
	// Roomless is true if the pod has ended and the next one has no node. Late moves by that time, because the next one may be
	// waiting for a node that boots.
	Roomless bool
}

// Late is a pod that does not become ready in time: Since is when it became late, Seen when it last was.
type Late struct{ Since, Seen time.Time }

func (n *Notes) cloneNotes() Notes {
	c := Notes{
		BlockedSince: map[string]time.Time{}, // only what is blocked still is carried over
		Yielded:      maps.Clone(n.Yielded),
		Addresses:    maps.Clone(n.Addresses),
		Yielding:     map[string]bool{},
		PodsLeft:     map[string][]types.UID{},
		NodeNames:    map[string]string{}, // of those that are outdated still
		// Of workloads that still lack pods, or do not recover.
		Lacking: map[string]bool{}, Unhealthy: map[string]Spell{}, Coming: map[string]Coming{}, Late: map[types.UID]Late{}, MissingSince: map[string]time.Time{}, CreatableSince: map[string]time.Time{}, DoubtfulSince: map[string]time.Time{},
		LastReadySince: map[string]time.Time{}, Evicting: map[types.UID]string{},
		Retries: map[string]Retry{}, // of requests that are still made, or were in the last minute
		Memory:  n.Memory,
		At:      n.At,
	}
	c.Leaving = nil // where no plan is made, no one sees who has left
	if c.Yielded == nil {
		c.Yielded = map[string]time.Duration{}
	}
	if c.Addresses == nil {
		c.Addresses = map[string]map[string]time.Time{}
	}
	return c
}

// keepNodeNames notes under which name the node of each outdated instance is known, as it is or was
// before.
func (n *Notes) keepNodeNames(outdated []*nodegroup.Member, before map[string]string) {
	for _, m := range outdated {
		id, name := m.Instance.ID, m.Name()
		if m.Node == nil {
			name = before[id]
		}
		if id != "" && name != "" {
			n.NodeNames[id] = name
		}
	}
}
