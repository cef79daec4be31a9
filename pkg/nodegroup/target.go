package nodegroup

import "time"

// TargetGroup is a list of machines or addresses to which a load balancer sends requests.
type TargetGroup struct {
	// ID is the provider's ID, with AWS the ARN. Name is for people.
	ID, Name string
	// Delay is how long the load balancer keeps the connections of a deregistered target.
	Delay time.Duration
	// Bound is true if a controller in the cluster deregisters nodes or pods before they leave. From other target
	// groups, the provider deregisters a machine when it terminates the machine. It then waits until the load
	// balancer has drained the connections.
	Bound bool
}

// Target is one machine or address to which a load balancer sends requests, or sent them.
type Target struct {
	Group TargetGroup
	// ID is an instance's ID or an IP address.
	ID string
	// Draining is true if the target was deregistered but the load balancer still keeps its connections.
	Draining bool
}

// Key returns a string that identifies the target.
func (t *Target) Key() string { return t.Group.ID + " " + t.ID }

// Targets are the targets of the nodes in drain, as they were last read.
type Targets struct {
	// Groups are the target groups that are read; none if they are not known.
	Groups []TargetGroup
	// Observed is when the targets were read, zero for never.
	Observed time.Time
	// List has targets of the groups. Targets of nodes that are not in drain may be missing.
	List []Target
}
