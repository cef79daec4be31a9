package upgrade

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// shortage is what is known of a workload while nodes are started.
type shortage struct {
	// before is how many ready pods it should have, 0 where none is waited for, away how many of these left a node that was
	// started, or are to leave it, and most how many may. isComing is true while pods of it are on their way.
	before, away, most int
	isComing           bool
	// on counts its ready pods on each node that was not started.
	on map[string]int
}

// leavesTooFew reports whether too many pods of a workload that starts slowly would be away at once if
// the pods of the member left, too: more than a quarter of them, and more than one. A workload that
// has as many ready pods as before may always lose those of one node. A budget that keeps pods says how many
// may be away, and is left to say so.
func (d canary) leavesTooFew(m *nodegroup.Member, pod *corev1.Pod, w drain.Workload) bool {
	s := d.findShortage(w)
	here := s.on[m.Name()]
	if here == 0 || s.away == 0 || !s.isComing || s.away+here <= s.most {
		return false
	}
	return !slices.ContainsFunc(d.w.Budgets.Covering(pod), func(b *drain.Budget) bool { return b.Status.DesiredHealthy > 0 })
}

// findShortage returns what is known of the workload, which changes with the start of a node.
func (d canary) findShortage(w drain.Workload) shortage {
	if s, known := d.shortages[w]; known {
		return s
	}
	if d.shortages == nil {
		d.shortages = map[drain.Workload]shortage{}
	}
	d.shortages[w] = d.makeShortage(w)
	return d.shortages[w]
}

func (d canary) makeShortage(w drain.Workload) shortage {
	known := d.rec.Workloads[w.String()]
	most := drain.AwayAtOnce(known.Ready, known.Usual.Duration)
	if most == 0 || d.rec.Request.ignoresUnready(w.String()) {
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
		case isInDrain(d.rec.Nodes[node].State):
			s.isComing = true // as soon as it has left
		case i < r.Ready:
			staying++
			s.on[node]++
		case d.cameDuringUpgrade(pod):
			s.isComing = true
		}
	}
	s.away = max(0, s.before-staying)
	s.isComing = s.isComing || r.Expected < s.before || (r.Expected > len(r.Pods) && d.rec.countInFlight() > 0)
	return s
}
