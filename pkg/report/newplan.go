package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/preflight"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/simulate"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/ledger"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// NewPlan completes a plan that has the settings and findings of an upgrade. It adds the group and the nodes
// and times of the forecast. If isSimulated is false, the forecast has no nodes and times.
func NewPlan(plan Plan, group *nodegroup.Group, members []nodegroup.Member, forecast *simulate.Forecast, isSimulated bool) *Plan {
	plan.TypeMeta, plan.ObjectMeta = NewMeta("Plan", group.Name)
	plan.Provider, plan.Kind, plan.From, plan.To = group.Provider, group.Kind, group.Pointed, group.Wanted
	plan.Sizes = nodegroup.Sizes{Desired: group.Desired, Min: group.Min, Max: group.Max}
	if m := group.Managed; m != nil {
		plan.Maintenance, plan.MaxGrace.Duration = m.Maintenance, m.MaxGrace
	}
	for _, process := range upgrade.ProcessesToSuspend(plan.Request.Strategy, group) {
		if !slices.Contains(group.Suspended, process) {
			plan.Suspends = append(plan.Suspends, process)
		}
	}
	plan.fillNodes(group, members, forecast.Nodes, isSimulated)
	plan.Findings = append(plan.Findings, unplacedFindings(forecast.Unplaced)...)
	plan.StartBlockedBy = plan.rulesBlockingStart()
	if plan.Current == nil && len(plan.Nodes) == 0 {
		plan.Assumptions = nil // the target is not known, so nothing was forecast
		return &plan
	}
	plan.Peak, plan.Duration, plan.Room, plan.Evictions = forecast.Peak, forecast.Duration, forecast.Room, new(forecast.Evictions)
	plan.Deletions, plan.Unrecovered = forecast.Deletions, forecast.Unrecovered
	if forecast.Fast.Result != "" {
		plan.Ends = &PlanEnds{Fast: forecast.Fast, Slow: forecast.Slow}
	}
	plan.ExtraInstanceHours = new(math.Round(forecast.ExtraHours*100) / 100)
	return &plan
}

// fillNodes lists the outdated nodes in the order of the forecast. It counts the other nodes.
func (p *Plan) fillNodes(group *nodegroup.Group, members []nodegroup.Member, forecast []simulate.NodeForecast, isSimulated bool) {
	p.Nodes = []PlanNode{} // encoded as [] instead of null
	if group.IsTargetKnown() {
		p.Current = new(int)
	}
	byName := map[string]*nodegroup.Member{}
	outdated := map[string]int{}
	for i := range members {
		m := &members[i]
		if !m.Outdated {
			if p.Current != nil {
				*p.Current++
			}
			continue
		}
		byName[m.Name()] = m
		if group.Can.NameZone {
			outdated[m.Zone()]++
		}
	}
	p.Surge = ledger.SpreadSurge(p.Request.Surge, outdated)
	if p.Request.TakesTurns() {
		for zone, n := range outdated {
			p.Surge[zone] = min(p.Request.Surge, n)
		}
	}
	for _, n := range forecast {
		if m, ok := byName[n.Name]; ok {
			p.Nodes = append(p.Nodes, p.makePlanNode(m, n))
			delete(byName, n.Name)
		}
	}
	for i := range members { // the nodes that the forecast does not reach, in the order of members
		if m, ok := byName[members[i].Name()]; ok {
			n := p.makePlanNode(m, simulate.NodeForecast{})
			n.NotReached = isSimulated
			p.Nodes = append(p.Nodes, n)
		}
	}
}

func (p *Plan) makePlanNode(m *nodegroup.Member, f simulate.NodeForecast) PlanNode {
	n := PlanNode{
		Batch: f.Batch, Name: m.Name(), Zone: m.Zone(), From: m.Instance.Revision.Name, To: p.To.Name, Why: m.Instance.Why,
		End: f.End, WaitsFor: f.WaitsFor, Waits: record.Duration{Duration: f.Waits},
	}
	if f.Batch > 0 {
		n.Start = &f.Start
	}
	for _, pod := range m.Pods {
		if drain.Judge(pod, p.Request.Policy(), false).Fate == drain.Stay {
			n.Staying++
		} else {
			n.Pods++
		}
	}
	for _, finding := range p.Findings { // infos are not blockers: the upgrade waits for obstacles that go away by themselves
		if finding.Node == m.Name() && finding.Blocker != "" && finding.Severity.IsAtLeast(preflight.Warn) && !slices.Contains(n.BlockedBy, finding.Blocker) {
			n.BlockedBy = append(n.BlockedBy, finding.Blocker)
		}
	}
	if len(n.BlockedBy) == 0 && f.Stuck != "" {
		n.BlockedBy, n.Stuck = []string{f.Blocker}, f.Stuck
	}
	return n
}

// unplacedFindings returns rule CAP001 for pods that found no node in the simulation. Pods with the same
// controller and the same reason share a finding. The severity is only warning, because an autoscaler may add
// nodes.
func unplacedFindings(pods []simulate.Unplaced) []preflight.Finding {
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
			Remedy:  "free capacity for them, or check that an autoscaler adds nodes",
		})
	}
	slices.SortFunc(found, func(a, b preflight.Finding) int {
		return cmp.Or(cmp.Compare(a.Object, b.Object), cmp.Compare(a.Message, b.Message))
	})
	return found
}
