package upgrade

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain/schedule"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/shell"
)

const (
	// leastUnhealthy is how long a workload may be unhealthy before the upgrade stops, whatever its
	// pods usually take.
	leastUnhealthy = 5 * time.Minute
	// lateKept is the longest time for which a pod may be ready between two times of being late. If it is
	// late again within that time, both count as one.
	lateKept = time.Minute
	// creationPatience is how long a controller may take to create a pod that it lacks.
	creationPatience = 5 * time.Second
	// creationTime is how long controllers need to create a pod on a busy control plane.
	creationTime = time.Second
	// roomPatience is how long a pod may wait for room when nothing of ours brings any: pods that
	// end elsewhere may leave some.
	roomPatience = 30 * time.Second
)

// canary keeps further nodes from being started while workloads do not recover from those that were
// started before: every node is the canary of the next.
type canary struct{ *draft }

// workloadHealth is how a workload on record is now.
type workloadHealth struct {
	drain.Workload
	name   string
	before WorkloadRecord
	// replicas are its pods; nil when there are none. ready counts the settled ones.
	replicas *drain.Replicas
	ready    int
	// unscaled is true where it has fewer pods than before, and how many it should have was not
	// read.
	unscaled bool
}

// lacksPods reports whether the workload has fewer ready pods than it should have.
func (h *workloadHealth) lacksPods() bool { return h.ready < h.before.Ready }

// countMissing counts the pods that the workload should have and that no one has created.
func (h *workloadHealth) countMissing() int {
	pods := h.before.Ready + h.before.Unready
	if h.replicas == nil {
		return pods
	}
	return pods - h.replicas.Expected
}

// examineWorkloads finds out how the workloads on record are. What their owners scaled away since
// is no longer expected of them, and those of which a new pod has become ready are marked as
// proven.
func (d canary) examineWorkloads() {
	d.recoveries = map[drain.Workload]schedule.Recovery{}
	changed := map[string]WorkloadRecord{}
	for _, name := range slices.Sorted(maps.Keys(d.rec.Workloads)) {
		before := d.rec.Workloads[name]
		w, err := drain.ParseWorkload(name)
		if err != nil || before.Ready+before.Scaled == 0 {
			continue
		}
		h := d.examineWorkload(w, name, before)
		if h.before != before {
			changed[name] = h.before
		}
		d.health = append(d.health, h)
		if h.unscaled || (h.before.Scaled > 0 && (h.countMissing() < 0 || d.findNodeInDrain(&h) != "")) {
			d.askController(w)
		}
		d.noteRecovery(&h)
	}
	if len(changed) > 0 {
		d.rec.Workloads = maps.Clone(d.rec.Workloads)
		maps.Copy(d.rec.Workloads, changed)
	}
}

func (d canary) examineWorkload(w drain.Workload, name string, before WorkloadRecord) workloadHealth {
	h := workloadHealth{Workload: w, name: name, before: before, replicas: d.w.Workloads.Named(w)}
	h.ready = h.replicas.CountSettled(before.Usual.Duration, d.w.Now)
	if h.countMissing() > 0 {
		h.before = d.withoutScaledAway(&h)
	}
	if before.Scaled > 0 {
		h.before = d.withScaledBack(&h)
	}
	h.unscaled = h.countMissing() > 0
	h.before.Lacks, h.before.Out = max(0, h.before.Ready-h.countReady()), h.before.Ready > 0 && h.countReady() == 0
	if h.replicas == nil {
		return h
	}
	for _, pod := range h.replicas.Pods[:h.replicas.Ready] {
		until, unsettled := h.replicas.IsUnsettled(pod, before.Usual.Duration, d.w.Now)
		if unsettled {
			d.requeueAt(until)
		} else if !h.before.Proven && d.isSuccessor(pod) {
			h.before.Proven, h.before.Canary = true, ""
		}
	}
	// After the target moved, a workload may lack pods and have no canary: the pods left for the earlier target.
	if canary := h.before.Canary; !h.before.Proven && (canary == "" || !h.lacksPods()) && (!isInDrain(d.rec.Nodes[canary].State) || !h.hasPodOn(canary)) {
		h.before.Canary = d.findNodeInDrain(&h)
	}
	return h
}

// withoutScaledAway returns the workload's record, less the pods by which its owner scaled it down.
func (d canary) withoutScaledAway(h *workloadHealth) WorkloadRecord {
	controller, read := d.w.Controllers[h.Workload]
	switch {
	case d.w.EndingNamespaces[h.Namespace]:
		return h.before.withScale(0)
	case read && controller.Unread == "":
		return h.before.withScale(controller.Replicas)
	case read:
		return h.before.withScale(h.before.Ready) // the owner may have removed the unready pods
	default:
		return h.before
	}
}

// withScaledBack returns the workload's record after its owner scaled it up again, by how many pods its controller
// should have. They count from then on, created or not: a quota may refuse them.
func (d canary) withScaledBack(h *workloadHealth) WorkloadRecord {
	controller, read := d.w.Controllers[h.Workload]
	if !read || controller.Unread != "" || d.w.EndingNamespaces[h.Namespace] {
		return h.before
	}
	return h.before.withScaledBack(controller.Replicas - h.before.Ready - h.before.Unready)
}

