package nodegroup

import (
	"fmt"
	"time"
)

// Managed describes how a group's own cloud upgrades it. It is nil for a group whose nodes this tool replaces. All
// numbers, limits and rules are the cloud's. This tool reports them, uses them for forecasts, and requests nothing
// else.
type Managed struct {
	// MaxUnavailable is how many nodes the cloud takes out of service at the same time: a number of nodes, or a
	// percentage of the group (EKS E04, E07).
	MaxUnavailable Quantity
	// MaxSurge is the largest number of nodes that the cloud adds before it terminates the first: a number of nodes,
	// a percentage of the group, or nodes of each zone. If SurgeCoversUnavailable is true and MaxUnavailable is
	// larger, MaxUnavailable counts instead (EKS E21).
	MaxSurge               Quantity
	SurgeCoversUnavailable bool
	// TerminateFirst is true if the cloud terminates a node before it launches another one (EKS E09, MINIMAL).
	TerminateFirst bool
	// TakesWidth is true if a request may contain other numbers than MaxUnavailable and MaxSurge. If it is false,
	// ChangeWidth is the command that changes them. AddFirst is the command that makes the cloud add a new node
	// before it terminates an old one; "" if the cloud already does so.
	TakesWidth            bool
	ChangeWidth, AddFirst string
	// Rollout is how the cloud replaces the nodes. TakesRollout is true if a request may name another one, which the group
	// then keeps.
	Rollout      Rollout
	TakesRollout bool
	// ByItself is set if the cloud begins by itself and takes no request to begin: what a user does instead of starting an
	// upgrade.
	ByItself string
	// DrainTimeout is how long the cloud tries to drain a node, EndlessDrain if it never gives up. Settle is how long it waits
	// after that (EKS E41, E44).
	DrainTimeout, Settle time.Duration
	// PassesOver is true if the cloud does not begin to drain a node while a pod on it cannot be evicted, or while an
	// annotation of the node or of a pod asks to keep it. It then continues with other nodes.
	PassesOver bool
	// Halted is why the cloud replaces no node of the group now, although its budgets and pods allow it; "" if nothing is known.
	Halted string
	// Pace is set if the number of nodes changes with time: the present number and its changes as far as they are known, in
	// the order of their times. MaxUnavailable is then the first of them that is not 0, and 0 if there is none.
	Pace []Pace
	// MaxGrace is the longest grace period that the cloud gives a pod; 0 if the group does not set it.
	MaxGrace time.Duration
	// Maintenance is when the cloud upgrades the group by itself; nil if that was not read.
	Maintenance *Maintenance
	// DeletesRest is true if the cloud deletes the pods that are left after DrainTimeout. If it is false, the
	// operation fails, unless the request has Force.
	DeletesRest bool
	// RollsInSlots is true if each of the nodes that a surge replaces at once is gone before the next one begins (GKE G12, G16).
	RollsInSlots bool
	// DrawsNodes is true if the cloud replaces the nodes in a random order (EKS E40).
	DrawsNodes bool
	// PollInterval is how often the cloud checks a node that it drains.
	PollInterval time.Duration
	// Cancels is true if the cloud can cancel a running operation, no matter who began it. Such an upgrade can be
	// paused.
	Cancels bool
	// RollsBack is true if the cloud takes the nodes that a cancelled or failed operation has replaced back to the earlier
	// revision (GKE G28). It is only for clouds with Cancels.
	RollsBack bool
	// EndsSoaks is true if the cloud ends the soak of a running operation early on request (GKE G52).
	EndsSoaks bool
	// Etag is the version of the group's settings when it was read; "" if the cloud has tokens that make requests
	// idempotent. See Delegate.Etag.
	Etag string
	// Operation is the cloud's most recent operation on the group, no matter who began it. It is the zero Operation
	// if there was none.
	Operation Operation
}

// EndlessDrain is the drain timeout of a cloud that waits for the pods of a node without end.
const EndlessDrain = 30 * 24 * time.Hour

// Pace is how many nodes, from a time on, the cloud takes out of service at the same time. 0 is none.
type Pace struct {
	From           time.Time
	MaxUnavailable int
}

// Rollout is how a cloud replaces the nodes of a group. The zero Rollout replaces them one after the other, or as many at
// once as the width says.
type Rollout struct {
	// Strategy is the name of one of record.Strategies: "blue-green". "" is a surge.
	Strategy string
	// Batch is how many nodes a blue-green upgrade drains together: a number of nodes, or a percentage of the group.
	// BatchSoak is how long the upgrade waits after each batch. Soak is how long it keeps the outdated nodes after the last
	// batch, before they are deleted (GKE G45–G49).
	Batch           Quantity
	BatchSoak, Soak time.Duration
	// WaitForDrain is how long an autoscaled blue-green upgrade waits before it drains outdated nodes (GKE G71).
	WaitForDrain time.Duration
}

