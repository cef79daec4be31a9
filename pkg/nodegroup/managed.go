package nodegroup

import "time"

// Managed is what a group's own cloud does with it when it is asked to upgrade the group; nil for a
// group whose nodes this tool replaces itself.
type Managed struct {
	// MaxUnavailable is how many nodes the cloud takes out of service at once: nodes, or percent of
	// the group (EKS E04, E07).
	MaxUnavailable Quantity
	// TerminateFirst tells that the cloud terminates a node before it launches another, and adds
	// none before that (EKS E09, MINIMAL).
	TerminateFirst bool
	// ChangeWidth is the command that changes MaxUnavailable. AddFirst is the command that makes the cloud
	// add a new node before it terminates an old one; "" if the cloud already does so.
	ChangeWidth, AddFirst string
	// Operation is the newest operation of the cloud on the group, whoever began it; the zero
	// Operation if there was none.
	Operation Operation
}

// Operation is one change of a group that its cloud carries out by itself.
type Operation struct {
	// ID is the cloud's name for it.
	ID    string         `json:"id"`
	State OperationState `json:"state"`
	// To is what an upgrade moves the group to; its ID is that of Group.Wanted where that is asked
	// for. It is zero for an operation of another kind.
	To Revision `json:"to,omitzero"`
	// Kind is what the cloud calls it: "VersionUpdate".
	Kind string `json:"kind"`
	// Began is when it was begun, by the cloud's clock.
	Began time.Time `json:"began,omitzero"`
	// Force tells that pods are deleted that are left when a node's time is over (EKS E43).
	Force bool `json:"force,omitempty"`
	// Code and Failure say why it failed: the cloud's own code, and cause and remedy in one line.
	Code    string `json:"code,omitempty"`
	Failure string `json:"failure,omitempty"`
	// Resources are the nodes or machines that a failure names.
	Resources []string `json:"resources,omitempty"`
}

// OperationState is where an operation of a cloud is.
type OperationState string

// The states of an operation.
const (
	OperationRunning   OperationState = "running"
	OperationSucceeded OperationState = "succeeded"
	OperationFailed    OperationState = "failed"
	OperationCancelled OperationState = "cancelled"
)

// IsUpgrade reports whether the operation replaces the group's nodes.
func (o *Operation) IsUpgrade() bool { return o.To.ID != "" }

// Delegate has the group's own cloud upgrade it.
type Delegate struct {
	To Revision
	// Force has pods deleted that are left when a node's time is over (EKS E43).
	Force bool
	// Token makes a repeated request one request.
	Token string
}

// Key implements Action.
func (a Delegate) Key() string { return "delegate/" + a.Token }

// String implements Action.
func (a Delegate) String() string { return "have the cloud upgrade the group to " + a.To.Name }