// askScale has the controller read of a workload that its owner scaled down: the owner may have scaled it up again, and its pods may
// be refused. It reports whether the answer is still to come.
func (d canary) askScale(w drain.Workload) (pending bool) {
	d.askController(w)
	_, read := d.w.Controllers[w]
	return !read && !d.w.EndingNamespaces[w.Namespace]
}

// countReady counts its ready pods, settled or not.
func (h *workloadHealth) countReady() int {
	if h.replicas == nil {
		return 0
	}
	return h.replicas.Ready
}

// hasPodOn reports whether a pod of the workload is on the node.
func (h *workloadHealth) hasPodOn(node string) bool {
	return h.replicas != nil && node != "" && slices.ContainsFunc(h.replicas.Pods, func(pod *corev1.Pod) bool { return pod.Spec.NodeName == node })
}

// findNodeInDrain returns the first started node in drain that has a pod of the workload, or "" if
// there is none.
func (d canary) findNodeInDrain(h *workloadHealth) string {
	for _, name := range d.rec.startedNames() {
		if isInDrain(d.rec.Nodes[name].State) && h.hasPodOn(name) {
			return name
		}
	}
	return ""
}

// noteRecovery notes what evictions have to know of the workload.
func (d canary) noteRecovery(h *workloadHealth) {
	if !d.rec.Request.ignoresUnready(h.name) {
		d.recoveries[h.Workload] = schedule.Recovery{Ready: h.before.Ready, Usual: h.before.Usual.Duration, Unproven: !h.before.Proven, Canary: h.before.Canary, Missing: h.unscaled}
	}
}

// recordWorkloads notes how the workloads are whose pods are to leave the member. How long their
// pods usually take is kept as it was known first. It is stored with the start of the node.
func (d canary) recordWorkloads(m *nodegroup.Member) {
	known := maps.Clone(d.rec.Workloads)
	if known == nil {
		known = map[string]WorkloadRecord{}
	}
	leaving := map[string]bool{}
	view := d.classifyPodsOf(m)
	for _, pod := range slices.Concat(view.Evict, view.Held) { // those that are held may be deleted at the end
		r := d.w.Workloads.Of(pod)
		if r == nil {
			continue
		}
		leaving[r.String()] = true
		w := known[r.String()]
		if took, tells := r.ReadyTime(); tells && w.Usual.Duration == 0 {
			w.Usual.Duration = max(took, time.Millisecond) // 0 is not known
		}
		if w = w.withPods(r.Expected, r.CountServing(w.Usual.Duration, d.w.Now)); !w.Proven && w.Canary == "" {
			w.Canary = m.Name()
		}
		known[r.String()] = w
		d.noteRecovery(&workloadHealth{Workload: r.Workload, name: r.String(), before: w})
	}
	d.shortages = nil
	sumUpOthers(known, func(name string, w WorkloadRecord) bool { return !leaving[name] && d.hasRecovered(name, w) })
	d.rec.Workloads = known
}

// hasRecovered reports whether a workload has as many ready pods as before, and none that is on a
// node which was started: it may have as many only because those are still to leave.
func (d canary) hasRecovered(name string, before WorkloadRecord) bool {
	w, err := drain.ParseWorkload(name)
	if err != nil {
		return false
	}
	r := d.w.Workloads.Named(w)
	return r.CountSettled(before.Usual.Duration, d.w.Now) >= before.Ready && (r == nil || !slices.ContainsFunc(r.Pods, func(pod *corev1.Pod) bool {
		_, started := d.rec.Nodes[pod.Spec.NodeName]
		return started
	}))
}

// watchWorkloads looks for workloads that do not recover. It stops the upgrade where one has not
// for long.
func (d canary) watchWorkloads() {
	for i := range d.health {
		h := &d.health[i]
		if d.rec.Request.ignoresUnready(h.name) {
			continue
		}
		u, late := Unhealthy{}, false
		if h.lacksPods() {
			d.awaited = append(d.awaited, h.Workload)
			u, late = d.findLack(h)
		}
		if !late {
			u, late = d.findLastReady(h)
		}
		if late {
			d.addUnhealthy(u, h.before.Usual.Duration)
		}
	}
	daemons{d.draft}.watchDaemons()
	if !d.phase.givesBack { // in these phases no node is drained, so the upgrade first gives back the added nodes
		d.stopForUnhealthy()
	}
}

// lastReady returns the workload's only pod that is ready and likely to stay ready. It returns nil if there
// are more or none, or if the node of that pod is not in drain.
func (d canary) lastReady(h *workloadHealth) *corev1.Pod {
	if h.replicas == nil || h.ready != 1 {
		return nil
	}
	for _, pod := range h.replicas.Pods[:h.replicas.Ready] {
		if isSettled(h.replicas, pod.UID, h.before.Usual.Duration, d.w.Now) && isInDrain(d.rec.Nodes[pod.Spec.NodeName].State) {
			return pod
		}
	}
	return nil
}