// ResolveSurge returns the largest number of nodes that the cloud adds first, in a group of that many nodes and
// zones. unavailable is how many nodes may be out of service.
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

// Operation is a change of a group that its cloud executes.
type Operation struct {
	// ID is the cloud's ID of the operation.
	ID string `json:"id"`
	// State is whether the operation runs, and how it ended.
	State OperationState `json:"state"`
	// To is the target of an upgrade, and is zero for other operations. Its ID is that of Group.Wanted if the upgrade
	// has the same target.
	To Revision `json:"to,omitzero"`
	// Kind is the cloud's name for this kind of operation: "VersionUpdate".
	Kind string `json:"kind"`
	// Stage is how far a running operation is, as the cloud reports it: "3 of 10 nodes done". It may be "".
	Stage string `json:"stage,omitempty"`
	// Replaced is how many nodes it has replaced already, as far as the provider shows that: current nodes that were created
	// since it began.
	Replaced int `json:"replaced,omitempty"`
	// Cancelling is true if the cloud is cancelling the operation.
	Cancelling bool `json:"cancelling,omitempty"`
	// Soaks is true while the cloud keeps the outdated nodes, which it has drained (GKE G49). Deletes is true once it deletes
	// them (GKE G53).
	Soaks   bool `json:"soaks,omitempty"`
	Deletes bool `json:"deletes,omitempty"`
	// SoaksUntil is the end of the soak; zero if nothing soaks or the end is not known.
	SoaksUntil time.Time `json:"soaksUntil,omitzero"`
	// Began is when it began, by the cloud's clock.
	Began time.Time `json:"began,omitzero"`
	// Force is true if the cloud deletes pods that are left at the end of a node's drain timeout (EKS E43).
	Force bool `json:"force,omitempty"`
	// Code is the cloud's code of the failure. Failure is its cause and remedy in one line. Cause is the step that
	// failed.
	Code    string       `json:"code,omitempty"`
	Failure string       `json:"failure,omitempty"`
	Cause   FailureCause `json:"-"`
	// Resources are the nodes or machines that the failure mentions.
	Resources []string `json:"resources,omitempty"`
}

// OperationState is the state of a cloud's operation.
type OperationState string

// The states of an operation.
const (
	OperationRunning   OperationState = "running"
	OperationSucceeded OperationState = "succeeded"
	OperationFailed    OperationState = "failed"
	OperationCancelled OperationState = "cancelled"
)

// FailureCause is the step at which a cloud's operation failed.
type FailureCause string

// The causes of a failure. The zero value is any other cause.
const (
	// DrainFailed means that a node could not be drained in time.
	DrainFailed FailureCause = "drain"
	// LaunchFailed means that new nodes did not start.
	LaunchFailed FailureCause = "launch"
)

// IsUpgrade reports whether the operation replaces the group's nodes.
func (o *Operation) IsUpgrade() bool { return o.To.ID != "" }

// Delegate requests that the group's own cloud upgrades the group.
type Delegate struct {
	To Revision
	// Force makes the cloud delete pods that are left at the end of a node's drain timeout (EKS E43).
	Force bool
	// Width is how many nodes are replaced at the same time. With the zero Width, the group's own numbers are used.
	Width Width
	// Rollout is how the cloud replaces the nodes. With the zero Rollout, the group's own is used.
	Rollout Rollout
	// Rollback is true if To is the revision that the group had before its last operation, which was cancelled or failed.
	// If the cloud would take the group elsewhere, the provider starts an upgrade to To instead.
	Rollback bool
	// Token makes repeated requests idempotent.
	Token string
	// Etag is Managed.Etag of the reading on which the request is based. A cloud that has no tokens refuses the request if
	// the group has changed since, so that a repeated request starts no second operation.
	Etag string
}

// Width is how many nodes an upgrade takes out of service at the same time, and how many it adds first.
type Width struct{ MaxUnavailable, MaxSurge int }

// CancelOperation requests that the group's own cloud cancels its operation. Nodes that are already replaced stay
// replaced.
type CancelOperation struct{ Operation string }

// EndSoak requests that the group's own cloud ends the soak of its operation, and deletes the outdated nodes (GKE G52).
type EndSoak struct{ Operation string }

// Key implements Action.
func (a Delegate) Key() string { return "delegate/" + a.Token }

// String implements Action.
func (a Delegate) String() string {
	if a.Rollback {
		return "start the cloud's rollback of the group to " + a.To.Name
	}
	return "start the cloud's upgrade of the group to " + a.To.Name
}

// Key implements Action.
func (a CancelOperation) Key() string { return "cancel/" + a.Operation }

// String implements Action.
func (a CancelOperation) String() string {
	return fmt.Sprintf("cancel the cloud's operation %s", a.Operation)
}

// Key implements Action.
func (a EndSoak) Key() string { return "end-soak/" + a.Operation }

// String implements Action.
func (a EndSoak) String() string {
	return fmt.Sprintf("end the soak of the cloud's operation %s", a.Operation)
}
