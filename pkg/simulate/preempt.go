package simulate

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/fit"
)

// preemption is a node and the pods of less priority that would have to leave it for a pod.
type preemption struct {
	node    *simNode
	victims []*simPod
	// violations are the victims whose budget is closed; highest and sum are of their priorities.
	violations int
	highest    int32
	sum        int64
}

// priorityOf is the pod's priority, which is 0 where none was set.
func priorityOf(pod *corev1.Pod) int32 {
	if pod.Spec.Priority == nil {
		return 0
	}
	return *pod.Spec.Priority
}

// preempt ends pods of less priority where that makes room for the pod, once. It waits until they
// have ended. Only CPU, memory, other resources, ports and the number of pods are won that way.
func (s *scheduler) preempt(u *simPod) {
	never := u.pod.Spec.PreemptionPolicy != nil && *u.pod.Spec.PreemptionPolicy == corev1.PreemptNever
	if u.preempted || never || priorityOf(u.pod) <= s.lowest {
		return
	}
	s.index.readSchedulingKey(u.key)
	var best *preemption
	for _, n := range s.index.nodes.sorted {
		if p := s.findVictims(u, n); p != nil && (best == nil || p.compareCost(best) < 0) {
			best = p
		}
	}
	if best == nil {
		return
	}
	u.preempted = true
	for _, victim := range best.victims {
		s.evict(victim)
	}
}

// compareCost is negative when it is the cheaper one: fewer closed budgets, then less priority, then
// fewer pods (preemption/preemption.go, pickOneNodeForPreemption).
func (p *preemption) compareCost(o *preemption) int {
	return cmp.Or(
		cmp.Compare(p.violations, o.violations), cmp.Compare(p.highest, o.highest),
		cmp.Compare(p.sum, o.sum), cmp.Compare(len(p.victims), len(o.victims)),
	)
}

// findVictims is what it takes for the node to take the pod, nil when that is not to be had. All
// pods of less priority leave, and come back while there is room: those of most priority first
// (defaultpreemption/default_preemption.go, SelectVictimsOnNode).
func (s *scheduler) findVictims(u *simPod, n *simNode) *preemption {
	if n.closed || !fit.Suits(&u.key.needs, &n.room) {
		return nil
	}
	var lower []*simPod
	for _, pod := range n.pods {
		if priorityOf(pod) < priorityOf(u.pod) && pod.DeletionTimestamp == nil && !isFinished(pod) && !isMirrorPod(pod) {
			lower = append(lower, s.index.bound[pod.UID])
		}
	}
	slices.SortStableFunc(lower, func(a, b *simPod) int { return cmp.Compare(priorityOf(b.pod), priorityOf(a.pod)) })
	for _, victim := range lower {
		n.place(victim, -1)
	}
	p := &preemption{node: n, highest: -1 << 31}
	fitted := len(lower) > 0 && checkNodeFit(u.key, n) == fit.Fits
	for _, victim := range lower {
		if n.place(victim, 1); fitted && checkNodeFit(u.key, n) != fit.Fits {
			n.place(victim, -1)
			p.add(victim)
		}
	}
	for _, victim := range p.victims {
		n.place(victim, 1) // it leaves when its time comes
	}
	if !fitted {
		return nil
	}
	return p
}

// add counts one more victim.
func (p *preemption) add(victim *simPod) {
	priority := priorityOf(victim.pod)
	p.victims = append(p.victims, victim)
	p.highest, p.sum = max(p.highest, priority), p.sum+int64(priority)
	for _, budget := range victim.budgets {
		if budget.Status.DisruptionsAllowed <= 0 {
			p.violations++
			break
		}
	}
}

// place counts what a pod takes of a node by itself in or out: its volumes and devices stay.
func (n *simNode) place(u *simPod, pods int) {
	n.room.Place(&fit.Needs{Requests: u.key.needs.Requests, Ports: u.key.needs.Ports}, pods)
}
