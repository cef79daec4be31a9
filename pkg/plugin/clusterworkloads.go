package plugin

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/inventory"
)

// describeUnreadKinds describes what a plan assumes about kinds that were not read, and why they were not read.
func describeUnreadKinds(o *inventory.Objects) []string {
	var assumed []string
	type group struct {
		assumption string
		kinds      []string
	}
	budgets := "no PodDisruptionBudget covers a pod"
	if len(o.Budgets) > 0 {
		budgets = "no other PodDisruptionBudget covers a pod"
	}
	groups := []group{
		{budgets, []string{"poddisruptionbudgets"}},
		{"budgets stay as their status shows, and StatefulSets create their pods in parallel", []string{"deployments", "replicasets", "statefulsets"}},
		{"no quota and no pod security refuses new pods", []string{"resourcequotas", "namespaces"}},
		{"volumes can move with their pods to any node", []string{"persistentvolumeclaims", "persistentvolumes"}},
		{"no pod is the last ready one behind a Service (the upgrade would keep such a pod until another is ready)", []string{"services"}},
		{"each node attaches any number of volumes", []string{"csinodes"}},
		{"affinity that selects namespaces by labels selects all namespaces", []string{"namespaces"}},
		{"pods behind admission webhooks are evicted in no special order", []string{"services", "mutatingwebhookconfigurations", "validatingwebhookconfigurations"}},
	}
	if slices.ContainsFunc(o.Pods, func(pod *corev1.Pod) bool { return len(pod.Spec.ResourceClaims) > 0 }) {
		groups = append(groups, group{"devices can move with their pods to any node", []string{"resourceclaims"}})
	}
	for _, group := range groups {
		if why := o.DescribeUnread(group.kinds...); why != "" {
			assumed = append(assumed, group.assumption+": "+why)
		}
	}
	return assumed
}
