package upgrade

import (
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain/schedule"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// Notes are what one Step remembers for the next. A crash may lose them: they only make messages exact and waiting
// times fair.
type Notes struct {
	// BlockedSince holds the times since which pods or nodes have been blocked, by pod UID or node name.
	BlockedSince map[string]time.Time
	// LastReadySince holds the times since which pods have waited as the last ready pod of their workload, by UID.
	LastReadySince map[string]time.Time
	// Yielded is how long each node was blocked only by other nodes of this run. Its drain timeout does not run during
	// that time.
	Yielded map[string]time.Duration
	// Yielding are the nodes that were blocked only by other nodes when the notes were taken.
	Yielding map[string]bool
	// PodsLeft are, by node name, the pods that must leave a node which its cloud may be draining, and whose end has
	// not begun.
	PodsLeft map[string][]types.UID
	// NodeNames are the names of outdated nodes of a group that its cloud upgrades, by instance ID: a Node may
	// disappear before its instance.
	NodeNames map[string]string
	// Pending are the outdated nodes that were not started when the notes were taken.
	Pending []string
	// Lacking are the workloads that have fewer ready pods than before. The value is true if a workload has none.
	Lacking map[string]bool
	// DoubtfulSince holds the times since which workloads have had fewer pods than before while it is not known whether
	// a user scaled them.
	DoubtfulSince map[string]time.Time
	// Evicting are, by pod UID, the workloads of pods whose eviction has no answer yet.
	Evicting map[types.UID]string
	// MissingSince holds the times since which workloads have had fewer pods than they should have, by
	// NAMESPACE/KIND/NAME. Under "NAMESPACE/DaemonSet/NAME on NODE", it holds the time since which a current node has
	// had no pod of the DaemonSet.
	MissingSince map[string]time.Time
	// CreatableSince is the time since which no other pod prevents the creation of the workload's missing
	// pods, by NAMESPACE/KIND/NAME.
	CreatableSince map[string]time.Time
	// Unhealthy holds the workloads that do not recover, by NAMESPACE/KIND/NAME.
	Unhealthy map[string]Spell
	// Starting contains, by NAMESPACE/KIND/NAME, the new pod of the workload that is starting.
	Starting map[string]StartingPod
	// LateSince is since when the late pods of unhealthy workloads are late, by UID.
	LateSince map[types.UID]time.Time
	// Retries are the requests that have not had their effect yet, by Action.Key.
	Retries map[string]Retry
	// OlderSince is the time since which the cloud has shown only operations that are older than one it showed before.
	OlderSince time.Time
	// Addresses are, for each started node, the addresses of its pods that leave it, and the last time at which each
	// pod was seen and was not ending.
	Addresses map[string]map[string]time.Time
	// DrainingSince holds the times since which targets have been seen draining, by their keys.
	DrainingSince map[string]time.Time
	// ExcludedSince holds the times since which nodes in drain have been seen excluded from load balancers, by name.
	ExcludedSince map[string]time.Time
	// UnreadSince is the time since which an empty node has waited for load balancers to be read; zero if none waits.
	UnreadSince time.Time
	// PausingSince is when a pause was first seen while the cloud's operation was not seen yet.
	PausingSince time.Time
	// ClosedSince is the time since which a group without a cloud has had enough new nodes, but at least one
	// of them takes no pods. It is zero while all of them take pods.
	ClosedSince time.Time
	// Memory is what the schedule of evictions remembers.
	schedule.Memory
	// At is when the notes were taken.
	At time.Time
}

// Spell is the time for which a workload has not recovered. Since is when Pod, the first late pod, became late. If that
// pod becomes ready while another is late, Pod and Since change to the other pod. Each pod restarts the time at most
// once, because pods may crash in turn.
type Spell struct {
	Since time.Time
	// Pod is the UID of the late pod with which the time started; "" if the pod was not created.
	Pod types.UID
	// Earlier are the UIDs of the late pods with which the time started before, and which became ready.
	Earlier []types.UID
}

// StartingPod is the new pod of a workload that has been starting for the longest time, and when it will be late. If it
// ends before it is ready, the next pod is late at the same time.
type StartingPod struct {
	Pod  types.UID
	Late time.Time
	// Ended counts the earlier pods that ended before they were ready.
	Ended int
	// Roomless is true if the pod has ended and the next one has no node. Late moves by that time, because the next pod
	// may be waiting for a node that boots.
	Roomless bool
}

func (n *Notes) carriedOver() Notes {
	c := Notes{
		BlockedSince: map[string]time.Time{}, // pods that are still blocked are added again
		Yielded:      maps.Clone(n.Yielded),
		Addresses:    maps.Clone(n.Addresses),
		Yielding:     map[string]bool{},
		PodsLeft:     map[string][]types.UID{},
		NodeNames:    map[string]string{}, // nodes that are still outdated are added again
		// Workloads that still lack pods or do not recover are added again.
		Lacking: map[string]bool{}, Unhealthy: map[string]Spell{}, Starting: map[string]StartingPod{}, LateSince: map[types.UID]time.Time{}, MissingSince: map[string]time.Time{}, CreatableSince: map[string]time.Time{}, DoubtfulSince: map[string]time.Time{},
		LastReadySince: map[string]time.Time{}, Evicting: map[types.UID]string{},
		Retries: map[string]Retry{}, // requests that are still made are added again
		Memory:  n.Memory,
		At:      n.At,
	}
	c.Leaving = nil // without a plan of evictions no step sees pods leave
	if c.Yielded == nil {
		c.Yielded = map[string]time.Duration{}
	}
	if c.Addresses == nil {
		c.Addresses = map[string]map[string]time.Time{}
	}
	return c
}

// noteNodeNames notes the node name of each outdated instance. If the Node is gone, it keeps
// the name in before, the names of the last step.
func (n *Notes) noteNodeNames(outdated []*nodegroup.Member, before map[string]string) {
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
