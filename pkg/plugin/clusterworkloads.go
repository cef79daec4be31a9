package plugin

import (
	"slices"
	"strings"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cluster"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/inventory"
)

// workloadsOf is what forecasts look at of the objects that were read.
func workloadsOf(o *inventory.Objects) *cluster.Background {
	webhooks := drain.Webhooks{}
	for _, config := range o.Mutating {
		webhooks.AddMutating(config)
	}
	for _, config := range o.Validating {
		webhooks.AddValidating(config)
	}
	return &cluster.Background{Objects: *o, Facts: webhooks.FactsOf(o.Services)}
}

// describeAssumptions says what a plan assumes in the place of what may not be listed.
func describeAssumptions(kinds []string) []string {
	var assumed []string
	for _, group := range []struct {
		assumption string
		kinds      []string
	}{
		{"budgets stand as their status says, and StatefulSets bring their pods up side by side", []string{"deployments", "replicasets", "statefulsets"}},
		{"volumes follow their pods to any node", []string{"persistentvolumeclaims", "persistentvolumes"}},
		{"pods behind admission webhooks leave their nodes in no special order", []string{"services", "mutatingwebhookconfigurations", "validatingwebhookconfigurations"}},
	} {
		unread := slices.DeleteFunc(slices.Clone(kinds), func(kind string) bool { return !slices.Contains(group.kinds, kind) })
		if len(unread) > 0 {
			assumed = append(assumed, group.assumption+": you may not list "+strings.Join(unread, ", "))
		}
	}
	return assumed
}
