package upgrade

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// Step is what to do about a World.
type Step struct {
	// Notes go into the next World.
	Notes Notes
	// Record is to be stored before the actions when Persist is true.
	Record  Record
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
	// Status is the upgrade as a person wants to see it.
	Status Status
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

// Status is a group's upgrade at one moment.
type Status struct {
	Group string `json:"group"`
	Phase Phase  `json:"phase"`
	// Manager is who replaces the nodes where that is the group's own cloud: "EKS".
	Manager string `json:"manager,omitempty"`
	// Back tells that this is the way back of an upgrade that was rolled back.
	Back     bool      `json:"back,omitempty"`
	Total    int       `json:"total"`
	Replaced int       `json:"replaced"`
	Outdated int       `json:"outdated"`
	Ready    int       `json:"ready"`
	Since    time.Time `json:"since,omitzero"`
	// New counts nodes of the wanted revision that came up during the upgrade, NewReady those fit
	// for pods.
	New      int `json:"new"`
	NewReady int `json:"newReady"`
	// Owed is how many nodes of ours the group still has.
	Owed    int    `json:"owed"`
	Desired int    `json:"desired"`
	Max     int    `json:"max"`
	Zones   string `json:"zones,omitempty"`
	// Nodes are sorted by Name.
	Nodes   []NodeStatus `json:"nodes,omitempty"`
	Waiting string       `json:"waiting,omitempty"`
	// Retried is the request that has been tried in vain for longest.
	Retried Retried `json:"retried,omitzero"`
	// Unhealthy are the workloads that do not recover, by Name: no further node is started.
	Unhealthy []Unhealthy `json:"unhealthy,omitempty"`
	// Note says what is done in another way than planned, and why.
	Note string `json:"note,omitempty"`
}

// NodeStatus is one outdated or just replaced node.
type NodeStatus struct {
	Name  string    `json:"name"`
	Zone  string    `json:"zone,omitempty"`
	State NodeState `json:"state"`
	Batch int       `json:"batch,omitempty"`
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
