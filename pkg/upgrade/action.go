package upgrade

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain/schedule"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodemark"
)

// NodeAction is an Action that changes one node in place.
type NodeAction interface {
	nodegroup.Action
	// Target is the node at the version that the action was decided on.
	Target() NodeVersion
	// Apply changes the node as the action means it. run names the upgrade, fence is the taint of
	// the group's provider. It returns an error, and changes nothing, when an annotation of an
	// earlier run cannot be read.
	Apply(node *corev1.Node, run string, fence corev1.Taint) error
}

// NodeVersion is a node at one version.
type NodeVersion struct {
	Node    string
	UID     types.UID
	Version string
}

// VersionOf is the node as it is now.
func VersionOf(node *corev1.Node) NodeVersion {
	return NodeVersion{Node: node.Name, UID: node.UID, Version: node.ResourceVersion}
}

// Target implements NodeAction.
func (v NodeVersion) Target() NodeVersion { return v }

// Fence makes the node take no new pods: taint and spec.unschedulable in one patch.
type Fence struct {
	NodeVersion
	// Before is what AnnotationGroupBaseline is to say.
	Before string
}

// Unfence takes away of the fence, the load-balancer label and our annotations what was not there
// before us.
type Unfence struct{ NodeVersion }

// HoldNode has autoscalers leave a new node alone while the upgrade is under way.
type HoldNode struct {
	NodeVersion
	// Before is what AnnotationGroupBaseline is to say.
	Before string
}

// FreeNode ends that.
type FreeNode struct{ NodeVersion }

// StartDrain writes the drain's deadline on the node and takes it out of external load balancers.
type StartDrain struct {
	NodeVersion
	Deadline time.Time
}

// Evict asks the eviction API to remove one pod.
type Evict = schedule.Eviction

// Delete removes one pod past its budget; only --on-timeout=force and the end of a blue-green
// upgrade lead here. The pod keeps its own grace period.
type Delete struct {
	Namespace, Pod string
	UID            types.UID
	Node           string
	// Grace is the pod's grace period instead of its own, in seconds; 0 for its own.
	Grace int64
}

// DeleteNode removes the Node object of a machine that is gone.
type DeleteNode struct {
	Node string
	UID  types.UID
}

// Apply implements NodeAction.
func (a Fence) Apply(node *corev1.Node, run string, fence corev1.Taint) error {
	if err := nodemark.SetFence(node, run, fence); err != nil {
		return err
	}
	nodemark.SetGroupBaseline(node, a.Before)
	return nil
}

// Apply implements NodeAction.
func (a Unfence) Apply(node *corev1.Node, _ string, fence corev1.Taint) error {
	return nodemark.ClearFence(node, fence)
}

// Apply implements NodeAction.
func (a HoldNode) Apply(node *corev1.Node, run string, _ corev1.Taint) error {
	nodemark.SetHold(node, run)
	nodemark.SetGroupBaseline(node, a.Before)
	return nil
}

// Apply implements NodeAction.
func (a FreeNode) Apply(node *corev1.Node, _ string, _ corev1.Taint) error {
	nodemark.ClearHold(node)
	return nil
}

// Apply implements NodeAction.
func (a StartDrain) Apply(node *corev1.Node, _ string, _ corev1.Taint) error {
	nodemark.SetDraining(node, a.Deadline)
	return nil
}

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
func (a Delete) Key() string { return "delete/" + string(a.UID) }

// Key implements Action.
func (a DeleteNode) Key() string { return "delete-node/" + string(a.UID) }

func (a Fence) String() string      { return "fence node " + a.Node }
func (a Unfence) String() string    { return "unfence node " + a.Node }
func (a HoldNode) String() string   { return "keep autoscalers from node " + a.Node }
func (a FreeNode) String() string   { return "leave node " + a.Node + " to autoscalers" }
func (a StartDrain) String() string { return "start draining node " + a.Node }
func (a Delete) String() string     { return fmt.Sprintf("delete pod %s/%s", a.Namespace, a.Pod) }
func (a DeleteNode) String() string { return "delete the Node object " + a.Node }
