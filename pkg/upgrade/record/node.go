package record

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// withoutObserved returns the node without what later readings show again: that it is empty, and that its machine is
// terminating.
func (n NodeRecord) withoutObserved() NodeRecord {
	if n.State == NodeEmpty {
		n.State = NodeDraining
	}
	n.EmptyAt, n.Landed = time.Time{}, false
	return n
}

// NodeState is how far the replacement of a node is.
type NodeState string

// These are the states of nodes. Pending and Fenced are not recorded: the node itself shows them. A Parked node is drained
// and kept until blue-green deletes it. A Quarantined node was not empty in time and is left fenced.
const (
	NodePending     NodeState = "Pending"
	NodeFenced      NodeState = "Fenced"
	NodeDraining    NodeState = "Draining"
	NodeForcing     NodeState = "Forcing"
	NodeEmpty       NodeState = "Empty"
	NodeParked      NodeState = "Parked"
	NodeRemoving    NodeState = "Removing"
	NodeQuarantined NodeState = "Quarantined"
	NodeDrained     NodeState = "Drained"
	NodeGone        NodeState = "Gone"
)

// NodeStates returns the states in which a started node is recorded.
func NodeStates() []NodeState {
	return []NodeState{NodeDraining, NodeForcing, NodeEmpty, NodeParked, NodeRemoving, NodeQuarantined, NodeDrained, NodeGone}
}

// MostGone is how many nodes Record.Gone keeps.
const MostGone = 200

// GoneNode is when a node was drained and disappeared. Its times are truncated to seconds, and zero if the state was
// not seen.
type GoneNode struct {
	Name string `json:"name"`
	Zone string `json:"zone,omitempty"`
	// Began, EmptyAt and Terminated are copied from the NodeRecord.
	Began      time.Time `json:"began"`
	EmptyAt    time.Time `json:"emptyAt,omitzero"`
	Terminated time.Time `json:"terminated,omitzero"`
	// Gone is when the node was first seen to be gone, or to have become current in place.
	Gone time.Time `json:"gone"`
}

// NoteGone adds a node of Nodes to Gone. If Gone is full, it drops the oldest node.
func (r *Record) NoteGone(name string, now time.Time) {
	n := r.Nodes[name]
	gone := GoneNode{
		Name: name, Zone: n.Zone, Began: n.Began.Truncate(time.Second), EmptyAt: n.EmptyAt.Truncate(time.Second),
		Terminated: n.Terminated.Truncate(time.Second), Gone: now.Truncate(time.Second),
	}
	kept := r.Gone[max(0, len(r.Gone)+1-MostGone):]
	r.Gone = append(slices.Clip(kept), gone) // a copy, because clones share the slice
}

// NodeRecord is a node that was started.
type NodeRecord struct {
	UID      types.UID `json:"uid,omitempty"`
	Instance string    `json:"instance,omitempty"`
	Zone     string    `json:"zone,omitempty"`
	State    NodeState `json:"state"`
	// Batch is the number of the node's batch, from 1: nodes are numbered in order of start, Window nodes to a batch.
	Batch    int       `json:"batch"`
	Began    time.Time `json:"began"`
	Deadline time.Time `json:"deadline,omitzero"`
	// Addresses are the addresses of the pods that a drain evicts, if load balancers may send to them.
	Addresses []string `json:"addresses,omitempty"`
	// EmptyAt is when the node was first seen without pods to evict. It is not stored in advance: after a crash the
	// wait for it begins again.
	EmptyAt time.Time `json:"emptyAt,omitzero"`
	// Shrink is true if the termination also lowers the group's size by one.
	Shrink bool `json:"shrink,omitempty"`
	// Earlier is true if the ledger counted the removal of the node as one that was launched before the
	// target moved.
	Earlier bool `json:"earlier,omitempty"`
	// Terminated is when the upgrade decided the termination. Landed is true once the cloud is known to have begun it.
	Terminated time.Time `json:"terminated,omitzero"`
	Landed     bool      `json:"landed,omitempty"`
	// Added is true for a new node that the upgrade gives back. It never counts as removed.
	Added bool `json:"added,omitempty"`
	// Blocked holds the times since which pods of the node have been blocked, by namespace/name. It lists only those
	// that have been blocked for a minute, for status commands on other machines.
	Blocked map[string]time.Time `json:"blocked,omitempty"`
	// BlockedMore counts the pods that have been blocked for as long and are not named in Blocked.
	BlockedMore int `json:"blockedMore,omitempty"`
	// Reason says why the node was quarantined, or which pods it was terminated with.
	Reason string `json:"reason,omitempty"`
}

// IsGivenBack reports whether the node is a new one that is given back, and was never started.
func (n NodeRecord) IsGivenBack() bool { return n.State == NodeRemoving && n.Batch == 0 }

// MatchesMachineOf reports whether the record names the member's machine; true if either names none. The machine of a node
// never changes: if a record names another one, another process wrote it.
func (n NodeRecord) MatchesMachineOf(m *nodegroup.Member) bool {
	return n.Instance == "" || m.Instance.ID == "" || n.Instance == m.Instance.ID
}

// mayBeWithoutNode reports whether the record of a node may belong to a member without one. Only the record names the
// machine then, and other programs can write records. A machine that the cloud does not call outdated is a new one that
// boots, unless it is terminating already.
func (n NodeRecord) mayBeWithoutNode(m *nodegroup.Member) bool {
	return n.UID == "" || n.IsGivenBack() || m.Outdated || m.Instance.State == nodegroup.InstanceLeaving
}

// IsPastDrain reports whether a node in the state needs no further termination.
func IsPastDrain(s NodeState) bool {
	return s == NodeRemoving || s == NodeQuarantined || s == NodeDrained
}

// IsInDrain reports whether a node in the state is being drained, or is empty and in its settle time.
func IsInDrain(s NodeState) bool { return s == NodeDraining || s == NodeForcing || s == NodeEmpty }
