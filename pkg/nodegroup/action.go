package nodegroup

import (
	"fmt"
	"strings"
)

// Action is one change of one object. It is a value: it can be compared, printed, stored and repeated. A destructive
// action contains the UID, the resourceVersion or the instance that the decision was based on.
type Action interface {
	// Key identifies the action among all open actions. Two actions with the same key are the same action.
	Key() string
	// String describes the action for people: "evict pod shop/cart-0".
	String() string
}

// SetRevision sets the group's revision. If the provider needs that, the revision is created first.
type SetRevision struct {
	To Revision
	// Token makes repeated requests idempotent.
	Token string
	// Recorded is true if the revision comes from a record, and reading the group does not show it. Then the group's
	// revision is set only if nothing must be created for it.
	Recorded bool
}

// Quiesce suspends processes of the provider that would interfere with the upgrade. Resume resumes them.
type Quiesce struct{ Processes []string }

// Resume resumes processes that Quiesce suspended.
type Resume struct{ Processes []string }

// RaiseMax raises the group's maximum size to Max. LowerMax reverts that, but not below the desired size.
type RaiseMax struct{ From, Max int }

// LowerMax lowers the group's maximum size to Max.
type LowerMax struct{ From, Max int }

// AddCapacity adds N nodes, in Zone if the provider supports that. If Zone is "", it raises the size of the whole
// group by N: the desired size from Desired, and the maximum from Max.
type AddCapacity struct {
	Zone         string
	N            int
	Desired, Max int
	Token        string
}

// Terminate terminates one instance. If Shrink is true, it also lowers the group's desired size.
type Terminate struct {
	Instance string
	Node     string
	Shrink   bool
}

// Key implements Action.
func (a SetRevision) Key() string { return "set-revision/" + a.To.ID }

// String implements Action.
func (a SetRevision) String() string { return "set the group's revision to " + a.To.Name }

// Key implements Action.
func (a Quiesce) Key() string { return "quiesce" }

// String implements Action.
func (a Quiesce) String() string { return "suspend " + strings.Join(a.Processes, ", ") }

// Key implements Action.
func (a Resume) Key() string { return "resume" }

// String implements Action.
func (a Resume) String() string { return "resume " + strings.Join(a.Processes, ", ") }

// Key implements Action.
func (a RaiseMax) Key() string { return fmt.Sprintf("raise-max/%d", a.Max) }

// String implements Action.
func (a RaiseMax) String() string {
	return fmt.Sprintf("raise the group's max from %d to %d", a.From, a.Max)
}

// Key implements Action.
func (a LowerMax) Key() string { return fmt.Sprintf("lower-max/%d", a.Max) }

// String implements Action.
func (a LowerMax) String() string {
	return fmt.Sprintf("lower the group's max from %d to %d", a.From, a.Max)
}

// Key implements Action.
func (a AddCapacity) Key() string { return "add/" + a.Token }

// String implements Action.
func (a AddCapacity) String() string {
	if a.Zone == "" {
		return fmt.Sprintf("add %d nodes", a.N)
	}
	return fmt.Sprintf("add %d nodes in zone %s", a.N, a.Zone)
}

// Key implements Action.
func (a Terminate) Key() string { return "terminate/" + a.Instance }

// String implements Action.
func (a Terminate) String() string {
	if a.Shrink {
		return fmt.Sprintf("terminate instance %s and shrink the group by one", a.Instance)
	}
	return "terminate instance " + a.Instance
}

// IsCloudAction reports whether the provider executes the action. All other actions change the cluster.
func IsCloudAction(a Action) bool {
	switch a.(type) {
	case SetRevision, Quiesce, Resume, RaiseMax, LowerMax, AddCapacity, Terminate, Delegate, CancelOperation, EndSoak:
		return true
	default:
		return false
	}
}
