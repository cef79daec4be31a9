package plugin

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodemark"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/preflight"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/report"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/runner"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/simulate"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// makePlan runs the upgrade in virtual time and returns what it would do.
func (p *planning) makePlan(ctx context.Context) (*report.Plan, error) {
	if p.hasForecast() {
		if err := p.loadForecastData(ctx); err != nil {
			return nil, err
		}
	}
	findings := p.runRules()
	p.believeFindings(findings)
	forecast, assumed, err := p.forecastPlan(ctx)
	if err != nil {
		return nil, err
	}
	assumed = append(assumed, p.delayByPace(&forecast)...)
	assumed = append(assumed, p.addPassedOver(&forecast)...)
	p.forecast = &forecast
	if !p.record.IsResumable() { // a resumed upgrade has added some of its nodes already
		addresses := preflight.CheckAddresses(p.members, &p.request, p.survey.Subnets)
		findings = slices.Concat(findings, slices.DeleteFunc(addresses, func(f preflight.Finding) bool { return slices.Contains(p.s.line.skipChecks, f.Rule) }))
	}
	var leaving []*drain.Replicas
	if p.cluster.objectsForChecks() != nil && p.request.Strategy.Traits().Drains { // objectsForChecks has all workloads, and this tool drains the nodes
		leaving = p.listLeavingWorkloads()
	}
	unread := p.group.Unread
	if m := p.group.Managed; m != nil && m.Halted != "" {
		unread = append(slices.Clone(unread), m.Halted)
	}
	if p.cluster.objects != nil && p.findOwnerRefusal() == nil {
		unread = slices.Concat(unread, describeUnreadKinds(p.cluster.objects))
	}
	unread = slices.Concat(unread, p.describeReplacements(&forecast))
	awaited := 0
	if p.awaitsUserNodes(&p.request) {
		awaited = len(forecast.Nodes)
	}
	return report.NewPlan(report.Plan{
		Context: p.s.conn.context, Account: p.s.account, Request: p.request, Findings: findings, Assumptions: assumed, Unread: unread, LeftOut: p.rights.omittedParts, CheckedBy: p.s.checkedBy,
		Operation: runningOperation(&p.group), Unlabelled: p.unlabelled, Resumes: p.record.Run,
		SizeAfter: p.sizeAfter(&forecast), AwaitsNodes: awaited,
		Disruption: report.Disruption{Singletons: p.findSingletons(leaving), Slow: findSlowWorkloads(leaving)},
	}, &p.group, p.members, &forecast, p.hasForecast()), nil
}

// describeReplacements describes what the forecast assumes about the nodes that the user adds and that the upgrade
// waits for.
func (p *planning) describeReplacements(forecast *simulate.Forecast) []string {
	const unknown = ", but it is unknown how long you take"
	switch {
	case len(forecast.Nodes) == 0 || !p.awaitsUserNodes(&p.request):
		return nil
	case forecast.Refilled:
		return []string{"you bring a new node as soon as one is drained. The upgrade waits for each of them" + unknown}
	default:
		return []string{"the current nodes take all pods, and you bring no other node. The upgrade itself waits for a new node for each drained one" + unknown +
			". Pass --wait-replacement=false if the current nodes are the replacements"}
	}
}

// awaitsUserNodes reports whether the upgrade waits for nodes that the user adds.
func (p *planning) awaitsUserNodes(req *record.Request) bool {
	return req.WaitReplacement && p.group.Can.Refill == nodegroup.RefillByUser
}

// sizeAfter returns the group's desired size after the upgrade. If the forecast stops early, the user continues with
// the same command. After that command, the group has the size that it had before the upgrade.
func (p *planning) sizeAfter(forecast *simulate.Forecast) int {
	if result := forecast.Fast.Result; result == record.Succeeded || result == record.LeftBehind {
		return forecast.SizeAfter
	}
	_, size, _ := p.sizesAtStart(&p.record)
	return size
}

// hasForecast reports whether the plan shows how long the upgrade takes. It is unknown when short-lived nodes end, and
// what the owner of nodes does with other nodes.
func (p *planning) hasForecast() bool {
	return !p.s.podsOfGroupOnly && !p.request.ReplacedBy().Traits().Expires && p.findOwnerRefusal() == nil
}

