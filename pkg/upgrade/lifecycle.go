package upgrade

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain/schedule"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodemark"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/shell"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// detachLimit is how long volumes may take to detach; kube-controller-manager forces it then
// (attach_detach_controller.go).
const detachLimit = 6 * time.Minute

// advanceNode takes one started node one step further.
func (d *decision) advanceNode(name string) {
	n, m := d.rec.Nodes[name], d.count.byName[name]
	if n.IsGivenBack() {
		d.driveReturn(name)
		return
	}
	if m == nil || (m.Node != nil && n.UID != "" && m.Node.UID != n.UID) {
		d.recordGone(name)
		return
	}
	switch n.State {
	case record.NodeDraining, record.NodeForcing, record.NodeEmpty:
		d.drainNode(name, n, m)
	case record.NodeRemoving:
		d.followTermination(name, n, m)
	}
}

// recordGone books a started node that is no longer there.
func (d *decision) recordGone(name string) {
	n := d.rec.Nodes[name]
	if !d.resolveTerminator(n) {
		return
	}
	if n.State != record.NodeDrained {
		d.rec.Replaced++
	}
	d.rec.NoteGone(name, d.w.Now)
	d.forgetNode(name)
}

// drainNode takes the drain of a node one step further.
func (d *decision) drainNode(name string, n record.NodeRecord, m *nodegroup.Member) {
	if m.Instance.State == nodegroup.InstanceLeaving {
		d.askCloudOften("")
		return // its machine is going down without us; it is booked when it is gone
	}
	if m.Node != nil && n.Deadline.IsZero() {
		n.Deadline = d.w.Now.Add(d.rec.Request.DrainTimeout.Duration)
		d.rec.Nodes[name] = n
	}
	if m.Node != nil && !d.isFencedByRun(m) {
		d.pauseDeadline(name, true)
		return // another actor took its fence away, or a stop of ours did: pods that leave would come back
	}
	d.stages[name] = schedule.Resting
	view := d.classifyPodsOf(m)
	d.followTargets(name, m, view)
	if view.countPodsLeft() == 0 {
		d.waitSettled(name, n, m)
		if n = d.rec.Nodes[name]; record.IsInDrain(n.State) { // else it is given up in this step
			d.ensureStarted(n, m)
		}
		return
	}
	if n.State == record.NodeEmpty {
		n.State, n.EmptyAt = record.NodeDraining, time.Time{}
		d.rec.Nodes[name] = n
	}
	d.moveRemaining(name, n, m, view)
}

// moveRemaining has the pods that are left leave the node, unless that must wait or takes too long.
func (d *decision) moveRemaining(name string, n record.NodeRecord, m *nodegroup.Member, view *nodePods) {
	switch {
	case d.fencing: // what leaves could land on a node that is drained next (EKS E30)
		d.ensureStarted(n, m)
		d.pauseDeadline(name, true)
		return
	case n.State == record.NodeForcing:
		d.ensureStarted(n, m)
		d.deleteRemaining(name, n, m, view)
		return
	}
	if d.chargeTime(name) {
		d.addBlockedPods(d.makePlan(name), name)
		d.phase.late(d, name, n)
		return
	}
	d.ensureStarted(n, m)
	d.stages[name] = schedule.Evicting
}

// ensureStarted writes the start of the drain on the node, once.
func (d *decision) ensureStarted(n record.NodeRecord, m *nodegroup.Member) {
	if !isStartWritten(n, m) {
		d.addAction(nodemark.StartDrain{NodeVersion: nodemark.VersionOf(m.Node), Deadline: n.Deadline})
	}
}

// isStartWritten reports whether the node is seen to carry the start of its drain. A machine without a node needs none.
func isStartWritten(n record.NodeRecord, m *nodegroup.Member) bool {
	return m.Node == nil || m.Node.Annotations[nodemark.AnnotationDeadline] == nodemark.FormatTime(n.Deadline)
}

// deleteRemaining deletes the pods that are left, each with its own grace (EKS E43), and continues
// without those that are still there when the longest grace is over: they are named in the node's
// reason.
func (d *decision) deleteRemaining(name string, n record.NodeRecord, m *nodegroup.Member, view *nodePods) {
	over := n.Deadline.Add(d.notes.Yielded[name])
	kept := 0
	for _, pod := range slices.Concat(view.Held, view.Evict) {
		if pod.CreationTimestamp.After(over) {
			continue // it came back for one that was deleted, and would each time: it goes down with the machine
		}
		kept++
		d.addAction(schedule.Deletion{Namespace: pod.Namespace, Pod: pod.Name, UID: pod.UID, Node: name, Grace: d.phase.limitGrace(pod)})
	}
	for _, pod := range view.Leaving {
		if end := d.phase.endOf(pod).Add(seen); end.After(over) {
			over = end
		}
	}
	if kept == 0 && d.w.Now.After(over) {
		d.phase.emptied(d, name, n, m)
		return
	}
	d.requeueAt(over)
}

// limitGrace is the grace period that a pod is deleted with where its own is longer than the phase
// allows, in seconds; 0 for its own.
func (p phase) limitGrace(pod *corev1.Pod) int64 {
	grace, most := pod.Spec.TerminationGracePeriodSeconds, int64(p.mostGrace.Seconds())
	if most == 0 || grace == nil || *grace <= most {
		return 0
	}
	return most
}

// endOf is when a pod that is leaving has to be gone: when its grace ends or, where the phase
// allows less of it, before (GKE G75).
func (p phase) endOf(pod *corev1.Pod) time.Time {
	end := pod.DeletionTimestamp.Time // that is when the grace ends, not when it began
	if grace := pod.DeletionGracePeriodSeconds; p.capsLeaving && grace != nil {
		end = end.Add(min(0, p.mostGrace-time.Duration(*grace)*time.Second))
	}
	return end
}