// findLastReady reports whether the workload's last ready pod must leave while no other pod of the workload
// can become ready. faulty is false if one can, for example a standby that waits to become the leader.
func (d canary) findLastReady(h *workloadHealth) (u Unhealthy, faulty bool) {
	last := d.lastReady(h)
	if last == nil {
		return Unhealthy{}, false
	}
	pods := slices.SortedFunc(slices.Values(h.replicas.Pods), comparePodNames)
	for _, pod := range slices.Backward(pods) {
		why := drain.DescribeFault(pod)
		switch {
		case pod == last:
			continue
		case drain.IsGated(pod):
			return Unhealthy{}, false // it waits on purpose
		case drain.Ready(pod) && drain.HasRestarted(pod):
			why = drain.DescribeUnsettled(pod, d.w.Now)
		case drain.Ready(pod):
			return Unhealthy{}, false // it has just come up
		case pod.Spec.NodeName == "":
			why = d.whyLate(pod, h) // a node of the group's may be on its way
		}
		if why == "" {
			return Unhealthy{}, false
		}
		u, faulty = d.describeLack(h, pod, why+", and the last ready pod has to leave"), true
	}
	return u, faulty
}

// stopForUnhealthy stops the upgrade where a workload has not recovered for long.
func (d canary) stopForUnhealthy() {
	for _, u := range d.unhealthy {
		d.requeueAt(u.until)
		if !d.w.Now.Before(u.until) {
			d.stopUpgradeWith(WorkloadUnhealthy, describeUnhealthy(d.unhealthy))
			return
		}
	}
}

// areWorkloadsWhole reports whether the workloads on record have as many ready pods as they should
// have. At the end nothing more brings them back: those that do not are unhealthy, unless their
// pods may still come up in their time.
func (d canary) areWorkloadsWhole() bool {
	whole := true
	for i := range d.health {
		h := &d.health[i]
		if d.rec.Request.ignoresUnready(h.name) {
			continue
		}
		if h.before.Scaled > 0 && d.askScale(h.Workload) {
			whole, d.waiting = false, "the scale of "+h.name+" to be read"
			continue
		}
		if !h.lacksPods() {
			continue
		}
		whole = false
		d.waiting = fmt.Sprintf("%s to have %d ready pods as before (%d now)", h.name, h.before.Ready, h.ready)
		starts := d.mayStart(h)
		if i := slices.IndexFunc(d.unhealthy, func(u Unhealthy) bool { return u.Workload == h.Workload }); i >= 0 {
			d.waiting = d.unhealthy[i].String()
		} else if !starts {
			d.addUnhealthy(d.describeLack(h, nil, d.describeRest(h)), h.before.Usual.Duration)
		}
	}
	if !whole {
		d.stopForUnhealthy()
	}
	return whole
}

// describeRest says why a workload lacks ready pods of which none is late.
func (d canary) describeRest(h *workloadHealth) string {
	switch {
	case h.ready < h.replicas.Ready:
		return "a pod has been ready for less than 30s after it was not"
	case len(h.replicas.Unready()) == 0:
		return "a pod that was evicted has to end before another takes its place" + d.describeEnding(h.Workload)
	}
	first := d.firstUnready(h)
	if first == nil {
		return "none of its unready pods is on a node that stays"
	}
	return cmp.Or(drain.Lateness(first, h.before.Usual.Duration, 0, d.w.Now), "it is not ready")
}

// firstUnready returns the workload's first unready pod by name. It skips pods that must leave their node, and
// returns nil if there is no other.
func (d canary) firstUnready(h *workloadHealth) (first *corev1.Pod) {
	if h.replicas == nil {
		return nil
	}
	for _, pod := range h.replicas.Unready() {
		stays := slices.Contains([]NodeState{NodeDrained, NodeQuarantined}, d.rec.Nodes[pod.Spec.NodeName].State) || !d.isOnOutdated(pod)
		if stays && (first == nil || pod.Name < first.Name) {
			first = pod
		}
	}
	return first
}

// describeEnding names the first pod of the workload that is ending, and its node if that is not Ready,
// as the end of a sentence; "" where none is known.
func (d canary) describeEnding(w drain.Workload) string {
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
		return fmt.Sprintf(": pod %s on node %s: %s", first.Name, on.Name(), describeSilent(on.Node))
	default:
		return fmt.Sprintf(": pod %s on node %s", first.Name, on.Name())
	}
}

// mayStart reports whether a pod of the workload is on its way, or may be created at any moment.
func (d canary) mayStart(h *workloadHealth) bool {
	if h.countMissing() > 0 || h.replicas == nil {
		return true // it is late in its time
	}
	return slices.ContainsFunc(h.replicas.Unready(), func(pod *corev1.Pod) bool { return d.cameDuringUpgrade(pod) || d.cameBack(pod, h) })
}

// cameBack reports whether the pod is new on a node that stays for now, since its owner replaces it or it
// was given up, and may still become ready there in its time: it tolerates the fence.
func (d canary) cameBack(pod *corev1.Pod, h *workloadHealth) bool {
	usual := h.before.Usual.Duration
	stays := slices.Contains([]NodeState{NodeDrained, NodeQuarantined}, d.rec.Nodes[pod.Spec.NodeName].State)
	if !stays || pod.CreationTimestamp.Time.Before(d.rec.Started.Truncate(time.Second)) {
		return false
	}
	d.requeueAt(pod.CreationTimestamp.Add(drain.Patience(usual)))
	return drain.Lateness(pod, usual, 0, d.w.Now) == ""
}