// findOwnerRefusal returns the finding that names the owner of the nodes, nil if there is none.
func (g *groupContext) findOwnerRefusal() *preflight.Finding {
	if f := preflight.FirstRefusal(g.findings); f != nil && f.Rule == preflight.RuleOwner {
		return f
	}
	return nil
}

// forecastPlan returns the forecast of a plan and its assumptions. If the plan has no forecast, only the group's
// largest size is known.
func (p *planning) forecastPlan(ctx context.Context) (simulate.Forecast, []string, error) {
	if !p.hasForecast() {
		return simulate.Forecast{Peak: p.group.Desired + p.request.Surge}, nil, nil
	}
	if p.recorder != nil && !p.request.Strategy.Traits().ByCloud { // a cloud's own upgrade is forecast as another strategy, so its steps would mislead
		return p.runForecast(ctx, p.request, p.recorder.recordStep)
	}
	return p.runForecast(ctx, p.request, nil)
}

// randomOrders is how many random orders of nodes are simulated for a cloud's own upgrade (EKS E40).
const randomOrders = 3

// runForecast runs the requested upgrade in virtual time, and returns the forecast and its assumptions. If watch is not
// nil, it gets the steps of the fast run, in which pods end as soon as they may.
func (p *planning) runForecast(ctx context.Context, req record.Request, watch func(upgrade.World, upgrade.Step)) (simulate.Forecast, []string, error) {
	spec := p.makeSpec()
	spec.Watch = watch
	delegated := req.Strategy.Traits().ByCloud
	looks := time.Duration(0)
	if delegated {
		if looks = p.group.Managed.PollInterval; p.group.Managed.DrawsNodes {
			spec.Draws = randomOrders
		}
		spec.Pods = drain.DropWishes(spec.Pods)
		if p.record.Rollback && req.ReplacedBy().Traits().KeepsNodes {
			spec.Nodes = p.openCurrentNodes()
		}
		spec.Group, spec.Record, req = upgrade.DelegatedAsOwn(spec.Group, p.members, &spec.Record, req, p.now)
		if p.group.Managed.RollsInSlots && req.Strategy.Traits().TakesWidth {
			spec.Rolling, spec.Record = p.describeRolling(&spec.Group, &req), record.Record{}
		}
	}
	spec.Autoscaled = req.Strategy.Traits().ByAutoscaler
	var assumed []string
	spec.Times, assumed = simulate.Estimate(&spec)
	assumed = append(assumed, p.balancers.notes...)
	if p.surveyErr != nil {
		assumed = append(assumed, "some data of the cloud is missing: "+p.surveyErr.Error())
	}
	forecast, err := simulate.Predict(ctx, spec, req)
	if p.group.Managed != nil {
		p.adaptToService(&forecast, spec.Times.Leave)
	}
	if delegated && forecast.Endless == "" {
		forecast.Duration.Latest.Duration += pollingDelay(len(forecast.Nodes), req.Window, looks)
	}
	if forecast.Endless != "" {
		assumed = append(assumed, "it is unknown when the upgrade ends: it would wait for "+forecast.Endless)
	}
	return forecast, assumed, err
}

// describeRolling returns how the group's cloud replaces the nodes in slots, from where it is now.
func (p *planning) describeRolling(group *nodegroup.Group, req *record.Request) *simulate.Rolling {
	how := &simulate.Rolling{Surge: req.Surge, Unavailable: req.MaxUnavailable, Retry: p.group.Managed.PollInterval}
	if rec := &p.record; rec.Delegation != nil {
		how.Draining = rec.Delegation.Draining
		if rec.Sizes.Desired > 0 {
			how.Added = max(0, group.Desired-rec.Sizes.Desired)
		}
	}
	return how
}

