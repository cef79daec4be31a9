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

// plan runs the upgrade in virtual time and reports what it would do.
func (p *prospect) plan(ctx context.Context, s *session) (*report.Plan, error) {
	forecast, assumed, err := p.foresee(ctx, s)
	if err != nil {
		return nil, err
	}
	plan := &report.Plan{
		Context: s.context, Account: s.account, Provider: p.group.Provider, Kind: p.group.Kind,
		From: p.group.Pointed, To: p.group.Wanted, Request: p.request,
		Sizes: upgrade.Sizes{Desired: p.group.Desired, Min: p.group.Min, Max: p.group.Max},
		Peak:  forecast.Peak, Findings: append(p.findings, unplaced(forecast.Unplaced)...), Resumes: p.record.Run,
		Unlabelled: p.unlabelled,
		Duration:   forecast.Duration, ExtraInstanceHours: math.Round(forecast.ExtraHours*100) / 100, Evictions: forecast.Evictions,
		Room: forecast.Room, Assumptions: assumed, Nodes: []report.PlanNode{}, // an empty list is one in JSON, too
	}
	plan.TypeMeta, plan.ObjectMeta = report.NewMeta("Plan", p.group.Name)
	for _, process := range p.group.Quiesce {
		if !slices.Contains(p.group.Suspended, process) {
			plan.Quiesce = append(plan.Quiesce, process)
		}
	}
	p.fillNodes(plan, forecast)
	return plan, nil
}

// foresee is the forecast of a plan, and what it rests on. Of a timeless one the group's largest
// size is all that is known.
func (p *prospect) foresee(ctx context.Context, s *session) (simulate.Forecast, []string, error) {
	if p.timeless {
		return simulate.Forecast{Peak: p.group.Desired + p.request.Surge}, nil, nil
	}
	if err := p.study(ctx, s); err != nil {
		return simulate.Forecast{}, nil, err
	}
	return p.forecast(p.request)
}

func (p *prospect) fillNodes(plan *report.Plan, forecast simulate.Forecast) {
	byName := map[string]*nodegroup.Member{}
	outdated := map[string]int{}
	for i := range p.members {
		m := &p.members[i]
		if !m.Outdated {
			plan.Current++
			continue
		}
		byName[m.Name()] = m
		if p.group.Zonal {
			outdated[m.Zone()]++
		}
	}
	plan.Surge = upgrade.SpreadSurge(p.request.Surge, outdated)
	for _, n := range forecast.Nodes {
		if m, ok := byName[n.Name]; ok {
			plan.Nodes = append(plan.Nodes, p.planNode(m, n))
			delete(byName, n.Name)
		}
	}
	unknown := simulate.NodeForecast{Stuck: "not reached"}
	if p.timeless {
		unknown = simulate.NodeForecast{}
	}
	for i := range p.members { // what the forecast did not reach, in the members' order
		if m, ok := byName[p.members[i].Name()]; ok {
			plan.Nodes = append(plan.Nodes, p.planNode(m, unknown))
		}
	}
}

func (p *prospect) planNode(m *nodegroup.Member, f simulate.NodeForecast) report.PlanNode {
	n := report.PlanNode{
		Batch: f.Batch, Name: m.Name(), Zone: m.Zone(), From: m.Instance.Revision.Name, To: p.group.Wanted.Name, Why: m.Instance.Why,
		Start: f.Start, End: f.End, WaitsFor: f.WaitsFor, Waits: upgrade.Duration{Duration: f.Waits},
	}
	for _, pod := range m.Pods {
		if drain.Judge(pod, p.request.Policy(), false).Fate == drain.Stay {
			n.Staying++
		} else {
			n.Pods++
		}
	}
	for _, finding := range p.findings {
		if finding.Node == m.Name() && finding.Blocker != "" && !slices.Contains(n.BlockedBy, finding.Blocker) {
			n.BlockedBy = append(n.BlockedBy, finding.Blocker)
		}
	}
	if len(n.BlockedBy) == 0 && f.Stuck != "" {
		n.BlockedBy = []string{f.Stuck}
	}
	return n
}

// forecast runs the upgrade as requested in virtual time, and says what its times rest on.
func (p *prospect) forecast(req upgrade.Request) (simulate.Forecast, []string, error) {
	spec := p.spec()
	var assumed []string
	spec.Times, assumed = simulate.Estimate(&spec)
	if p.historyErr != nil {
		assumed = append(assumed, "the cloud tells no more of the group's past: "+p.historyErr.Error())
	}
	forecast, err := simulate.Predict(spec, req)
	return forecast, append(assumed, unread(p.background.Unread)...), err
}

// remaining is how long the rest of an upgrade under way would take; zero when nobody can say.
func (p *prospect) remaining(ctx context.Context, s *session, record upgrade.Record) simulate.Span {
	if err := p.study(ctx, s); err != nil {
		return simulate.Span{}
	}
	rest := *p
	rest.record = record.Reopened()
	forecast, _, err := rest.forecast(record.Request)
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
func (p *prospect) judgedGroup() nodegroup.Group {
	group := p.group
	group.Instances = slices.Clone(p.group.Instances)
	for i := range p.members {
		for j := range group.Instances {
			if p.unlabelled > 0 && p.members[i].Instance.ID == group.Instances[j].ID {
				group.Instances[j].Outdated = p.members[i].Outdated
			}
		}
	}
	return group
}

func (p *prospect) spec() simulate.Spec {
	spec := simulate.Spec{
		Now: p.now, Group: p.judgedGroup(), Record: p.record.Extended(p.idle), Budgets: p.view.PDBs, EndingNamespaces: p.view.EndingNamespaces,
		Times: simulate.Times{Seen: runner.CloudSoon}, Launched: p.history.Launched, Terminations: p.history.Terminations,
		Facts: p.background.Facts, Workloads: workloadsOf(p.background), Claims: p.background.Claims, Volumes: p.background.Volumes,
		Outdated: func(n *corev1.Node) bool { return p.provider.Outdated(&p.group, n) },
	}
	own := map[string]bool{}
	for i := range p.members {
		if node := p.members[i].Node; node != nil {
			own[node.Name] = true
			spec.Nodes = append(spec.Nodes, node)
		}
	}
	for _, node := range p.view.Nodes {
		if !own[node.Name] {
			spec.Others = append(spec.Others, node)
		}
		spec.Pods = append(spec.Pods, p.view.Pods[node.Name]...)
	}
	spec.Pods = append(spec.Pods, p.view.Pods[""]...)
	return spec
}

// refused is the first finding that forbids the upgrade, as an error.
func (p *prospect) refused() error {
	f := refusal(p.findings)
	switch {
	case f == nil:
		return nil
	case p.group.Provider == "manual" && p.group.Wanted.ID == "": // --current is missing, or --to is there
		return usage(fmt.Errorf("upgrading group %q: %s", p.group.Name, f))
	default:
		return fmt.Errorf("upgrading group %q: %s", p.group.Name, f)
	}
}

// unmanaged refuses pods that nobody would bring back, unless the user said what is to become of
// such nodes.
func (p *prospect) unmanaged() error {
	if p.request.OnTimeout != upgrade.Fail {
		return nil
	}
	for _, f := range p.findings {
		if f.Rule == "POD001" {
			return usage(errors.New("draining node " + f.Node + ": " + f.String()))
		}
	}
	return nil
}
