package report_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/preflight"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/report"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/simulate"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

func between(early, late time.Duration) simulate.Span {
	return simulate.Span{Earliest: record.Duration{Duration: early}, Latest: record.Duration{Duration: late}}
}

func amount(cpu, memory string, pods int) simulate.Amount {
	return simulate.Amount{CPU: resource.MustParse(cpu), Memory: resource.MustParse(memory), Pods: pods}
}

// somePlan returns a plan with one node that is replaced and one that is set aside.
func somePlan() *report.Plan {
	plan := &report.Plan{
		Provider: "aws", Kind: "Auto Scaling group", Context: "prod", From: nodegroup.Revision{ID: "2", Name: "workers:2"}, To: nodegroup.Revision{ID: "2", Name: "workers:2"},
		Request: record.Request{Strategy: record.Surge, Like: "eks", Window: 1, MaxUnavailable: 1, OnTimeout: record.Fail, Surge: 1},
		Sizes:   nodegroup.Sizes{Desired: 3, Max: 3}, Peak: 4, Surge: map[string]int{"a": 1}, Current: new(1),
		Nodes: []report.PlanNode{
			{Batch: 1, Name: "one", Zone: "a", From: "workers:1", To: "workers:2", Pods: 4, Staying: 2, Start: new(between(0, 0)), End: between(90*time.Second, 10*time.Minute), WaitsFor: "PDB shop/web", Waits: record.Duration{Duration: 70 * time.Second}},
			{Batch: 2, Name: "two", Zone: "a", From: "workers:1", To: "workers:2", Pods: 1, Start: new(between(2*time.Minute, 11*time.Minute)), BlockedBy: []string{"PDB shop/db"}},
		},
		Duration: between(20*time.Minute, 26*time.Minute), ExtraInstanceHours: new(0.25), Disruption: report.Disruption{Evictions: new(5)},
		Room:        simulate.Room{Nodes: 1, Moves: amount("1500m", "3Gi", 5), Free: amount("2", "4Gi", 9), Added: amount("4", "16Gi", 58)},
		Assumptions: []string{"a machine is gone 30s after its termination begins"},
		Findings:    []preflight.Finding{{Rule: "CAP001", Severity: preflight.Warn, Object: "ReplicaSet shop/web", Message: "2 of its pods may find no node: Insufficient cpu", Remedy: "make room"}},
	}
	plan.Name = "workers"
	return plan
}

const planText = `2 nodes to replace, 1 blocked, takes 20m-26m
Group       workers (Auto Scaling group), context prod
Target      workers:2: 2 of 3 nodes are outdated
Strategy    surge, with EKS's numbers: one node at a time; 0s to drain each, else the upgrade stops
Size        3 nodes now (min 0, max 3), at most 4 during the upgrade (a +1), 3 afterwards

#   NODE   ZONE   FROM        TO          PODS   STAYING   START    END       WAITS-FOR          BLOCKED-BY
1   one    a      workers:1   workers:2   4      2         0s       90s-10m   PDB shop/web 70s   -
2   two    a      workers:1   workers:2   1      0         2m-11m   -         -                  PDB shop/db

Takes       20m-26m; 5 evictions; at most 4 instances, 0.2 extra instance-hours
Room        5 pods must move (1.5 CPU, 3.0 GiB); 1 other node can take them and has room for 9 pods (2.0 CPU, 4.0 GiB); the added nodes have room for 58 pods (4.0 CPU, 16.0 GiB)
Warning     ReplicaSet shop/web: 2 of its pods may find no node: Insufficient cpu: make room
`

func TestPlanShowsSizeDurationAndRoom(t *testing.T) {
	cases := map[string]struct {
		change func(*report.Plan)
		wide   bool
		want   string
	}{
		"as it is": {func(*report.Plan) {}, false, planText},
		"wide, with what it assumes": {func(p *report.Plan) { p.Nodes, p.Findings = p.Nodes[:1], nil }, true, "extra instance-hours\n" +
			"Room        5 pods must move (1.5 CPU, 3.0 GiB); 1 other node can take them and has room for 9 pods (2.0 CPU, 4.0 GiB); the added nodes have room for 58 pods (4.0 CPU, 16.0 GiB)\n" +
			"Assumed     a machine is gone 30s after its termination begins\n"},
		"no other node":                {func(p *report.Plan) { p.Room.Nodes = 0 }, false, "5 pods must move (1.5 CPU, 3.0 GiB); only new nodes can take them; the added nodes have room for 58 pods"},
		"it goes back to another size": {func(p *report.Plan) { p.Sizes.Desired, p.Peak, p.SizeAfter = 12, 13, 7 }, false, "12 nodes now (min 0, max 3), at most 13 during the upgrade (a +1), 7 afterwards\n"},
		"nothing to compare":           {func(p *report.Plan) { p.Room = simulate.Room{} }, false, "extra instance-hours\nWarning "},
		"without a cloud":              {func(p *report.Plan) { p.Sizes, p.Request.Surge = nodegroup.Sizes{}, 0 }, false, "Takes       20m-26m; 5 evictions\n"},
		"users bring the nodes": {
			func(p *report.Plan) { p.Sizes, p.Request.Surge, p.AwaitsNodes = nodegroup.Sizes{}, 0, 2 }, false,
			"Takes       20m-26m and the time until you bring 2 new nodes; 5 evictions\n",
		},
		"E54 the console's rolling update": {
			func(p *report.Plan) { p.Request.Strategy = record.Delegated }, false,
			"EKS upgrades the group itself, rolling update: at most 1 unavailable",
		},
		"E54 the console's force update": {
			func(p *report.Plan) { p.Request.Strategy, p.Request.OnTimeout = record.Delegated, record.Force }, false,
			"EKS upgrades the group itself, force update: at most 1 unavailable",
		},
		"not reached": {func(p *report.Plan) { p.Nodes = []report.PlanNode{{Name: "three", BlockedBy: []string{"not reached"}}} }, false, "0      0         -       -     -           not reached"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			plan := somePlan()
			c.change(plan)
			var text strings.Builder
			if err := report.WritePlan(&text, plan, report.Options{Wide: c.wide}); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(text.String(), c.want) {
				t.Errorf("got:\n%s\nwant:\n%s", text.String(), c.want)
			}
		})
	}
}

