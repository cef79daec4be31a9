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
	// InstanceStandby is an instance that its owner has taken out of service, to look at it: it is
	// no part of the group's size, and left alone.
	InstanceStandby InstanceState = "Standby"
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

// mustBeReplaced reports whether the instance is outdated and part of the group's size.
func (i *Instance) mustBeReplaced() bool { return i.Outdated && i.State != InstanceStandby }

// mayServe reports whether the instance's state lets its node take pods.
func (i *Instance) mayServe() bool {
	return i.State != InstancePending && i.State != InstanceLeaving && i.State != InstanceStandby
}
