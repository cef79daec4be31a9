package nodemark

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// AnnotationNoScaleDown with the value "true" has cluster-autoscaler leave a node alone
	// (cluster-autoscaler's FAQ, "How can I prevent Cluster Autoscaler from scaling down a
	// particular node?").
	AnnotationNoScaleDown = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
	// AnnotationHeld holds the run that put AnnotationNoScaleDown on the node; without it that
	// annotation is another actor's.
	AnnotationHeld = Domain + "/scale-down-disabled"
)

// SetHold changes the node as HoldNode means it. One that says by itself whether it may be scaled
// down is left as it is.
func SetHold(node *corev1.Node, run string) {
	if _, theirs := node.Annotations[AnnotationNoScaleDown]; theirs {
		return
	}
	metav1.SetMetaDataAnnotation(&node.ObjectMeta, AnnotationNoScaleDown, "true")
	metav1.SetMetaDataAnnotation(&node.ObjectMeta, AnnotationHeld, run)
}

// ClearHold changes the node as FreeNode means it: what is not ours stays, and so does what
// another actor wrote over it.
func ClearHold(node *corev1.Node) {
	if !IsHeld(node) {
		return
	}
	if node.Annotations[AnnotationNoScaleDown] == "true" {
		delete(node.Annotations, AnnotationNoScaleDown)
	}
	delete(node.Annotations, AnnotationHeld)
	if node.Annotations[AnnotationRun] == "" { // else they are the fence's, too
		delete(node.Annotations, AnnotationGroupBaseline)
		delete(node.Annotations, AnnotationOwner)
	}
}

// IsHeld reports whether the node carries a hold of ours.
func IsHeld(node *corev1.Node) bool {
	_, ours := node.Annotations[AnnotationHeld]
	return ours
}

// AllowsScaleDown reports whether nothing on the node says that it is not to be scaled down.
func AllowsScaleDown(node *corev1.Node) bool {
	_, said := node.Annotations[AnnotationNoScaleDown]
	return !said && !IsHeld(node) // whoever took the one away wants it so
}