// findLack finds why the workload has fewer ready pods than it should have; late is false while it
// may still have them in time. Of pods that are late the first is named.
func (d canary) findLack(h *workloadHealth) (u Unhealthy, late bool) {
	missing, refused := d.whyMissing(h) // called even if a pod is late, because it notes since when pods are missing
	replaced, coming := d.findReplaced(h)
	if pod, why, first := d.findLatePod(h); pod != nil {
		u := d.describeLack(h, pod, why)
		u.first, u.uncreated = first, missing != ""
		return u, true
	}
	if missing != "" {
		u := d.describeLack(h, nil, formatMissing(h.countMissing())+missing)
		u.refused = refused
		return u, true
	}
	if replaced != "" {
		u := d.describeLack(h, nil, replaced)
		u.first = coming
		return u, true
	}
	if d.hasLostCanary(h) && !d.mayStart(h) {
		why := d.whyNoSuccessor(h)
		return Unhealthy{Workload: h.Workload, Name: h.name, Why: why, Ready: h.ready, Before: h.before.Ready}, why != ""
	}
	return Unhealthy{}, false
}

// whyNoSuccessor says why no pod of the workload is on its way on a node that stays, in the place of
// the first that left; "" while one that is elsewhere may still become ready in its time.
func (d canary) whyNoSuccessor(h *workloadHealth) string {
	usual, unready := h.before.Usual.Duration, h.replicas.Unready()
	for _, pod := range unready {
		if drain.Lateness(pod, usual, 0, d.w.Now) == "" {
			d.requeueAt(pod.CreationTimestamp.Add(drain.Patience(usual)))
			return ""
		}
	}
	switch {
	case h.ready < h.replicas.Ready:
		return "" // one is ready, which counts in a moment
	case len(unready) > 0:
		return "none of its new pods is on a node that stays"
	default:
		return d.describeRest(h)
	}
}

// hasLostCanary reports whether the workload's pods left their first node, or were given up there,
// before one became ready on a node that stays. A machine that is ending takes its pods along.
func (d canary) hasLostCanary(h *workloadHealth) bool {
	n := d.rec.Nodes[h.before.Canary]
	ending := n.State == NodeRemoving && !d.isOverdue(n)
	return !h.before.Proven && h.before.Canary != "" && !isInDrain(n.State) && !ending
}

// describeLack names what keeps a workload from having as many ready pods as it should have: a pod,
// or nil for the first that is not ready and stays on its node, if there is one.
func (d canary) describeLack(h *workloadHealth, pod *corev1.Pod, why string) Unhealthy {
	u := Unhealthy{Workload: h.Workload, Name: h.name, Why: why, Ready: h.ready, Before: h.before.Ready}
	if pod == nil && h.countMissing() <= 0 {
		pod = d.firstUnready(h)
	}
	if pod == nil {
		return u
	}
	u.Pod, u.Node = pod.Name, pod.Spec.NodeName
	if i, found := indexOfMember(d.w.Members, u.Node); found && d.w.Members[i].Node != nil && !nodegroup.IsNodeReady(d.w.Members[i].Node) {
		u.Why = joinNotes(u.Why, "the node: "+cmp.Or(nodegroup.DescribeTrouble(d.w.Members[i].Node), "not Ready"))
	}
	return u
}

// findLatePod finds the first pod, by name, that is late to take the place of one that left, or
// whose readiness does not count yet; nil when there is none. first is the one of all such pods that
// has been late for longest.
func (d canary) findLatePod(h *workloadHealth) (found *corev1.Pod, reason string, first latePod) {
	if h.replicas == nil {
		return nil, "", first
	}
	for i, pod := range h.replicas.Pods {
		ready := i < h.replicas.Ready
		if _, unsettled := h.replicas.IsUnsettled(pod, h.before.Usual.Duration, d.w.Now); (ready && !unsettled) || !d.cameDuringUpgrade(pod) {
			if ready {
				d.keepLate(pod)
			}
			continue
		}
		why := ""
		if ready {
			why = drain.DescribeUnsettled(pod, d.w.Now)
		} else if why = d.whyLate(pod, h); why == "" {
			continue // it still has time, counted from when it got its node
		}
		if found == nil || pod.Name < found.Name {
			found, reason = pod, why
		}
		late, was := d.lastLate(pod)
		if !was {
			late.Since = d.w.Now
		}
		late.Seen = d.w.Now
		if d.notes.Late[pod.UID] = late; first.uid == "" || late.Since.Before(first.since) {
			first = latePod{uid: pod.UID, since: late.Since}
		}
	}
	return found, reason, first
}

// findReplaced reports whether new pods of the workload end one after the other before they are ready, for
// longer than one pod may take. This happens if a kubelet rejects the pods, or if a user deletes them. It
// returns "" or why the workload lacks pods, and the pod that is starting now.
func (d canary) findReplaced(h *workloadHealth) (why string, coming latePod) {
	next, found := d.followComing(h)
	if !found {
		return "", latePod{}
	}
	d.notes.Coming[h.name] = next
	d.requeueAt(next.Late)
	if next.Ended < 2 || next.Roomless || d.w.Now.Before(next.Late) {
		return "", latePod{} // a single one may have been lost with its node
	}
	return "its new pods end before they are ready, one after the other", latePod{uid: next.Pod, since: next.Late}
}

