package upgrade

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// findLatePod returns the first late pod of the workload by name, with the reason, or nil. A pod is late if it should
// have replaced a pod that left, and is not ready or not settled yet. first is the pod that has been late for longest.
func (d *decision) findLatePod(h *workloadHealth) (found *corev1.Pod, reason string, first latePod) {
	if h.replicas == nil {
		return nil, "", first
	}
	for i, pod := range h.replicas.Pods {
		ready := i < h.replicas.Ready
		if _, unsettled := h.replicas.IsUnsettled(pod, h.before.Usual.Duration, d.w.Now); (ready && !unsettled) || !d.cameDuringUpgrade(pod) {
			continue
		}
		why := ""
		if ready {
			why = drain.DescribeUnsettled(pod, d.w.Now)
		} else if why = d.whyLate(pod, h); why == "" {
			continue // it still has time
		}
		if found == nil || pod.Name < found.Name {
			found, reason = pod, why
		}
		since, was := d.w.Notes.LateSince[pod.UID]
		if since = since.Add(d.w.Idle); !was {
			since = d.w.Now
		}
		if d.notes.LateSince[pod.UID] = since; first.uid == "" || since.Before(first.since) {
			first = latePod{uid: pod.UID, since: since}
		}
	}
	return found, reason, first
}

// findRepeatedlyEnding reports whether new pods of the workload end one after the other before they are ready, for
// longer than one pod may take. This happens if a kubelet rejects the pods, or if a user deletes them. It
// returns "" or why the workload lacks pods, and the pod that is starting now.
func (d *decision) findRepeatedlyEnding(h *workloadHealth) (why string, coming latePod) {
	next, found := d.followStartingPod(h)
	if !found {
		return "", latePod{}
	}
	d.notes.Starting[h.name] = next
	d.requeueAt(next.Late)
	if next.Ended < 2 || next.Roomless || d.w.Now.Before(next.Late) {
		return "", latePod{} // a single pod may have been lost with its node
	}
	return "its new pods exit before they are ready, one after the other", latePod{uid: next.Pod, since: next.Late}
}

// followStartingPod returns the noted pod while it is still starting, and after that the pod that is starting in its
// place. found is false if there is none.
func (d *decision) followStartingPod(h *workloadHealth) (next StartingPod, found bool) {
	replicas := cmp.Or(h.replicas, &drain.Replicas{}) // Named returns nil if the workload has no pod now
	next, found = d.findStartingPod(replicas, h.before.Usual.Duration)
	noted, was := d.w.Notes.Starting[h.name]
	if !was {
		return next, found
	}
	passed := d.w.Idle
	if noted.Roomless {
		passed = max(passed, d.w.Now.Sub(d.w.Notes.At))
	}
	noted.Late = noted.Late.Add(passed)
	i := slices.IndexFunc(replicas.Pods, func(pod *corev1.Pod) bool { return pod.UID == noted.Pod })
	switch {
	case i >= replicas.Ready && noted.Ended == 0:
		return StartingPod{Pod: noted.Pod, Late: drain.LateAt(replicas.Pods[i], h.before.Usual.Duration)}, true
	case i >= replicas.Ready:
		return noted, true
	case i < 0 && !found: // the next pod is not created yet, or no node takes it
		noted.Roomless = slices.ContainsFunc(replicas.Unready(), func(pod *corev1.Pod) bool { return pod.Spec.NodeName == "" && d.cameDuringUpgrade(pod) })
		return noted, true
	case i < 0:
		next.Ended = noted.Ended + 1
		if noted.Late.Before(next.Late) {
			next.Late = noted.Late
		}
	}
	return next, found
}

// findStartingPod returns the new pod that has been starting on a node for the longest time.
func (d *decision) findStartingPod(replicas *drain.Replicas, usual time.Duration) (coming StartingPod, found bool) {
	for _, pod := range replicas.Unready() {
		late := drain.LateAt(pod, usual)
		if pod.Spec.NodeName != "" && d.cameDuringUpgrade(pod) && (!found || late.Before(coming.Late)) {
			coming, found = StartingPod{Pod: pod.UID, Late: late}, true
		}
	}
	return coming, found
}

// cameDuringUpgrade reports whether a pod was created during the upgrade and is not on an outdated node.
func (d *decision) cameDuringUpgrade(pod *corev1.Pod) bool {
	return !pod.CreationTimestamp.Time.Before(d.rec.Started.Truncate(time.Second)) && !d.isOnOutdated(pod)
}

// isSuccessor reports whether the pod was created during the upgrade and is on a node that stays.
func (d *decision) isSuccessor(pod *corev1.Pod) bool {
	return pod.Spec.NodeName != "" && d.cameDuringUpgrade(pod)
}

