package record

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// withoutObserved is the node without what a later look shows again: that it is empty, and that its
// machine is on its way out.
func (n NodeRecord) withoutObserved() NodeRecord {
	if n.State == NodeEmpty {
		n.State = NodeDraining
	}
	n.EmptyAt, n.Landed = time.Time{}, false
	return n
}

// NodeState is where a node that was started is.
type NodeState string

// The states a started node is recorded in. Pending and Fenced are seen on the node itself.
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

// NodeStates are the states that a started node is recorded in.
func NodeStates() []NodeState {
	return []NodeState{NodeDraining, NodeForcing, NodeEmpty, NodeParked, NodeRemoving, NodeQuarantined, NodeDrained, NodeGone}
}

// MostGone is how many nodes Record.Gone keeps.
const MostGone = 200

// GoneNode tells when a node was drained and went. Its times are cut to seconds, and zero where a state was not seen.
type GoneNode struct {
	Name string `json:"name"`
	Zone string `json:"zone,omitempty"`
	// Began, EmptyAt and Terminated are those of the NodeRecord.
	Began      time.Time `json:"began"`
	EmptyAt    time.Time `json:"emptyAt,omitzero"`
	Terminated time.Time `json:"terminated,omitzero"`
	// Gone is when the node was seen to be gone, or to be current in the place of the outdated one.
	Gone time.Time `json:"gone"`
}

// NoteGone adds a node of Nodes to Gone. Without room the oldest one leaves.
func (r *Record) NoteGone(name string, now time.Time) {
	n := r.Nodes[name]
	gone := GoneNode{
		Name: name, Zone: n.Zone, Began: n.Began.Truncate(time.Second), EmptyAt: n.EmptyAt.Truncate(time.Second),
		Terminated: n.Terminated.Truncate(time.Second), Gone: now.Truncate(time.Second),
	}
	kept := r.Gone[max(0, len(r.Gone)+1-MostGone):]
	r.Gone = append(slices.Clip(kept), gone) // a copy: others have the slice
}

// NodeRecord is a node that was started.
type NodeRecord struct {
	UID      types.UID `json:"uid,omitempty"`
	Instance string    `json:"instance,omitempty"`
	Zone     string    `json:"zone,omitempty"`
	State    NodeState `json:"state"`
	// Batch is the node's number in order of start ÷ window, from 1.
	Batch    int       `json:"batch"`
	Began    time.Time `json:"began"`
	Deadline time.Time `json:"deadline,omitzero"`
	// Addresses are those of the pods that a drain moves, where load balancers may send to them.
	Addresses []string `json:"addresses,omitempty"`
	// EmptyAt is when the last pod was seen to be gone. It is not written ahead: a crash starts the
	// wait for it again.
	EmptyAt time.Time `json:"emptyAt,omitzero"`
	// Shrink is how the instance is terminated: with the group's size lowered by one, or not.
	Shrink bool `json:"shrink,omitempty"`
	// Earlier is true if the ledger counted the removal of the node as one that was launched before the
	// target moved.
	Earlier bool `json:"earlier,omitempty"`
	// Terminated is when the termination was decided; Landed that the cloud is known to have begun
	// it.
	Terminated time.Time `json:"terminated,omitzero"`
	Landed     bool      `json:"landed,omitempty"`
	// Added tells that it is a new node that the upgrade gives back; it never counted as removed.
	Added bool `json:"added,omitempty"`
	// Blocked tells since when pods of the node have been blocked, by namespace/name, of those that
	// have been so for a minute: who looks from elsewhere knows it by that.
	Blocked map[string]time.Time `json:"blocked,omitempty"`
	// BlockedMore counts the pods that have been blocked for as long and are not named in Blocked.
	BlockedMore int `json:"blockedMore,omitempty"`
	// Reason says why the node was quarantined, or which pods it was terminated with.
	Reason string `json:"reason,omitempty"`
}

// IsGivenBack reports whether the node is a new one that is given back: it was never started.
func (n NodeRecord) IsGivenBack() bool { return n.State == NodeRemoving && n.Batch == 0 }

// IsMachineOf reports whether the record names the member's machine, as far as both name one. A
// machine never changes under a node: a record that names another was written by another actor.
func (n NodeRecord) IsMachineOf(m *nodegroup.Member) bool {
	return n.Instance == "" || m.Instance.ID == "" || n.Instance == m.Instance.ID
}

// mayBeWithoutNode reports whether the record of a node may be of a member that has none. Nothing but the
// record names the machine then, and others can write records: a machine that the cloud does not call
// outdated is a new one that boots, unless it ends already.
func (n NodeRecord) mayBeWithoutNode(m *nodegroup.Member) bool {
	return n.UID == "" || n.IsGivenBack() || m.Outdated || m.Instance.State == nodegroup.InstanceLeaving
}

// IsEnding reports whether a node in the state is no longer to be terminated.
func IsEnding(s NodeState) bool { return s == NodeRemoving || s == NodeQuarantined || s == NodeDrained }

// IsInDrain reports whether a node in the state is being drained, or is empty and settles.
func IsInDrain(s NodeState) bool { return s == NodeDraining || s == NodeForcing || s == NodeEmpty }
