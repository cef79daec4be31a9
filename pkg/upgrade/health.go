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
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

const (
	// minUnhealthyLimit is how long a workload may be unhealthy before the upgrade stops, whatever its
	// pods usually take.
	minUnhealthyLimit = 5 * time.Minute
	// creationPatience is how long a controller may take to create a missing pod.
	creationPatience = 5 * time.Second
	// creationTime is how long controllers need to create a pod on a busy control plane.
	creationTime = time.Second
	// maxIgnored is how many workloads an advised --ignore-unready names. With fewer names than unhealthy workloads, the
	// same command would stop again.
	maxIgnored = 20
	// roomPatience is how long a pod may wait for room if no new node is expected. Pods that end on other nodes may leave
	// room.
	roomPatience = 30 * time.Second
)

// workloadHealth is the current state of a workload on record.
type workloadHealth struct {
	drain.Workload
	name   string
	before record.WorkloadRecord
	// replicas are the workload's pods; nil if there are none. ready counts the ready pods that will probably stay ready.
	replicas *drain.Replicas
	ready    int
	// unscaled is true if the workload has fewer pods than before and its controller's replica count was not read yet.
	unscaled bool
	// scaledBack is when the reading was made that showed, in this decision, that the owner scaled the workload up
	// again. It is zero otherwise.
	scaledBack time.Time
}

// lacksPods reports whether the workload has fewer ready pods than it should have.
func (h *workloadHealth) lacksPods() bool { return h.ready < h.before.Ready }

// countMissing counts the pods that the workload should have and that do not exist.
func (h *workloadHealth) countMissing() int {
	pods := h.before.Ready + h.before.Unready
	if h.replicas == nil {
		return pods
	}
	return pods - h.replicas.Expected
}

// examineWorkloads examines the workloads on record that may lack pods. Pods that a user scaled away during the upgrade
// are no longer expected. A workload of which a new pod has become ready is marked as proven.
func (d *decision) examineWorkloads() {
	for name, before := range d.rec.Workloads {
		w, err := drain.ParseWorkload(name)
		if err != nil || before.Ready+before.Scaled == 0 {
			continue
		}
		if h := (workloadHealth{Workload: w, name: name, before: before, replicas: d.w.Workloads.Named(w)}); !h.isWhole() {
			kept := h // only these are allocated
			d.health = append(d.health, &kept)
		}
	}
	slices.SortFunc(d.health, func(a, b *workloadHealth) int { return strings.Compare(a.name, b.name) })
	d.recoveries = make(map[drain.Workload]schedule.Recovery, len(d.health))
	for _, h := range d.health {
		before := h.before
		if d.examineWorkload(h); h.before != before {
			d.workloadsToChange()[h.name] = h.before
		}
		if h.unscaled || (h.before.Scaled > 0 && (h.countMissing() < 0 || d.findNodeInDrain(h) != "")) {
			d.requestController(h.Workload)
		}
		d.noteRecovery(h)
	}
}

// isWhole reports whether the workload needs no closer look: all of its pods exist and will probably stay ready, and more than one
// is ready. That is true for most workloads most of the time.
func (h *workloadHealth) isWhole() bool {
	b, r := &h.before, h.replicas
	return r != nil && r.Ready > 1 && r.Ready >= b.Ready && !r.MayBeUnsettled() && h.countMissing() <= 0 &&
		b.Proven && b.Canary == "" && b.Scaled == 0 && b.Lacks == 0 && !b.Out
}

// workloadsToChange returns the record's workloads for changing. The first call copies them, because until then they
// belong to the input.
func (d *decision) workloadsToChange() map[string]record.WorkloadRecord {
	if !d.ownsWorkloads {
		d.rec.Workloads, d.ownsWorkloads = maps.Clone(d.rec.Workloads), true
	}
	if d.rec.Workloads == nil {
		d.rec.Workloads = map[string]record.WorkloadRecord{}
	}
	return d.rec.Workloads
}

