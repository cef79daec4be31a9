package plugin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/preflight"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/report"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/runner"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/simulate"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
)

// makePlan runs the upgrade in virtual time and reports what it would do.
func (g *groupContext) makePlan(ctx context.Context, s *session) (*report.Plan, error) {
	if g.isForecast(s) {
		if err := g.loadForecastData(ctx, s); err != nil {
			return nil, err
		}
	}
	findings := g.checkObjects(s)
	g.addRefusals(preflight.ListRefusals(findings))
	forecast, assumed, err := g.forecastPlan(ctx, s)
	if err != nil {
		return nil, err
	}
	if !g.record.IsResumable() { // or some of the nodes are there already
		addresses := preflight.CheckAddresses(g.members, &g.request, g.survey.Subnets)
		findings = slices.Concat(findings, slices.DeleteFunc(addresses, func(f preflight.Finding) bool { return slices.Contains(s.line.skipChecks, f.Rule) }))
	}
	var leaving []*drain.Replicas
	if s.objects != nil && g.request.Strategy.Traits().Drains { // then all of them are known, and it is this tool that moves them
		leaving = g.listLeaving()
	}
	unread := g.group.Unread
	if g.clusterWorkloads != nil && g.findOwner() == nil {
		unread = slices.Concat(unread, describeUnread(g.clusterWorkloads))
	}
	unread = slices.Concat(unread, g.describeReplacements(&forecast))
	return report.NewPlan(report.Plan{
		Context: s.conn.context, Account: s.account, Request: g.request, Findings: findings, Assumptions: assumed, Unread: unread, LeftOut: g.shortfalls, CheckedBy: s.checkedBy,
		Operation: runningOperation(&g.group), Unlabelled: g.unlabelled, Resumes: g.record.Run,
		SizeAfter: g.sizeAfter(&forecast),
		Moves:     report.Moves{Singletons: g.findSingletons(leaving), Slow: findSlow(leaving)},
	}, &g.group, g.members, &forecast, g.isForecast(s)), nil
}

// describeReplacements says what a forecast takes users to do that an upgrade waits for.
func (g *groupContext) describeReplacements(forecast *simulate.Forecast) []string {
	const unknown = ": without a cloud, how long users take to bring nodes is not known"
	switch {
	case len(forecast.Nodes) == 0 || !g.request.WaitReplacement || g.group.Can.Refill != nodegroup.RefillByUser:
		return nil
	case forecast.Refilled:
		return []string{"another node is there as soon as one is drained" + unknown}
	default:
		return []string{"no replacement is waited for, and none comes" + unknown}
	}
}

// sizeAfter is the group's desired size after the upgrade: the one that the forecast ends with or, where
// the upgrade stops and the same command continues it, the one from before the upgrade, which it is to go back to.
func (g *groupContext) sizeAfter(forecast *simulate.Forecast) int {
	if result := forecast.Fast.Result; result == upgrade.Succeeded || result == upgrade.LeftBehind {
		return forecast.SizeAfter
	}
	_, size, _ := g.sizesAtStart()
	return size
}

// isForecast reports whether the plan says how long the upgrade takes. When short-lived nodes end is not known, and what their
// owner does with other nodes is not either.
func (g *groupContext) isForecast(s *session) bool {
	return !s.podsOfGroupOnly && !g.request.Strategy.Traits().Expires && g.findOwner() == nil
}

// findOwner returns the finding that names the owner of the nodes, nil where there is none.
func (g *groupContext) findOwner() *preflight.Finding {
	if f := preflight.FirstRefusal(g.findings); f != nil && f.Rule == preflight.RuleOwner {
		return f
	}
	return nil
}

// askRights asks the cluster and the cloud what the user may do of what the upgrade takes.
func (g *groupContext) askRights(ctx context.Context, s *session) {
	g.missingRights = s.conn.ListMissingRights(ctx, &g.request, true, s.line.stateNamespace)
	g.shortfalls = s.conn.DescribeShortfalls(ctx, &g.request)
	if authorizer, ok := cloud.As[cloud.Authorizer](g.provider); ok && g.countOutdated() > 0 {
		g.cloudRights = authorizer.AskRights(ctx, &g.group)
	}
}

