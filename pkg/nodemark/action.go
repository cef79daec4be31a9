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
	// Target returns the node's version that the decision was based on.
	Target() NodeVersion
	// Apply changes the node. run is the upgrade's run, fence is the taint of the group's provider. It returns an
	// error, and changes nothing, if an annotation of an earlier run cannot be read.
	Apply(node *corev1.Node, run string, fence corev1.Taint) error
}

// NodeVersion identifies a node and its version.
type NodeVersion struct {
	Node    string
	UID     types.UID
	Version string
}

// VersionOf returns the node's current version.
func VersionOf(node *corev1.Node) NodeVersion {
	return NodeVersion{Node: node.Name, UID: node.UID, Version: node.ResourceVersion}
}

// Target implements NodeAction.
func (v NodeVersion) Target() NodeVersion { return v }

// Fence makes the node take no new pods. It sets the taint and spec.unschedulable in one patch.
type Fence struct {
	NodeVersion
	// Before is the new value of AnnotationGroupBaseline.
	Before string
}

// Unfence removes the fence, the load-balancer label and this tool's annotations. It keeps what the node had before
// the fence.
type Unfence struct{ NodeVersion }

// HoldNode stops autoscalers from removing a new node during the upgrade.
type HoldNode struct {
	NodeVersion
	// Before is the new value of AnnotationGroupBaseline.
	Before string
}

// UnholdNode reverts HoldNode.
type UnholdNode struct{ NodeVersion }

// StartDrain writes the drain's deadline on the node and excludes the node from external load balancers.
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
func (a UnholdNode) Apply(node *corev1.Node, _ string, _ corev1.Taint) error {
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
func (a UnholdNode) Key() string { return "free/" + string(a.UID) }

// Key implements nodegroup.Action.
func (a StartDrain) Key() string { return "start-drain/" + string(a.UID) }

// Key implements nodegroup.Action.
func (a DeleteNode) Key() string { return "delete-node/" + string(a.UID) }

func (a Fence) String() string { return "fence node " + a.Node }

func (a Unfence) String() string { return "unfence node " + a.Node }

func (a HoldNode) String() string { return "keep autoscalers from node " + a.Node }

func (a UnholdNode) String() string { return "leave node " + a.Node + " to autoscalers" }

func (a StartDrain) String() string { return "start draining node " + a.Node }

func (a DeleteNode) String() string { return "delete the Node object " + a.Node }