// examineWorkload determines the workload's state and updates its record.
func (d *decision) examineWorkload(h *workloadHealth) {
	before := h.before
	h.ready = h.replicas.CountSettled(before.Usual.Duration, d.w.Now)
	if h.countMissing() > 0 {
		h.before = d.withoutScaledAway(h)
	}
	if before.Scaled > 0 {
		if h.before = d.withScaledBack(h); h.before.Scaled < before.Scaled {
			h.scaledBack = d.w.Controllers[h.Workload].Read
		}
	}
	h.unscaled = h.countMissing() > 0
	h.before.Lacks, h.before.Out = max(0, h.before.Ready-h.countReady()), h.before.Ready > 0 && h.countReady() == 0
	if h.replicas == nil {
		return
	}
	for _, pod := range h.replicas.Pods[:h.replicas.Ready] {
		until, unsettled := h.replicas.IsUnsettled(pod, before.Usual.Duration, d.w.Now)
		if unsettled {
			d.requeueAt(until)
		} else if !h.before.Proven && d.isSuccessor(pod) {
			h.before.Proven, h.before.Canary = true, ""
		}
	}
	// After the target moved, a workload may lack pods and have no canary, because its pods left
	// their nodes before the target moved.
	if canary := h.before.Canary; !h.before.Proven && (canary == "" || !h.lacksPods()) && (!record.IsInDrain(d.rec.Nodes[canary].State) || !h.hasPodOn(canary)) {
		h.before.Canary = d.findNodeInDrain(h)
	}
}

// withoutScaledAway returns the workload's record without the pods by which a user scaled it down.
func (d *decision) withoutScaledAway(h *workloadHealth) record.WorkloadRecord {
	controller, read := d.w.Controllers[h.Workload]
	switch {
	case d.w.EndingNamespaces[h.Namespace]:
		return h.before.WithScale(0)
	case read && controller.Unread == "":
		return h.before.WithScale(controller.Replicas)
	case read:
		return h.before.WithScale(h.before.Ready) // a user may have scaled the unready pods away
	default:
		return h.before
	}
}

// withScaledBack returns the workload's record after a user scaled it up again, to the replica count of its controller.
// The pods count from then on, whether created or not: a quota may refuse them.
func (d *decision) withScaledBack(h *workloadHealth) record.WorkloadRecord {
	controller, read := d.w.Controllers[h.Workload]
	if !read || controller.Unread != "" || d.w.EndingNamespaces[h.Namespace] {
		return h.before
	}
	return h.before.WithScaledBack(controller.Replicas - h.before.Ready - h.before.Unready)
}

// requestScale requests a reading of a scaled-down workload's controller: the owner may have scaled it up again. It
// reports whether the reading is still missing.
func (d *decision) requestScale(w drain.Workload) (pending bool) {
	d.requestController(w)
	return d.isScaleUnread(w)
}

// isScaleUnread reports whether the owner scaled the workload down during the upgrade, and its present scale was not read.
func (d *decision) isScaleUnread(w drain.Workload) bool {
	_, read := d.w.Controllers[w]
	return d.rec.Workloads[w.String()].Scaled > 0 && !read && !d.w.EndingNamespaces[w.Namespace]
}

// countReady counts the workload's ready pods, settled or not.
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
func (d *decision) findNodeInDrain(h *workloadHealth) string {
	for _, name := range d.rec.StartedNames() {
		if record.IsInDrain(d.rec.Nodes[name].State) && h.hasPodOn(name) {
			return name
		}
	}
	return ""
}

// noteRecovery notes what the scheduling of evictions needs to know about the workload.
func (d *decision) noteRecovery(h *workloadHealth) {
	if !d.rec.Request.IgnoresUnready(h.name) {
		d.recoveries[h.Workload] = recoveryFrom(h.before, h.unscaled)
	}
}

func recoveryFrom(before record.WorkloadRecord, missing bool) schedule.Recovery {
	return schedule.Recovery{Ready: before.Ready, Usual: before.Usual.Duration, Unproven: !before.Proven, Canary: before.Canary, Missing: missing}
}

// recoveryOf returns what the scheduling of evictions needs to know about a workload. It returns false if the workload
// is not on record or need not be ready. For the latter, the result has only how long its pods usually take: its last ready
// pod waits for that time.
func (d *decision) recoveryOf(w drain.Workload) (schedule.Recovery, bool) {
	if r, noted := d.recoveries[w]; noted {
		return r, true
	}
	name := w.String()
	before, known := d.rec.Workloads[name]
	switch {
	case !known || before.Ready+before.Scaled == 0:
		return schedule.Recovery{}, false
	case d.rec.Request.IgnoresUnready(name):
		return schedule.Recovery{Usual: before.Usual.Duration}, false
	}
	return recoveryFrom(before, false), true
}

