package plugin

import (
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
	return &cluster.Background{
		Deployments: o.Deployments, ReplicaSets: o.ReplicaSets, StatefulSets: o.StatefulSets, Claims: o.Claims, Volumes: o.Volumes,
		Services: o.Services, Facts: webhooks.FactsOf(o.Services), Unread: o.Unread,
	}
}

// describeAssumptions says what a plan assumes in the place of what may not be listed.
func describeAssumptions(kinds []string) []string {
	var scales, volumes, backends []string
	for _, kind := range kinds {
		switch {
		case strings.HasPrefix(kind, "persistent"):
			volumes = append(volumes, kind)
		case kind == "services" || strings.HasSuffix(kind, "webhookconfigurations"):
			backends = append(backends, kind)
		case kind == "deployments" || kind == "replicasets" || kind == "statefulsets":
			scales = append(scales, kind)
		}
	}
	var assumed []string
	if len(scales) > 0 {
		assumed = append(assumed, "budgets stand as their status says, and StatefulSets bring their pods up side by side: you may not list "+strings.Join(scales, ", "))
	}
	if len(volumes) > 0 {
		assumed = append(assumed, "volumes follow their pods to any node: you may not list "+strings.Join(volumes, ", "))
	}
	if len(backends) > 0 {
		assumed = append(assumed, "pods behind admission webhooks leave their nodes in no special order: you may not list "+strings.Join(backends, ", "))
	}
	return assumed
}
