package plugin

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/inventory"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/report"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/ledger"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/build"
)

// enlargedGroup returns a group of seven outdated nodes plus nodes that an upgrade has added, with the upgrade's
// record.
func enlargedGroup(added int, phase record.Phase) (*groupContext, record.Record) {
	revision, before := nodegroup.Revision{ID: "2", Name: "workers:2"}, nodegroup.Revision{ID: "1", Name: "workers:1"}
	g := &groupContext{
		name: "workers", observation: observation{
			provider: everyNodeOutdated{}, now: noon, cluster: &clusterReading{view: drain.Snapshot{Pods: map[string][]*corev1.Pod{}}, objects: &inventory.Objects{}},
			group: nodegroup.Group{
				Name: "workers", Provider: "aws", Can: nodegroup.FullControl(), Wanted: revision, Pointed: revision, Desired: 7 + added, Min: 1, Max: 14, Zones: []string{"a"}, Observed: noon,
			},
		},
	}
	for i := range 7 + added {
		name := fmt.Sprintf("n%02d", i)
		g.cluster.view.Nodes = append(g.cluster.view.Nodes, build.Node(name, "a", func(n *corev1.Node) { n.Spec.ProviderID = "aws:///a/i-" + name }))
		instance := nodegroup.Instance{ID: "i-" + name, Zone: "a", State: nodegroup.InstanceInService, Revision: before, Outdated: i < 7}
		if i >= 7 {
			instance.Revision = revision
		}
		g.group.Instances = append(g.group.Instances, instance)
	}
	g.joinNodes(&g.record)
	span := func(d time.Duration) record.Duration { return record.Duration{Duration: d} }
	g.request = record.Request{
		Group: "workers", Run: "r1", Strategy: record.Surge, Like: "eks", MaxUnavailable: 1, Window: 1, Surge: 5, OnTimeout: record.Fail,
		DrainTimeout: span(15 * time.Minute), Settle: span(time.Minute), BootTimeout: span(20 * time.Minute),
	}
	if phase == record.PhaseSoak {
		g.request.Strategy, g.request.Surge, g.request.MaxUnavailable = record.BlueGreen, 7, 0
		g.request.BlueGreen = &record.BlueGreenRequest{Batch: 1, Soak: span(time.Hour)}
	}
	record := record.Record{
		Version: record.Version, Run: "r1", Request: g.request, Provider: "aws", Started: noon.Add(-time.Hour), Phase: phase, PhaseBegan: noon.Add(-time.Hour), Total: 7,
		Target: revision, Previous: before, Sizes: nodegroup.Sizes{Desired: 7, Min: 1, Max: 7, Zones: map[string]int{"a": 7}},
		Ledger: ledger.FromBooks(ledger.Books{Zonal: true, MaxFrom: 7, MaxTo: 14, MaxSeen: 14, Zones: map[string]ledger.Zone{"a": {Surge: added, Launched: added, Serial: added}}}),
	}
	return g, record
}

// TestPlanShowsSizeFromBeforeUpgrade checks plans of a running upgrade and of its rollback. They must show the size at
// the end, which differs from the current size.
func TestPlanShowsSizeFromBeforeUpgrade(t *testing.T) {
	cases := map[string]struct {
		added int
		phase record.Phase
		back  bool
	}{
		"before it begins":         {phase: ""},
		"in the middle of a surge": {added: 5, phase: record.PhaseUpgrade},
		"blue-green in its soak":   {added: 7, phase: record.PhaseSoak},
		"the way back":             {added: 5, phase: record.PhaseUpgrade, back: true},
		"the way back from a soak": {added: 7, phase: record.PhaseSoak, back: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			g, record := enlargedGroup(c.added, c.phase)
			if c.phase != "" {
				g.record = record
			}
			if c.back {
				g.record = upgrade.AsRollback(&record, record.Previous, noon)
				g.group.Wanted = record.Previous
				for i := range g.group.Instances {
					g.group.Instances[i].Outdated = !g.group.Instances[i].Outdated
				}
				g.joinNodes(&g.record)
				g.request = g.record.Request
			}
			p := &planning{groupContext: g}
			forecast, _, err := p.runForecast(t.Context(), p.request, nil)
			if err != nil {
				t.Fatal(err)
			}
			plan := report.NewPlan(report.Plan{Request: g.request, SizeAfter: p.sizeAfter(&forecast)}, &g.group, g.members, &forecast, true)
			if plan.SizeAfter != 7 {
				t.Errorf("back to %d, want 7; it ends %+v", plan.SizeAfter, forecast.Fast)
			}
		})
	}
}
