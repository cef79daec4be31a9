package upgrade

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Action says one thing to one object. It is a value: it can be compared, printed,
// stored and done again. Destructive actions name the UID, the resourceVersion or
// the instance they were decided on.
type Action interface {
	// Key names the action among those that may be open at once; two actions with one key are the same action.
	Key() string
	// String says the action to a person: "evict pod shop/cart-0".
	String() string
}

// SetRevision points the group at a revision, making it first where the provider needs that.
type SetRevision struct {
	To Revision
	// Token makes a repeated request one request.
	Token string
}

// Quiesce suspends processes of the provider that would fight the upgrade; Resume ends that for those we suspended.
type Quiesce struct{ Processes []string }

// Resume lets processes run again that Quiesce suspended.
type Resume struct{ Processes []string }

// RaiseMax raises the group's maximum size to Max; LowerMax takes the raise back, never below the desired size.
type RaiseMax struct{ From, Max int }

// LowerMax lowers the group's maximum size to Max.
type LowerMax struct{ From, Max int }

// AddCapacity adds N nodes, in Zone where the provider can; Zone "" raises the group as a whole, its desired size from
// Desired and its maximum from Max by N each.
type AddCapacity struct {
	Zone         string
	N            int
	Desired, Max int
	Token        string
}

// Fence makes the node take no new pods: taint and spec.unschedulable in one patch.
type Fence struct {
	Node    string
	UID     types.UID
	Version string
	// Before is what AnnotationBefore is to say.
	Before string
}

// Unfence takes away of the fence, the load-balancer label and our annotations what was not there before us.
type Unfence struct {
	Node    string
	UID     types.UID
	Version string
}

// HoldNode has autoscalers leave a new node alone while the upgrade is under way.
type HoldNode struct {
	Node    string
	UID     types.UID
	Version string
	// Before is what AnnotationBefore is to say.
	Before string
}

// FreeNode ends that.
type FreeNode struct {
	Node    string
	UID     types.UID
	Version string
}

// StartDrain writes the drain's deadline on the node and takes it out of external load balancers.
type StartDrain struct {
	Node     string
	UID      types.UID
	Version  string
	Deadline time.Time
}

// Evict asks the eviction API to remove one pod.
type Evict struct {
	Namespace, Pod string
	UID            types.UID
	Node           string
	// BudgetVersion is the resourceVersion of the budget that the prediction rested on.
	BudgetVersion string
	// Budget is the budget the eviction spends from; empty when it spends nothing.
	Budget types.NamespacedName
}

func (a Evict) podName() types.NamespacedName {
	return types.NamespacedName{Namespace: a.Namespace, Name: a.Pod}
}

// Delete removes one pod past its budget; only --on-timeout=force leads here. The pod keeps its own grace period.
type Delete struct {
	Namespace, Pod string
	UID            types.UID
	Node           string
}

// Terminate ends one instance; Shrink lowers the group's desired size with it.
type Terminate struct {
	Instance string
	Node     string
	Shrink   bool
}

// DeleteNode removes the Node object of a machine that is gone.
type DeleteNode struct {
	Node string
	UID  types.UID
}

// Key implements Action.
func (a SetRevision) Key() string { return "set-revision/" + a.To.ID }

// Key implements Action.
func (a Quiesce) Key() string { return "quiesce" }

// Key implements Action.
func (a Resume) Key() string { return "resume" }

// Key implements Action.
func (a RaiseMax) Key() string { return fmt.Sprintf("raise-max/%d", a.Max) }

// Key implements Action.
func (a LowerMax) Key() string { return fmt.Sprintf("lower-max/%d", a.Max) }

// Key implements Action.
func (a AddCapacity) Key() string { return "add/" + a.Token }

// Key implements Action.
func (a Fence) Key() string { return "fence/" + string(a.UID) }

// Key implements Action.
func (a Unfence) Key() string { return "unfence/" + string(a.UID) }

// Key implements Action.
func (a HoldNode) Key() string { return "hold/" + string(a.UID) }

// Key implements Action.
func (a FreeNode) Key() string { return "free/" + string(a.UID) }

// Key implements Action.
func (a StartDrain) Key() string { return "start-drain/" + string(a.UID) }

// Key implements Action.
func (a Evict) Key() string { return "evict/" + string(a.UID) }

// Key implements Action.
func (a Delete) Key() string { return "delete/" + string(a.UID) }

// Key implements Action.
func (a Terminate) Key() string { return "terminate/" + a.Instance }

// Key implements Action.
func (a DeleteNode) Key() string { return "delete-node/" + string(a.UID) }

func (a SetRevision) String() string { return "set the group's revision to " + a.To.Name }
func (a Quiesce) String() string     { return "suspend " + strings.Join(a.Processes, ", ") }
func (a Resume) String() string      { return "resume " + strings.Join(a.Processes, ", ") }
func (a RaiseMax) String() string {
	return fmt.Sprintf("raise the group's max from %d to %d", a.From, a.Max)
}

func (a LowerMax) String() string {
	return fmt.Sprintf("lower the group's max from %d to %d", a.From, a.Max)
}

func (a AddCapacity) String() string {
	if a.Zone == "" {
		return fmt.Sprintf("add %d nodes", a.N)
	}
	return fmt.Sprintf("add %d nodes in zone %s", a.N, a.Zone)
}

func (a Fence) String() string      { return "fence node " + a.Node }
func (a Unfence) String() string    { return "unfence node " + a.Node }
func (a HoldNode) String() string   { return "keep autoscalers from node " + a.Node }
func (a FreeNode) String() string   { return "leave node " + a.Node + " to autoscalers" }
func (a StartDrain) String() string { return "start draining node " + a.Node }
func (a Evict) String() string      { return fmt.Sprintf("evict pod %s/%s", a.Namespace, a.Pod) }
func (a Delete) String() string     { return fmt.Sprintf("delete pod %s/%s", a.Namespace, a.Pod) }
func (a DeleteNode) String() string { return "delete the Node object " + a.Node }

func (a Terminate) String() string {
	if a.Shrink {
		return fmt.Sprintf("terminate instance %s and shrink the group by one", a.Instance)
	}
	return "terminate instance " + a.Instance
}

// OfCloud reports whether the action is the provider's to carry out; all others are the cluster's.
func OfCloud(a Action) bool {
	switch a.(type) {
	case SetRevision, Quiesce, Resume, RaiseMax, LowerMax, AddCapacity, Terminate:
		return true
	default:
		return false
	}
}
