package nodegroup

import (
	"fmt"
	"strings"
)

// Action says one thing to one object. It is a value: it can be compared, printed,
// stored and done again. Destructive actions name the UID, the resourceVersion or
// the instance they were decided on.
type Action interface {
	// Key names the action among those that may be open at once; two actions with one key are the
	// same action.
	Key() string
	// String says the action to a person: "evict pod shop/cart-0".
	String() string
}

// SetRevision points the group at a revision, making it first where the provider needs that.
type SetRevision struct {
	To Revision
	// Token makes a repeated request one request.
	Token string
	// Recorded tells that a record names the revision, which no reading of the group shows: the
	// group is pointed there only if nothing has to be made for it.
	Recorded bool
}

// Quiesce suspends processes of the provider that would fight the upgrade; Resume ends that for
// those we suspended.
type Quiesce struct{ Processes []string }

// Resume lets processes run again that Quiesce suspended.
type Resume struct{ Processes []string }

// RaiseMax raises the group's maximum size to Max; LowerMax takes the raise back, never below the
// desired size.
type RaiseMax struct{ From, Max int }

// LowerMax lowers the group's maximum size to Max.
type LowerMax struct{ From, Max int }

// AddCapacity adds N nodes, in Zone where the provider can; Zone "" raises the group as a whole,
// its desired size from Desired and its maximum from Max by N each.
type AddCapacity struct {
	Zone         string
	N            int
	Desired, Max int
	Token        string
}

// Terminate ends one instance; Shrink lowers the group's desired size with it.
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

// OfCloud reports whether the action is the provider's to carry out; all others are the cluster's.
func OfCloud(a Action) bool {
	switch a.(type) {
	case SetRevision, Quiesce, Resume, RaiseMax, LowerMax, AddCapacity, Terminate, Delegate, CancelOperation:
		return true
	default:
		return false
	}
}
