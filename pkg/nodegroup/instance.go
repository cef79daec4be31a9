package nodegroup

// InstanceState is the state of a machine.
type InstanceState string

// The states of an instance. A provider maps its own states to these, and unknown ones to InstanceUnknown.
const (
	InstancePending   InstanceState = "Pending"
	InstanceInService InstanceState = "InService"
	InstanceLeaving   InstanceState = "Terminating"
	InstanceUnknown   InstanceState = "Unknown"
	// InstanceStandby is an instance that its owner has taken out of service to inspect it. It does not count in the
	// group's size, and upgrades do not touch it.
	InstanceStandby InstanceState = "Standby"
)

// Instance is one machine of the group.
type Instance struct {
	ID       string
	Zone     string
	State    InstanceState
	Revision Revision
	// Outdated is true if the instance's revision is not Group.Wanted, according to the provider. Why is the
	// difference.
	Outdated bool
	Why      string
	// Protected is true if the instance's owner has protected it against termination.
	Protected bool
	// DeletesRest is true if the cloud limits the drain of this instance and then deletes the pods that are left, so that no pod
	// keeps the cloud from beginning with it. It is for clouds with Managed.PassesOver.
	DeletesRest bool
}

// mustBeReplaced reports whether the instance is outdated and part of the group's size.
func (i *Instance) mustBeReplaced() bool { return i.Outdated && i.State != InstanceStandby }

// mayServe reports whether the instance's state allows its node to take pods.
func (i *Instance) mayServe() bool {
	return i.State != InstancePending && i.State != InstanceLeaving && i.State != InstanceStandby
}
