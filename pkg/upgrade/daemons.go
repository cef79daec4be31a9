package upgrade

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// minDaemonReady is how long a DaemonSet's pod must stay ready after it was late. A pod that is ready for a moment
// between two crashes does not count as recovered.
const minDaemonReady = 30 * time.Second

// daemonPods has the pods of one DaemonSet on Ready nodes. missing counts the current nodes that should have a pod of it
// and have none.
type daemonPods struct {
	ready, unready []*corev1.Pod
	missing        int
}

func (p *daemonPods) add(pod daemonPod) {
	if pod.ready {
		p.ready = append(p.ready, pod.Pod)
	} else {
		p.unready = append(p.unready, pod.Pod)
	}
}

// total counts the pods that should exist.
func (p daemonPods) total() int { return len(p.ready) + len(p.unready) + p.missing }

// WatchedWorkload returns the workload by which the upgrade watches the pod. Pods of DaemonSets have one, too. It is zero
// for a pod that no controller recreates.
func WatchedWorkload(pod *corev1.Pod) drain.Workload {
	if daemon, of := daemonWorkload(pod); of {
		return daemon
	}
	return drain.WorkloadOf(pod)
}

// daemonWorkload returns the DaemonSet of a pod, or false for other pods.
func daemonWorkload(pod *corev1.Pod) (drain.Workload, bool) {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil || owner.Kind != "DaemonSet" {
		return drain.Workload{}, false
	}
	return drain.Workload{Namespace: pod.Namespace, Kind: owner.Kind, Name: owner.Name}, true
}

// collectDaemons returns the pods of DaemonSets, by workload, that are on nodes which fit selects, or that wait to be
// bound to them.
func (w *World) collectDaemons(fit func(*nodegroup.Member) bool) map[drain.Workload]daemonPods {
	waiting, found := w.unboundDaemonPods(), []daemonPods(nil)
	add := func(pod daemonPod) {
		for pod.of >= len(found) {
			found = append(found, daemonPods{ready: make([]*corev1.Pod, 0, len(w.Members))})
		}
		found[pod.of].add(pod)
	}
	for i := range w.Members {
		m := &w.Members[i]
		if !canJudgeDaemons(m) || !fit(m) {
			continue
		}
		for _, pod := range w.Memo.podsOn(m).daemons {
			add(pod)
		}
		for _, pod := range waiting[m.Name()] {
			if workload, counts := daemonOfLivePod(pod); counts {
				add(daemonPod{pod, w.Memo.placeOfDaemonSet(workload), drain.Ready(pod)})
			}
		}
	}
	all := map[drain.Workload]daemonPods{}
	for place, pods := range found {
		if pods.total() > 0 {
			all[w.Memo.daemonSets[place]] = pods
		}
	}
	return all
}

// unboundDaemonPods returns the unbound pods of DaemonSets, by the node that they are for.
func (w *World) unboundDaemonPods() map[string][]*corev1.Pod {
	waiting := map[string][]*corev1.Pod{}
	for _, pod := range w.Pods[""] {
		if node := drain.TargetNode(pod); node != "" {
			waiting[node] = append(waiting[node], pod)
		}
	}
	return waiting
}

// canJudgeDaemons reports whether the state of DaemonSet pods on the node is meaningful: the node is Ready and not
// terminating.
func canJudgeDaemons(m *nodegroup.Member) bool {
	return m.IsReady() && m.Instance.State != nodegroup.InstanceLeaving
}

// daemonOfLivePod returns the DaemonSet of a pod. It returns false for other pods and for pods that failed or are being
// deleted.
func daemonOfLivePod(pod *corev1.Pod) (drain.Workload, bool) {
	workload, ours := daemonWorkload(pod)
	return workload, ours && pod.DeletionTimestamp == nil && pod.Status.Phase != corev1.PodFailed
}

// nodesWithoutDaemon returns the current nodes that have no pod of the DaemonSet in any state.
func (d *decision) nodesWithoutDaemon(w drain.Workload) []string {
	var bare []string
	waiting := d.w.unboundDaemonPods()
	isOf := func(pod *corev1.Pod) bool {
		workload, _ := daemonWorkload(pod)
		return workload == w
	}
	for i := range d.w.Members {
		m := &d.w.Members[i]
		if canJudgeDaemons(m) && !m.Outdated && !slices.ContainsFunc(m.Pods, isOf) && !slices.ContainsFunc(waiting[m.Name()], isOf) {
			bare = append(bare, m.Name())
		}
	}
	return bare
}

