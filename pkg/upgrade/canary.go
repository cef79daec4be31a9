package upgrade

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// deferStarts returns true if no further node may be started: a workload does not recover, or it is not known yet whether
// a DaemonSet has its pods on current nodes. It sets what the upgrade waits for.
func (d *decision) deferStarts() (deferred bool) {
	if len(d.unhealthy) == 0 && d.unsure != "" && d.rec.Begun > 0 {
		d.setWaiting(fmt.Sprintf("the pods of %s on new nodes to be created", d.unsure))
		return true
	}
	if len(d.unhealthy) == 0 {
		return false
	}
	d.setWaiting(d.unhealthy[0].String())
	if more := len(d.unhealthy) - 1; more > 0 {
		d.waiting += fmt.Sprintf(", and %d more workloads", more)
	}
	return true
}

// startWait is the workload that a node's start waits for, and the event that it waits for.
type startWait struct {
	workload drain.Workload
	what     string
}

// deferStart returns whether a node must not be started yet, and sets what the upgrade waits for.
func (d *decision) deferStart(m *nodegroup.Member) (deferred bool) {
	wait, waits := d.findStartWait(m)
	if waits {
		d.watchWorkload(wait.workload, wait.what)
	}
	return waits
}

// deferDrain is deferStart for a node whose pods are evicted, not deleted. While half of the window is free, it does not
// defer a node of which only some pods must wait. If each node has pods of many workloads, most of the window would be
// empty otherwise (docs/decisions/0043).
func (d *decision) deferDrain(m *nodegroup.Member) (deferred bool) {
	if !d.findDeferrable()[m.Name()] || d.isWindowHalfFree() && d.canDrainInParts(m) {
		return false
	}
	return d.deferStart(m)
}

