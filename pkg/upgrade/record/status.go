package record

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
)

// Retried is a request that is tried repeatedly; the zero value is none.
type Retried struct {
	// Action describes the request, Detail is the last answer to it.
	Action string `json:"action"`
	Detail string `json:"detail"`
	// Since is when the request was first made.
	Since time.Time `json:"since"`
	// More counts the other requests that are tried repeatedly.
	More int `json:"more,omitempty"`
}

// String returns the request in one line.
func (r Retried) String() string {
	text := "to " + r.Action + ": " + r.Detail
	if r.More > 0 {
		text += fmt.Sprintf(" (and %d more requests)", r.More)
	}
	return text
}

// Status is the state of a group's upgrade at one moment.
type Status struct {
	// Group is the name of the node group. Phase is the phase of its upgrade.
	Group string `json:"group"`
	Phase Phase  `json:"phase"`
	// Manager is the service that replaces the nodes, such as "EKS"; it is left out if this tool does.
	Manager string `json:"manager,omitempty"`
	// Back is true if this is a rollback.
	Rollback bool `json:"back,omitempty"`
	// Total counts the nodes that the upgrade replaces. Replaced counts those of them that are gone, or are drained and
	// left for their owner to replace. Drained counts those of Replaced that are drained and not known to be replaced.
	Total    int `json:"total"`
	Replaced int `json:"replaced"`
	Drained  int `json:"drained,omitempty"`
	// Outdated counts the outdated nodes that the upgrade has not started to drain.
	Outdated int `json:"outdated"`
	// Since is when the phase began.
	Since time.Time `json:"since,omitzero"`
	// GroupCounts is nil if the group was not read. Its fields are left out then.
	*GroupCounts
	// Owed is how many nodes the upgrade added and has not given back.
	Owed int `json:"owed"`
	// Zones counts the nodes of each zone, as a text.
	Zones string `json:"zones,omitempty"`
	// Nodes are sorted by Name.
	Nodes []NodeStatus `json:"nodes,omitempty"`
	// Waiting is what the upgrade waits for.
	Waiting string `json:"waiting,omitempty"`
	// Retried is the request that has been tried for longest without effect.
	Retried Retried `json:"retried,omitzero"`
	// Unhealthy are the workloads that do not recover, by Name. No further node is started while there are any.
	Unhealthy []Unhealthy `json:"unhealthy,omitempty"`
	// Note is what the upgrade does differently from the plan, and why.
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

// NodeStatus is the status of an outdated or recently replaced node.
type NodeStatus struct {
	// Name is the name of the node, and Zone its zone.
	Name string `json:"name"`
	Zone string `json:"zone,omitempty"`
	// State is how far the replacement of the node is.
	State NodeState `json:"state"`
	// Batch is the number of its batch, from 1; it is left out for a node that was not started.
	Batch int `json:"batch,omitempty"`
	// Pods counts the pods that must still leave. Staying counts those that end together with the node. Both are
	// counted only once the node was started.
	Pods    int `json:"pods"`
	Staying int `json:"staying"`
	// Silent says since when the kubelet of a started node has not reported, and what to do; "" if it reports. Until it
	// does, pods on the node do not end.
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

// Unhealthy is a workload that has fewer ready pods than it should have, because a pod is late or was never created. It
// may also be a workload whose last ready pod must leave although no other pod can become ready.
type Unhealthy struct {
	Workload drain.Workload `json:"-"`
	// Name is the workload, NAMESPACE/KIND/NAME.
	Name string `json:"name"`
	// Pod is the name of the late pod; "" if it does not exist. Node is its node; "" if no node takes it. Why is what
	// it waits for.
	Pod  string `json:"pod,omitempty"`
	Node string `json:"node,omitempty"`
	Why  string `json:"why"`
	// Ready counts the workload's ready pods. Before counts its ready pods before the upgrade, without those that its
	// owner scaled away since.
	Ready  int `json:"ready"`
	Before int `json:"before"`
	// Since is when the workload was first seen to lack pods.
	Since time.Time `json:"since"`
}

// String returns the workload, the pod and the reason in one line.
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
