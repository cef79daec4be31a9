package plugin

import (
	"context"
	"iter"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cluster"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain/schedule"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/preflight"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/report"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// probesAtOnce is how many pod creations are tried in parallel. If a webhook does not answer, one takes up to 30 s.
const probesAtOnce = 8

// eachMovingPod yields the pods on outdated nodes that the upgrade moves.
func (g *groupContext) eachMovingPod() iter.Seq[*corev1.Pod] {
	return func(yield func(*corev1.Pod) bool) {
		for i := range g.members {
			m := &g.members[i]
			if !m.Outdated || m.Node == nil {
				continue
			}
			for _, pod := range m.Pods {
				if drain.Judge(pod, g.request.Policy(), false).Fate == drain.Go && !yield(pod) {
					return
				}
			}
		}
	}
}

// probeEvictions sends the API server a dryRun=All eviction of one pod for each budget and owner. Such an eviction
// consults budgets and webhooks and changes nothing (Kubernetes K04). The answer is valid for that pod at this moment
// only.
func probeEvictions(ctx context.Context, conn *connection, g *groupContext) []report.Probe {
	type kin struct {
		budget types.NamespacedName
		owner  types.UID
	}
	asked := map[kin]bool{}
	var probes []report.Probe
	for pod := range g.eachMovingPod() {
		k := kin{owner: drain.ControllerOf(pod)}
		if budgets := g.cluster.view.Budgets.Covering(pod); len(budgets) > 0 {
			k.budget = budgets[0].Key()
		}
		if !asked[k] {
			asked[k] = true
			probes = append(probes, probeEviction(ctx, conn, pod, k.budget))
		}
	}
	return probes
}

func probeEviction(ctx context.Context, conn *connection, pod *corev1.Pod, budget types.NamespacedName) report.Probe {
	answer := report.Probe{Pod: pod.Namespace + "/" + pod.Name, Answer: "may be evicted now"}
	if budget.Name != "" {
		answer.Budget = budget.String()
	}
	evict := schedule.Eviction{Namespace: pod.Namespace, Pod: pod.Name, UID: pod.UID}
	if err := cluster.Evict(ctx, conn.Client, evict, metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
		answer.Answer = err.Error()
	}
	return answer
}

// probeCreations asks the API server with dryRun=All whether it would create a new pod for each controller whose pods
// must move. PodSecurity, quotas, webhooks, missing ServiceAccounts and missing PriorityClasses may refuse it. It omits
// controllers that need not create the pod again (POD013).
func probeCreations(ctx context.Context, conn *connection, g *groupContext) []report.Probe {
	var pods []*corev1.Pod
	asked := map[types.UID]bool{}
	for pod := range g.eachMovingPod() {
		if owner := drain.ControllerOf(pod); owner != "" && !asked[owner] && !drain.IsForeignJob(pod) {
			asked[owner] = true
			pods = append(pods, pod)
		}
	}
	probes, movable := make([]report.Probe, len(pods)), g.findMovable()
	var questions errgroup.Group
	questions.SetLimit(probesAtOnce)
	for i, pod := range pods {
		comesFirst := g.request.Move == record.MoveBySurge && movable.CanMoveWithoutEviction(pod)
		questions.Go(func() error {
			probes[i] = describeCreation(pod, cluster.TryCreation(ctx, conn.Client, pod), comesFirst)
			return nil
		})
	}
	_ = questions.Wait() // no function above returns an error
	return probes
}

// describeCreation describes the API server's answer to the creation of a pod that replaces another. comesFirst is
// true if the new pod is created before the old one is deleted.
func describeCreation(pod *corev1.Pod, answer cluster.Creation, comesFirst bool) report.Probe {
	probe := report.Probe{Pod: pod.Namespace + "/" + pod.Name, Workload: workloadName(pod)}
	switch {
	case answer.Unverified != "":
		probe.Answer = "unverified: " + answer.Unverified
	case answer.Refused == "":
		probe.Answer = "may be created now"
	case preflight.IsRefusedTemporarily(answer.Refused, comesFirst):
		probe.Answer = "may be created after an old one has ended: " + answer.Refused
	default:
		probe.Refused, probe.Answer = true, "refused: "+answer.Refused+": "+preflight.RemedyOfRefusal(answer.Refused)
	}
	return probe
}

// refusalsOfProbes returns the API server's refusals to create pods, by workload name.
func refusalsOfProbes(probes []report.Probe) map[string]preflight.Refusal {
	refusals := map[string]preflight.Refusal{}
	for i := range probes {
		if probes[i].Refused {
			refusals[probes[i].Workload] = preflight.Refusal{Why: probes[i].Answer}
		}
	}
	return refusals
}

// workloadName returns the name of a pod's workload in findings: "Deployment shop/web", or "Pod shop/web-0" for a pod
// without a controller.
func workloadName(pod *corev1.Pod) string {
	if w := drain.WorkloadOf(pod); w != (drain.Workload{}) {
		return w.Kind + " " + w.Namespace + "/" + w.Name
	}
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
		return owner.Kind + " " + pod.Namespace + "/" + owner.Name
	}
	return "Pod " + pod.Namespace + "/" + pod.Name
}
