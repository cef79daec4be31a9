package upgrade

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// describeEnding names the first terminating pod of the workload and its node, as the end of a sentence. It returns "" if
// there is none.
func (d *decision) describeEnding(w drain.Workload) string {
	var first *corev1.Pod
	var on *nodegroup.Member
	for i := range d.w.Members {
		for _, pod := range d.w.Members[i].Pods {
			if pod.DeletionTimestamp != nil && drain.WorkloadOf(pod) == w && (first == nil || pod.Name < first.Name) {
				first, on = pod, &d.w.Members[i]
			}
		}
	}
	switch {
	case first == nil:
		return ""
	case on.Node != nil && nodegroup.IsSilent(on.Node):
		return fmt.Sprintf(": pod %s on node %s: %s", first.Name, on.Name(), describeUnreachable(on.Node))
	default:
		return fmt.Sprintf(": pod %s on node %s", first.Name, on.Name())
	}
}

// whyMissing returns why the workload has fewer pods than it should have; "" if it has enough, or if its controller may
// create them soon. For an ordered StatefulSet the reason may be the pod with a lower ordinal that is not ready yet.
// refused is true if the API server refuses the pods.
func (d *decision) whyMissing(h *workloadHealth) (why string, refused bool) {
	if h.countMissing() <= 0 {
		return "", false
	}
	since := d.noteMissing(h)
	controller, read := d.w.Controllers[h.Workload]
	waitsFor := d.findPredecessor(h, controller)
	late := d.noteCreatable(h, waitsFor).Add(creationPatience)
	d.requeueAt(late)
	switch {
	case read && controller.Refused != "" && !controller.Read.Before(since):
		return ": " + controller.Refused, true
	case waitsFor != nil && !d.expectReadiness(h) && !d.mayEnd(waitsFor) && !d.w.Now.Before(since.Add(creationPatience)):
		return d.describePredecessor(h, waitsFor), false
	case d.w.Now.Before(late):
		return "", false
	case !read:
		return ", and the wanted number was not read yet", false
	case controller.Unread == "" && controller.Read.Before(late):
		return "", false // the API server may have refused a pod after the controller was read
	}
	if kept := d.findPodKeptByFinalizers(h.Workload); kept != nil {
		return describeFinalizers(kept), false
	}
	controller.Refused = "" // the refusal was read before pods were missing
	return describeRefusal(controller), false
}

// noteMissing notes and returns since when pods of the workload have been missing.
func (d *decision) noteMissing(h *workloadHealth) time.Time {
	since, was := d.w.Notes.MissingSince[h.name]
	switch {
	case was:
	case h.scaledBack.IsZero():
		since = d.w.Now
	default:
		since = h.scaledBack // the reading that shows the missing pods may also give the reason
	}
	d.notes.MissingSince[h.name] = since
	return since
}

// findPredecessor returns the pod because of which an ordered StatefulSet does not create its next pod: the
// first by ordinal that is not ready or is ending. It returns nil if there is none.
func (d *decision) findPredecessor(h *workloadHealth, controller drain.Controller) *corev1.Pod {
	if !controller.Ordered {
		return nil
	}
	all := d.listEnding(h.Workload)
	if h.replicas != nil {
		all = append(all, h.replicas.Pods...)
	}
	slices.SortFunc(all, func(a, b *corev1.Pod) int { return cmp.Compare(drain.Ordinal(a), drain.Ordinal(b)) })
	for i, pod := range all {
		if drain.Ordinal(pod) != controller.First+i {
			return nil // the pod with this ordinal is missing, and all before it are ready
		}
		if pod.DeletionTimestamp != nil || !drain.Ready(pod) {
			return pod
		}
	}
	return nil
}

// describePredecessor returns the rest of the sentence "1 pod is not created": the other pod that prevents it.
func (d *decision) describePredecessor(h *workloadHealth, pod *corev1.Pod) string {
	switch kept := d.findPodKeptByFinalizers(h.Workload); {
	case kept != nil:
		return describeFinalizers(kept)
	case pod.DeletionTimestamp != nil:
		return fmt.Sprintf(": the StatefulSet creates its pods in order and waits until pod %s on node %s has terminated", pod.Name, pod.Spec.NodeName)
	default:
		return fmt.Sprintf(": the StatefulSet creates its pods in order and waits until pod %s is ready", pod.Name)
	}
}

func describeFinalizers(pod *corev1.Pod) string {
	return fmt.Sprintf(": pod %s on node %s should be gone, but its finalizers keep it (%s)", pod.Name, pod.Spec.NodeName, strings.Join(pod.Finalizers, ", "))
}

// mayEnd reports whether the pod is being deleted and may still end in time: its grace period or the drain of its node
// is not over.
func (d *decision) mayEnd(pod *corev1.Pod) bool {
	if pod.DeletionTimestamp == nil {
		return false
	}
	state := d.rec.Nodes[pod.Spec.NodeName].State
	return isEndingInTime(pod, d.w.Now) || (len(pod.Finalizers) == 0 && (record.IsInDrain(state) || state == record.NodeRemoving))
}

// isEndingInTime reports whether the pod is being deleted and its grace period is not over.
func isEndingInTime(pod *corev1.Pod, now time.Time) bool {
	return pod.DeletionTimestamp != nil && now.Before(pod.DeletionTimestamp.Time)
}

// listEnding lists the workload's pods that are being deleted on the group's nodes.
func (d *decision) listEnding(w drain.Workload) []*corev1.Pod {
	var ending []*corev1.Pod
	for i := range d.w.Members {
		for _, pod := range d.w.Members[i].Pods {
			if pod.DeletionTimestamp != nil && drain.WorkloadOf(pod) == w {
				ending = append(ending, pod)
			}
		}
	}
	return ending
}

// noteCreatable notes and returns since when no other pod has prevented the creation of the workload's missing pods.
func (d *decision) noteCreatable(h *workloadHealth, waitsFor *corev1.Pod) time.Time {
	if waitsFor != nil || d.expectReadiness(h) {
		return d.w.Now
	}
	since, was := d.w.Notes.CreatableSince[h.name]
	if !was {
		since = d.w.Now
	}
	d.notes.CreatableSince[h.name] = since
	return since
}

// expectReadiness reports whether the workload has an unready pod that may still become ready. It schedules the next
// decision for when the pod is late.
func (d *decision) expectReadiness(h *workloadHealth) (expected bool) {
	return h.replicas != nil && slices.ContainsFunc(h.replicas.Unready(), func(pod *corev1.Pod) bool {
		return d.cameDuringUpgrade(pod) || d.whyLate(pod, h) == ""
	})
}

// findPodKeptByFinalizers returns a pod of the workload whose grace period is over and that finalizers keep, or nil. A
// StatefulSet cannot create a pod of the same name while that pod exists.
func (d *decision) findPodKeptByFinalizers(w drain.Workload) *corev1.Pod {
	for _, pod := range d.listEnding(w) {
		if !isEndingInTime(pod, d.w.Now) && len(pod.Finalizers) > 0 {
			return pod
		}
	}
	return nil
}

// describeRefusal returns why a controller's pods are not created, as the end of a sentence.
func describeRefusal(c drain.Controller) string {
	switch {
	case c.Refused != "":
		return ": " + c.Refused
	case c.Unread != "":
		return ", and the wanted number is unknown: " + c.Unread
	default:
		return ", and its controller reports no reason"
	}
}

func formatMissing(n int) string {
	if n == 1 {
		return "1 pod is not created"
	}
	return fmt.Sprintf("%d pods are not created", n)
}