// openCurrentNodes returns the group's nodes as they are once a cloud's rollback has begun: those of the earlier revision take pods again
// (GKE G56).
func (p *planning) openCurrentNodes() []*corev1.Node {
	var nodes []*corev1.Node
	for i := range p.members {
		node := p.members[i].Node
		if node != nil && !p.members[i].Outdated && nodegroup.IsClosed(node) {
			cordon := nodemark.CordonTaint()
			node = node.DeepCopy()
			node.Spec.Unschedulable = false
			node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.MatchTaint(&cordon) })
		}
		if node != nil {
			nodes = append(nodes, node)
		}
	}
	return nodes
}

// adaptToService changes a forecast where the service that replaces the nodes differs from this tool: Karpenter's last machine may be
// gone at once instead of after the time leave, and it drains without end.
func (p *planning) adaptToService(forecast *simulate.Forecast, leave time.Duration) {
	if p.group.Can.Refill == nodegroup.RefillByPods {
		forecast.Duration.Earliest.Duration = max(0, forecast.Duration.Earliest.Duration-leave)
	}
	if p.group.Managed.DrainTimeout == nodegroup.EndlessDrain {
		replaceEndlessDrain(forecast)
	}
}

// replaceEndlessDrain turns a forecast that ends with the drain timeout of a cloud that has none into one without an end.
func replaceEndlessDrain(f *simulate.Forecast) {
	for _, end := range []simulate.Ending{f.Fast, f.Slow} {
		if end.Result == record.PodEvictionFailure {
			f.Duration, f.ExtraHours, f.Fast, f.Slow, f.Endless = simulate.Span{}, 0, simulate.Ending{}, simulate.Ending{}, "the pods of node "+end.Node+report.Parenthesize(end.Blocker)
			return
		}
	}
}

// pollingDelay returns how much polling may delay an upgrade that the group's cloud carries out. The cloud drains
// atOnce nodes at a time, and may notice that a node is empty only after the interval looks. This tool may notice the
// end only with its next poll.
func pollingDelay(nodes, atOnce int, looks time.Duration) time.Duration {
	turns := (nodes + atOnce - 1) / max(1, atOnce)
	return time.Duration(turns)*looks + upgrade.PollOperation
}

// runningOperation returns the operation that the group's cloud carries out now, nil if there is none.
func runningOperation(g *nodegroup.Group) *nodegroup.Operation {
	if g.Managed == nil || g.Managed.Operation.State != nodegroup.OperationRunning {
		return nil
	}
	return &g.Managed.Operation
}

// withOutdatedInstances returns a copy of the group in which each instance is outdated if its node is, because labels
// may make nodes outdated. If the group's cloud upgrades it and lists no machines, the copy has those of the nodes.
func (o *observation) withOutdatedInstances() nodegroup.Group {
	group := o.group
	if group.Managed != nil && (!group.Can.ListInstances || group.Can.Refill == nodegroup.RefillByPods) {
		return o.withoutPassedOver(nodegroup.WithMachines(group, o.members))
	}
	group.Instances = slices.Clone(o.group.Instances)
	for i := range o.members {
		for j := range group.Instances {
			if o.unlabelled > 0 && o.members[i].Instance.ID == group.Instances[j].ID {
				group.Instances[j].Outdated = o.members[i].Outdated
			}
		}
	}
	return group
}

// withoutPassedOver returns the group, whose instances are those of the members, with the nodes as current that its cloud does not
// replace before a person changes something.
func (o *observation) withoutPassedOver(group nodegroup.Group) nodegroup.Group {
	passed := upgrade.PassedOver(&o.group, o.members, o.cluster.view.Budgets, o.now)
	for i := range o.members {
		if _, is := passed[o.members[i].Name()]; !is {
			continue
		}
		for j := range group.Instances {
			if group.Instances[j].ID == o.members[i].Instance.ID {
				group.Instances[j].Outdated = false
			}
		}
	}
	return group
}

// assumedJoin is how long a machine is assumed to take until its Node exists, for clouds that report no launches. Machines of Compute
// Engine need 30 to 60 seconds.
const assumedJoin = 45 * time.Second

// assumedJoinTime returns how long a new machine takes until its Node exists; 0 if the cloud reports launches, or users add the nodes.
func (p *planning) assumedJoinTime() time.Duration {
	if p.group.Managed == nil || p.group.Can.ListInstances {
		return 0
	}
	return assumedJoin
}

