package simulate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
)

// misfit is why a node does not take a pod, in the words of kube-scheduler; empty when it does.
type misfit string

// The misfits, each as the plugin of kube-scheduler says it that finds it.
const (
	fits               misfit = ""
	misfitCordon       misfit = "node(s) were unschedulable"
	misfitTaint        misfit = "node(s) had untolerated taint(s)"
	misfitSelector     misfit = "node(s) didn't match Pod's node affinity/selector"
	misfitPods         misfit = "Too many pods"
	misfitCPU          misfit = "Insufficient cpu"
	misfitMemory       misfit = "Insufficient memory"
	misfitVolume       misfit = "node(s) didn't match PersistentVolume's node affinity"
	misfitAffinity     misfit = "node(s) didn't match pod affinity rules"
	misfitAntiAffinity misfit = "node(s) didn't match pod anti-affinity rules"
	misfitRepelled     misfit = "node(s) didn't satisfy existing pods anti-affinity rules"
	misfitSpread       misfit = "node(s) didn't match pod topology spread constraints"
	misfitSpreadLabel  misfit = "node(s) didn't match pod topology spread constraints (missing required label)"
)

// fit says whether the node takes a pod of the shape. The order is that of kube-scheduler's
// filters, so that a pod that fails several gives the same reason.
func fit(s *shape, m *machine) misfit {
	if why := admits(s, m); why != fits {
		return why
	}
	if !s.anywhere {
		if ok, err := s.affinity.Match(m.node); !ok || err != nil {
			return misfitSelector
		}
	}
	if why := room(s, m); why != fits {
		return why
	}
	for _, volume := range s.volumes {
		if !volume.Match(m.node) {
			return misfitVolume
		}
	}
	for i := range s.spread {
		if why := s.spread[i].fit(m); why != fits {
			return why
		}
	}
	return neighbours(s, m)
}

// admits looks at cordon, taints and readiness.
func admits(s *shape, m *machine) misfit {
	if m.cordon && !s.cordon {
		return misfitCordon
	}
	if m.closed {
		return misfitTaint // node.kubernetes.io/not-ready or unreachable
	}
	return tolerated(s, m)
}

func tolerated(s *shape, m *machine) misfit {
	for i := range m.taints {
		if !drain.Tolerates(s.like, m.taints[i]) {
			return misfitTaint
		}
	}
	return fits
}

// room looks at what the node has left.
func room(s *shape, m *machine) misfit {
	switch {
	case m.limits.pods > 0 && len(m.pods) >= m.limits.pods:
		return misfitPods
	case m.limits.cpu > 0 && s.needs.cpu > 0 && m.used.cpu+s.needs.cpu > m.limits.cpu:
		return misfitCPU
	case m.limits.memory > 0 && s.needs.memory > 0 && m.used.memory+s.needs.memory > m.limits.memory:
		return misfitMemory
	default:
		return fits
	}
}

// neighbours looks at required inter-pod affinity and anti-affinity, the pod's own and that of
// others.
func neighbours(s *shape, m *machine) misfit {
	if !near(s, m) {
		return misfitAffinity
	}
	for i := range s.apart {
		if _, labelled := m.node.Labels[s.apart[i].key]; labelled && s.apart[i].pods.at(m, s.apart[i].key) > 0 {
			return misfitAntiAffinity
		}
	}
	for _, g := range s.guards {
		if value, labelled := m.node.Labels[g.key]; labelled && g.at[value] > 0 {
			return misfitRepelled
		}
	}
	return fits
}

// first is a pod that asks to be near its own kind, of which there is none yet
// (interpodaffinity/filtering.go).
func (s *shape) first() bool {
	return !slices.ContainsFunc(s.near, func(t term) bool { return t.pods.total > 0 || !t.pods.means(s.like) })
}

// explain says why no node takes a pod of the shape, as the scheduler's event does.
func (c *Cluster) explain(s *shape) string {
	c.parse(s)
	counts := map[misfit]int{}
	for _, m := range c.sites {
		counts[fit(s, m)]++
	}
	delete(counts, fits)
	var parts []string
	for why, n := range counts {
		parts = append(parts, fmt.Sprintf("%d %s", n, why))
	}
	slices.Sort(parts)
	return fmt.Sprintf("0/%d nodes are available: %s", len(c.sites), strings.Join(parts, ", "))
}

// near reports whether the machine satisfies the pod's affinity to other pods: it has every
// topology key, and pods that match each term, unless the pod is the first of its kind.
func near(s *shape, m *machine) bool {
	for i := range s.near {
		if _, labelled := m.node.Labels[s.near[i].key]; !labelled {
			return false
		}
	}
	for i := range s.near {
		if s.near[i].pods.at(m, s.near[i].key) == 0 && !s.first() {
			return false
		}
	}
	return true
}
