package upgrade

import (
	"cmp"
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

// detachLimit is how long volumes may take to detach. After that kube-controller-manager detaches them by force
// (attach_detach_controller.go).
const detachLimit = 6 * time.Minute

// advanceNode takes the next step with a started node.
func (d *decision) advanceNode(name string) {
	n, m := d.rec.Nodes[name], d.count.byName[name]
	if n.IsGivenBack() {
		d.followReturn(name)
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

// recordGone records that a started node is gone.
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

// drainNode takes the next step of a node's drain.
func (d *decision) drainNode(name string, n record.NodeRecord, m *nodegroup.Member) {
	if m.Instance.State == nodegroup.InstanceLeaving {
		d.pollCloudSoon("")
		return // another process is ending its machine; recordGone counts the node when it is gone
	}
	if m.Node != nil && n.Deadline.IsZero() {
		n.Deadline = d.w.Now.Add(d.rec.Request.DrainTimeout.Duration)
		d.rec.Nodes[name] = n
	}
	if m.Node != nil && !d.isFencedByRun(m) {
		d.creditYieldedTime(name, true)
		return // a user or an earlier stop removed its fence: evicted pods would come back
	}
	d.stages[name] = schedule.Resting
	view := d.classifyPodsOf(m)
	d.followTargets(name, m, view)
	if view.countPodsLeft() == 0 {
		d.awaitSettled(name, n, m)
		if n = d.rec.Nodes[name]; record.IsInDrain(n.State) { // otherwise this step gives the node up
			d.markDrainStarted(n, m)
		}
		return
	}
	if n.State == record.NodeEmpty {
		n.State, n.EmptyAt = record.NodeDraining, time.Time{}
		d.rec.Nodes[name] = n
	}
	d.evictRemaining(name, n, m, view)
}

// evictRemaining makes the remaining pods leave the node, unless they must wait or the drain timeout is over.
func (d *decision) evictRemaining(name string, n record.NodeRecord, m *nodegroup.Member, view *nodePods) {
	switch {
	case d.fencing: // evicted pods could land on a node that is drained next (EKS E30)
		d.markDrainStarted(n, m)
		d.creditYieldedTime(name, true)
		return
	case n.State == record.NodeForcing:
		d.markDrainStarted(n, m)
		d.deleteRemaining(name, n, m, view)
		return
	}
	if d.countDrainTime(name) {
		d.addBlockedPods(d.planEvictions(name), name)
		d.phase.onTimeout(d, name, n)
		return
	}
	d.markDrainStarted(n, m)
	d.stages[name] = schedule.Evicting
}

// markDrainStarted writes the start of the drain on the node, if it is not there yet.
func (d *decision) markDrainStarted(n record.NodeRecord, m *nodegroup.Member) {
	if !isStartWritten(n, m) {
		d.addAction(nodemark.StartDrain{NodeVersion: nodemark.VersionOf(m.Node), Deadline: n.Deadline})
	}
}

// isStartWritten reports whether the node shows the start of its drain. It is always true for a machine without a node.
func isStartWritten(n record.NodeRecord, m *nodegroup.Member) bool {
	return m.Node == nil || m.Node.Annotations[nodemark.AnnotationDeadline] == nodemark.FormatTime(n.Deadline)
}

// deleteRemaining deletes the remaining pods, each with its own grace period (EKS E43). Once the longest grace period
// is over, it continues without the pods that are still there. The node's reason names them.
func (d *decision) deleteRemaining(name string, n record.NodeRecord, m *nodegroup.Member, view *nodePods) {
	over := n.Deadline.Add(d.notes.Yielded[name])
	kept := 0
	for _, pod := range slices.Concat(view.Held, view.Evict) {
		if pod.CreationTimestamp.After(over) {
			continue // it replaces a deleted pod, and deleting it would only create another: it ends with the machine
		}
		kept++
		d.addAction(schedule.Deletion{Namespace: pod.Namespace, Pod: pod.Name, UID: pod.UID, Node: name, Grace: d.phase.cappedGrace(pod)})
	}
	for _, pod := range view.Leaving {
		if end := d.phase.graceEnd(pod).Add(seenWithin); end.After(over) {
			over = end
		}
	}
	if kept == 0 && d.w.Now.After(over) {
		d.phase.onEmpty(d, name, n, m)
		return
	}
	d.requeueAt(over)
}

// cappedGrace returns the phase's limit for the pod's grace period in seconds, or 0 if the pod's own is not longer.
func (p phase) cappedGrace(pod *corev1.Pod) int64 {
	grace, most := pod.Spec.TerminationGracePeriodSeconds, int64(p.maxGrace.Seconds())
	if most == 0 || grace == nil || *grace <= most {
		return 0
	}
	return most
}

// graceEnd returns when a terminating pod must be gone: the end of its grace period, or earlier if the phase limits it
// (GKE G75).
func (p phase) graceEnd(pod *corev1.Pod) time.Time {
	end := pod.DeletionTimestamp.Time // when the grace period ends, not when it began
	if grace := pod.DeletionGracePeriodSeconds; p.capsEvictedGrace && grace != nil {
		end = end.Add(min(0, p.maxGrace-time.Duration(*grace)*time.Second))
	}
	return end
}

// awaitSettled waits, once the node is empty, until load balancers and volumes have released it (EKS E44, E45).
func (d *decision) awaitSettled(name string, n record.NodeRecord, m *nodegroup.Member) {
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
			return // the node must show the start of this drain before its machine is terminated
		}
	}
	d.phase.onEmpty(d, name, n, m)
}

// hasAttachedVolumes reports whether volumes of pods that left are still attached. It returns false if pods with volumes
// stay on the node, because their volumes cannot be told apart.
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

// countDrainTime adds the time since the last step to the node's drain, and reports whether its drain timeout is over.
// Time in which the node waited only for nodes that were started before it does not count: for budgets that they spent,
// or for first new pods of workloads.
func (d *decision) countDrainTime(name string) (over bool) {
	d.creditYieldedTime(name, false)
	deadline := d.rec.Nodes[name].Deadline.Add(d.notes.Yielded[name])
	d.requeueAt(deadline)
	return !d.w.Now.Before(deadline)
}

// creditYieldedTime extends the node's deadline by the time since the last step if the node was yielding. yields sets
// whether it yields from now on.
func (d *decision) creditYieldedTime(name string, yields bool) {
	if d.w.Notes.Yielding[name] {
		d.notes.Yielded[name] += max(0, d.w.Now.Sub(d.w.Notes.At))
	}
	if yields {
		d.notes.Yielding[name] = true
	}
}

// giveUpNode applies --on-timeout to a node that was not empty when its drain timeout ended.
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
	d.requeueNow() // the next step acts on the new state
}