// recordWorkloads records the state of the workloads whose pods will leave the member. The first known time that their
// pods usually take is kept. It is stored together with the start of the node.
func (d *decision) recordWorkloads(m *nodegroup.Member) {
	known := d.workloadsToChange()
	leaving := map[string]bool{}
	view := d.classifyPodsOf(m)
	for _, pod := range slices.Concat(view.Evict, view.Held) { // held pods may be deleted at the end
		r := d.w.Workloads.Of(pod)
		if r == nil {
			continue
		}
		leaving[r.String()] = true
		w := known[r.String()]
		if w.Usual.Duration == 0 {
			if took, tells := r.ReadyTime(); tells {
				w.Usual.Duration = max(took, time.Millisecond) // 0 would mean unknown
			}
		}
		if w.Ready+w.Scaled == 0 && !record.IsInDrain(d.rec.Nodes[w.Canary].State) {
			w.Canary = "" // no pod had to be ready when the earlier node was started
		}
		if w = w.WithPods(r.Expected, r.CountServing(w.Usual.Duration, d.w.Now)-d.countOnAddedNodes(r)); !w.Proven && w.Canary == "" {
			w.Canary = m.Name()
		}
		known[r.String()] = w
		d.noteRecovery(&workloadHealth{Workload: r.Workload, name: r.String(), before: w})
	}
	d.shortages, d.deferrable = nil, nil
	record.SumUpOthers(known, func(name string, w record.WorkloadRecord) bool { return !leaving[name] && d.hasRecovered(name, w) })
}

// countOnAddedNodes counts the ready pods that were Pending before the upgrade and are on a node that the upgrade added.
// They had room only on that node, so the workload need not have as many ready pods when the surge is given back.
func (d *decision) countOnAddedNodes(r *drain.Replicas) (pods int) {
	started := d.rec.Started.Truncate(time.Second)
	for _, pod := range r.Pods[:r.Ready] {
		if !pod.CreationTimestamp.Time.Before(started) || drain.PlacedAt(pod).Before(started) {
			continue
		}
		i, found := nodegroup.IndexOfMember(d.w.Members, pod.Spec.NodeName)
		if found && d.w.Members[i].Node != nil && !d.w.Members[i].Node.CreationTimestamp.Time.Before(started) {
			pods++
		}
	}
	return pods
}

