package nodegroup

import (
	"fmt"
	"time"
)

// Managed describes how a group's own cloud upgrades it; nil for a group whose nodes this tool replaces itself. All numbers,
// limits and rules are the cloud's: this tool tells them, forecasts with them and asks for nothing else.
type Managed struct {
	// MaxUnavailable is how many nodes the cloud takes out of service at once: nodes, or percent of
	// the group (EKS E04, E07).
	MaxUnavailable Quantity
	// MaxSurge is how many nodes the cloud adds, at the most, before it terminates the first: nodes, percent of the group, or
	// nodes of each zone. If SurgeCoversUnavailable is true and MaxUnavailable is larger, that number counts instead (EKS E21).
	MaxSurge               Quantity
	SurgeCoversUnavailable bool
	// TerminateFirst tells that the cloud terminates a node before it launches another, and adds
	// none before that (EKS E09, MINIMAL).
	TerminateFirst bool
	// TakesWidth tells that a request may name other numbers than MaxUnavailable and MaxSurge. If it is false, ChangeWidth is
	// the command that changes them. AddFirst is the command that makes the cloud add a new node before it terminates an old
	// one; "" if the cloud already does so.
	TakesWidth            bool
	ChangeWidth, AddFirst string
	// DrainTimeout is how long the cloud tries to drain a node, Settle how long it waits after that (EKS E41, E44).
	DrainTimeout, Settle time.Duration
	// DeletesRest tells that the cloud deletes the pods that are left after DrainTimeout. If it is false, the operation fails,
	// unless the request says Force.
	DeletesRest bool
	// DrawsNodes tells that the cloud replaces the nodes in a random order (EKS E40).
	DrawsNodes bool
	// Looks is how often the cloud looks at a node that it drains.
	Looks time.Duration
	// Cancels tells that the cloud cancels a running operation on request, whoever began it: such an upgrade can be paused.
	Cancels bool
	// Operation is the newest operation of the cloud on the group, whoever began it; the zero
	// Operation if there was none.
	Operation Operation
}

// ResolveSurge returns how many nodes the cloud adds first, at the most, in a group of that many nodes and zones of which
// unavailable may be out of service.
func (m *Managed) ResolveSurge(nodes, zones, unavailable int) int {
	switch surge := m.MaxSurge.ResolveSurge(nodes, zones); {
	case m.TerminateFirst:
		return 0
	case m.SurgeCoversUnavailable:
		return max(surge, unavailable)
	default:
		return surge
	}
}

// Operation is one change of a group that its cloud carries out by itself.
type Operation struct {
	// ID is the cloud's name for it.
	ID string `json:"id"`
	// State says whether it runs, and how it ended.
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
	// Code and Failure say why it failed: the cloud's own code, and cause and remedy in one line. Cause is what failed.
	Code    string       `json:"code,omitempty"`
	Failure string       `json:"failure,omitempty"`
	Cause   FailureCause `json:"-"`
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

// FailureCause is the part of an upgrade at which a cloud's operation failed.
type FailureCause string

// The causes of a failure. The zero value is any other cause.
const (
	// DrainFailed is a node that could not be drained in its time.
	DrainFailed FailureCause = "drain"
	// LaunchFailed is new nodes that did not come up.
	LaunchFailed FailureCause = "launch"
)

// IsUpgrade reports whether the operation replaces the group's nodes.
func (o *Operation) IsUpgrade() bool { return o.To.ID != "" }

// Delegate has the group's own cloud upgrade it.
type Delegate struct {
	To Revision
	// Force has pods deleted that are left when a node's time is over (EKS E43).
	Force bool
	// Width is how many nodes are replaced at once; the zero Width where the group's own numbers count.
	Width Width
	// Token makes a repeated request one request.
	Token string
}

// Width is how many nodes an upgrade takes out of service at once, and how many it adds first.
type Width struct{ MaxUnavailable, MaxSurge int }

// CancelOperation has the group's own cloud cancel its operation. The nodes that it has replaced stay replaced.
type CancelOperation struct{ Operation string }

// Key implements Action.
func (a Delegate) Key() string { return "delegate/" + a.Token }

// String implements Action.
func (a Delegate) String() string { return "have the cloud upgrade the group to " + a.To.Name }

// Key implements Action.
func (a CancelOperation) Key() string { return "cancel/" + a.Operation }

// String implements Action.
func (a CancelOperation) String() string {
	return fmt.Sprintf("have the cloud cancel operation %s", a.Operation)
}
