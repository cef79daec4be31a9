package plugin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"

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
	forecast, assumed, err := g.forecastPlan(ctx, s)
	if err != nil {
		return nil, err
	}
	plan := &report.Plan{
		Context: s.context, Account: s.account, Provider: g.group.Provider, Kind: g.group.Kind,
		From: g.group.Pointed, To: g.group.Wanted, Request: g.request,
		Sizes: upgrade.Sizes{Desired: g.group.Desired, Min: g.group.Min, Max: g.group.Max},
		Peak:  forecast.Peak, Findings: append(g.findings, unplaced(forecast.Unplaced)...), Resumes: g.record.Run,
		Unlabelled: g.unlabelled,
		Duration:   forecast.Duration, ExtraInstanceHours: math.Round(forecast.ExtraHours*100) / 100, Evictions: forecast.Evictions,
		Room: forecast.Room, Assumptions: assumed, Nodes: []report.PlanNode{}, // an empty list is one in JSON, too
	}
	plan.TypeMeta, plan.ObjectMeta = report.NewMeta("Plan", g.group.Name)
	for _, process := range g.group.Quiesce {
		if !slices.Contains(g.group.Suspended, process) {
			plan.Quiesce = append(plan.Quiesce, process)
		}
	}
	g.fillNodes(plan, forecast)
	return plan, nil
}

// forecastPlan is the forecast of a plan, and what it rests on. Without a forecast the group's
// largest size is all that is known.
func (g *groupContext) forecastPlan(ctx context.Context, s *session) (simulate.Forecast, []string, error) {
	if g.noForecast {
		return simulate.Forecast{Peak: g.group.Desired + g.request.Surge}, nil, nil
	}
	if err := g.loadForecastData(ctx, s); err != nil {
		return simulate.Forecast{}, nil, err
	}
	return g.runForecast(g.request)
}

func (g *groupContext) fillNodes(plan *report.Plan, forecast simulate.Forecast) {
	byName := map[string]*nodegroup.Member{}
	outdated := map[string]int{}
	for i := range g.members {
		m := &g.members[i]
		if !m.Outdated {
			plan.Current++
			continue
		}
		byName[m.Name()] = m
		if g.group.Zonal {
			outdated[m.Zone()]++
		}
	}
	plan.Surge = upgrade.SpreadSurge(g.request.Surge, outdated)
	for _, n := range forecast.Nodes {
		if m, ok := byName[n.Name]; ok {
			plan.Nodes = append(plan.Nodes, g.planNode(m, n))
			delete(byName, n.Name)
		}
	}
	unknown := simulate.NodeForecast{Stuck: "not reached"}
	if g.noForecast {
		unknown = simulate.NodeForecast{}
	}
	for i := range g.members { // what the forecast did not reach, in the members' order
		if m, ok := byName[g.members[i].Name()]; ok {
			plan.Nodes = append(plan.Nodes, g.planNode(m, unknown))
		}
	}
}

func (g *groupContext) planNode(m *nodegroup.Member, f simulate.NodeForecast) report.PlanNode {
	n := report.PlanNode{
		Batch: f.Batch, Name: m.Name(), Zone: m.Zone(), From: m.Instance.Revision.Name, To: g.group.Wanted.Name, Why: m.Instance.Why,
		Start: f.Start, End: f.End, WaitsFor: f.WaitsFor, Waits: upgrade.Duration{Duration: f.Waits},
	}
	for _, pod := range m.Pods {
		if drain.Judge(pod, g.request.Policy(), false).Fate == drain.Stay {
			n.Staying++
		} else {
			n.Pods++
		}
	}
	for _, finding := range g.findings {
		if finding.Node == m.Name() && finding.Blocker != "" && !slices.Contains(n.BlockedBy, finding.Blocker) {
			n.BlockedBy = append(n.BlockedBy, finding.Blocker)
		}
	}
	if len(n.BlockedBy) == 0 && f.Stuck != "" {
		n.BlockedBy = []string{f.Stuck}
	}
	return n
}

// runForecast runs the upgrade as requested in virtual time, and says what its times rest on.
func (g *groupContext) runForecast(req upgrade.Request) (simulate.Forecast, []string, error) {
	spec := g.makeSpec()
	var assumed []string
	spec.Times, assumed = simulate.Estimate(&spec)
	if g.historyErr != nil {
		assumed = append(assumed, "the cloud tells no more of the group's past: "+g.historyErr.Error())
	}
	forecast, err := simulate.Predict(spec, req)
	return forecast, append(assumed, unread(g.background.Unread)...), err
}

// predictRemaining is how long the rest of an upgrade under way would take; zero when nobody can
// say.
func (g *groupContext) predictRemaining(ctx context.Context, s *session, record upgrade.Record) simulate.Span {
	if err := g.loadForecastData(ctx, s); err != nil {
		return simulate.Span{}
	}
	rest := *g
	rest.record = record.Reopened()
	forecast, _, err := rest.runForecast(record.Request)
	if err != nil {
		return simulate.Span{} // a status is worth having without it
	}
	return forecast.Duration
}

// unplaced is CAP001 as the simulation shows it, one finding for the pods of a controller that no
// node takes for one reason. It only warns: an autoscaler may add the nodes.
func unplaced(pods []simulate.Unplaced) []preflight.Finding {
	type cause struct{ owner, reason string }
	counts := map[cause]int{}
	for _, pod := range pods {
		counts[cause{cmp.Or(pod.Owner, "pod "+pod.Pod.String()), pod.Reason}]++
	}
	found := make([]preflight.Finding, 0, len(counts))
	for c, n := range counts {
		found = append(found, preflight.Finding{
			Rule: "CAP001", Severity: preflight.Warn, Object: c.owner,
			Message: fmt.Sprintf("%d of its pods may find no node: %s", n, c.reason),
			Remedy:  "make room, or see that an autoscaler does",
		})
	}
	slices.SortFunc(found, func(a, b preflight.Finding) int {
		return cmp.Or(cmp.Compare(a.Object, b.Object), cmp.Compare(a.Message, b.Message))
	})
	return found
}

// judgedGroup is the group with each of its instances as outdated as its node is.
func (g *groupContext) judgedGroup() nodegroup.Group {
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
		Now: g.now, Group: g.judgedGroup(), Record: g.record.Extended(g.idle), Budgets: g.view.PDBs, EndingNamespaces: g.view.EndingNamespaces,
		Times: simulate.Times{Seen: runner.CloudSoon}, Launched: g.history.Launched, Terminations: g.history.Terminations,
		Facts: g.background.Facts, Workloads: workloadsOf(g.background), Claims: g.background.Claims, Volumes: g.background.Volumes,
		Outdated: func(n *corev1.Node) bool { return g.provider.Outdated(&g.group, n) },
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
	f := refusal(g.findings)
	switch {
	case f == nil:
		return nil
	case g.group.Provider == "manual" && g.group.Wanted.ID == "": // --current is missing, or --to is there
		return usage(fmt.Errorf("upgrading group %q: %s", g.group.Name, f))
	default:
		return fmt.Errorf("upgrading group %q: %s", g.group.Name, f)
	}
}

// rejectUnmanaged refuses pods that nobody would bring back, unless the user said what is to become
// of such nodes.
func (g *groupContext) rejectUnmanaged() error {
	if g.request.OnTimeout != upgrade.Fail {
		return nil
	}
	for _, f := range g.findings {
		if f.Rule == "POD001" {
			return usage(errors.New("draining node " + f.Node + ": " + f.String()))
		}
	}
	return nil
}
