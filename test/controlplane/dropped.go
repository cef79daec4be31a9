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
	// droppedCheck is how often pods are looked for that KWOK has dropped.
	droppedCheck = 2 * time.Second
	// droppedAfter is how long after its binding a pod counts as dropped that was not started.
	droppedAfter = 3 * time.Second
)

// restartDropped has KWOK start the pods that it dropped, until the cluster stops. When it gets a node's lease it lists the node's
// pods, and beside that takes the node into its books. Pods that it sees before are dropped for good (KWOK v0.8.0,
// PodController.need). That happens to pods of DaemonSets, which are bound before their node is Ready. Any change of the
// pod shows it to KWOK again. Pods that it does not start then either have a kubelet that is stopped.
func (c *Cluster) restartDropped() {
	seen := map[types.UID]time.Time{}
	wait.Until(func() {
		ctx, cancel := context.WithTimeout(context.Background(), droppedCheck)
		defer cancel()
		c.touchDropped(ctx, seen)
	}, droppedCheck, c.stopping)
}

// touchDropped annotates, once each, the pods of DaemonSets that are bound and were not started since they were first
// seen. seen is when that was; the zero time for those that are annotated.
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
		seen[pod.UID] = time.Time{}
		touch := []byte(`{"metadata":{"annotations":{"test.kubectl-nodeupgrade/touched":"` + now.Format(time.RFC3339) + `"}}}`)
		_, _ = c.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, touch, metav1.PatchOptions{})
	}
}
