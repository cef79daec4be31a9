package simulate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/fit"
)

// The reasons that depend on pods on other nodes, in the words of the kube-scheduler plugin that finds them.
const (
	podAffinityUnmet   fit.Reason = "node(s) didn't match pod affinity rules"
	podAntiAffinity    fit.Reason = "node(s) didn't match pod anti-affinity rules"
	existingPodRepels  fit.Reason = "node(s) didn't satisfy existing pods anti-affinity rules"
	spreadExceeded     fit.Reason = "node(s) didn't match pod topology spread constraints"
	spreadLabelMissing fit.Reason = "node(s) didn't match pod topology spread constraints (missing required label)"
)

// checkNodeFit returns Fits if the node takes a pod of the key, or else the reason. The filters have kube-scheduler's
// order. So a pod that fails several of them gets the same reason.
func checkNodeFit(k *schedulingKey, n *simNode) fit.Reason {
	if n.closed {
		return fit.UntoleratedTaint // it has node.kubernetes.io/not-ready or unreachable
	}
	if why := fit.Check(&k.needs, &n.room); why != fit.Fits {
		return why
	}
	return checkOtherNodes(k, n)
}

// checkOtherNodes checks what depends on other nodes, and then devices.
func checkOtherNodes(k *schedulingKey, n *simNode) fit.Reason {
	for i := range k.spread {
		if why := k.spread[i].checkSpread(n); why != fit.Fits {
			return why
		}
	}
	if why := checkPodAffinity(k, n); why != fit.Fits {
		return why
	}
	return fit.CheckDevices(&k.needs, &n.room)
}

// explainNodeRefusal returns all reasons of the first filter that refuses the pod. It returns none if the node takes the
// pod.
func explainNodeRefusal(k *schedulingKey, n *simNode) []fit.Reason {
	if n.closed {
		return []fit.Reason{fit.UntoleratedTaint}
	}
	if all := fit.Explain(&k.needs, &n.room); len(all) > 0 {
		return all
	}
	if why := checkOtherNodes(k, n); why != fit.Fits {
		return []fit.Reason{why}
	}
	return nil
}

// checkPodAffinity checks required inter-pod affinity and anti-affinity, of the pod and of other pods.
func checkPodAffinity(k *schedulingKey, n *simNode) fit.Reason {
	if !satisfiesAffinity(k, n) {
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
	return fit.Fits
}

// satisfiesAffinity reports whether the node satisfies the pod's affinity to other pods: it has every
// topology key, and pods that match all terms, unless the pod is the first of its kind.
func satisfiesAffinity(k *schedulingKey, n *simNode) bool {
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

// isFirstOfKey reports whether a pod has affinity to its own kind and no such pod exists anywhere yet
// (interpodaffinity/filtering.go).
func isFirstOfKey(k *schedulingKey) bool {
	return !slices.ContainsFunc(k.near, func(t affinityTerm) bool { return t.pods.countPlaced(t.label) > 0 || !t.pods.matchesPod(k.sample) })
}

// describeRefusal describes why none of the nodes takes a pod of the key, in the format of the scheduler's event.
func describeRefusal(k *schedulingKey, nodes []*simNode) string {
	counts := map[fit.Reason]int{}
	for _, n := range nodes {
		for _, why := range explainNodeRefusal(k, n) {
			counts[why]++
		}
	}
	var parts []string
	for why, n := range counts {
		parts = append(parts, fmt.Sprintf("%d %s", n, why))
	}
	slices.Sort(parts)
	return fmt.Sprintf("0/%d nodes are available: %s", len(nodes), strings.Join(parts, ", "))
}
