package controlplane

import (
	"context"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// droppedCheck is the time between two searches for pods that KWOK has dropped.
	droppedCheck = 2 * time.Second
	// droppedAfter is how long KWOK may take to make a pod ready, counted from the first search that finds the pod. After each change
	// by touchDropped, the time begins again and is twice as long.
	droppedAfter = 3 * time.Second
)

// droppedPod is a pod that KWOK has not made ready. touchDropped has waited for it since a time, and waits for as long as patience
// says.
type droppedPod struct {
	since    time.Time
	patience time.Duration
}

// restartDropped makes KWOK process the pods that it has dropped, until the cluster stops. It works around a race in KWOK v0.8.0
// (PodController.need, NodeLeaseController.Held). When KWOK gets a node's lease, it lists the node's pods and registers the node at
// the same time. KWOK ignores pods that it sees before the node is registered, and changes that it sees before its cache contains the
// lease. Such a pod stays Pending, or Running and not ready. Only pods of DaemonSets are bound so early. KWOK processes the pod again
// after any change of the pod. On a busy machine it may drop the pod several times. Pods on a node with a stopped kubelet do not
// start.
func (c *Cluster) restartDropped() {
	seen := map[types.UID]droppedPod{}
	wait.Until(func() {
		ctx, cancel := context.WithTimeout(context.Background(), droppedCheck)
		defer cancel()
		c.touchDropped(ctx, seen)
	}, droppedCheck, c.stopping)
}

// touchDropped changes an annotation of each pod that KWOK has not made ready in time. seen contains the pods of earlier searches.
func (c *Cluster) touchDropped(ctx context.Context, seen map[types.UID]droppedPod) {
	pods, err := c.client.CoreV1().Pods("").List(ctx, metav1.ListOptions{LabelSelector: appsv1.ControllerRevisionHashLabelKey, ResourceVersion: "0"})
	if err != nil {
		return // the API server may be down during a test
	}
	now := time.Now()
	for i := range pods.Items {
		pod := &pods.Items[i]
		owner := metav1.GetControllerOfNoCopy(pod)
		if owner == nil || owner.Kind != "DaemonSet" || pod.Spec.NodeName == "" || pod.DeletionTimestamp != nil || podCondition(pod, corev1.PodReady) == corev1.ConditionTrue || pod.Annotations[AnnotationTerse] != "" {
			continue
		}
		found, known := seen[pod.UID]
		if !known {
			readyAfter, _ := time.ParseDuration(pod.Annotations[AnnotationReadyAfter]) // 0 if it has none
			seen[pod.UID] = droppedPod{since: now, patience: droppedAfter + readyAfter}
		}
		if !known || now.Sub(found.since) < found.patience {
			continue
		}
		touch := []byte(`{"metadata":{"annotations":{"test.kubectl-nodeupgrade/touched":"` + now.Format(time.RFC3339) + `"}}}`)
		if _, err := c.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, touch, metav1.PatchOptions{}); err == nil {
			seen[pod.UID] = droppedPod{since: now, patience: 2 * found.patience} // after an error, the next search tries again
		}
	}
}

// podCondition returns the status of the pod's condition; "" if the pod does not have the condition.
func podCondition(pod *corev1.Pod, kind corev1.PodConditionType) corev1.ConditionStatus {
	for _, c := range pod.Status.Conditions {
		if c.Type == kind {
			return c.Status
		}
	}
	return ""
}
