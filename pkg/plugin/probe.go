package plugin

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cluster"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/report"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
)

// probeEvictions asks the API server about one pod of each budget and owner with dryRun=All
// evictions, which consult budgets and webhooks and change nothing (Kubernetes K04). The answer
// holds for now, one pod at a time.
func probeEvictions(ctx context.Context, conn *connection, g *groupContext) []report.Probe {
	type kin struct {
		budget types.NamespacedName
		owner  types.UID
	}
	asked := map[kin]bool{}
	var probes []report.Probe
	for i := range g.members {
		m := &g.members[i]
		if !m.Outdated || m.Node == nil {
			continue
		}
		for _, pod := range m.Pods {
			if drain.Judge(pod, g.request.Policy(), false).Fate != drain.Go {
				continue
			}
			k := kin{owner: drain.ControllerOf(pod)}
			if budgets := g.view.Budgets.Covering(pod); len(budgets) > 0 {
				k.budget = budgets[0].Key()
			}
			if !asked[k] {
				asked[k] = true
				probes = append(probes, probeEviction(ctx, conn, pod, k.budget))
			}
		}
	}
	return probes
}

func probeEviction(ctx context.Context, conn *connection, pod *corev1.Pod, budget types.NamespacedName) report.Probe {
	answer := report.Probe{Pod: pod.Namespace + "/" + pod.Name, Answer: "may be evicted now"}
	if budget.Name != "" {
		answer.Budget = budget.String()
	}
	evict := upgrade.Evict{Namespace: pod.Namespace, Pod: pod.Name, UID: pod.UID}
	if err := cluster.Evict(ctx, conn.Client, evict, metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
		answer.Answer = err.Error()
	}
	return answer
}
