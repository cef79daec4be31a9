package simulate

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/fit"
)

// scheduler finds nodes for pods, and keeps the pods that no node takes.
type scheduler struct {
	clock *clock
	index *podIndex
	// pending are the pods that no node takes.
	pending []*pendingGroup
	// freed are nodes that may now take pods that they refused before. freedAnywhere is true if any node may be one of
	// them. moved is true if any node may now take pods whose scheduling depends on where other pods are.
	freed         []*simNode
	freedAnywhere bool
	moved         bool
	// lowest is the lowest priority of all pods that have ever been on a node.
	lowest int32
	// evict evicts a pod for one of higher priority.
	evict func(*simPod)
}

// pendingGroup has the pods of one key that no node takes, in the order in which they arrived.
type pendingGroup struct {
	key  *schedulingKey
	pods []*simPod
	// refused is true if the simulation has tried all nodes. It is false for pending pods of the Spec, because the real
	// scheduler that has refused them knows more than the simulation.
	refused bool
}

// addPending adds a pod that is pending when the simulation begins.
func (s *scheduler) addPending(u *simPod) {
	u.waitingSince, u.initiallyPending = s.clock.now, true
	s.pending = append(s.pending, &pendingGroup{key: u.key, pods: []*simPod{u}})
}

// removeUnseen removes and returns the initially pending pods that no scheduler has seen. The others stay pending,
// because the real scheduler that has refused them knows more than the simulation.
func (s *scheduler) removeUnseen() []*simPod {
	var unseen []*simPod
	for _, g := range s.pending {
		g.pods = slices.DeleteFunc(g.pods, func(u *simPod) bool {
			if !isUnseen(u) {
				return false
			}
			unseen = append(unseen, u)
			return true
		})
	}
	s.pending = slices.DeleteFunc(s.pending, func(g *pendingGroup) bool { return len(g.pods) == 0 })
	return unseen
}

// hasUnseen reports whether there is a pending pod that no scheduler has seen.
func (s *scheduler) hasUnseen() bool {
	return slices.ContainsFunc(s.pending, func(g *pendingGroup) bool { return slices.ContainsFunc(g.pods, isUnseen) })
}

// isUnseen reports whether the pod is pending when the simulation begins and its PodScheduled condition is not false:
// no scheduler has refused it, and it has no scheduling gates.
func isUnseen(u *simPod) bool {
	return u.initiallyPending && !slices.ContainsFunc(u.pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse
	})
}

// assignNode returns the best node that takes the pod. If there is none, it returns nil, and the pod becomes pending.
// If pods of the same key are already pending, only nodes that have got room since then are tried.
func (s *scheduler) assignNode(u *simPod) *simNode {
	var group *pendingGroup
	if i := slices.IndexFunc(s.pending, func(g *pendingGroup) bool { return g.key == u.key }); i >= 0 {
		group = s.pending[i]
	}
	if n := s.pickNodeForPod(u.key, group == nil || !group.refused || s.freedAnywhere, s.freed); n != nil {
		return n
	}
	u.waitingSince = s.clock.now
	if group == nil {
		group = &pendingGroup{key: u.key}
		s.pending = append(s.pending, group)
	}
	group.pods, group.refused = append(group.pods, u), true
	s.preempt(u)
	return nil
}

// pickNodeForPod returns the node with the lowest share of allocated resources that takes the key. Among equals, it
// returns the first by name. If anywhere is false, only the freed nodes
// can have room, so it tries only the freed nodes.
func (s *scheduler) pickNodeForPod(k *schedulingKey, anywhere bool, freed []*simNode) *simNode {
	if anywhere || k.dependsOnPods() || k.needs.DependsOnOthers() {
		s.index.readSchedulingKey(k)
		return s.index.nodes.ranking.firstFittingNode(k)
	}
	var best *simNode
	for _, n := range freed {
		if checkNodeFit(k, n) == fit.Fits && (best == nil || n.rank.compareRanks(best.rank) < 0) {
			best = n
		}
	}
	return best
}

// markFreed records that a node may take pods that it refused before.
func (s *scheduler) markFreed(n *simNode) {
	if len(s.pending) > 0 && !n.closed && !slices.Contains(s.freed, n) {
		s.freed = append(s.freed, n)
	}
}

// markPlacesChanged records that a node was added, removed or changed. So pods that depend on where other pods are may
// now find a node.
func (s *scheduler) markPlacesChanged() { s.moved = len(s.pending) > 0 }

// placePending tries to place the pending pods on nodes that may have room now, and starts those that find a node. If
// one pod of a key finds no node, the others of that key do not either. Each placed pod may change where pods with
// affinity or spread constraints fit.
func (s *scheduler) placePending(start func(*simPod, *simNode)) {
	for s.freedAnywhere || s.moved || len(s.freed) > 0 {
		anywhere, freed := s.freedAnywhere, s.freed
		s.freedAnywhere, s.moved, s.freed = false, false, nil
		for _, g := range s.pending {
			for len(g.pods) > 0 {
				n := s.pickNodeForPod(g.key, anywhere, freed)
				if n == nil {
					break
				}
				start(g.pods[0], n)
				g.pods = g.pods[1:]
			}
		}
		s.pending = slices.DeleteFunc(s.pending, func(g *pendingGroup) bool { return len(g.pods) == 0 })
	}
}

// Unplaced is a pod that became pending in the simulation.
type Unplaced struct {
	Pod types.NamespacedName
	// Owner is the kind and name of its controller; empty without one.
	Owner string
	// Since is when it began to wait.
	Since time.Time
	// Reason is why no node takes it, in the scheduler's words.
	Reason string
}

// listUnplaced returns the pods that became pending in the simulation, by name.
func (s *scheduler) listUnplaced() []Unplaced {
	var list []Unplaced
	reasons := map[*schedulingKey]string{}
	for _, g := range s.pending {
		for _, u := range g.pods {
			if u.initiallyPending {
				continue
			}
			if _, known := reasons[u.key]; !known {
				s.index.readSchedulingKey(u.key)
				reasons[u.key] = describeRefusal(u.key, s.index.nodes.sorted)
			}
			list = append(list, Unplaced{
				Pod: types.NamespacedName{Namespace: u.pod.Namespace, Name: u.pod.Name}, Owner: controllerName(u.pod),
				Since: u.waitingSince, Reason: reasons[u.key],
			})
		}
	}
	slices.SortFunc(list, func(a, b Unplaced) int { return strings.Compare(a.Pod.String(), b.Pod.String()) })
	return list
}

// refusals returns the result of Cluster.Refusals.
func (s *scheduler) refusals(pod types.NamespacedName) map[string][]string {
	for _, g := range s.pending {
		for _, u := range g.pods {
			if u.pod.Namespace != pod.Namespace || u.pod.Name != pod.Name {
				continue
			}
			s.index.readSchedulingKey(u.key)
			refused := map[string][]string{}
			for _, n := range s.index.nodes.sorted {
				for _, why := range explainNodeRefusal(u.key, n) {
					refused[n.node.Name] = append(refused[n.node.Name], string(why))
				}
			}
			return refused
		}
	}
	return nil
}
