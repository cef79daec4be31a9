package simulate

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/fit"
)

// scheduler finds nodes for pods, and keeps those that no node takes.
type scheduler struct {
	clock *clock
	index *podIndex
	// pending are the pods that no node takes.
	pending []*pendingGroup
	// freed are the nodes that may take pods that they did not take before; freedAnywhere says
	// that any may, and moved that any may take pods that depend on where others are.
	freed         []*simNode
	freedAnywhere bool
	moved         bool
	// lowest is the least priority of a pod that was ever on a node.
	lowest int32
	// evict ends a pod for one of more priority.
	evict func(*simPod)
}

// pendingGroup is the pods of one key that no node takes, in the order they came.
type pendingGroup struct {
	key  *schedulingKey
	pods []*simPod
	// refused is a group that all nodes were asked for: those of the Spec were refused by a
	// scheduler that knows more.
	refused bool
}

// addPending takes in a pod that waits when the simulation begins.
func (s *scheduler) addPending(u *simPod) {
	u.waitingSince, u.initiallyPending = s.clock.now, true
	s.pending = append(s.pending, &pendingGroup{key: u.key, pods: []*simPod{u}})
}

// takeUnseen takes the pods out that wait when the simulation begins and that no scheduler has looked
// at: the others it has refused, and it knows more.
func (s *scheduler) takeUnseen() []*simPod {
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

// hasUnseen reports whether a pod waits that no scheduler has looked at.
func (s *scheduler) hasUnseen() bool {
	return slices.ContainsFunc(s.pending, func(g *pendingGroup) bool { return slices.ContainsFunc(g.pods, isUnseen) })
}

// isUnseen reports whether the pod waits when the simulation begins and no scheduler has refused it, or
// been told to wait with it.
func isUnseen(u *simPod) bool {
	return u.initiallyPending && !slices.ContainsFunc(u.pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse
	})
}

// assignNode finds the best node that takes the pod; when none does it returns nil, and the pod
// waits. Where pods like it wait already, only a node that has room since they were refused takes
// it.
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

// pickNodeForPod finds the node with the least allocated, and the first name among equals, of those
// that take the key. Only freed nodes are asked where nothing else can have made room.
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

// capacityFreed notes that a node may take pods that it did not take before.
func (s *scheduler) capacityFreed(n *simNode) {
	if len(s.pending) > 0 && !n.closed && !slices.Contains(s.freed, n) {
		s.freed = append(s.freed, n)
	}
}

// placesChanged notes that pods which depend on where others are may find a node: one came, went or
// is another by now.
func (s *scheduler) placesChanged() { s.moved = len(s.pending) > 0 }

// placePending offers the pods that wait to the nodes that have room now, and starts those that
// find a place. Pods of one key are alike: when one finds no place, the others do not either. What
// pods that look at others may find changes with each one placed.
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

// Unplaced is a pod that waits for a node.
type Unplaced struct {
	Pod types.NamespacedName
	// Owner is its controller, kind and name; empty without one.
	Owner string
	// Since is when it began to wait.
	Since time.Time
	// Reason is why no node takes it, in the scheduler's words.
	Reason string
}

// listUnplaced lists the pods that came to wait in the simulation, by name.
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
				reasons[u.key] = explainRefusal(u.key, s.index.nodes.sorted)
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

// refusals are the reasons of Cluster.Refusals.
func (s *scheduler) refusals(pod types.NamespacedName) map[string][]string {
	for _, g := range s.pending {
		for _, u := range g.pods {
			if u.pod.Namespace != pod.Namespace || u.pod.Name != pod.Name {
				continue
			}
			s.index.readSchedulingKey(u.key)
			refused := map[string][]string{}
			for _, n := range s.index.nodes.sorted {
				for _, why := range explainNode(u.key, n) {
					refused[n.node.Name] = append(refused[n.node.Name], string(why))
				}
			}
			return refused
		}
	}
	return nil
}
