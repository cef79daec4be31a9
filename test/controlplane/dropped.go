package controlplane

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// droppedCheck is the time between two searches for pods that KWOK has dropped.
	droppedCheck = 2 * time.Second
	// droppedAfter is the time that KWOK has to start a pod. It begins with the first search that finds the pod.
	droppedAfter = 3 * time.Second
)

// restartDropped makes KWOK start the pods that it dropped, until the cluster stops. When KWOK gets a node's lease, it
// lists the node's pods and registers the node at the same time. It ignores pods that it sees before the node is
// registered, and never looks at them again (KWOK v0.8.0, PodController.need). Only pods of DaemonSets are bound so early.
// After any change of the pod, KWOK looks at it again. If it does not start the pod then, the node's kubelet is stopped.
func (c *Cluster) restartDropped() {
	seen := map[types.UID]time.Time{}
	wait.Until(func() {
		ctx, cancel := context.WithTimeout(context.Background(), droppedCheck)
		defer cancel()
		c.touchDropped(ctx, seen)
	}, droppedCheck, c.stopping)
}

// touchDropped annotates each dropped pod once. seen says when a pod was first found; the zero time means that the pod was
// annotated.
func (c *Cluster) touchDropped(ctx context.Context, seen map[types.UID]time.Time) {
	pending := fields.OneTermEqualSelector("status.phase", string(corev1.PodPending)).String()
	pods, err := c.client.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: pending, ResourceVersion: "0"})
	if err != nil {
		return // the API server may be away for a test
	}
	now := time.Now()
	for i := range pods.Items {
		pod := &pods.Items[i]
		owner := metav1.GetControllerOfNoCopy(pod)
		if owner == nil || owner.Kind != "DaemonSet" || pod.Spec.NodeName == "" || pod.Status.StartTime != nil || pod.Annotations[AnnotationTerse] != "" {
			continue
		}
		first, known := seen[pod.UID]
		if !known {
			seen[pod.UID] = now
		}
		if !known || first.IsZero() || now.Sub(first) < droppedAfter {
			continue
		}
		touch := []byte(`{"metadata":{"annotations":{"test.kubectl-nodeupgrade/touched":"` + now.Format(time.RFC3339) + `"}}}`)
		if _, err := c.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, touch, metav1.PatchOptions{}); err == nil {
			seen[pod.UID] = time.Time{} // otherwise the next search tries again
		}
	}
}