// makeFacts is what rules need beside the World.
func (g *groupContext) makeFacts(serverVersion string) preflight.Facts {
	return preflight.Facts{
		ServerVersion: serverVersion, MissingRights: g.missingRights, MissingReads: g.missingReads,
		DeniedActions: g.cloudRights.Denied, UnverifiedActions: g.cloudRights.Unverified,
		DeniedReads: g.balancers.Denied, Delays: g.balancers.delays(),
	}
}

// checkObjects is what all rules find or, where the objects were not read that they look at, those
// that do with less.
func (g *groupContext) checkObjects(s *session) []preflight.Finding {
	switch {
	case s.objects == nil && g.clusterWorkloads == nil:
		return g.findings
	case s.objects == nil:
		return slices.Concat(g.findings, preflight.CheckServices(g.members, &g.request, g.clusterWorkloads.Services))
	}
	world := g.makeWorld(g.now)
	return preflight.Check(preflight.NewScene(&world, g.makeFacts(s.conn.Version), s.objects), preflight.Catalogue(), s.line.skipChecks)
}

// forecastPlan is the forecast of a plan, and what it rests on. Without a forecast the group's
// largest size is all that is known.
func (g *groupContext) forecastPlan(ctx context.Context, s *session) (simulate.Forecast, []string, error) {
	if !g.isForecast(s) {
		return simulate.Forecast{Peak: g.group.Desired + g.request.Surge}, nil, nil
	}
	return g.runForecast(ctx, g.request)
}

// addRefusals adds workloads of which the API server refuses new pods; what is known of one stands.
func (g *groupContext) addRefusals(refusals map[string]preflight.Refusal) {
	if g.refusals == nil {
		g.refusals = map[string]preflight.Refusal{}
	}
	for workload, refusal := range refusals {
		g.refusals[workload] = cmp.Or(g.refusals[workload], refusal)
	}
}

// drawnOrders is in how many orders a cloud's own upgrade is simulated, which picks nodes at random
// (EKS E40).
const drawnOrders = 3

// runForecast runs the upgrade as requested in virtual time, and says what its times rest on.
func (g *groupContext) runForecast(ctx context.Context, req upgrade.Request) (simulate.Forecast, []string, error) {
	spec := g.makeSpec()
	delegated := req.Strategy.Traits().ByCloud
	looks := time.Duration(0)
	if delegated {
		if looks = g.group.Managed.Looks; g.group.Managed.DrawsNodes {
			spec.Draws = drawnOrders
		}
		spec.Pods = drain.DropWishes(spec.Pods)
		spec.Group, spec.Record, req = upgrade.AsDriven(spec.Group, &spec.Record, req)
	}
	spec.Autoscaled = req.Strategy.Traits().ByAutoscaler
	var assumed []string
	spec.Times, assumed = simulate.Estimate(&spec)
	assumed = append(assumed, g.balancers.notes...)
	if g.surveyErr != nil {
		assumed = append(assumed, "the cloud does not tell everything: "+g.surveyErr.Error())
	}
	forecast, err := simulate.Predict(ctx, spec, req)
	if delegated && forecast.Endless == "" {
		forecast.Duration.Latest.Duration += unseen(len(forecast.Nodes), req.Window, looks)
	}
	if forecast.Endless != "" {
		assumed = append(assumed, "when it ends is not known: it would wait for "+forecast.Endless)
	}
	return forecast, assumed, err
}

// unseen returns the longest time that polling adds to an upgrade by the group's own cloud: the cloud looks once more at each node, so
// many at a time, and as often as looks says; this tool asks once more at the end.
func unseen(nodes, atOnce int, looks time.Duration) time.Duration {
	turns := (nodes + atOnce - 1) / max(1, atOnce)
	return time.Duration(turns)*looks + upgrade.PollOperation
}

// runningOperation is the operation that the group's own cloud carries out now, nil without one.
func runningOperation(g *nodegroup.Group) *nodegroup.Operation {
	if g.Managed == nil || g.Managed.Operation.State != nodegroup.OperationRunning {
		return nil
	}
	return &g.Managed.Operation
}