func (p *planning) makeSpec() simulate.Spec {
	spec := simulate.Spec{
		Now: p.now, Group: p.withOutdatedInstances(), Record: record.CreditIdleTime(&p.record, p.idle, p.now), Budgets: p.cluster.view.PDBs, EndingNamespaces: p.cluster.view.EndingNamespaces,
		Times: simulate.Times{Seen: runner.MinCloudInterval, Join: p.assumedJoinTime()}, Launched: p.survey.Launched, Terminations: p.survey.Terminations,
		Targets: nodegroup.Targets{Groups: p.balancers.Groups, List: p.balancers.targets},
		Facts:   p.cluster.objects.Facts(), Workloads: simulate.WorkloadsOf(p.cluster.objects.Deployments, p.cluster.objects.ReplicaSets, p.cluster.objects.StatefulSets),
		Movable: p.findMovable(), Claims: p.cluster.objects.Claims, Volumes: p.cluster.objects.Volumes,
		CSINodes: p.cluster.objects.CSINodes, ResourceClaims: p.cluster.objects.ResourceClaims, Namespaces: p.cluster.objects.Namespaces,
		Outdated: func(n *corev1.Node) bool { return p.provider.Outdated(&p.group, n) },
	}
	if len(p.refusals) > 0 {
		spec.Refused = func(pod *corev1.Pod, beside bool) string {
			if r := p.refusals[workloadName(pod)]; beside || !r.WhileOldExists {
				return r.Why
			}
			return ""
		}
	}
	for _, hook := range p.webhooks {
		spec.Webhooks = append(spec.Webhooks, simulate.Webhook{Name: hook.Name(), Serves: hook.Serves, AdmitsPod: hook.AdmitsPod, AdmitsEviction: hook.AdmitsEviction})
	}
	own := map[string]bool{}
	for i := range p.members {
		if node := p.members[i].Node; node != nil {
			own[node.Name] = true
			spec.Nodes = append(spec.Nodes, node)
		}
	}
	for _, node := range p.cluster.view.Nodes {
		if !own[node.Name] {
			spec.Others = append(spec.Others, node)
		}
		spec.Pods = append(spec.Pods, p.cluster.view.Pods[node.Name]...)
	}
	spec.Pods = append(spec.Pods, p.cluster.view.Pods[""]...)
	return spec
}

// rejectRefusedUpgrade returns the first finding that forbids the upgrade as an error, nil if there is none.
func (g *groupContext) rejectRefusedUpgrade() error {
	f := preflight.FirstRefusal(g.findings)
	switch m := g.group.Managed; {
	case f == nil && m != nil && m.ByItself != "":
		return fmt.Errorf("upgrading group %q: %s", g.group.Name, m.ByItself)
	case f == nil:
		return nil
	case g.group.Provider == providerManual && g.group.Wanted.ID == "": // --current is missing, or --to was passed
		return usageError(fmt.Errorf("upgrading group %q: %s", g.group.Name, f))
	default:
		return fmt.Errorf("upgrading group %q: %s", g.group.Name, f)
	}
}

// rejectBlockedUpgrade returns the first finding that stops the upgrade as an error, nil if there is none. Such a finding
// means that a node cannot be drained, that a pod cannot run on any other node, or that nothing would create a pod again.
// continues is true for an upgrade that began before, and for a rollback. The exit code is 2 if a flag is missing that
// says what happens to pods without a controller.
func (g *groupContext) rejectBlockedUpgrade(continues bool) error {
	i := slices.IndexFunc(g.findings, func(f preflight.Finding) bool { return preflight.StopsUpgrade(&f, &g.request, continues) })
	if i < 0 {
		return nil
	}
	f := g.findings[i]
	if f.Rule == preflight.RuleUnmanaged {
		return usageError(fmt.Errorf("upgrading group %q: node %s: %s; nothing was touched", g.group.Name, f.Node, f))
	}
	return &exitErr{code: exitStructural, err: fmt.Errorf("upgrading group %q: %s; nothing was touched. If you accept this, pass --skip-check=%s or another --on-timeout", g.group.Name, f, f.Rule)}
}
