package nodegroup

// Capabilities are what a provider can do with a group. The zero value describes a group that is no
// more than its nodes: only its owner adds and removes machines.
type Capabilities struct {
	// Resize is true if the group has a desired size, a count of nodes. The provider keeps the group at
	// that size, and changes it on request: to add nodes, or to shrink the group with a termination.
	Resize bool `json:"resize"`
	// Bounds is true if the desired size has a minimum and a maximum, and the maximum can be changed.
	Bounds bool `json:"bounds"`
	// ListInstances is true if the provider lists all machines of the group. A node without such a
	// machine is then the object of a machine that is gone.
	ListInstances bool `json:"listInstances"`
	// Terminate is true if the provider terminates a machine on request.
	Terminate bool `json:"terminate"`
	// NameZone is true if a request to add a node can name its zone. Otherwise the provider chooses.
	NameZone bool `json:"nameZone"`
	// Refill is how the nodes that the group loses are replaced.
	Refill Refill `json:"refill,omitempty"`
}

// Refill is how the nodes that a group loses are replaced.
type Refill string

const (
	// RefillByUser is a group to which only its owner adds nodes.
	RefillByUser Refill = ""
	// RefillBySize is a group whose provider launches nodes until the group has its desired size.
	RefillBySize Refill = "by its size"
	// RefillByPods is a group whose provider launches nodes for pending pods, as Karpenter does. The group may get
	// fewer nodes than it lost.
	RefillByPods Refill = "by pods that wait"
)

// FullControl returns the capabilities of a group whose cloud supports everything and keeps the group at its desired
// size.
func FullControl() Capabilities {
	return Capabilities{Resize: true, Bounds: true, ListInstances: true, Terminate: true, NameZone: true, Refill: RefillBySize}
}