// followComing returns the pod that was noted while it is still starting. After that it returns the pod that is
// starting in its place. found is false if there is none.
func (d canary) followComing(h *workloadHealth) (next Coming, found bool) {
	replicas := cmp.Or(h.replicas, &drain.Replicas{}) // it is nil if the workload has no pod now
	next, found = d.findComing(replicas, h.before.Usual.Duration)
	noted, was := d.w.Notes.Coming[h.name]
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
		return Coming{Pod: noted.Pod, Late: drain.LateAt(replicas.Pods[i], h.before.Usual.Duration)}, true
	case i >= replicas.Ready:
		return noted, true
	case i < 0 && !found: // the next one is not there yet, or no node takes it
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

// findComing returns the new pod that has been starting on a node for the longest time.
func (d canary) findComing(replicas *drain.Replicas, usual time.Duration) (coming Coming, found bool) {
	for _, pod := range replicas.Unready() {
		late := drain.LateAt(pod, usual)
		if pod.Spec.NodeName != "" && d.cameDuringUpgrade(pod) && (!found || late.Before(coming.Late)) {
			coming, found = Coming{Pod: pod.UID, Late: late}, true
		}
	}
	return coming, found
}

// keepLate keeps the note that a pod was late while the pod is ready for a short time. A pod that crashes
// again and again may be ready longer between two crashes than IsUnsettled counts it as unsettled.
func (d canary) keepLate(pod *corev1.Pod) {
	if late, was := d.lastLate(pod); was && d.w.Now.Sub(late.Seen) <= lateKept {
		d.notes.Late[pod.UID] = late
	}
}

// lastLate returns the note that the pod is or was late, if there is one. Time in which no process decided
// does not count.
func (d canary) lastLate(pod *corev1.Pod) (late Late, was bool) {
	late, was = d.w.Notes.Late[pod.UID]
	return Late{Since: late.Since.Add(d.w.Idle), Seen: late.Seen.Add(d.w.Idle)}, was
}

// cameDuringUpgrade reports whether a pod came up during the upgrade, other than on a node that is
// to be replaced.
func (d canary) cameDuringUpgrade(pod *corev1.Pod) bool {
	return !pod.CreationTimestamp.Time.Before(d.rec.Started.Truncate(time.Second)) && !d.isOnOutdated(pod)
}

// isSuccessor reports whether a pod came up during the upgrade on a node that stays.
func (d canary) isSuccessor(pod *corev1.Pod) bool {
	return pod.Spec.NodeName != "" && d.cameDuringUpgrade(pod)
}

// isOnOutdated reports whether the pod is on a node that is to be replaced: it has to leave, and
// tells nothing of the current ones.
func (d canary) isOnOutdated(pod *corev1.Pod) bool {
	i, found := indexOfMember(d.w.Members, pod.Spec.NodeName)
	return found && d.w.Members[i].Outdated
}

// whyLate tells why a pod that is not ready is late, "" when it is not yet.
func (d canary) whyLate(pod *corev1.Pod, h *workloadHealth) string {
	usual := h.before.Usual.Duration
	if pod.Spec.NodeName != "" {
		d.requeueAt(drain.LateAt(pod, usual))
		return drain.Lateness(pod, usual, 0, d.w.Now)
	}
	if why := d.whyNeverPlaced(pod, d.sampleNodes()); why != "" {
		return why
	}
	patience, ends := d.roomPatience(d.countBringers(h))
	if !ends {
		return ""
	}
	d.requeueAt(pod.CreationTimestamp.Add(patience))
	why := drain.Lateness(pod, usual, patience, d.w.Now)
	if why != "" && d.w.Group.Sized && d.rec.Request.Surge == 0 && d.lastReady(h) != nil {
		why += "; an upgrade with --max-surge=1 adds a node first"
	}
	return why
}

// whyNeverPlaced says why no node takes the pod, if none of the samples would even if it were empty; ""
// otherwise.
func (d *draft) whyNeverPlaced(pod *corev1.Pod, samples []drain.Sample) string {
	if never := drain.WhyNever(pod, samples); never != "" {
		return drain.Lateness(pod, 0, 0, d.w.Now) + "; a current node would not if it were empty: " + never
	}
	return ""
}

// countBringers counts the nodes in flight whose replacements may have room for the workload's pods. A node
// in drain with the only ready pod of the workload is not one of them: that pod stays until another is ready.
func (d canary) countBringers(h *workloadHealth) int {
	inFlight := d.rec.countInFlight()
	if d.lastReady(h) != nil {
		inFlight--
	}
	return inFlight
}

// roomPatience returns how long a pod may wait for room on another node like those of the group.
// ends is false, and the wait has no limit, while such nodes are expected: replacements of the nodes in
// flight, of which inFlight is the number, or launches. A new node that boots may take the boot timeout.
func (d canary) roomPatience(inFlight int) (patience time.Duration, ends bool) {
	lacking := d.countUnavailable() > 0
	switch {
	case d.rec.Request.isRefilled():
		return d.rec.Request.BootTimeout.Duration, true
	case d.w.Group.Refill() == nodegroup.RefillByUser:
		return d.ownersPatience(inFlight, lacking)
	case inFlight > 0 || d.rec.Ledger.PendingLaunches() > 0 || (d.w.Group.Sized && lacking):
		return 0, false
	case d.w.Group.Autoscaler.Serves || d.w.Group.Autoscaler.Tagged || (d.w.Group.Sized && d.count.Fresh > d.count.Usable): // a new node boots
		return d.rec.Request.BootTimeout.Duration, true
	default:
		return roomPatience, true
	}
}

// ownersPatience is roomPatience for a group whose owner brings a node for each that leaves. While none
// has left, the next may have to wait for this pod, and nothing brings it room.
func (d canary) ownersPatience(inFlight int, lacking bool) (patience time.Duration, ends bool) {
	moving := inFlight > 0 || (lacking && len(d.count.pending) > 0)
	if (moving || lacking) && d.rec.Request.WaitReplacement {
		return d.rec.Request.BootTimeout.Duration, !moving
	}
	return roomPatience, true
}

// sampleNodes lists the current nodes of the group that take pods.
func (d canary) sampleNodes() []drain.Sample {
	var samples []drain.Sample
	for i := range d.w.Members {
		m := &d.w.Members[i]
		if !m.Outdated && m.Node != nil && !m.Node.Spec.Unschedulable && d.w.Group.IsUsable(m) {
			samples = append(samples, drain.Sample{Node: m.Node, Pods: m.Pods})
		}
	}
	return samples
}

// whyMissing returns why the workload has fewer pods than it should have, or "" if it has as many or its
// controller may create them soon. For an ordered StatefulSet it looks for the pod with a lower ordinal that is not ready yet.
// refused is true if the API server refuses the pods.
func (d canary) whyMissing(h *workloadHealth) (why string, refused bool) {
	if h.countMissing() <= 0 {
		return "", false
	}
	since, was := d.w.Notes.MissingSince[h.name]
	if !was {
		since = d.w.Now
	}
	d.notes.MissingSince[h.name] = since
	controller, read := d.w.Controllers[h.Workload]
	waitsFor := d.findPredecessor(h, controller)
	late := d.noteCreatable(h, waitsFor).Add(creationPatience)
	d.requeueAt(late)
	switch {
	case read && controller.Refused != "" && !controller.Read.Before(since):
		return ": " + controller.Refused, true
	case waitsFor != nil && !d.isStarting(h) && !d.mayEnd(waitsFor) && !d.w.Now.Before(since.Add(creationPatience)):
		return d.describePredecessor(h, waitsFor), false
	case d.w.Now.Before(late):
		return "", false
	case !read:
		return ", and how many there should be was not read yet", false
	case controller.Unread == "" && controller.Read.Before(late):
		return "", false // its controller may have been refused since
	}
	if kept := d.findKeptPod(h.Workload); kept != nil {
		return describeKept(kept), false
	}
	controller.Refused = "" // it is of an earlier time
	return describeRefusal(controller), false
}

// findPredecessor returns the pod because of which an ordered StatefulSet does not create its next pod: the
// first by ordinal that is not ready or is ending. It returns nil if there is none.
func (d canary) findPredecessor(h *workloadHealth, controller drain.Controller) *corev1.Pod {
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

// describePredecessor returns the end of the sentence "a pod is not created": the other pod that prevents it.
func (d canary) describePredecessor(h *workloadHealth, pod *corev1.Pod) string {
	switch kept := d.findKeptPod(h.Workload); {
	case kept != nil:
		return describeKept(kept)
	case pod.DeletionTimestamp != nil:
		return fmt.Sprintf(": the StatefulSet creates its pods in order and waits until pod %s on node %s has terminated", pod.Name, pod.Spec.NodeName)
	default:
		return fmt.Sprintf(": the StatefulSet creates its pods in order and waits until pod %s is ready", pod.Name)
	}
}

func describeKept(pod *corev1.Pod) string {
	return fmt.Sprintf(": pod %s on node %s should be gone, but its finalizers keep it (%s)", pod.Name, pod.Spec.NodeName, strings.Join(pod.Finalizers, ", "))
}

// mayEnd reports whether the pod is being deleted and its grace period, or the drain of its node, is not over.
func (d canary) mayEnd(pod *corev1.Pod) bool {
	if pod.DeletionTimestamp == nil {
		return false
	}
	state := d.rec.Nodes[pod.Spec.NodeName].State
	return isEndingInTime(pod, d.w.Now) || (len(pod.Finalizers) == 0 && (isInDrain(state) || state == NodeRemoving))
}

// isEndingInTime reports whether the pod is being deleted and its grace period is not over.
func isEndingInTime(pod *corev1.Pod, now time.Time) bool {
	return pod.DeletionTimestamp != nil && now.Before(pod.DeletionTimestamp.Time)
}

// listEnding lists the workload's pods on the group's nodes that are being deleted.
func (d canary) listEnding(w drain.Workload) []*corev1.Pod {
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

// noteCreatable notes and returns since when no other pod prevents the creation of the workload's missing pods.
func (d canary) noteCreatable(h *workloadHealth, waitsFor *corev1.Pod) time.Time {
	if waitsFor != nil || d.isStarting(h) {
		return d.w.Now
	}
	since, was := d.w.Notes.CreatableSince[h.name]
	if !was {
		since = d.w.Now
	}
	d.notes.CreatableSince[h.name] = since
	return since
}

// isStarting reports whether the workload has an unready pod that may still become ready.
func (d canary) isStarting(h *workloadHealth) bool {
	return h.replicas != nil && slices.ContainsFunc(h.replicas.Unready(), func(pod *corev1.Pod) bool {
		return d.cameDuringUpgrade(pod) || d.whyLate(pod, h) == ""
	})
}

// findKeptPod returns a pod of the workload whose grace period is over and which finalizers keep, or nil.
// A StatefulSet cannot create a pod of the same name before that one is gone.
func (d canary) findKeptPod(w drain.Workload) *corev1.Pod {
	for _, pod := range d.listEnding(w) {
		if !isEndingInTime(pod, d.w.Now) && len(pod.Finalizers) > 0 {
			return pod
		}
	}
	return nil
}

// describeRefusal says why a controller's pods are not created, as the end of a sentence.
func describeRefusal(c drain.Controller) string {
	switch {
	case c.Refused != "":
		return ": " + c.Refused
	case c.Unread != "":
		return ", and how many there should be is not known: " + c.Unread
	default:
		return ", and its controller does not say why"
	}
}

func formatMissing(n int) string {
	if n == 1 {
		return "1 pod is not created"
	}
	return fmt.Sprintf("%d pods are not created", n)
}

// addUnhealthy notes since when the workload is unhealthy. Its pods usually take the time usual to become ready; 0 for
// not known.
func (d canary) addUnhealthy(u Unhealthy, usual time.Duration) {
	spell, was := d.w.Notes.Unhealthy[u.Name]
	if !was {
		spell.Since, was = d.w.Record.Unhealthy[u.Name]
	}
	switch r := d.w.Workloads.Named(u.Workload); {
	case !was:
		spell = Spell{Since: d.w.Now, Pod: u.first.uid}
		if u.first.uid != "" {
			spell.Since = u.first.since
		}
	case u.first.uid == "" || r == nil || slices.Contains(spell.Earlier, u.first.uid):
	case isSettled(r, spell.Pod, usual, d.w.Now) && !u.uncreated: // pods that come up one after the other have their time each
		spell = Spell{Since: u.first.since, Pod: u.first.uid, Earlier: append(slices.Clone(spell.Earlier), spell.Pod)}
	case !slices.ContainsFunc(r.Pods, func(pod *corev1.Pod) bool { return pod.UID == spell.Pod }):
		spell.Pod = u.first.uid // another took its place, with what is left of its time
	}
	u.Since = spell.Since.Add(d.w.Idle)
	if u.Since.After(d.w.Now) {
		u.Since = d.w.Now
	}
	u.until = u.Since.Add(max(leastUnhealthy, 4*usual))
	d.notes.Unhealthy[u.Name] = Spell{Since: u.Since, Pod: spell.Pod, Earlier: spell.Earlier}
	d.unhealthy = append(d.unhealthy, u)
	recovery := d.recoveries[u.Workload]
	recovery.Unhealthy = true
	d.recoveries[u.Workload] = recovery
}

// isSettled reports whether the pod is one of the workload's that are ready, and are likely to stay so.
func isSettled(r *drain.Replicas, uid types.UID, usual time.Duration, now time.Time) bool {
	return slices.ContainsFunc(r.Pods[:r.Ready], func(pod *corev1.Pod) bool {
		_, unsettled := r.IsUnsettled(pod, usual, now)
		return pod.UID == uid && !unsettled
	})
}

// isHolding reports whether no further node is to be started: a workload does not recover, or a first
// node was started and it is not known yet whether a DaemonSet has its pods on current nodes.
func (d canary) isHolding() bool {
	if len(d.unhealthy) == 0 && d.unsure != "" && d.rec.Begun > 0 {
		d.waiting = fmt.Sprintf("the pods of %s on new nodes to be created", d.unsure)
		return true
	}
	if len(d.unhealthy) == 0 {
		return false
	}
	d.waiting = d.unhealthy[0].String()
	if more := len(d.unhealthy) - 1; more > 0 {
		d.waiting += fmt.Sprintf(", and %d more workloads", more)
	}
	return true
}

// startWait is the workload that a node waits for before it is started, and what must happen to it.
type startWait struct {
	workload drain.Workload
	what     string
}

// deferStart returns whether a node must not be started yet, and notes what it waits for.
func (d canary) deferStart(m *nodegroup.Member) (deferred bool) {
	wait, waits := d.findStartWait(m)
	if waits {
		d.waiting, d.awaited = wait.what, append(d.awaited, wait.workload)
	}
	return waits
}

// deferDrain is deferStart for a node whose pods are evicted, not deleted. While half of the window is
// free, it does not defer a node of which only some pods must wait. If each node has pods of many
// workloads, most of the window would be empty otherwise (docs/decisions/0043).
func (d canary) deferDrain(m *nodegroup.Member) (deferred bool) {
	if d.isHalfFree() && d.canDrainInParts(m) {
		return false
	}
	return d.deferStart(m)
}

// findStartWait finds the first pod of the node because of which the node must not be started: pods of its
// workload left another node and no new one is ready on a node that stays, pods of the workload are missing, or
// too many would be away together. It skips pods that a budget keeps, because other pods of the node may leave.
func (d canary) findStartWait(m *nodegroup.Member) (wait startWait, waits bool) {
	if d.rec.Request.NoImplicitBudgets || len(d.recoveries) == 0 {
		return startWait{}, false
	}
	for _, pod := range d.classifyPodsOf(m).Evict {
		w := drain.WorkloadOf(pod)
		what := ""
		switch {
		case d.isHeldOn(m, w):
			what = fmt.Sprintf("the first new pod of %s to become ready", w)
		case d.rec.Workloads[w.String()].Scaled > 0 && d.askScale(w):
			what = fmt.Sprintf("the scale of %s to be read", w)
		case d.isMissing(w):
			what = fmt.Sprintf("the pods of %s to be created", w)
		case d.leavesTooFew(m, pod, w):
			what = fmt.Sprintf("more pods of %s to become ready", w)
		}
		if what != "" && d.isAdmitted(pod) {
			return startWait{workload: w, what: what}, true
		}
	}
	return startWait{}, false
}

// isAdmitted reports whether the eviction API would let the pod go.
func (d canary) isAdmitted(pod *corev1.Pod) bool {
	return drain.Predict(pod, d.w.Budgets, nil, d.w.EndingNamespaces[pod.Namespace]).Admitted()
}

// isHeldOn reports whether ready pods of the workload must stay on the node until the workload's first new pod
// is ready: pods of it leave another node already.
func (d canary) isHeldOn(m *nodegroup.Member, w drain.Workload) bool {
	r := d.recoveries[w]
	return r.Unproven && r.Canary != "" && r.Canary != m.Name()
}

// isHalfFree reports whether at most half of the window would be in use with one more node, and the group has
// all of its nodes. If a node is missing, a new pod may be Pending until the node is there.
func (d canary) isHalfFree() bool {
	return 2*(d.rec.countInFlight()+1) <= d.rec.Request.Window && d.count.unready == 0 && d.countUnavailable() == 0
}

// canDrainInParts reports whether some pods of the node can leave now, and all others as soon as the first new
// pods of their workloads are ready. It returns false if any pod could be kept longer by something else.
func (d canary) canDrainInParts(m *nodegroup.Member) bool {
	pods := d.classifyPodsOf(m)
	if len(pods.Held)+len(pods.Leaving) > 0 {
		return false
	}
	some := false
	for _, pod := range pods.Evict {
		w := drain.WorkloadOf(pod)
		switch {
		case drain.TierOf(pod, d.w.Facts) > drain.Ordinary, !d.isAdmitted(pod), d.isMissing(w), d.leavesTooFew(m, pod, w):
			return false
		case !d.isHeldOn(m, w):
			some = true
		case !drain.Ready(pod) || !d.hasSuccessorInTime(w): // findGuard keeps only pods that are ready
			return false
		}
	}
	return some
}

// hasSuccessorInTime reports whether a new pod of the workload is starting on a node that stays, and whether the
// drain timeout is at least twice as long as that may take. Within that time the pod becomes ready, or the
// upgrade stops because of the workload. So the drain timeout never ends for a node that only waits for the pod.
func (d canary) hasSuccessorInTime(w drain.Workload) bool {
	r, usual := d.w.Workloads.Named(w), d.recoveries[w].Usual
	if r == nil || 2*(drain.Patience(usual)+max(leastUnhealthy, 4*usual)) > d.rec.Request.DrainTimeout.Duration {
		return false
	}
	return slices.ContainsFunc(r.Unready(), d.isSuccessor)
}

// isMissing reports whether pods of the workload have been missing for longer than controllers need to create
// them. With many workloads on each node, some pod is always missing for a moment.
func (d canary) isMissing(w drain.Workload) bool {
	since, was := d.w.Notes.MissingSince[w.String()]
	return d.recoveries[w].Missing && was && !d.w.Now.Before(since.Add(creationTime))
}

// describeUnhealthy says why the upgrade stops, and the two ways on. The first that it names is the workload that has
// been unhealthy for longest.
func describeUnhealthy(all []Unhealthy) string {
	sorted := slices.SortedFunc(slices.Values(all), func(a, b Unhealthy) int {
		return cmp.Or(a.until.Compare(b.until), strings.Compare(a.Name, b.Name))
	})
	var lines, names []string
	var retries []string
	for _, u := range sorted {
		lines, names = append(lines, u.String()), append(names, u.Name)
		if u.refused && len(lines) <= mostNamed {
			retries = append(retries, describeRetry(u.Workload))
		}
	}
	retry := ""
	if len(retries) > 0 {
		retry = fmt.Sprintf(" and run %s (controllers may wait 17 minutes before they try again)", strings.Join(retries, "; "))
	}
	return fmt.Sprintf("workloads do not recover on current nodes: %s: mend them%s, or let even their last ready pods go with %s",
		joinFirst(lines), retry, shell.Quote("--ignore-unready="+strings.Join(names[:min(mostNamed, len(names))], ",")))
}

// describeRetry returns a command that makes a controller retry at once. Without it, a controller whose pods were refused waits up to
// 17 minutes between attempts, because its backoff grows (DefaultTypedControllerRateLimiter of client-go).
func describeRetry(w drain.Workload) string {
	return fmt.Sprintf("%s %s --overwrite",
		shell.Command("kubectl annotate "+shell.Option("--namespace", w.Namespace), strings.ToLower(w.Kind)+"/"+w.Name), `nodeupgrade-retry="$(date)"`)
}
