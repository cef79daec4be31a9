package nodegroup

// InstanceState is the part of a machine's life that matters here.
type InstanceState string

// The states of an instance. A provider maps its own states to these and everything it does not
// know to InstanceUnknown.
const (
	InstancePending   InstanceState = "Pending"
	InstanceInService InstanceState = "InService"
	InstanceLeaving   InstanceState = "Terminating"
	InstanceUnknown   InstanceState = "Unknown"
)

// Instance is one machine of the group.
type Instance struct {
	ID       string
	Zone     string
	State    InstanceState
	Revision Revision
	// Outdated is the provider's judgement against Group.Wanted; Why says what differs.
	Outdated bool
	Why      string
	// Protected is true for an instance its owner has protected against removal.
	Protected bool
}
