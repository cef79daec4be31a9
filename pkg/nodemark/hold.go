package nodemark

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// AnnotationNoScaleDown with the value "true" prevents cluster-autoscaler from removing a node (cluster-autoscaler's
	// FAQ, "How can I prevent Cluster Autoscaler from scaling down a particular node?").
	AnnotationNoScaleDown = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
	// AnnotationHeld has the run that set AnnotationNoScaleDown. Without it another process set that annotation.
	AnnotationHeld = Domain + "/scale-down-disabled"
)

// SetHold sets the hold. A node with its own AnnotationNoScaleDown is not changed.
func SetHold(node *corev1.Node, run string) {
	if _, theirs := node.Annotations[AnnotationNoScaleDown]; theirs {
		return
	}
	metav1.SetMetaDataAnnotation(&node.ObjectMeta, AnnotationNoScaleDown, "true")
	metav1.SetMetaDataAnnotation(&node.ObjectMeta, AnnotationHeld, run)
}

// ClearHold removes the hold, and keeps annotations that another process set or changed.
func ClearHold(node *corev1.Node) {
	if !IsHeld(node) {
		return
	}
	if node.Annotations[AnnotationNoScaleDown] == "true" {
		delete(node.Annotations, AnnotationNoScaleDown)
	}
	delete(node.Annotations, AnnotationHeld)
	if node.Annotations[AnnotationRun] == "" { // a fence still needs them
		delete(node.Annotations, AnnotationGroupBaseline)
		delete(node.Annotations, AnnotationOwner)
	}
}

// IsHeld reports whether the node has our hold.
func IsHeld(node *corev1.Node) bool {
	_, ours := node.Annotations[AnnotationHeld]
	return ours
}

// AllowsScaleDown reports whether the node has no scale-down annotation and no hold of ours.
func AllowsScaleDown(node *corev1.Node) bool {
	_, said := node.Annotations[AnnotationNoScaleDown]
	return !said && !IsHeld(node) // a removed annotation is not set again
}
