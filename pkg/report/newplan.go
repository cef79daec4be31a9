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
)

// PlanInput is what a plan is made of: a group, what is asked for, and how that goes.
type PlanInput struct {
	Context, Account string
	Group            *nodegroup.Group
	Members          []nodegroup.Member
	Request          upgrade.Request
	Findings         []preflight.Finding
	Singletons       []Singleton
	Slow             []SlowWorkload
	Forecast         simulate.Forecast
	// Simulated says that the forecast tells of nodes and times, which rest on the Assumptions.
	Simulated   bool
	Assumptions []string
	// Unlabelled is how many members are outdated for their labels alone.
	Unlabelled int
	// Resumes is the run that continues.
	Resumes string
	// Operation is what the group's own cloud is carrying out now, nil without one.
	Operation *nodegroup.Operation
}

// NewPlan says what an upgrade would do, as its forecast shows it.
func NewPlan(in PlanInput) *Plan {
	forecast := &in.Forecast
	plan := &Plan{
		Context: in.Context, Account: in.Account, Provider: in.Group.Provider, Kind: in.Group.Kind,
		From: in.Group.Pointed, To: in.Group.Wanted, Request: in.Request,
		Sizes: nodegroup.Sizes{Desired: in.Group.Desired, Min: in.Group.Min, Max: in.Group.Max},
		Peak:  forecast.Peak, Findings: append(in.Findings, unplacedFindings(forecast.Unplaced)...), Resumes: in.Resumes, Operation: in.Operation,
		Unlabelled: in.Unlabelled,
		Duration:   forecast.Duration, ExtraInstanceHours: math.Round(forecast.ExtraHours*100) / 100,
		Moves: Moves{Evictions: forecast.Evictions, Singletons: in.Singletons, Slow: in.Slow},
		Room:  forecast.Room, Assumptions: in.Assumptions, Nodes: []PlanNode{}, // an empty list is one in JSON, too
	}
	plan.TypeMeta, plan.ObjectMeta = NewMeta("Plan", in.Group.Name)
	for _, process := range in.Request.Strategy.ListProcesses(in.Group) {
		if !slices.Contains(in.Group.Suspended, process) {
			plan.Quiesce = append(plan.Quiesce, process)
		}
	}
	in.fillNodes(plan)
	return plan
}

// fillNodes lists the outdated nodes in the order of the forecast, and counts the others.
func (in *PlanInput) fillNodes(plan *Plan) {
	byName := map[string]*nodegroup.Member{}
	outdated := map[string]int{}
	for i := range in.Members {
		m := &in.Members[i]
		if !m.Outdated {
			plan.Current++
			continue
		}
		byName[m.Name()] = m
		if in.Group.Zonal {
			outdated[m.Zone()]++
		}
	}
	plan.Surge = ledger.SpreadSurge(in.Request.Surge, outdated)
	if in.Request.TakesTurns() {
		for zone, n := range outdated {
			plan.Surge[zone] = min(in.Request.Surge, n)
		}
	}
	for _, n := range in.Forecast.Nodes {
		if m, ok := byName[n.Name]; ok {
			plan.Nodes = append(plan.Nodes, in.describeNode(m, n))
			delete(byName, n.Name)
		}
	}
	unknown := simulate.NodeForecast{Stuck: "not reached"}
	if !in.Simulated {
		unknown = simulate.NodeForecast{}
	}
	for i := range in.Members { // what the forecast did not reach, in the members' order
		if m, ok := byName[in.Members[i].Name()]; ok {
			plan.Nodes = append(plan.Nodes, in.describeNode(m, unknown))
		}
	}
}

func (in *PlanInput) describeNode(m *nodegroup.Member, f simulate.NodeForecast) PlanNode {
	n := PlanNode{
		Batch: f.Batch, Name: m.Name(), Zone: m.Zone(), From: m.Instance.Revision.Name, To: in.Group.Wanted.Name, Why: m.Instance.Why,
		Start: f.Start, End: f.End, WaitsFor: f.WaitsFor, Waits: upgrade.Duration{Duration: f.Waits},
	}
	for _, pod := range m.Pods {
		if drain.Judge(pod, in.Request.Policy(), false).Fate == drain.Stay {
			n.Staying++
		} else {
			n.Pods++
		}
	}
	for _, finding := range in.Findings {
		if finding.Node == m.Name() && finding.Blocker != "" && !slices.Contains(n.BlockedBy, finding.Blocker) {
			n.BlockedBy = append(n.BlockedBy, finding.Blocker)
		}
	}
	if len(n.BlockedBy) == 0 && f.Stuck != "" {
		n.BlockedBy = []string{f.Stuck}
	}
	return n
}

// unplacedFindings is CAP001 as the simulation shows it, one finding for the pods of a controller
// that no node takes for one reason. It only warns: an autoscaler may add the nodes.
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
			Remedy:  "make room, or see that an autoscaler does",
		})
	}
	slices.SortFunc(found, func(a, b preflight.Finding) int {
		return cmp.Or(cmp.Compare(a.Object, b.Object), cmp.Compare(a.Message, b.Message))
	})
	return found
}
