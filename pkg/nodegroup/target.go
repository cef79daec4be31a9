package nodegroup

import "time"

// TargetGroup is a list of machines or addresses that a load balancer sends to.
type TargetGroup struct {
	// ID is the provider's name for it, with AWS its ARN; Name is for people.
	ID, Name string
	// Delay is how long the load balancer keeps the connections of a target that is taken out.
	Delay time.Duration
	// Bound tells that a controller in the cluster takes nodes or pods out of it when they are
	// about to leave. Out of others the provider takes a machine when it is asked to terminate it,
	// and waits until the load balancer has let go.
	Bound bool
}

// Target is one machine or address that a load balancer sends to, or did.
type Target struct {
	Group TargetGroup
	// ID is an instance's ID or an IP address.
	ID string
	// Draining tells that it was taken out, and that the load balancer keeps its connections still.
	Draining bool
}

// Key tells targets apart.
func (t *Target) Key() string { return t.Group.ID + " " + t.ID }

// Targets are the targets of the nodes in drain, as they were read last.
type Targets struct {
	// Groups are the target groups that are looked at; none where they are not known.
	Groups []TargetGroup
	// Observed is when they were asked, zero for never.
	Observed time.Time
	// List are targets of the groups; those of other nodes need not be among them.
	List []Target
}