// If workloads lose ready pods although the upgrade succeeds, the verdict counts them and a line names each.
func TestPlanNamesWorkloadsThatLosePods(t *testing.T) {
	lost := func(n int) []simulate.Unrecovered {
		var all []simulate.Unrecovered
		for i := range n {
			all = append(all, simulate.Unrecovered{Workload: fmt.Sprintf("shop/Deployment/web%d", i), Ready: i, Before: 9})
		}
		return all
	}
	for n, want := range map[int][]string{
		0: nil,
		1: {", 1 workload left with fewer ready pods, takes", "\nLoses       ready pods of shop/Deployment/web0: it keeps 0 of 9; the upgrade does not wait for it\n"},
		7: {", 7 workloads left with fewer ready pods, takes", "web4: it keeps 4 of 9;", "\nLoses       ready pods of 2 more workloads\n"},
	} {
		plan := somePlan()
		plan.Unrecovered = lost(n)
		var text strings.Builder
		if err := report.WritePlan(&text, plan, report.Options{}); err != nil {
			t.Fatal(err)
		}
		for _, part := range want {
			if !strings.Contains(text.String(), part) {
				t.Errorf("%d workloads: no %q in\n%s", n, part, text.String())
			}
		}
		if shows := strings.Contains(text.String(), "fewer ready pods") || strings.Contains(text.String(), "Loses"); shows != (n > 0) || strings.Contains(text.String(), "web5") {
			t.Errorf("%d workloads:\n%s", n, text.String())
		}
	}
}

// The documents and the texts of a plan agree on whether findings prevent the start of the upgrade, and on the rules.
func TestPlanListsRulesThatPreventStart(t *testing.T) {
	found := func(rules ...string) []preflight.Finding {
		var all []preflight.Finding
		for _, rule := range rules {
			all = append(all, preflight.Finding{Rule: rule, Severity: preflight.Block, Message: "m"})
		}
		return all
	}
	skipped := found("PDB001")
	skipped[0].Skipped = "agreed"
	cases := map[string]struct {
		findings []preflight.Finding
		resumes  string
		timeout  record.OnTimeout
		want     string
	}{
		"no finding":                      {want: "-"},
		"the upgrade tries it":            {findings: found("WH001"), want: "-"},
		"two rules, one of them twice":    {findings: found("POD003", "PDB001", "WH001", "POD003"), want: "PDB001,POD003"},
		"the finding is skipped":          {findings: skipped, want: "-"},
		"the upgrade began before":        {findings: found("PDB001"), resumes: "r1", want: "-"},
		"the upgrade deletes pods":        {findings: found("PDB001"), timeout: record.Force, want: "-"},
		"a pod without a controller, too": {findings: found("POD001"), resumes: "r1", want: "POD001"},
	}
	for name, c := range cases {
		request := somePlan().Request
		request.OnTimeout = cmp.Or(c.timeout, request.OnTimeout)
		group := &nodegroup.Group{Name: "workers", Wanted: nodegroup.Revision{ID: "2"}}
		members := []nodegroup.Member{{Instance: nodegroup.Instance{ID: "i-1", Outdated: true}, Outdated: true}}
		plan := report.NewPlan(report.Plan{Request: request, Findings: c.findings, Resumes: c.resumes}, group, members, &simulate.Forecast{}, true)
		document, err := json.Marshal(plan)
		if err != nil {
			t.Fatal(err)
		}
		var read struct{ StartBlockedBy []string }
		if err := json.Unmarshal(document, &read); err != nil {
			t.Fatal(err)
		}
		if got := cmp.Or(strings.Join(read.StartBlockedBy, ","), "-"); got != c.want {
			t.Errorf("%s: startBlockedBy is %s, want %s", name, got, c.want)
		}
		var text strings.Builder
		if err := report.WritePlan(&text, plan, report.Options{}); err != nil {
			t.Fatal(err)
		}
		_, line, begins := strings.Cut(text.String(), "\nBegins ")
		if begins != (c.want != "-") || (begins && !strings.Contains(line, "--skip-check="+c.want+"\n")) {
			t.Errorf("%s: no line for the rules %s in\n%s", name, c.want, text.String())
		}
	}
}
