package upgrade

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain/schedule"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodemark"
)

// detachLimit is how long volumes may take to detach; kube-controller-manager forces it then
// (attach_detach_controller.go).
const detachLimit = 6 * time.Minute

// lifecycle takes started nodes from their drain to their end.
type lifecycle struct{ *draft }

// advanceNode takes one started node one step further.
func (d lifecycle) advanceNode(name string) {
	n, m := d.rec.Nodes[name], d.count.byName[name]
	if n.isGivenBack() {
		surplus{d.draft}.driveReturn(name)
		return
	}
	if m == nil || (m.Node != nil && n.UID != "" && m.Node.UID != n.UID) {
		d.recordGone(name)
		return
	}
	switch n.State {
	case NodeDraining, NodeForcing, NodeEmpty:
		d.drainNode(name, n, m)
	case NodeRemoving:
		removal{d.draft}.followTermination(name, n, m)
	}
}

// recordGone books a started node that is no longer there.
func (d lifecycle) recordGone(name string) {
	n := d.rec.Nodes[name]
	if !(removal{d.draft}).resolveTerminator(n) {
		return
	}
	if n.State != NodeDrained {
		d.rec.Replaced++
	}
	d.forgetNode(name)
}

// drainNode takes the drain of a node one step further.
func (d lifecycle) drainNode(name string, n NodeRecord, m *nodegroup.Member) {
	if m.Instance.State == nodegroup.InstanceLeaving {
		d.waitForCloud("")
		return // its machine is going down without us; it is booked when it is gone
	}
	if m.Node != nil && n.Deadline.IsZero() {
		n.Deadline = d.w.Now.Add(d.rec.Request.DrainTimeout.Duration)
		d.rec.Nodes[name] = n
	}
	if m.Node != nil && !d.isFencedByRun(m) {
		timeout{d.draft}.pauseDeadline(name, true)
		return // another actor took its fence away, or a stop of ours did: pods that leave would come back
	}
	d.stages[name] = schedule.Resting
	view := d.classifyPodsOf(m)
	balancing{d.draft}.followTargets(name, m, view)
	if view.countPodsLeft() == 0 {
		d.waitSettled(name, n, m)
		if n = d.rec.Nodes[name]; isInDrain(n.State) { // else it is given up in this step
			d.ensureStarted(n, m)
		}
		return
	}
	if n.State == NodeEmpty {
		n.State, n.EmptyAt = NodeDraining, time.Time{}
		d.rec.Nodes[name] = n
	}
	d.moveRemaining(name, n, m, view)
}

// moveRemaining has the pods that are left leave the node, unless that must wait or takes too long.
func (d lifecycle) moveRemaining(name string, n NodeRecord, m *nodegroup.Member, view *nodePods) {
	switch {
	case d.fencing: // what leaves could land on a node that is drained next (EKS E30)
		d.ensureStarted(n, m)
		timeout{d.draft}.pauseDeadline(name, true)
		return
	case n.State == NodeForcing:
		d.ensureStarted(n, m)
		d.deleteRemaining(name, n, m, view)
		return
	}
	if (timeout{d.draft}).isOutOfTime(name) {
		scheduling := scheduling{d.draft}
		scheduling.addBlockedPods(scheduling.makePlan(name), name)
		d.phase.late(d.draft, name, n)
		return
	}
	d.ensureStarted(n, m)
	d.stages[name] = schedule.Evicting
}

// ensureStarted writes the start of the drain on the node, once.
func (d lifecycle) ensureStarted(n NodeRecord, m *nodegroup.Member) {
	if m.Node == nil || m.Node.Annotations[nodemark.AnnotationDeadline] == nodemark.FormatTime(n.Deadline) {
		return
	}
	d.addAction(StartDrain{NodeVersion: VersionOf(m.Node), Deadline: n.Deadline})
}

// deleteRemaining deletes the pods that are left, each with its own grace (EKS E43), and continues
// without those that are still there when the longest grace is over: they are named in the node's
// reason.
func (d lifecycle) deleteRemaining(name string, n NodeRecord, m *nodegroup.Member, view *nodePods) {
	over := n.Deadline.Add(d.notes.Yielded[name])
	kept := 0
	for _, pod := range slices.Concat(view.Held, view.Evict) {
		if pod.CreationTimestamp.After(over) {
			continue // it came back for one that was deleted, and would each time: it goes down with the machine
		}
		kept++
		d.addAction(Delete{Namespace: pod.Namespace, Pod: pod.Name, UID: pod.UID, Node: name, Grace: d.phase.limitGrace(pod)})
	}
	for _, pod := range view.Leaving {
		if end := d.phase.endOf(pod).Add(seen); end.After(over) {
			over = end
		}
	}
	if kept == 0 && d.w.Now.After(over) {
		d.phase.emptied(d.draft, name, n, m)
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
func (d lifecycle) waitSettled(name string, n NodeRecord, m *nodegroup.Member) {
	if n.State != NodeEmpty {
		n.State, n.EmptyAt = NodeEmpty, d.w.Now
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
		if (balancing{d.draft}).waitForBalancers(name, n, m) {
			return
		}
		if m.Node.Annotations[nodemark.AnnotationDeadline] != nodemark.FormatTime(n.Deadline) {
			return // the start of this drain must be on the node before its machine goes
		}
	}
	d.phase.emptied(d.draft, name, n, m)
}

// hasAttachedVolumes reports whether volumes of pods that left are still attached. Volumes of pods
// that stay keep their place and cannot be told apart, so a node with such pods is not waited for.
func (d lifecycle) hasAttachedVolumes(m *nodegroup.Member) bool {
	for _, pod := range m.Pods {
		for i := range pod.Spec.Volumes {
			if pod.Spec.Volumes[i].PersistentVolumeClaim != nil {
				return false
			}
		}
	}
	return len(m.Node.Status.VolumesAttached) > 0
}
