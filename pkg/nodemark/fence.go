package nodemark

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NodeBaseline is what a node carried before it was fenced; none of it is taken away when the fence
// is.
type NodeBaseline struct {
	Taint         bool `json:"taint,omitempty"`
	Unschedulable bool `json:"unschedulable,omitempty"`
	// Excluded is the value of the load-balancer label, nil without one.
	Excluded *string `json:"excluded,omitempty"`
}

// SetFence changes the node as Fence means it: taint and spec.unschedulable together, because
// DaemonSets tolerate only the second by themselves and cluster-autoscaler takes a group's template
// from a Ready node that is not cordoned. The taint of the cordon comes with it, so that the
// control plane, which would add it, has nothing to write in the moment in which all nodes are
// fenced (docs/decisions/0014). What was there before is kept in an annotation; that of an earlier
// run stays. It returns an error when an earlier run's annotation cannot be read.
func SetFence(node *corev1.Node, run string, taint corev1.Taint) error {
	prev, err := readNodeBaseline(node)
	if err != nil {
		return err
	}
	if prev == nil {
		prev = &NodeBaseline{Taint: HasTaint(node, taint), Unschedulable: node.Spec.Unschedulable}
		if value, ok := node.Labels[corev1.LabelNodeExcludeBalancers]; ok {
			prev.Excluded = &value
		}
	}
	text, err := json.Marshal(prev)
	if err != nil {
		return fmt.Errorf("writing what node %q carried before: %w", node.Name, err)
	}
	metav1.SetMetaDataAnnotation(&node.ObjectMeta, AnnotationRun, run)
	metav1.SetMetaDataAnnotation(&node.ObjectMeta, AnnotationNodeBaseline, string(text))
	delete(node.Annotations, AnnotationDeadline)
	addTaint(node, taint)
	if !node.Spec.Unschedulable {
		addTaint(node, CordonTaint())
	}
	node.Spec.Unschedulable = true
	return nil
}

// SetDraining changes the node as StartDrain means it: the deadline becomes visible, and load
// balancers outside the cluster stop sending to the node. A cordon alone has not done that since
// Kubernetes 1.19 (EKS E46).
func SetDraining(node *corev1.Node, deadline time.Time) {
	metav1.SetMetaDataAnnotation(&node.ObjectMeta, AnnotationDeadline, FormatTime(deadline))
	metav1.SetMetaDataLabel(&node.ObjectMeta, corev1.LabelNodeExcludeBalancers, "true")
}

// SetEpoch changes a node in flight when its upgrade gets another holder, so that late requests of
// the one before fail on the node's resourceVersion.
func SetEpoch(node *corev1.Node, epoch int64) {
	metav1.SetMetaDataAnnotation(&node.ObjectMeta, AnnotationEpoch, strconv.FormatInt(epoch, 10))
}

// ClearFence takes away of all that what was not there before, and all annotations of ours.
// It returns an error, and changes nothing, when the annotation that tells cannot be read.
func ClearFence(node *corev1.Node, taint corev1.Taint) error {
	prev, err := readNodeBaseline(node)
	if err != nil || prev == nil {
		return err
	}
	if !prev.Taint {
		dropTaint(node, taint)
	}
	if !prev.Unschedulable {
		node.Spec.Unschedulable = false
		dropTaint(node, CordonTaint())
	}
	if prev.Excluded != nil {
		metav1.SetMetaDataLabel(&node.ObjectMeta, corev1.LabelNodeExcludeBalancers, *prev.Excluded)
	} else {
		delete(node.Labels, corev1.LabelNodeExcludeBalancers)
	}
	for _, key := range []string{AnnotationRun, AnnotationNodeBaseline, AnnotationDeadline, AnnotationEpoch} {
		delete(node.Annotations, key)
	}
	if !IsHeld(node) { // else they are the hold's, too
		delete(node.Annotations, AnnotationGroupBaseline)
		delete(node.Annotations, AnnotationOwner)
	}
	return nil
}

// WasCordoned reports whether another actor cordoned the node: before its fence, or without one. A
// cordon counts as another actor's where what the node was like before cannot be read.
func WasCordoned(node *corev1.Node) bool {
	prev, err := readNodeBaseline(node)
	switch {
	case err != nil || prev == nil:
		return node.Spec.Unschedulable
	default:
		return prev.Unschedulable
	}
}

// CordonTaint is what the control plane puts on a node that is cordoned, and takes off again.
func CordonTaint() corev1.Taint {
	return corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}
}

// HasTaint reports whether the node has a taint of the key and effect.
func HasTaint(node *corev1.Node, taint corev1.Taint) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.MatchTaint(&taint) })
}

func addTaint(node *corev1.Node, taint corev1.Taint) {
	if !HasTaint(node, taint) {
		node.Spec.Taints = append(slices.Clone(node.Spec.Taints), taint)
	}
}

func dropTaint(node *corev1.Node, taint corev1.Taint) {
	node.Spec.Taints = slices.DeleteFunc(slices.Clone(node.Spec.Taints), func(t corev1.Taint) bool { return t.MatchTaint(&taint) })
}

// readNodeBaseline is what the node says it carried before us, nil when it was never fenced. A
// fenced node whose annotation another actor took away carried nothing: that is what taking it away
// says.
func readNodeBaseline(node *corev1.Node) (*NodeBaseline, error) {
	text, ok := node.Annotations[AnnotationNodeBaseline]
	if !ok {
		if _, fenced := node.Annotations[AnnotationRun]; fenced {
			return &NodeBaseline{}, nil
		}
		return nil, nil
	}
	prev, err := parseNodeBaseline(text)
	if err != nil {
		return nil, &UnreadableError{Node: node.Name, Annotation: AnnotationNodeBaseline, Err: err}
	}
	return &prev, nil
}