// hasRecovered reports whether a workload has as many ready pods as before its pods left nodes, and no pod on a node that
// was started. A pod on such a node must still leave.
func (d *decision) hasRecovered(name string, before record.WorkloadRecord) bool {
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

// watchWorkloads finds workloads that do not recover. It stops the upgrade if one has not recovered for long.
func (d *decision) watchWorkloads() {
	for _, h := range d.health {
		if d.rec.Request.IgnoresUnready(h.name) {
			continue
		}
		u, late := unhealthy{}, false
		if h.lacksPods() {
			d.lacking = append(d.lacking, h.Workload)
			u, late = d.findShortfall(h)
		}
		if !late {
			u, late = d.checkLastReady(h)
		}
		if late {
			d.addUnhealthy(u, h.before.Usual.Duration)
		}
	}
	d.watchDaemons()
	if !d.phase.givesBackSurge { // in these phases no node is drained, so the upgrade first gives back the added nodes
		d.stopForUnhealthy()
	}
}

// listAwaited returns the workloads whose pods may change what the upgrade does. It leaves out those that only lack pods
// while nodes are in drain, no pod is blocked and no further node may be started: nothing waits for them then.
func (d *decision) listAwaited() []drain.Workload {
	if d.rec.CountDraining() > 0 && !d.choosing && len(d.blocked)+len(d.unhealthy) == 0 {
		return d.awaited
	}
	return slices.Concat(d.lacking, d.awaited)
}

// lastReadyInDrain returns the workload's only ready pod that will probably stay ready. It returns nil if there are more or
// none, or if the node of that pod is not in drain.
func (d *decision) lastReadyInDrain(h *workloadHealth) *corev1.Pod {
	if h.replicas == nil || h.ready != 1 {
		return nil
	}
	for _, pod := range h.replicas.Pods[:h.replicas.Ready] {
		if isSettled(h.replicas, pod.UID, h.before.Usual.Duration, d.w.Now) && record.IsInDrain(d.rec.Nodes[pod.Spec.NodeName].State) {
			return pod
		}
	}
	return nil
}

// checkLastReady reports whether the workload's last ready pod must leave while no other pod of the workload
// can become ready. faulty is false if one can, for example a standby that waits to become the leader.
func (d *decision) checkLastReady(h *workloadHealth) (u unhealthy, faulty bool) {
	last := d.lastReadyInDrain(h)
	if last == nil {
		return unhealthy{}, false
	}
	pods := slices.SortedFunc(slices.Values(h.replicas.Pods), comparePodNames)
	for _, pod := range slices.Backward(pods) {
		why := drain.DescribeFault(pod)
		switch {
		case pod == last:
			continue
		case drain.IsGated(pod):
			return unhealthy{}, false // the gated pod waits on purpose
		case drain.Ready(pod) && drain.HasRestarted(pod):
			why = drain.DescribeUnsettled(pod, d.w.Now)
		case drain.Ready(pod):
			return unhealthy{}, false // the pod has just become ready
		case pod.Spec.NodeName == "":
			why = d.whyLate(pod, h) // a new node of the group may be booting
		}
		if why == "" {
			return unhealthy{}, false
		}
		u, faulty = d.describeShortfall(h, pod, why+", and the last ready pod must leave its node"), true
	}
	return u, faulty
}

// stopForUnhealthy stops the upgrade if a workload has not recovered for long.
func (d *decision) stopForUnhealthy() {
	for _, u := range d.unhealthy {
		d.requeueAt(u.until)
		if !d.w.Now.Before(u.until) {
			d.stopUpgradeWith(record.WorkloadUnhealthy, describeUnhealthy(d.unhealthy))
			return
		}
	}
}

// awaitWorkloads waits until the workloads on record have as many ready pods as they should have. At the end of an
// upgrade nothing else restores pods. So a workload that lacks ready pods counts as unhealthy, unless its pods may
// still become ready in time.
func (d *decision) awaitWorkloads() (whole bool) {
	whole = true
	for _, h := range d.health {
		if d.rec.Request.IgnoresUnready(h.name) {
			continue
		}
		if h.before.Scaled > 0 && d.requestScale(h.Workload) {
			whole = false
			d.setWaiting("the scale of " + h.name + " to be read")
			continue
		}
		if !h.lacksPods() {
			continue
		}
		whole = false
		d.setWaiting(fmt.Sprintf("%s to have %d ready pods again (%d now)", h.name, h.before.Ready, h.ready))
		starts := d.expectMorePods(h)
		if i := slices.IndexFunc(d.unhealthy, func(u unhealthy) bool { return u.Workload == h.Workload }); i >= 0 {
			d.setWaiting(d.unhealthy[i].String())
		} else if !starts {
			d.addUnhealthy(d.describeShortfall(h, nil, d.explainTooFewReady(h)), h.before.Usual.Duration)
		}
	}
	if !whole {
		d.stopForUnhealthy()
	}
	return whole
}

// explainTooFewReady returns why a workload has too few ready pods although none of its pods is late.
func (d *decision) explainTooFewReady(h *workloadHealth) string {
	switch {
	case h.ready < h.replicas.Ready:
		return "a pod has been ready again for less than 30s"
	case len(h.replicas.Unready()) == 0:
		return "an evicted pod must end before its replacement is created" + d.describeEnding(h.Workload)
	}
	first := d.firstUnready(h)
	if first == nil {
		return "none of its unready pods is on a node that stays"
	}
	return cmp.Or(drain.WhyLate(first, h.before.Usual.Duration, 0, d.w.Now), "it is not ready")
}

// firstUnready returns the workload's first unready pod by name. It skips pods that must leave their node, and
// returns nil if there is no other.
func (d *decision) firstUnready(h *workloadHealth) (first *corev1.Pod) {
	if h.replicas == nil {
		return nil
	}
	for _, pod := range h.replicas.Unready() {
		stays := slices.Contains([]record.NodeState{record.NodeDrained, record.NodeQuarantined}, d.rec.Nodes[pod.Spec.NodeName].State) || !d.isOnOutdated(pod)
		if stays && (first == nil || pod.Name < first.Name) {
			first = pod
		}
	}
	return first
}

// expectMorePods reports whether a pod of the workload is starting or may be created at any moment. It schedules the next
// decision for when that pod is late.
func (d *decision) expectMorePods(h *workloadHealth) (expected bool) {
	if h.countMissing() > 0 || h.replicas == nil {
		return true // if the pod becomes late, findShortfall reports it
	}
	return slices.ContainsFunc(h.replicas.Unready(), func(pod *corev1.Pod) bool { return d.cameDuringUpgrade(pod) || d.expectReadinessOnKeptNode(pod, h) })
}

// expectReadinessOnKeptNode reports whether the pod is new, tolerates the fence, and may still become ready in time on a node that
// stays for now: a drained node whose machine its owner removes, or a quarantined one. It schedules the next decision
// for the time at which the pod is late.
func (d *decision) expectReadinessOnKeptNode(pod *corev1.Pod, h *workloadHealth) (expected bool) {
	usual := h.before.Usual.Duration
	stays := slices.Contains([]record.NodeState{record.NodeDrained, record.NodeQuarantined}, d.rec.Nodes[pod.Spec.NodeName].State)
	if !stays || pod.CreationTimestamp.Time.Before(d.rec.Started.Truncate(time.Second)) {
		return false
	}
	d.requeueAt(pod.CreationTimestamp.Add(drain.Patience(usual)))
	return drain.WhyLate(pod, usual, 0, d.w.Now) == ""
}

// findShortfall returns why the workload has fewer ready pods than it should have. late is false while they may still become
// ready in time. If several pods are late, it names the first.
func (d *decision) findShortfall(h *workloadHealth) (u unhealthy, late bool) {
	missing, refused := d.whyMissing(h) // called even if a pod is late, because it notes since when pods are missing
	replaced, coming := d.findRepeatedlyEnding(h)
	if pod, why, first := d.findLatePod(h); pod != nil {
		u := d.describeShortfall(h, pod, why)
		u.first, u.uncreated = first, missing != ""
		return u, true
	}
	if missing != "" {
		u := d.describeShortfall(h, nil, formatMissing(h.countMissing())+missing)
		u.refused = refused
		return u, true
	}
	if replaced != "" {
		u := d.describeShortfall(h, nil, replaced)
		u.first = coming
		return u, true
	}
	if d.hasLostCanary(h) && !d.expectMorePods(h) {
		why := d.whyNoSuccessor(h)
		return unhealthy{Unhealthy: record.Unhealthy{Workload: h.Workload, Name: h.name, Why: why, Ready: h.ready, Before: h.before.Ready}}, why != ""
	}
	return unhealthy{}, false
}

// whyNoSuccessor returns why no pod of the workload is starting on a node that stays, after the first one left. It
// returns "" while a pod elsewhere may still become ready in time.
func (d *decision) whyNoSuccessor(h *workloadHealth) string {
	usual, unready := h.before.Usual.Duration, h.replicas.Unready()
	for _, pod := range unready {
		if drain.WhyLate(pod, usual, 0, d.w.Now) == "" {
			d.requeueAt(pod.CreationTimestamp.Add(drain.Patience(usual)))
			return ""
		}
	}
	switch {
	case h.ready < h.replicas.Ready:
		return "" // a ready pod will soon count as settled
	case len(unready) > 0:
		return "none of its new pods is on a node that stays"
	default:
		return d.explainTooFewReady(h)
	}
}

// hasLostCanary reports whether the workload's pods left their first node, or were given up there, before a pod became
// ready on a node that stays. While the first node's machine is ending, its pods are ending too.
func (d *decision) hasLostCanary(h *workloadHealth) bool {
	n := d.rec.Nodes[h.before.Canary]
	ending := n.State == record.NodeRemoving && !d.isOverdue(n)
	return !h.before.Proven && h.before.Canary != "" && !record.IsInDrain(n.State) && !ending
}

// describeShortfall returns an unhealthy with the pod that keeps the workload from having as many ready pods as it should.
// If pod is nil, it names the first unready pod that stays on its node, if there is one.
func (d *decision) describeShortfall(h *workloadHealth, pod *corev1.Pod, why string) unhealthy {
	u := unhealthy{Unhealthy: record.Unhealthy{Workload: h.Workload, Name: h.name, Why: why, Ready: h.ready, Before: h.before.Ready}}
	if pod == nil && h.countMissing() <= 0 {
		pod = d.firstUnready(h)
	}
	if pod == nil {
		return u
	}
	u.Pod, u.Node = pod.Name, pod.Spec.NodeName
	if i, found := nodegroup.IndexOfMember(d.w.Members, u.Node); found && d.w.Members[i].Node != nil && !nodegroup.IsNodeReady(d.w.Members[i].Node) {
		u.Why = joinNotes(u.Why, "the node: "+cmp.Or(nodegroup.DescribeTrouble(d.w.Members[i].Node), "not Ready"))
	}
	return u
}

// addUnhealthy adds the workload to the unhealthy ones, and notes since when it has been. usual is how long its pods
// usually take to become ready; 0 if unknown.
func (d *decision) addUnhealthy(u unhealthy, usual time.Duration) {
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
	case isSettled(r, spell.Pod, usual, d.w.Now) && !u.uncreated: // each of the pods that start one after the other has its own time
		spell = Spell{Since: u.first.since, Pod: u.first.uid, Earlier: append(slices.Clone(spell.Earlier), spell.Pod)}
	case !slices.ContainsFunc(r.Pods, func(pod *corev1.Pod) bool { return pod.UID == spell.Pod }):
		spell.Pod = u.first.uid // the late pod is gone: the next late pod only has the time that is left
	}
	u.Since = spell.Since.Add(d.w.Idle)
	if u.Since.After(d.w.Now) {
		u.Since = d.w.Now
	}
	u.until = u.Since.Add(max(minUnhealthyLimit, 4*usual))
	d.notes.Unhealthy[u.Name] = Spell{Since: u.Since, Pod: spell.Pod, Earlier: spell.Earlier}
	d.unhealthy = append(d.unhealthy, u)
	recovery, _ := d.recoveryOf(u.Workload)
	recovery.Unhealthy = true
	d.recoveries[u.Workload] = recovery
}