// describeRemaining names the first few pods that are still on the node with their obstacles, counts the others, and
// adds the remedy for the first.
func (d *decision) describeRemaining(name string) string {
	if mine := d.blockedPodsOf(name); len(mine) > 0 {
		return summarizeBlocked(mine, d.w.Now) + ": " + mine[0].Remedy()
	}
	m := d.count.byName[name]
	view := d.classifyPodsOf(m)
	var left []string
	if names := listPodNames(view.Leaving); len(names) > 0 && m != nil && m.Node != nil && nodegroup.IsSilent(m.Node) {
		left = append(left, fmt.Sprintf("still terminating: %s: %s", abbreviateNames(names), describeUnreachable(m.Node)))
	} else if len(names) > 0 {
		left = append(left, fmt.Sprintf("still terminating: %s: check their finalizers and grace periods", abbreviateNames(names)))
	}
	if names := listPodNames(view.Evict); len(names) > 0 {
		says := "has not answered their eviction: " + abbreviateNames(names)
		if answer := d.lastAnswerToEviction(view.Evict); answer != "" {
			says = fmt.Sprintf("refused their eviction: %s: %s", abbreviateNames(names), answer)
		}
		left = append(left, "the API server "+says+": check admission webhooks and the API server's health")
	}
	return strings.Join(left, "; ")
}

// lastAnswerToEviction returns why the last eviction of one of the pods failed: the first of them with an answer. It returns
// "" if none of their evictions was answered.
func (d *decision) lastAnswerToEviction(pods []*corev1.Pod) string {
	for _, pod := range pods {
		key := schedule.Eviction{UID: pod.UID}.Key()
		if answer := cmp.Or(d.w.Open[key].Detail, d.w.Notes.Retries[key].Detail); answer != "" {
			return answer
		}
	}
	return ""
}

// describeUnreachable returns since when the node's kubelet has not reported, and the remedy.
func describeUnreachable(node *corev1.Node) string {
	return fmt.Sprintf("%s: restart the kubelet, or run %s if the machine is gone for good", nodegroup.DescribeTrouble(node), shell.Command("kubectl delete", "node", node.Name))
}

// describeForRecord returns describeRemaining, shortened to fit into NodeRecord.Reason: if three pods do not fit, it
// names one.
func (d *decision) describeForRecord(name string) string {
	text := d.describeRemaining(name)
	if mine := d.blockedPodsOf(name); record.TextBytes(text) > record.MostReasonBytes && len(mine) > 1 {
		text = fmt.Sprintf("%d pods, such as %s: %s", len(mine), summarizeBlocked(mine[:1], d.w.Now), mine[0].Remedy())
	}
	return record.ShortenReason(text)
}

func (d *decision) blockedPodsOf(name string) []drain.Blocked {
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
