package upgrade

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// Memo caches what steps found out about the pods of nodes, so that a step looks only at nodes whose pods changed since
// the step before. A process passes the same Memo with each World. Without one the decisions are the same. The zero
// value is ready for use. It is not safe for concurrent use.
//
// It recognises unchanged pods by their slice, so callers must not change a slice of pods, or a pod in it, that a step
// has seen.
type Memo struct {
	nodes map[string]*podsMemo
	// daemonSets are all DaemonSets that were seen. placeOf holds their indexes.
	daemonSets []drain.Workload
	placeOf    map[drain.Workload]int
}

// podsMemo is what was found out about the pods of one node.
type podsMemo struct {
	pods    []*corev1.Pod
	daemons []daemonPod
	// left is the pods sorted by what a drain with this policy does with them; nil if not needed yet. lost is whether
	// the node counted as lost then.
	left   *nodePods
	policy drain.Policy
	lost   bool
}

// daemonPod is a DaemonSet's pod that has not ended. of is the DaemonSet's index.
type daemonPod struct {
	*corev1.Pod
	of    int
	ready bool
}

// podsOn returns the cache entry for the member's node, and updates it if the pods changed.
func (x *Memo) podsOn(m *nodegroup.Member) *podsMemo {
	known := x.nodes[m.Name()]
	if known == nil || !isSameSlice(known.pods, m.Pods) {
		known = &podsMemo{pods: m.Pods}
		for _, pod := range m.Pods {
			if of, counts := daemonOfLivePod(pod); counts {
				known.daemons = append(known.daemons, daemonPod{pod, x.placeOfDaemonSet(of), drain.Ready(pod)})
			}
		}
		if x.nodes == nil {
			x.nodes = map[string]*podsMemo{}
		}
		x.nodes[m.Name()] = known
	}
	return known
}

func (x *Memo) placeOfDaemonSet(w drain.Workload) int {
	place, known := x.placeOf[w]
	if !known {
		if place = len(x.daemonSets); x.placeOf == nil {
			x.placeOf = map[drain.Workload]int{}
		}
		x.placeOf[w], x.daemonSets = place, append(x.daemonSets, w)
	}
	return place
}

// classifiedOn returns the member's pods, sorted by what a drain with the policy does with them. It must not be
// changed.
func (x *Memo) classifiedOn(m *nodegroup.Member, policy drain.Policy, now time.Time) *nodePods {
	known, lost := x.podsOn(m), m.Node != nil && isNodeLost(m.Node, now)
	if known.left == nil || known.policy != policy || known.lost != lost {
		known.left, known.policy, known.lost = classifyPods(m.Pods, policy, lost), policy, lost
	}
	return known.left
}

// forgetOthers removes the nodes that are not among the members, once they are the majority.
func (x *Memo) forgetOthers(members []nodegroup.Member) {
	if len(x.nodes) <= 2*len(members) {
		return
	}
	kept := make(map[string]*podsMemo, len(members))
	for i := range members {
		if name := members[i].Name(); x.nodes[name] != nil {
			kept[name] = x.nodes[name]
		}
	}
	x.nodes = kept
}

func isSameSlice(a, b []*corev1.Pod) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}
