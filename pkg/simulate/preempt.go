package simulate

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/fit"
)

// preemption is a node with the pods of lower priority that must leave it for a pod.
type preemption struct {
	node    *simNode
	victims []*simPod
	// violations counts the victims whose budget is closed. highest is the highest of the victims' priorities,
	// and sum is their sum.
	violations int
	highest    int32
	sum        int64
}

// priorityOf returns the pod's priority. The default is 0.
func priorityOf(pod *corev1.Pod) int32 {
	if pod.Spec.Priority == nil {
		return 0
	}
	return *pod.Spec.Priority
}

// preempt evicts pods of lower priority if that makes room for the pod, only once for each pod. The pod waits until
// they have ended. Preemption can free only CPU, memory, other resources, ports and the number of pods.
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

// compareCost returns a negative number if p costs less than o: fewer closed budgets, then lower priorities, then
// fewer pods (preemption/preemption.go, pickOneNodeForPreemption).
func (p *preemption) compareCost(o *preemption) int {
	return cmp.Or(
		cmp.Compare(p.violations, o.violations), cmp.Compare(p.highest, o.highest),
		cmp.Compare(p.sum, o.sum), cmp.Compare(len(p.victims), len(o.victims)),
	)
}

// findVictims returns the pods that must leave so that the node takes the pod, or nil if that is not possible. It
// removes all pods of lower priority, and adds them again while there is room, those with the highest priority first
// (defaultpreemption/default_preemption.go, SelectVictimsOnNode).
func (s *scheduler) findVictims(u *simPod, n *simNode) *preemption {
	if n.closed || !fit.FitsEmpty(&u.key.needs, &n.room) {
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
		n.addTrialUsage(victim, -1)
	}
	p := &preemption{node: n, highest: -1 << 31}
	fitted := len(lower) > 0 && checkNodeFit(u.key, n) == fit.Fits
	for _, victim := range lower {
		if n.addTrialUsage(victim, 1); fitted && checkNodeFit(u.key, n) != fit.Fits {
			n.addTrialUsage(victim, -1)
			p.addVictim(victim)
		}
	}
	for _, victim := range p.victims {
		n.addTrialUsage(victim, 1) // the pod is not gone yet
	}
	if !fitted {
		return nil
	}
	return p
}

// addVictim adds a victim.
func (p *preemption) addVictim(victim *simPod) {
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

// addTrialUsage adds or removes what a pod uses on the node for a trial. It does not change volumes and devices.
func (n *simNode) addTrialUsage(u *simPod, pods int) {
	n.room.AddPods(&fit.Needs{Requests: u.key.needs.Requests, Ports: u.key.needs.Ports}, pods)
}
