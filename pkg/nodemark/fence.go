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

// NodeBaseline is what a node had before it was fenced. Removing the fence keeps it.
type NodeBaseline struct {
	Taint         bool `json:"taint,omitempty"`
	Unschedulable bool `json:"unschedulable,omitempty"`
	// Excluded is the value of the load-balancer label; nil without the label.
	Excluded *string `json:"excluded,omitempty"`
}

// SetFence sets the fence: taint and spec.unschedulable together. DaemonSets tolerate only the second by default, and
// cluster-autoscaler takes a group's template from a Ready node that is not cordoned. SetFence also sets the cordon's
// taint. Otherwise the control plane would write it to all nodes at the moment in which all are fenced
// (docs/decisions/0014). What the node had before is kept in an annotation. The annotation of an earlier run stays, and
// an error is returned if it cannot be read.
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
		return fmt.Errorf("writing the earlier state of node %q: %w", node.Name, err)
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

// SetDraining marks the start of the node's drain: it writes the deadline and excludes the node from load balancers
// outside the cluster. A cordon does not exclude it since Kubernetes 1.19 (EKS E46).
func SetDraining(node *corev1.Node, deadline time.Time) {
	metav1.SetMetaDataAnnotation(&node.ObjectMeta, AnnotationDeadline, FormatTime(deadline))
	metav1.SetMetaDataLabel(&node.ObjectMeta, corev1.LabelNodeExcludeBalancers, "true")
}

// SetEpoch changes a node in flight when another process takes over its upgrade. Late requests of the process before then
// fail on the node's resourceVersion.
func SetEpoch(node *corev1.Node, epoch int64) {
	metav1.SetMetaDataAnnotation(&node.ObjectMeta, AnnotationEpoch, strconv.FormatInt(epoch, 10))
}

// ClearFence removes the fence and our annotations, and keeps what the node had before. It returns an error and changes
// nothing if the annotation with the node's baseline cannot be read.
func ClearFence(node *corev1.Node, taint corev1.Taint) error {
	prev, err := readNodeBaseline(node)
	if err != nil || prev == nil {
		return err
	}
	if !prev.Taint {
		removeTaint(node, taint)
	}
	if !prev.Unschedulable {
		node.Spec.Unschedulable = false
		removeTaint(node, CordonTaint())
	}
	if prev.Excluded != nil {
		metav1.SetMetaDataLabel(&node.ObjectMeta, corev1.LabelNodeExcludeBalancers, *prev.Excluded)
	} else {
		delete(node.Labels, corev1.LabelNodeExcludeBalancers)
	}
	for _, key := range []string{AnnotationRun, AnnotationNodeBaseline, AnnotationDeadline, AnnotationEpoch} {
		delete(node.Annotations, key)
	}
	if !IsHeld(node) { // a hold still needs them
		delete(node.Annotations, AnnotationGroupBaseline)
		delete(node.Annotations, AnnotationOwner)
	}
	return nil
}

// IsCordonedByOthers reports whether another process cordoned the node, before its fence or without one. If the node's
// baseline cannot be read, any cordon counts.
func IsCordonedByOthers(node *corev1.Node) bool {
	prev, err := readNodeBaseline(node)
	switch {
	case err != nil || prev == nil:
		return node.Spec.Unschedulable
	default:
		return prev.Unschedulable
	}
}

// CordonTaint returns the taint that the control plane sets on cordoned nodes.
func CordonTaint() corev1.Taint {
	return corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}
}

// HasTaint reports whether the node has a taint with the key and effect.
func HasTaint(node *corev1.Node, taint corev1.Taint) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.MatchTaint(&taint) })
}

func addTaint(node *corev1.Node, taint corev1.Taint) {
	if !HasTaint(node, taint) {
		node.Spec.Taints = append(slices.Clone(node.Spec.Taints), taint)
	}
}

func removeTaint(node *corev1.Node, taint corev1.Taint) {
	node.Spec.Taints = slices.DeleteFunc(slices.Clone(node.Spec.Taints), func(t corev1.Taint) bool { return t.MatchTaint(&taint) })
}

// readNodeBaseline returns what the node had before its fence, or nil if it was never fenced. If another process removed
// the annotation from a fenced node, the baseline is empty.
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