// judgeInstances is the group with each of its instances as outdated as its node is.
func (g *groupContext) judgeInstances() nodegroup.Group {
	group := g.group
	group.Instances = slices.Clone(g.group.Instances)
	for i := range g.members {
		for j := range group.Instances {
			if g.unlabelled > 0 && g.members[i].Instance.ID == group.Instances[j].ID {
				group.Instances[j].Outdated = g.members[i].Outdated
			}
		}
	}
	return group
}

func (g *groupContext) makeSpec() simulate.Spec {
	spec := simulate.Spec{
		Now: g.now, Group: g.judgeInstances(), Record: upgrade.CreditIdleTime(&g.record, g.idle, g.now), Budgets: g.view.PDBs, EndingNamespaces: g.view.EndingNamespaces,
		Times: simulate.Times{Seen: runner.CloudSoon}, Launched: g.survey.Launched, Terminations: g.survey.Terminations,
		Targets: nodegroup.Targets{Groups: g.balancers.Groups, List: g.balancers.targets},
		Facts:   g.clusterWorkloads.Facts(), Workloads: simulate.WorkloadsOf(g.clusterWorkloads.Deployments, g.clusterWorkloads.ReplicaSets, g.clusterWorkloads.StatefulSets),
		Movable: g.listMovable(), Claims: g.clusterWorkloads.Claims, Volumes: g.clusterWorkloads.Volumes,
		CSINodes: g.clusterWorkloads.CSINodes, ResourceClaims: g.clusterWorkloads.ResourceClaims, Namespaces: g.clusterWorkloads.Namespaces,
		Outdated: func(n *corev1.Node) bool { return g.provider.Outdated(&g.group, n) },
	}
	if len(g.refusals) > 0 {
		spec.Refused = func(pod *corev1.Pod, beside bool) string {
			if r := g.refusals[nameWorkload(pod)]; beside || !r.Beside {
				return r.Why
			}
			return ""
		}
	}
	own := map[string]bool{}
	for i := range g.members {
		if node := g.members[i].Node; node != nil {
			own[node.Name] = true
			spec.Nodes = append(spec.Nodes, node)
		}
	}
	for _, node := range g.view.Nodes {
		if !own[node.Name] {
			spec.Others = append(spec.Others, node)
		}
		spec.Pods = append(spec.Pods, g.view.Pods[node.Name]...)
	}
	spec.Pods = append(spec.Pods, g.view.Pods[""]...)
	return spec
}

// rejectRefused is the first finding that forbids the upgrade, as an error.
func (g *groupContext) rejectRefused() error {
	f := preflight.FirstRefusal(g.findings)
	switch {
	case f == nil:
		return nil
	case g.group.Provider == "manual" && g.group.Wanted.ID == "": // --current is missing, or --to is there
		return usageError(fmt.Errorf("upgrading group %q: %s", g.group.Name, f))
	default:
		return fmt.Errorf("upgrading group %q: %s", g.group.Name, f)
	}
}

// rejectBlocked returns an error if a finding of severity block forbids the upgrade: a node could not be
// drained, or a pod would find no other node. An upgrade that continues, and one that skips or forces such
// nodes, is not rejected.
func (g *groupContext) rejectBlocked() error {
	if !g.request.RefusesBlocked() || g.record.IsResumable() {
		return nil
	}
	for _, f := range g.findings {
		if f.Severity == preflight.Block {
			return &exitErr{code: exitStructural, err: fmt.Errorf("upgrading group %q: %s; nothing was touched: mend it, or continue with --skip-check=%s or another --on-timeout", g.group.Name, f, f.Rule)}
		}
	}
	return nil
}

// rejectUnmanaged refuses pods that no one would bring back, unless the user said what is to become
// of such nodes.
func (g *groupContext) rejectUnmanaged() error {
	if g.request.OnTimeout != upgrade.Fail || g.request.EvictUnmanaged {
		return nil
	}
	for _, f := range g.findings {
		if f.Rule == "POD001" {
			return usageError(errors.New("draining node " + f.Node + ": " + f.String()))
		}
	}
	return nil
}
