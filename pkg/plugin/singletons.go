package plugin

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/report"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// slowReadyTime is how long pods must take to become ready so that a plan lists their workload as slow.
const slowReadyTime = 30 * time.Second

// listLeavingWorkloads returns the workloads with pods on outdated nodes, by name.
func (g *groupContext) listLeavingWorkloads() []*drain.Replicas {
	workloads, found := indexPodsByWorkload(g.cluster.view.Pods, g.cluster.objects).Current(), map[drain.Workload]*drain.Replicas{}
	for i := range g.members {
		if !g.members[i].Outdated {
			continue
		}
		for _, pod := range g.members[i].Pods {
			if r := workloads.Of(pod); r != nil && drain.Judge(pod, g.request.Policy(), false).Fate == drain.Go {
				found[r.Workload] = r
			}
		}
	}
	return slices.SortedFunc(maps.Values(found), func(a, b *drain.Replicas) int { return strings.Compare(a.String(), b.String()) })
}

// findSingletons returns the leaving workloads with only one pod, and how the upgrade moves it.
func (p *planning) findSingletons(leaving []*drain.Replicas) []report.Singleton {
	if len(leaving) == 0 {
		return nil
	}
	var found []report.Singleton
	movable := p.findMovable()
	for _, r := range leaving {
		i := slices.IndexFunc(r.Pods, drain.Ready)
		if r.Ready != 1 || len(r.Pods) > 1 || i < 0 {
			continue
		}
		gap, _ := r.ReadyTime()
		s := report.Singleton{Name: r.String(), Moves: record.MoveByEviction, Gap: record.Duration{Duration: gap}}
		if _, s.Why = movable.FindDeployment(r.Pods[i]); s.Why == "" && p.request.Move == record.MoveBySurge {
			s.Moves, s.Gap = record.MoveBySurge, record.Duration{}
		}
		if refusal := p.refusals[workloadName(r.Pods[i])]; refusal.Why != "" && s.Why == "" {
			s.Why = "its new pod is refused"
		}
		found = append(found, s)
	}
	return found
}

// findSlowWorkloads returns the workloads whose pods take long to become ready, the slowest first.
func findSlowWorkloads(leaving []*drain.Replicas) []report.SlowWorkload {
	var found []report.SlowWorkload
	for _, r := range leaving {
		if usual, _ := r.ReadyTime(); usual >= slowReadyTime {
			found = append(found, report.SlowWorkload{Name: r.String(), Ready: record.Duration{Duration: usual}})
		}
	}
	slices.SortStableFunc(found, func(a, b report.SlowWorkload) int { return cmp.Compare(b.Ready.Duration, a.Ready.Duration) })
	return found
}

// findMovable returns the pods that a restart of their Deployment moves without a gap.
func (g *groupContext) findMovable() drain.Movable {
	if g.cluster.objects == nil {
		return g.movable
	}
	return drain.NewMovable(g.cluster.objects.Deployments, g.cluster.objects.Claims)
}
