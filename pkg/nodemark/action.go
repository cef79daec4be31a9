package nodemark

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// NodeAction changes one node in place. It is a nodegroup.Action.
type NodeAction interface {
	// Key and String are those of nodegroup.Action.
	Key() string
	String() string
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

// DeleteNode removes the Node object of a machine that is gone.
type DeleteNode struct {
	Node string
	UID  types.UID
}

// Apply implements NodeAction.
func (a Fence) Apply(node *corev1.Node, run string, fence corev1.Taint) error {
	if err := SetFence(node, run, fence); err != nil {
		return err
	}
	SetGroupBaseline(node, a.Before)
	return nil
}

// Apply implements NodeAction.
func (a Unfence) Apply(node *corev1.Node, _ string, fence corev1.Taint) error {
	return ClearFence(node, fence)
}

// Apply implements NodeAction.
func (a HoldNode) Apply(node *corev1.Node, run string, _ corev1.Taint) error {
	SetHold(node, run)
	SetGroupBaseline(node, a.Before)
	return nil
}

// Apply implements NodeAction.
func (a FreeNode) Apply(node *corev1.Node, _ string, _ corev1.Taint) error {
	ClearHold(node)
	return nil
}

// Apply implements NodeAction.
func (a StartDrain) Apply(node *corev1.Node, _ string, _ corev1.Taint) error {
	SetDraining(node, a.Deadline)
	return nil
}

// Key implements nodegroup.Action.
func (a Fence) Key() string { return "fence/" + string(a.UID) }

// Key implements nodegroup.Action.
func (a Unfence) Key() string { return "unfence/" + string(a.UID) }

// Key implements nodegroup.Action.
func (a HoldNode) Key() string { return "hold/" + string(a.UID) }

// Key implements nodegroup.Action.
func (a FreeNode) Key() string { return "free/" + string(a.UID) }

// Key implements nodegroup.Action.
func (a StartDrain) Key() string { return "start-drain/" + string(a.UID) }

// Key implements nodegroup.Action.
func (a DeleteNode) Key() string { return "delete-node/" + string(a.UID) }

func (a Fence) String() string { return "fence node " + a.Node }

func (a Unfence) String() string { return "unfence node " + a.Node }

func (a HoldNode) String() string { return "keep autoscalers from node " + a.Node }

func (a FreeNode) String() string { return "leave node " + a.Node + " to autoscalers" }

func (a StartDrain) String() string { return "start draining node " + a.Node }

func (a DeleteNode) String() string { return "delete the Node object " + a.Node }