// waitSettled waits, once the node is empty, for load balancers and volumes to let go of it (EKS
// E44, E45).
func (d *decision) waitSettled(name string, n record.NodeRecord, m *nodegroup.Member) {
	if n.State != record.NodeEmpty {
		n.State, n.EmptyAt = record.NodeEmpty, d.w.Now
		d.rec.Nodes[name] = n
	}
	if m.Node != nil {
		if end := n.EmptyAt.Add(d.rec.Request.Settle.Duration); d.w.Now.Before(end) {
			d.requeueAt(end)
			return
		}
		if end := n.EmptyAt.Add(detachLimit); d.hasAttachedVolumes(m) && d.w.Now.Before(end) {
			d.requeueAt(end)
			return
		}
		if d.deferForBalancers(name, n, m) {
			return
		}
		if m.Node.Annotations[nodemark.AnnotationDeadline] != nodemark.FormatTime(n.Deadline) {
			return // the start of this drain must be on the node before its machine goes
		}
	}
	d.phase.emptied(d, name, n, m)
}

// hasAttachedVolumes reports whether volumes of pods that left are still attached. Volumes of pods
// that stay keep their place and cannot be told apart, so a node with such pods is not waited for.
func (d *decision) hasAttachedVolumes(m *nodegroup.Member) bool {
	for _, pod := range m.Pods {
		for i := range pod.Spec.Volumes {
			if pod.Spec.Volumes[i].PersistentVolumeClaim != nil {
				return false
			}
		}
	}
	return len(m.Node.Status.VolumesAttached) > 0
}

// chargeTime counts the time that a node took since the last step, and reports whether its drain timeout is over.
// Its time stands still while the node waits only for nodes that were started before it: for budgets that these
// have spent, and for the first new pods of workloads.
func (d *decision) chargeTime(name string) (over bool) {
	d.pauseDeadline(name, false)
	deadline := d.rec.Nodes[name].Deadline.Add(d.notes.Yielded[name])
	d.requeueAt(deadline)
	return !d.w.Now.Before(deadline)
}

// pauseDeadline has a node's time stand still from now on, as long as it yields, and counts how
// long it has since the last step.
func (d *decision) pauseDeadline(name string, yields bool) {
	if d.w.Notes.Yielding[name] {
		d.notes.Yielded[name] += max(0, d.w.Now.Sub(d.w.Notes.At))
	}
	if yields {
		d.notes.Yielding[name] = true
	}
}

// giveUpNode applies --on-timeout to a node that was not empty in its time.
func (d *decision) giveUpNode(name string, n record.NodeRecord) {
	switch d.rec.Request.OnTimeout {
	case record.Force:
		n.State, n.Reason = record.NodeForcing, d.describeForRecord(name)
	case record.Skip:
		n.State, n.Reason = record.NodeQuarantined, d.describeForRecord(name)
	default:
		d.stopUpgradeWith(record.PodEvictionFailure, fmt.Sprintf("draining node %q: it still has pods after %s: %s", name, d.rec.Request.DrainTimeout, d.describeRemaining(name)))
		return
	}
	d.rec.Nodes[name] = n
	d.requeueNow() // and act on the new state
}

// describeRemaining names what is still on the node, with its obstacle and the remedy of the first. It counts the pods that it does not
// name.
func (d *decision) describeRemaining(name string) string {
	if mine := d.listBlocked(name); len(mine) > 0 {
		return summarizeBlocked(mine, d.w.Now) + ": " + mine[0].Remedy()
	}
	m := d.count.byName[name]
	view := d.classifyPodsOf(m)
	var left []string
	if names := listPodNames(view.Leaving); len(names) > 0 && m != nil && m.Node != nil && nodegroup.IsSilent(m.Node) {
		left = append(left, fmt.Sprintf("still terminating: %s: %s", abbreviateNames(names), describeSilent(m.Node)))
	} else if len(names) > 0 {
		left = append(left, fmt.Sprintf("still terminating: %s: see their finalizers and grace periods", abbreviateNames(names)))
	}
	if names := listPodNames(view.Evict); len(names) > 0 {
		left = append(left, fmt.Sprintf("their eviction has had no answer: %s: see which admission webhook holds it, and whether the API server is well", abbreviateNames(names)))
	}
	return strings.Join(left, "; ")
}

// describeSilent says since when the node's kubelet has not reported, and what the user can do.
func describeSilent(node *corev1.Node) string {
	return fmt.Sprintf("%s: restart the kubelet, or run %s if the machine is gone for good", nodegroup.DescribeTrouble(node), shell.Command("kubectl delete", "node", node.Name))
}

// describeForRecord is describeRemaining as it fits into NodeRecord.Reason: one pod is named where three do not fit.
func (d *decision) describeForRecord(name string) string {
	text := d.describeRemaining(name)
	if mine := d.listBlocked(name); record.TextBytes(text) > record.MostReasonBytes && len(mine) > 1 {
		text = fmt.Sprintf("%d pods, such as %s: %s", len(mine), summarizeBlocked(mine[:1], d.w.Now), mine[0].Remedy())
	}
	return record.ShortenReason(text)
}

func (d *decision) listBlocked(name string) []drain.Blocked {
	var mine []drain.Blocked
	for _, b := range d.blocked {
		if b.Node == name {
			mine = append(mine, b)
		}
	}
	return mine
}

func listPodNames(pods []*corev1.Pod) []string {
	var names []string
	for _, pod := range pods {
		names = append(names, pod.Namespace+"/"+pod.Name)
	}
	return names
}