// isSettled reports whether the workload's pod is ready and will probably stay ready; see drain.Replicas.IsUnsettled.
func isSettled(r *drain.Replicas, uid types.UID, usual time.Duration, now time.Time) bool {
	return slices.ContainsFunc(r.Pods[:r.Ready], func(pod *corev1.Pod) bool {
		_, unsettled := r.IsUnsettled(pod, usual, now)
		return pod.UID == uid && !unsettled
	})
}

// describeUnhealthy returns why the upgrade stops, and the two ways to continue. It names first the workload that has
// been unhealthy for longest.
func describeUnhealthy(all []unhealthy) string {
	sorted := slices.SortedFunc(slices.Values(all), func(a, b unhealthy) int {
		return cmp.Or(a.until.Compare(b.until), strings.Compare(a.Name, b.Name))
	})
	var lines, names []string
	var retries []string
	for _, u := range sorted {
		lines, names = append(lines, u.String()), append(names, u.Name)
		if u.refused && len(lines) <= maxNamed {
			retries = append(retries, describeRetry(u.Workload))
		}
	}
	retry := ""
	if len(retries) > 0 {
		retry = fmt.Sprintf(" and run %s (controllers may wait 17 minutes before they try again)", strings.Join(retries, "; "))
	}
	ignored := names[:min(maxIgnored, len(names))]
	more := ""
	if left := len(names) - len(ignored); left > 0 {
		more = fmt.Sprintf(" (and %d more, which the status lists)", left)
	}
	return fmt.Sprintf("workloads do not recover on current nodes: %s: repair them%s, or evict even their last ready pods with %s%s",
		joinFirst(lines), retry, shell.Quote("--ignore-unready="+strings.Join(ignored, ",")), more)
}

// describeRetry returns a command that makes a controller retry at once. Without it, a controller whose pods were refused waits up to
// 17 minutes between attempts, because its backoff grows (DefaultTypedControllerRateLimiter of client-go).
func describeRetry(w drain.Workload) string {
	return fmt.Sprintf("%s %s --overwrite",
		shell.Command("kubectl annotate "+shell.Option("--namespace", w.Namespace), strings.ToLower(w.Kind)+"/"+w.Name), `nodeupgrade-retry="$(date)"`)
}

// unhealthy is a record.Unhealthy with what only the decision needs.
type unhealthy struct {
	record.Unhealthy
	// refused is true if the API server refuses its pods. uncreated is true if some pods are not created while
	// another pod is late.
	refused, uncreated bool
	// until is when the upgrade stops because of the workload. first is the pod that has been late for longest; zero if
	// no pod is.
	until time.Time
	first latePod
}