// recordDaemons returns the state of the DaemonSets at the start of an upgrade, by NAMESPACE/KIND/NAME. It counts the
// pods on outdated nodes, if a DaemonSet has any there: pods on current nodes may fail because of changes in the new
// revision.
func recordDaemons(w *World) map[string]record.DaemonRecord {
	var records map[string]record.DaemonRecord
	all := w.collectDaemons(func(*nodegroup.Member) bool { return true })
	maps.Copy(all, w.collectDaemons(func(m *nodegroup.Member) bool { return m.Outdated }))
	for workload, pods := range all {
		var samples []time.Duration
		for _, pod := range pods.ready {
			if took, known := drain.ReadyTime(pod); known {
				samples = append(samples, took)
			}
		}
		if records == nil {
			records = map[string]record.DaemonRecord{}
		}
		records[workload.String()] = record.DaemonRecord{Ready: len(pods.ready), Unready: len(pods.unready), Usual: record.Duration{Duration: drain.TypicalDuration(samples, 0)}}
	}
	return records
}

// watchDaemons finds DaemonSets of which more pods are late on current nodes, or are not created for them, than before
// the upgrade.
func (d *decision) watchDaemons() {
	for _, found := range d.listUnreadyDaemons() {
		before := d.rec.Daemons[found.workload.String()]
		if found.unsure {
			d.unsure, d.awaited = found.workload.String(), append(d.awaited, found.workload)
		}
		late := make([]*corev1.Pod, 0, len(found.unready))
		for _, pod := range found.unready {
			if d.describeLateDaemon(pod, before) != "" {
				late = append(late, pod)
			}
		}
		total, lacking := found.total(), len(late)+found.missing
		if lacking <= before.ToleratedUnready(total) {
			continue
		}
		d.awaited = append(d.awaited, found.workload)
		u := unhealthy{Unhealthy: record.Unhealthy{Workload: found.workload, Name: found.workload.String(), Ready: total - lacking, Before: total - before.ToleratedUnready(total)}}
		if len(late) > 0 {
			pod := slices.MinFunc(late, func(a, b *corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
			u.Pod, u.Node, u.Why = pod.Name, pod.Spec.NodeName, d.describeLateDaemon(pod, before)
		} else {
			u.Why = formatMissing(found.missing) + describeRefusal(d.w.Controllers[found.workload])
		}
		d.addUnhealthy(u, before.Usual.Duration)
	}
}

// describeLateDaemon returns why a pod of a DaemonSet is late to become and stay ready; "" if it is not. The scheduler may
// preempt other pods for a pod that no node takes at first. A node that has just become Ready takes no pod before the
// control plane has removed its not-ready taint, so the patience begins when it became Ready.
func (d *decision) describeLateDaemon(pod *corev1.Pod, before record.DaemonRecord) string {
	if drain.Ready(pod) {
		return fmt.Sprintf("since it failed, it has been ready for less than %s", minDaemonReady)
	}
	if pod.Spec.NodeName != "" {
		d.requeueAt(drain.LateAt(pod, before.Usual.Duration))
		return drain.WhyLate(pod, before.Usual.Duration, 0, d.w.Now)
	}
	patience := roomPatience
	if i, found := nodegroup.IndexOfMember(d.w.Members, drain.TargetNode(pod)); found {
		m := &d.w.Members[i]
		if ready := nodegroup.ReadyCondition(m.Node); ready != nil {
			patience += max(0, ready.LastTransitionTime.Sub(pod.CreationTimestamp.Time))
		}
		if why := d.whyNeverPlaced(pod, []drain.Sample{{Node: m.Node, Pods: m.Pods}}); why != "" {
			return why
		}
	}
	d.requeueAt(pod.CreationTimestamp.Add(patience))
	return drain.WhyLate(pod, 0, patience, d.w.Now)
}

// unreadyDaemon is a DaemonSet with pods on current nodes that are not ready, not ready for long enough, or not created.
// It is unsure while its controller may still create them.
type unreadyDaemon struct {
	workload drain.Workload
	daemonPods
	unsure bool
}

// listUnreadyDaemons returns the unreadyDaemons by name, without those that need not become ready. If a DaemonSet was late
// before, its pods that have just become ready count as unready.
func (d *decision) listUnreadyDaemons() []unreadyDaemon {
	all := d.w.collectDaemons(func(m *nodegroup.Member) bool { return !m.Outdated })
	for name, before := range d.rec.Daemons {
		w, err := drain.ParseWorkload(name)
		if _, there := all[w]; err == nil && before.Ready > 0 && !there {
			all[w] = daemonPods{}
		}
	}
	current := 0
	for i := range d.w.Members {
		if m := &d.w.Members[i]; canJudgeDaemons(m) && !m.Outdated {
			current++
		}
	}
	var found []unreadyDaemon
	for _, workload := range slices.SortedFunc(maps.Keys(all), func(a, b drain.Workload) int { return cmp.Compare(a.String(), b.String()) }) {
		name, pods, unsure := workload.String(), all[workload], false
		if d.rec.Request.IgnoresUnready(name) {
			continue
		}
		if pods.total() < current && d.rec.Daemons[name].Ready > 0 {
			pods.missing, unsure = d.countMissingDaemons(workload)
		}
		if _, was := d.w.Notes.Unhealthy[name]; was {
			pods = d.demoteRecentlyReady(pods)
		}
		if len(pods.unready)+pods.missing > 0 || unsure {
			found = append(found, unreadyDaemon{workload, pods, unsure})
		}
	}
	return found
}

// countMissingDaemons counts the current nodes for which the DaemonSet's controller should have created a pod. A
// controller may exclude nodes on purpose, which its status shows. unsure is true while the controller may still create a
// pod for a young node.
func (d *decision) countMissingDaemons(w drain.Workload) (missing int, unsure bool) {
	bare, long, young := d.nodesWithoutDaemon(w), 0, false
	if len(bare) == 0 {
		return 0, false
	}
	for _, node := range bare {
		key := w.String() + " on " + node
		since, was := d.w.Notes.MissingSince[key]
		if !was {
			since = d.w.Now
		}
		d.notes.MissingSince[key] = since
		switch patience := since.Add(creationPatience); {
		case !was && d.w.Notes.At.IsZero(): // a status command looks only once
			d.requeueAt(patience)
		case d.w.Now.Before(patience):
			d.requeueAt(patience)
			young = true
		default:
			long++
		}
	}
	d.requestController(w)
	controller, read := d.w.Controllers[w]
	switch {
	case !read:
		return 0, young || long > 0
	case controller.Unread == "":
		missing = min(long, controller.Uncreated)
	default:
		missing = long // all are counted, because the controller was not read
	}
	return missing, young && missing == long
}

// demoteRecentlyReady counts pods as unready that became ready only recently.
func (d *decision) demoteRecentlyReady(pods daemonPods) daemonPods {
	split := pods
	split.ready, split.unready = nil, slices.Clone(pods.unready)
	for _, pod := range pods.ready {
		if since := readySince(pod); d.w.Now.Before(since.Add(minDaemonReady)) {
			split.unready = append(split.unready, pod)
			d.requeueAt(since.Add(minDaemonReady))
		} else {
			split.ready = append(split.ready, pod)
		}
	}
	return split
}

func readySince(pod *corev1.Pod) time.Time {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodReady {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}

// awaitDaemons waits until no more of the DaemonSets' pods on current nodes are unready than before the upgrade.
// Otherwise an upgrade could end with nodes that lack a DaemonSet's service.
func (d *decision) awaitDaemons() (ready bool) {
	for _, found := range d.listUnreadyDaemons() {
		if found.unsure || len(found.unready)+found.missing > d.rec.Daemons[found.workload.String()].ToleratedUnready(found.total()) {
			d.watchWorkload(found.workload, fmt.Sprintf("the pods of %s on current nodes to become ready", found.workload))
			return false
		}
	}
	return true
}
