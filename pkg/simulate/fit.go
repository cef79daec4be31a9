package simulate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
)

// unschedulableReason is why a node does not take a pod, in the words of kube-scheduler; empty when
// it does.
type unschedulableReason string

// The reasons, each as the plugin of kube-scheduler says it that finds it.
const (
	fits               unschedulableReason = ""
	nodeCordoned       unschedulableReason = "node(s) were unschedulable"
	untoleratedTaint   unschedulableReason = "node(s) had untolerated taint(s)"
	selectorMismatch   unschedulableReason = "node(s) didn't match Pod's node affinity/selector"
	tooManyPods        unschedulableReason = "Too many pods"
	insufficientCPU    unschedulableReason = "Insufficient cpu"
	insufficientMemory unschedulableReason = "Insufficient memory"
	volumeMismatch     unschedulableReason = "node(s) didn't match PersistentVolume's node affinity"
	podAffinityUnmet   unschedulableReason = "node(s) didn't match pod affinity rules"
	podAntiAffinity    unschedulableReason = "node(s) didn't match pod anti-affinity rules"
	existingPodRepels  unschedulableReason = "node(s) didn't satisfy existing pods anti-affinity rules"
	spreadExceeded     unschedulableReason = "node(s) didn't match pod topology spread constraints"
	spreadLabelMissing unschedulableReason = "node(s) didn't match pod topology spread constraints (missing required label)"
)

// checkNodeFit says whether the node takes a pod of the key. The order is that of kube-scheduler's
// filters, so that a pod that fails several gives the same reason.
func checkNodeFit(k *schedulingKey, n *simNode) unschedulableReason {
	if why := checkTaints(k, n); why != fits {
		return why
	}
	if !k.anyNode {
		if ok, err := k.affinity.Match(n.node); !ok || err != nil {
			return selectorMismatch
		}
	}
	if why := checkCapacity(k, n); why != fits {
		return why
	}
	for _, volume := range k.volumes {
		if !volume.Match(n.node) {
			return volumeMismatch
		}
	}
	for i := range k.spread {
		if why := k.spread[i].checkSpread(n); why != fits {
			return why
		}
	}
	return checkNeighbours(k, n)
}

// checkTaints looks at cordon, readiness and taints.
func checkTaints(k *schedulingKey, n *simNode) unschedulableReason {
	if n.cordoned && !k.toleratesCordon {
		return nodeCordoned
	}
	if n.closed || !toleratesTaints(k, n) {
		return untoleratedTaint // a closed node has node.kubernetes.io/not-ready or unreachable
	}
	return fits
}

func toleratesTaints(k *schedulingKey, n *simNode) bool {
	for i := range n.taints {
		if !drain.ToleratesTaint(k.sample, n.taints[i]) {
			return false
		}
	}
	return true
}

// checkCapacity looks at what the node has left.
func checkCapacity(k *schedulingKey, n *simNode) unschedulableReason {
	switch {
	case n.limits.pods > 0 && len(n.pods) >= n.limits.pods:
		return tooManyPods
	case n.limits.cpu > 0 && k.requests.cpu > 0 && n.used.cpu+k.requests.cpu > n.limits.cpu:
		return insufficientCPU
	case n.limits.memory > 0 && k.requests.memory > 0 && n.used.memory+k.requests.memory > n.limits.memory:
		return insufficientMemory
	default:
		return fits
	}
}

// checkNeighbours looks at required inter-pod affinity and anti-affinity, the pod's own and that of
// others.
func checkNeighbours(k *schedulingKey, n *simNode) unschedulableReason {
	if !hasNeighbours(k, n) {
		return podAffinityUnmet
	}
	for i := range k.apart {
		if _, labelled := n.node.Labels[k.apart[i].label]; labelled && k.apart[i].pods.countInTopology(n, k.apart[i].label) > 0 {
			return podAntiAffinity
		}
	}
	for _, x := range k.repelledBy {
		if value, labelled := n.node.Labels[x.label]; labelled && x.at[value] > 0 {
			return existingPodRepels
		}
	}
	return fits
}

// hasNeighbours reports whether the node satisfies the pod's affinity to other pods: it has every
// topology key, and pods that match each term, unless the pod is the first of its kind.
func hasNeighbours(k *schedulingKey, n *simNode) bool {
	for i := range k.near {
		if _, labelled := n.node.Labels[k.near[i].label]; !labelled {
			return false
		}
		if k.near[i].pods.countInTopology(n, k.near[i].label) == 0 && !isFirstOfKey(k) {
			return false
		}
	}
	return true
}

// isFirstOfKey reports whether a pod asks to be near its own kind, of which there is none yet
// (interpodaffinity/filtering.go).
func isFirstOfKey(k *schedulingKey) bool {
	return !slices.ContainsFunc(k.near, func(t affinityTerm) bool { return t.pods.total > 0 || !t.pods.matchesPod(k.sample) })
}

// explainRefusal says why none of the nodes takes a pod of the key, as the scheduler's event does.
func explainRefusal(k *schedulingKey, nodes []*simNode) string {
	counts := map[unschedulableReason]int{}
	for _, n := range nodes {
		counts[checkNodeFit(k, n)]++
	}
	delete(counts, fits)
	var parts []string
	for why, n := range counts {
		parts = append(parts, fmt.Sprintf("%d %s", n, why))
	}
	slices.Sort(parts)
	return fmt.Sprintf("0/%d nodes are available: %s", len(nodes), strings.Join(parts, ", "))
}
