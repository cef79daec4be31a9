package preflight

import (
	"fmt"
	"slices"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/fit"
)

// deviceRules returns the rules about ResourceClaims of pods.
func deviceRules() []Rule {
	return []Rule{
		{
			ID: "POD014", Severity: Error, Reads: []string{"resourceclaims"}, find: perWorkload(findSharedDevice),
			Text:   "Pods share a ResourceClaim whose devices are only on an outdated node. The claim stays allocated there while any of the pods runs. The replacement of an evicted pod stays Pending until all of them have left the node, and a budget may refuse to evict the others until the replacement is ready.",
			Source: "plugins/dynamicresources; pkg/controller/resourceclaim; kubernetes#141274",
		},
	}
}

// findSharedDevice implements rule POD014.
func findSharedDevice(s *Scene, w *Workload) *Finding {
	for _, pod := range w.Leaving {
		for _, name := range fit.DeviceClaims(pod) {
			claim := s.findResourceClaim(pod.Namespace, name)
			if claim == nil || s.isClaimReachable(claim) {
				continue
			}
			users := 0
			for _, other := range w.Pods {
				if slices.Contains(fit.DeviceClaims(other), name) {
					users++
				}
			}
			if users < 2 {
				continue
			}
			return &Finding{
				Message: fmt.Sprintf("its %d pods share ResourceClaim %s, whose device is on outdated node %s: the claim stays allocated there while any of them runs, so the replacement of an evicted pod stays Pending", users, name, pod.Spec.NodeName),
				Remedy:  "scale it to 0 and back after the node is fenced, or give each pod its own claim with resourceClaimTemplateName",
			}
		}
	}
	return nil
}

func (s *Scene) findResourceClaim(namespace, name string) *resourcev1.ResourceClaim {
	i := slices.IndexFunc(s.ResourceClaims, func(c *resourcev1.ResourceClaim) bool { return c.Namespace == namespace && c.Name == name })
	if i < 0 {
		return nil
	}
	return s.ResourceClaims[i]
}

// isClaimReachable reports whether a node that stays reaches the claim's devices. It also returns true
// if their place is not known.
func (s *Scene) isClaimReachable(claim *resourcev1.ResourceClaim) bool {
	if claim.Status.Allocation == nil || claim.Status.Allocation.NodeSelector == nil {
		return true
	}
	selector, err := nodeaffinity.NewNodeSelector(claim.Status.Allocation.NodeSelector)
	return err != nil || slices.ContainsFunc(s.staying, selector.Match)
}
