package upgrade

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// leastUnhealthy is how long a workload may be unhealthy before the upgrade stops, whatever its
// pods usually take.
const leastUnhealthy = 5 * time.Minute

// canary keeps further nodes from being started while workloads do not recover from those that were
// started before: every node is the canary of the next.
type canary struct{ *draft }

// recordWorkloads notes how the workloads are whose pods are to leave the member. Those that have
// recovered are counted again; how long their pods usually take is kept as it was known first. It
// is stored with the start of the node.
func (d canary) recordWorkloads(m *nodegroup.Member) {
	known := make(map[string]WorkloadRecord, len(d.rec.Workloads))
	for name, w := range d.rec.Workloads {
		if w.Ready > 0 && d.hasRecovered(name, w) {
			w.Ready = 0
		}
		known[name] = w
	}
	for _, pod := range d.classifyPodsOf(m).Evict {
		r := d.w.Workloads.Of(pod)
		if r == nil {
			continue
		}
		name := r.String()
		w := known[name]
		if w.Ready == 0 {
			w.Ready = r.Ready
			if w.Usual.Duration == 0 {
				w.Usual.Duration = r.ReadyTime()
			}
			known[name] = w
		}
	}
	sumUpOthers(known)
	d.rec.Workloads = known
}

// countReady counts the ready pods of a workload by its name.
func (d canary) countReady(name string) int {
	if r := d.replicasOf(name); r != nil {
		return r.Ready
	}
	return 0
}

// hasRecovered reports whether a workload has as many ready pods as before, and none that is on a
// node which was started: it may have as many only because those are still to leave.
func (d canary) hasRecovered(name string, before WorkloadRecord) bool {
	r := d.replicasOf(name)
	return r != nil && r.Ready >= before.Ready && !slices.ContainsFunc(r.Pods, func(pod *corev1.Pod) bool {
		_, started := d.rec.Nodes[pod.Spec.NodeName]
		return started
	})
}

// replicasOf are the pods of a workload by its name; nil when it has none.
func (d canary) replicasOf(name string) *drain.Replicas {
	w, err := drain.ParseWorkload(name)
	if err != nil {
		return nil
	}
	return d.w.Workloads.Named(w)
}

// watchWorkloads looks for workloads that do not recover. It stops the upgrade where one has not
// for long.
func (d canary) watchWorkloads() {
	if d.phase.givesBack {
		return // nothing more is drained
	}
	for _, name := range slices.Sorted(maps.Keys(d.notes.Lacking)) {
		r, before := d.replicasOf(name), d.rec.Workloads[name]
		if r == nil || d.rec.Request.ignoresUnready(name) {
			continue // one without pods was scaled to none, or deleted
		}
		if u, late := d.findLatePod(r, before); late {
			d.addUnhealthy(u, before)
		}
	}
	daemons{d.draft}.watchDaemons()
	for _, u := range d.unhealthy {
		d.requeueAt(u.until)
		if !d.w.Now.Before(u.until) {
			d.stopUpgradeWith(WorkloadUnhealthy, describeUnhealthy(d.unhealthy))
			return
		}
	}
}

// findLatePod finds the first pod, by name, that is late to take the place of one that left.
func (d canary) findLatePod(r *drain.Replicas, before WorkloadRecord) (Unhealthy, bool) {
	var found *corev1.Pod
	var reason string
	for _, pod := range r.Unready() {
		if found != nil && found.Name < pod.Name {
			continue
		}
		why := drain.Lateness(pod, before.Usual.Duration, d.rec.Request.BootTimeout.Duration, d.w.Now)
		if why != "" && d.isSuccessor(pod) {
			found, reason = pod, why
		}
	}
	if found == nil {
		return Unhealthy{}, false
	}
	return Unhealthy{
		Workload: r.Workload, Name: r.String(), Pod: found.Name, Node: found.Spec.NodeName, Why: reason, Ready: r.Ready, Before: before.Ready,
	}, true
}

// isSuccessor reports whether a pod that is not ready came up during the upgrade, other than on a
// node that is to be replaced. One that no node takes tells something when no node is awaited.
func (d canary) isSuccessor(pod *corev1.Pod) bool {
	switch {
	case pod.CreationTimestamp.Time.Before(d.rec.Started.Truncate(time.Second)):
		return false
	case pod.Spec.NodeName == "":
		return !d.isShortOfNodes()
	default:
		return !d.isOnOutdated(pod)
	}
}

// isShortOfNodes reports whether the group is to get nodes that it does not have: for ones that are
// in flight, for ones that were removed, or whenever a person brings them.
func (d canary) isShortOfNodes() bool {
	g := &d.w.Group
	return g.Refill() == nodegroup.RefillByUser || d.rec.countInFlight() > 0 || d.rec.Ledger.PendingLaunches() > 0 || g.Sized && d.countUnavailable() > 0
}

// isOnOutdated reports whether the pod is on a node that is to be replaced: it has to leave, and
// tells nothing of the current ones.
func (d canary) isOnOutdated(pod *corev1.Pod) bool {
	i, found := indexOfMember(d.w.Members, pod.Spec.NodeName)
	return found && d.w.Members[i].Outdated
}

// addUnhealthy notes since when the workload is unhealthy.
func (d canary) addUnhealthy(u Unhealthy, before WorkloadRecord) {
	since, was := d.w.Notes.UnhealthySince[u.Name]
	if !was {
		since = d.w.Now
	}
	u.Since = since.Add(d.w.Idle)
	if u.Since.After(d.w.Now) {
		u.Since = d.w.Now
	}
	u.until = u.Since.Add(max(leastUnhealthy, 4*before.Usual.Duration))
	d.notes.UnhealthySince[u.Name] = u.Since
	d.unhealthy = append(d.unhealthy, u)
}

// isHolding reports whether no further node is to be started.
func (d canary) isHolding() bool {
	if len(d.unhealthy) == 0 {
		return false
	}
	d.waiting = d.unhealthy[0].String()
	if more := len(d.unhealthy) - 1; more > 0 {
		d.waiting += fmt.Sprintf(", and %d more workloads", more)
	}
	return true
}

// listUnhealthy are the workloads that do not recover.
func (d canary) listUnhealthy() map[drain.Workload]bool {
	names := make(map[drain.Workload]bool, len(d.unhealthy))
	for _, u := range d.unhealthy {
		names[u.Workload] = true
	}
	return names
}

// describeUnhealthy says why the upgrade stops, and the two ways on.
func describeUnhealthy(all []Unhealthy) string {
	longest := slices.MinFunc(all, func(a, b Unhealthy) int { return cmp.Or(a.until.Compare(b.until), strings.Compare(a.Name, b.Name)) })
	var lines []string
	for _, u := range all {
		lines = append(lines, u.String())
	}
	return fmt.Sprintf("workloads do not recover on current nodes: %s: mend them, or pass --ignore-unready=%s",
		joinFirst(lines), longest.Name)
}
