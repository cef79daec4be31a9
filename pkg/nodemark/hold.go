package nodemark

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// AnnotationNoScaleDown with the value "true" stops cluster-autoscaler from removing a node (cluster-autoscaler's
	// FAQ, "How can I prevent Cluster Autoscaler from scaling down a particular node?").
	AnnotationNoScaleDown = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
	// AnnotationHeld contains the run that set AnnotationNoScaleDown on the node. Without it, a user or another
	// process set AnnotationNoScaleDown.
	AnnotationHeld = Domain + "/scale-down-disabled"
)

// SetHold changes the node for HoldNode. It does not change a node that already has AnnotationNoScaleDown.
func SetHold(node *corev1.Node, run string) {
	if _, theirs := node.Annotations[AnnotationNoScaleDown]; theirs {
		return
	}
	metav1.SetMetaDataAnnotation(&node.ObjectMeta, AnnotationNoScaleDown, "true")
	metav1.SetMetaDataAnnotation(&node.ObjectMeta, AnnotationHeld, run)
}

// ClearHold changes the node for UnholdNode. It keeps an annotation that this tool did not set, and a value that was
// changed later.
func ClearHold(node *corev1.Node) {
	if !IsHeld(node) {
		return
	}
	if node.Annotations[AnnotationNoScaleDown] == "true" {
		delete(node.Annotations, AnnotationNoScaleDown)
	}
	delete(node.Annotations, AnnotationHeld)
	if node.Annotations[AnnotationRun] == "" { // otherwise the fence needs them, too
		delete(node.Annotations, AnnotationGroupBaseline)
		delete(node.Annotations, AnnotationOwner)
	}
}

// IsHeld reports whether this tool holds the node.
func IsHeld(node *corev1.Node) bool {
	_, ours := node.Annotations[AnnotationHeld]
	return ours
}

// AllowsScaleDown reports whether autoscalers may remove the node: it has neither annotation of a hold.
func AllowsScaleDown(node *corev1.Node) bool {
	_, said := node.Annotations[AnnotationNoScaleDown]
	return !said && !IsHeld(node) // if AnnotationHeld is left, someone removed the other on purpose
}