// findStartWait returns why the node must not be started. The reason is about the workload of one of its pods: other pods
// of the workload left a node and no new pod is ready on a node that stays, pods of the workload are missing, or too many
// would be away together. Pods that a budget blocks give no reason, because other pods of the node may leave. They do
// give one while the scale of their scaled-down workload is unread: it may lack pods, and --on-timeout=force deletes pods
// that a budget blocks.
func (d *decision) findStartWait(m *nodegroup.Member) (wait startWait, waits bool) {
	if !d.findDeferrable()[m.Name()] {
		return startWait{}, false
	}
	for _, pod := range d.classifyPodsOf(m).Evict {
		w := drain.WorkloadOf(pod)
		if d.rec.Workloads[w.String()].Scaled > 0 && d.requestScale(w) {
			return startWait{workload: w, what: fmt.Sprintf("the scale of %s to be read", w)}, true
		}
		what := ""
		switch {
		case d.isHeldForCanary(m, w):
			what = fmt.Sprintf("the first new pod of %s to become ready", w)
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

// findDeferrable returns the nodes, by name, for which findStartWait could find a reason. Those have pods of workloads
// that are not whole, or that have pods on nodes in drain. All other nodes, which are most, need no closer look.
func (d *decision) findDeferrable() map[string]bool {
	if d.deferrable != nil || d.rec.Request.NoImplicitBudgets || len(d.rec.Workloads) == 0 {
		return d.deferrable
	}
	d.deferrable = map[string]bool{}
	for w := range d.listUnsettledWorkloads() {
		d.addDeferrable(w)
	}
	return d.deferrable
}

// addDeferrable adds the nodes that may have to wait because of the workload.
func (d *decision) addDeferrable(w drain.Workload) {
	replicas := d.w.Workloads.Named(w)
	if replicas == nil {
		return
	}
	if r, _ := d.recoveryOf(w); r.Unproven || r.Missing || d.rec.Workloads[w.String()].Scaled > 0 {
		for _, pod := range replicas.Pods {
			d.deferrable[pod.Spec.NodeName] = true
		}
		return
	}
	if s := d.findShortage(w); s.away > 0 && s.isComing {
		for node, here := range s.on {
			if s.away+here > s.most {
				d.deferrable[node] = true
			}
		}
	}
}

// listUnsettledWorkloads returns the workloads that are not whole, and those with pods on nodes in drain.
func (d *decision) listUnsettledWorkloads() map[drain.Workload]bool {
	unsettled := map[drain.Workload]bool{}
	for _, h := range d.health {
		unsettled[h.Workload] = true
	}
	for name, n := range d.rec.Nodes {
		m := d.count.byName[name]
		if m == nil || !record.IsInDrain(n.State) {
			continue
		}
		for _, pod := range m.Pods {
			unsettled[drain.WorkloadOf(pod)] = true
		}
	}
	return unsettled
}

// isAdmitted reports whether the eviction API would admit the pod's eviction now.
func (d *decision) isAdmitted(pod *corev1.Pod) bool {
	return drain.Predict(pod, d.w.Budgets, nil, d.w.EndingNamespaces[pod.Namespace]).Admitted()
}

// isHeldForCanary reports whether ready pods of the workload must stay on the node until the workload's first new pod is
// ready, because pods of the workload leave another node already.
func (d *decision) isHeldForCanary(m *nodegroup.Member, w drain.Workload) bool {
	r, _ := d.recoveryOf(w)
	return r.Unproven && r.Canary != "" && r.Canary != m.Name()
}

// isWindowHalfFree reports whether at most half of the window would be in use with one more node, and the group has
// all of its nodes. If a node is missing, a new pod may be Pending until the node is there.
func (d *decision) isWindowHalfFree() bool {
	return 2*(d.rec.CountInFlight()+1) <= d.rec.Request.Window && d.count.unready == 0 && d.countUnavailable() == 0
}

// canDrainInParts reports whether some pods of the node can leave now, and the others as soon as the first new pods of
// their workloads are ready. It returns false if anything else could block a pod for longer.
func (d *decision) canDrainInParts(m *nodegroup.Member) bool {
	pods := d.classifyPodsOf(m)
	if len(pods.Held)+len(pods.Leaving) > 0 {
		return false
	}
	some := false
	for _, pod := range pods.Evict {
		w := drain.WorkloadOf(pod)
		switch {
		case drain.TierOf(pod, d.w.Facts) > drain.Ordinary, !d.isAdmitted(pod), d.isMissing(w), d.isScaleUnread(w), d.leavesTooFew(m, pod, w):
			return false
		case !d.isHeldForCanary(m, w):
			some = true
		case !drain.Ready(pod) || !d.hasSuccessorInTime(w): // findGuardObstacle keeps only ready pods
			return false
		}
	}
	return some
}

// hasSuccessorInTime reports whether a new pod of the workload is starting on a node that stays, and the drain timeout
// is at least twice as long as that may take. Within that time the pod becomes ready, or the upgrade stops because of
// the workload. So the drain timeout never ends for a node that only waits for the pod.
func (d *decision) hasSuccessorInTime(w drain.Workload) bool {
	r := d.w.Workloads.Named(w)
	recovery, _ := d.recoveryOf(w)
	if usual := recovery.Usual; r == nil || 2*(drain.Patience(usual)+max(minUnhealthyLimit, 4*usual)) > d.rec.Request.DrainTimeout.Duration {
		return false
	}
	return slices.ContainsFunc(r.Unready(), d.isSuccessor)
}

// isMissing reports whether pods of the workload have been missing for longer than controllers need to create pods.
// With many workloads on each node, some pod is always missing for a moment.
func (d *decision) isMissing(w drain.Workload) bool {
	since, was := d.w.Notes.MissingSince[w.String()]
	recovery, _ := d.recoveryOf(w)
	return recovery.Missing && was && !d.w.Now.Before(since.Add(creationTime))
}

// shortage is the state of a workload that decides whether another node may be started.
type shortage struct {
	// before is the number of ready pods that the workload should have; 0 means that there is no limit. away counts those
	// that left, or must leave, a started node. most limits away. isComing is true while replacement pods are expected.
	before, away, most int
	isComing           bool
	// on counts the workload's ready pods on each node that was not started.
	on map[string]int
}

// leavesTooFew reports whether too many pods of a slowly starting workload would be away together if the member's pods
// left too: more than a quarter, and more than one. If all pods are ready, those of one node may always leave. If a
// budget limits how many pods may be away, only the budget decides.
func (d *decision) leavesTooFew(m *nodegroup.Member, pod *corev1.Pod, w drain.Workload) bool {
	s := d.findShortage(w)
	here := s.on[m.Name()]
	if here == 0 || s.away == 0 || !s.isComing || s.away+here <= s.most {
		return false
	}
	return !slices.ContainsFunc(d.w.Budgets.Covering(pod), func(b *drain.Budget) bool { return b.Status.DesiredHealthy > 0 })
}

// findShortage returns the workload's shortage. It is computed again after each start of a node.
func (d *decision) findShortage(w drain.Workload) shortage {
	if s, known := d.shortages[w]; known {
		return s
	}
	if d.shortages == nil {
		d.shortages = map[drain.Workload]shortage{}
	}
	d.shortages[w] = d.computeShortage(w)
	return d.shortages[w]
}

func (d *decision) computeShortage(w drain.Workload) shortage {
	known := d.rec.Workloads[w.String()]
	most := drain.MaxAwayAtOnce(known.Ready, known.Usual.Duration)
	if most == 0 || d.rec.Request.IgnoresUnready(w.String()) {
		return shortage{}
	}
	s := shortage{before: known.Ready, most: most, on: map[string]int{}}
	r := d.w.Workloads.Named(w)
	if r == nil {
		s.away, s.isComing = s.before, true
		return s
	}
	staying := 0
	for i, pod := range r.Pods {
		switch node := pod.Spec.NodeName; {
		case record.IsInDrain(d.rec.Nodes[node].State):
			s.isComing = true // its successor starts once it has left
		case i < r.Ready:
			staying++
			s.on[node]++
		case d.cameDuringUpgrade(pod):
			s.isComing = true
		}
	}
	s.away = max(0, s.before-staying)
	s.isComing = s.isComing || r.Expected < s.before || (r.Expected > len(r.Pods) && d.rec.CountInFlight() > 0)
	return s
}
