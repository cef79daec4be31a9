package record

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
)

// Retried is a request that is tried again and again; the zero value is none.
type Retried struct {
	// Action is the request in words, Detail the last answer to it.
	Action string `json:"action"`
	Detail string `json:"detail"`
	// Since is when it was asked for first.
	Since time.Time `json:"since"`
	// More counts the other requests that are tried again.
	More int `json:"more,omitempty"`
}

// String says it to a person.
func (r Retried) String() string {
	text := "to " + r.Action + ": " + r.Detail
	if r.More > 0 {
		text += fmt.Sprintf(" (and %d more requests)", r.More)
	}
	return text
}

// Status is a group's upgrade at one moment.
type Status struct {
	// Group is the name of the node group, and Phase the phase of its upgrade.
	Group string `json:"group"`
	Phase Phase  `json:"phase"`
	// Manager is who replaces the nodes where that is the group's own cloud: "EKS".
	Manager string `json:"manager,omitempty"`
	// Back tells that this is the way back of an upgrade that was rolled back.
	Back bool `json:"back,omitempty"`
	// Total counts the nodes that the upgrade replaces. Replaced counts those of them that are gone, or drained where their owner
	// replaces them. Drained counts those of Replaced that are drained and not known to be replaced.
	Total    int `json:"total"`
	Replaced int `json:"replaced"`
	Drained  int `json:"drained,omitempty"`
	// Outdated counts the outdated nodes that the upgrade has not started to drain.
	Outdated int `json:"outdated"`
	// Since is when the phase began.
	Since time.Time `json:"since,omitzero"`
	// GroupCounts is nil if the group was not read. Its fields are left out then.
	*GroupCounts
	// Owed is how many nodes of ours the group still has.
	Owed int `json:"owed"`
	// Zones counts the nodes of each zone, as a text.
	Zones string `json:"zones,omitempty"`
	// Nodes are sorted by Name.
	Nodes []NodeStatus `json:"nodes,omitempty"`
	// Waiting says what the upgrade waits for.
	Waiting string `json:"waiting,omitempty"`
	// Retried is the request that has been tried in vain for longest.
	Retried Retried `json:"retried,omitzero"`
	// Unhealthy are the workloads that do not recover, by Name: no further node is started.
	Unhealthy []Unhealthy `json:"unhealthy,omitempty"`
	// Note says what is done in another way than planned, and why.
	Note string `json:"note,omitempty"`
}

// GroupCounts are the numbers of nodes that are read from the group.
type GroupCounts struct {
	// Ready counts the nodes of the group that are ready.
	Ready int `json:"ready"`
	// New counts the nodes of the target revision that came up during the upgrade. NewReady counts those of them that can run pods.
	New      int `json:"new"`
	NewReady int `json:"newReady"`
	// Desired and Max are the group's desired and maximum size. Both are 0 for a group without a size.
	Desired int `json:"desired"`
	Max     int `json:"max"`
}

// Counted returns the numbers that were read from the group, and zeros if it was not read.
func (s *Status) Counted() GroupCounts {
	if s.GroupCounts == nil {
		return GroupCounts{}
	}
	return *s.GroupCounts
}

// NodeStatus is one outdated or just replaced node.
type NodeStatus struct {
	// Name is the name of the node, and Zone its zone.
	Name string `json:"name"`
	Zone string `json:"zone,omitempty"`
	// State is how far the replacement of the node is.
	State NodeState `json:"state"`
	// Batch is the number of its batch, from 1; it is left out for a node that was not started.
	Batch int `json:"batch,omitempty"`
	// Pods counts those that must still leave, Staying those that go down with the node; both only
	// once the node was started.
	Pods    int `json:"pods"`
	Staying int `json:"staying"`
	// Silent says since when the kubelet of a started node has not reported and what to do, "" where it
	// has: what is to end there does not.
	Silent string `json:"silent,omitempty"`
}

// FindNode returns the status of the named node.
func (s *Status) FindNode(name string) (NodeStatus, bool) {
	i, found := slices.BinarySearchFunc(s.Nodes, name, func(n NodeStatus, name string) int { return strings.Compare(n.Name, name) })
	if !found {
		return NodeStatus{}, false
	}
	return s.Nodes[i], true
}

// Unhealthy is a workload that has fewer ready pods than it should have, and a pod that is late in
// making up for it, or was never created; or one whose last ready pod has to leave while no other can
// become ready.
type Unhealthy struct {
	Workload drain.Workload `json:"-"`
	// Name is the workload's, NAMESPACE/KIND/NAME.
	Name string `json:"name"`
	// Pod is the late pod's name, "" for one that is not there; Node is where it is, "" where no node
	// takes it. Why says what it waits for.
	Pod  string `json:"pod,omitempty"`
	Node string `json:"node,omitempty"`
	Why  string `json:"why"`
	// Ready counts the workload's ready pods, Before those that were before the upgrade, less what
	// its owner scaled away since.
	Ready  int `json:"ready"`
	Before int `json:"before"`
	// Since is when the workload was first seen to lack pods.
	Since time.Time `json:"since"`
}

// String says it in one line.
func (u Unhealthy) String() string {
	if u.Pod == "" {
		return fmt.Sprintf("%s (%d of %d ready): %s", u.Name, u.Ready, u.Before, u.Why)
	}
	at := ""
	if u.Node != "" {
		at = " on node " + u.Node
	}
	return fmt.Sprintf("%s (%d of %d ready): pod %s%s: %s", u.Name, u.Ready, u.Before, u.Pod, at, u.Why)
}
