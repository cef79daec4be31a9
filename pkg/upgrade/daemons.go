package upgrade

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// leastDaemonReady is how long a DaemonSet's pod must stay ready after it was late, so that one
// that is ready for a moment between two crashes does not count as recovered.
const leastDaemonReady = 30 * time.Second

// DaemonRecord is how a DaemonSet's pods on the group's nodes were before the upgrade.
type DaemonRecord struct {
	// Ready counts the pods that were ready, Unready the others.
	Ready   int `json:"ready,omitempty"`
	Unready int `json:"unready,omitempty"`
	// Usual is how long its pods take to become ready; 0 for not known.
	Usual Duration `json:"usual,omitzero"`
}

// tolerated returns how many of so many pods may be unready without being worse than before: as many
// as there were, the same share of more pods, and all if none was ready.
func (r DaemonRecord) tolerated(pods int) int {
	if r.Unready == 0 {
		return 0
	}
	return max(r.Unready, (pods*r.Unready+r.Ready+r.Unready-1)/(r.Ready+r.Unready))
}

// daemons watches the DaemonSets of the group: the pods on current nodes are canaries of the next
// nodes, like those of workloads that move.
type daemons struct{ *draft }

// daemonPods are the pods of one DaemonSet on nodes that are Ready.
type daemonPods struct{ ready, unready []*corev1.Pod }

// daemonWorkload returns the DaemonSet of a pod, and false for other pods.
func daemonWorkload(pod *corev1.Pod) (drain.Workload, bool) {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil || owner.Kind != "DaemonSet" {
		return drain.Workload{}, false
	}
	return drain.Workload{Namespace: pod.Namespace, Kind: owner.Kind, Name: owner.Name}, true
}

// collectDaemons returns the pods of DaemonSets, by workload, on the nodes that are fit for it.
func collectDaemons(members []nodegroup.Member, fit func(*nodegroup.Member) bool) map[drain.Workload]daemonPods {
	all := map[drain.Workload]daemonPods{}
	for i := range members {
		m := &members[i]
		if !m.IsReady() || m.Instance.State == nodegroup.InstanceLeaving || !fit(m) {
			continue
		}
		for _, pod := range m.Pods {
			workload, ours := daemonWorkload(pod)
			if !ours || pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodFailed {
				continue
			}
			pods := all[workload]
			if drain.Ready(pod) {
				pods.ready = append(pods.ready, pod)
			} else {
				pods.unready = append(pods.unready, pod)
			}
			all[workload] = pods
		}
	}
	return all
}

// recordDaemons returns how the DaemonSets are at the start of an upgrade, by NAMESPACE/KIND/NAME.
func recordDaemons(members []nodegroup.Member) map[string]DaemonRecord {
	var records map[string]DaemonRecord
	for workload, pods := range collectDaemons(members, func(*nodegroup.Member) bool { return true }) {
		var samples []time.Duration
		for _, pod := range pods.ready {
			if took, known := drain.ReadyTime(pod); known {
				samples = append(samples, took)
			}
		}
		if records == nil {
			records = map[string]DaemonRecord{}
		}
		records[workload.String()] = DaemonRecord{Ready: len(pods.ready), Unready: len(pods.unready), Usual: Duration{drain.TypicalDuration(samples, 0)}}
	}
	return records
}

// watchDaemons looks for DaemonSets more of whose pods are late on current nodes than their state
// before the upgrade explains.
func (d daemons) watchDaemons() {
	for _, found := range d.collectUnready() {
		before := d.rec.Daemons[found.workload.String()]
		late := make([]*corev1.Pod, 0, len(found.unready))
		for _, pod := range found.unready {
			if d.describeLate(pod, before) != "" {
				late = append(late, pod)
			}
		}
		total := len(found.ready) + len(found.unready)
		if len(late) <= before.tolerated(total) {
			continue
		}
		pod := slices.MinFunc(late, func(a, b *corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
		canary{d.draft}.addUnhealthy(Unhealthy{
			Workload: found.workload, Name: found.workload.String(), Pod: pod.Name, Node: pod.Spec.NodeName, Why: d.describeLate(pod, before),
			Ready: total - len(late), Before: total - before.tolerated(total),
		}, before.Usual.Duration)
	}
}

// describeLate says why a pod of a DaemonSet is late to be ready for good; "" if it is not.
func (d daemons) describeLate(pod *corev1.Pod, before DaemonRecord) string {
	if drain.Ready(pod) {
		return fmt.Sprintf("it has not been ready for %s since it failed", leastDaemonReady)
	}
	return drain.Lateness(pod, before.Usual.Duration, 0, d.w.Now)
}

// unreadyDaemon is a DaemonSet with pods on current nodes that are not ready, or not for long.
type unreadyDaemon struct {
	workload drain.Workload
	daemonPods
}

// collectUnready returns the DaemonSets with unready pods on current nodes, by name, without those
// that need not become ready. Of one that was late before, pods that have just become ready count as
// unready.
func (d daemons) collectUnready() []unreadyDaemon {
	all := collectDaemons(d.w.Members, func(m *nodegroup.Member) bool { return !m.Outdated })
	var found []unreadyDaemon
	for workload, pods := range all {
		name := workload.String()
		if _, was := d.w.Notes.UnhealthySince[name]; was {
			pods = d.splitByAge(pods)
		}
		if len(pods.unready) > 0 && !d.rec.Request.ignoresUnready(name) {
			found = append(found, unreadyDaemon{workload, pods})
		}
	}
	slices.SortFunc(found, func(a, b unreadyDaemon) int { return cmp.Compare(a.workload.String(), b.workload.String()) })
	return found
}

// splitByAge counts ready pods as unready that have not been ready for long.
func (d daemons) splitByAge(pods daemonPods) daemonPods {
	split := daemonPods{unready: slices.Clone(pods.unready)}
	for _, pod := range pods.ready {
		if since := readySince(pod); d.w.Now.Before(since.Add(leastDaemonReady)) {
			split.unready = append(split.unready, pod)
			d.requeueAt(since.Add(leastDaemonReady))
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

// areReady reports whether no more of the DaemonSets' pods on current nodes are unready than before
// the upgrade. An upgrade that ended before that would end with nodes that serve nothing.
func (d daemons) areReady() bool {
	for _, found := range d.collectUnready() {
		if len(found.unready) > d.rec.Daemons[found.workload.String()].tolerated(len(found.ready)+len(found.unready)) {
			d.waiting = fmt.Sprintf("the pods of %s on new nodes to be ready", found.workload)
			return false
		}
	}
	return true
}