// isOnOutdated reports whether the pod is on an outdated node. Such a pod must leave, and does not show whether pods
// work on current nodes.
func (d *decision) isOnOutdated(pod *corev1.Pod) bool {
	i, found := nodegroup.IndexOfMember(d.w.Members, pod.Spec.NodeName)
	return found && d.w.Members[i].Outdated
}

// whyLate returns why an unready pod is late; "" if it still has time.
func (d *decision) whyLate(pod *corev1.Pod, h *workloadHealth) string {
	usual := h.before.Usual.Duration
	if pod.Spec.NodeName != "" {
		d.requeueAt(drain.LateAt(pod, usual))
		return drain.WhyLate(pod, usual, 0, d.w.Now)
	}
	if why := d.whyNeverPlaced(pod, d.listSampleNodes()); why != "" {
		return why
	}
	patience, ends := d.patienceForRoom(d.countNodesBringingRoom(h))
	if !ends {
		return ""
	}
	d.requeueAt(pod.CreationTimestamp.Add(patience))
	why := drain.WhyLate(pod, usual, patience, d.w.Now)
	if why != "" && d.w.Group.Can.Resize && d.rec.Request.Surge == 0 && d.lastReadyInDrain(h) != nil {
		why += "; run the upgrade with --max-surge=1 to add a node first"
	}
	return why
}

// whyNeverPlaced returns why no node takes the pod, if none of the samples would take it even when empty; "" otherwise.
func (d *decision) whyNeverPlaced(pod *corev1.Pod, samples []drain.Sample) string {
	if never := drain.WhyNoneFits(pod, samples); never != "" {
		return drain.WhyLate(pod, 0, 0, d.w.Now) + "; not even an empty current node would take it: " + never
	}
	return ""
}

// countNodesBringingRoom counts the nodes in flight whose replacements may have room for the workload's pods. It leaves out a
// node in drain with the only ready pod of the workload: that pod stays until another is ready.
func (d *decision) countNodesBringingRoom(h *workloadHealth) int {
	inFlight := d.rec.CountInFlight()
	if d.lastReadyInDrain(h) != nil {
		inFlight--
	}
	return inFlight
}

// patienceForRoom returns how long a pod may wait for room on another node like those of the group. ends is false, and the
// wait has no limit, while such nodes are expected: replacements of the inFlight nodes in flight, or launches. A new
// node that boots may take the boot timeout.
func (d *decision) patienceForRoom(inFlight int) (patience time.Duration, ends bool) {
	lacking := d.countUnavailable() > 0
	switch {
	case d.rec.Request.IsFilledByAutoscaler() || d.w.Group.Can.Refill == nodegroup.RefillByPods:
		return d.rec.Request.BootTimeout.Duration, true
	case d.w.Group.Can.Refill == nodegroup.RefillByUser:
		return d.ownersPatience(inFlight, lacking)
	case inFlight > 0 || d.rec.Ledger.PendingLaunches() > 0 || (d.w.Group.Can.Resize && lacking):
		return 0, false
	case d.w.Group.Autoscaler.Serves || d.w.Group.Autoscaler.Tagged || (d.w.Group.Can.Resize && d.count.Fresh > d.count.Usable): // a new node boots
		return d.rec.Request.BootTimeout.Duration, true
	default:
		return roomPatience, true
	}
}

// ownersPatience is patienceForRoom for a group whose owner replaces each removed node. While no node is in flight or
// missing, no replacement is expected, because the start of the next node may have to wait for this pod. A node that the
// owner has brought and that takes no pods yet is not missing: it may take them within the boot timeout.
func (d *decision) ownersPatience(inFlight int, lacking bool) (patience time.Duration, ends bool) {
	missing := d.countUnavailable() > d.count.Fresh-d.count.Usable
	moving := inFlight > 0 || (missing && len(d.count.pending) > 0)
	if (moving || lacking) && d.rec.Request.WaitReplacement {
		return d.rec.Request.BootTimeout.Duration, !moving
	}
	return roomPatience, true
}

// listSampleNodes lists the group's current nodes that take pods.
func (d *decision) listSampleNodes() []drain.Sample {
	var samples []drain.Sample
	for i := range d.w.Members {
		m := &d.w.Members[i]
		if !m.Outdated && m.Node != nil && !m.Node.Spec.Unschedulable && d.w.Group.IsUsable(m) && d.w.hasAllDevices(m, &d.rec) {
			samples = append(samples, drain.Sample{Node: m.Node, Pods: m.Pods})
		}
	}
	return samples
}

// latePod is a late pod, and since when it is late.
type latePod struct {
	uid   types.UID
	since time.Time
}
