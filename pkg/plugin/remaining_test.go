package plugin

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/inventory"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/build"
)

// drainedGroup returns a group of four outdated nodes with one pod each, of which the budget allows this many
// evictions. draining has the nodes in drain with their time so far. If delegated is true, EKS drains them.
func drainedGroup(allowed int32, delegated bool, draining map[string]time.Duration) (*groupContext, record.Record) {
	revision := nodegroup.Revision{ID: "2", Name: "workers:2"}
	g := &groupContext{
		name: "workers", observation: observation{
			provider: everyNodeOutdated{}, now: noon, cluster: &clusterReading{view: drain.Snapshot{Pods: map[string][]*corev1.Pod{}}, objects: &inventory.Objects{}},
			group: nodegroup.Group{
				Name: "workers", Provider: "aws", Can: nodegroup.FullControl(), Wanted: revision, Pointed: revision, Desired: 4, Max: 4, Zones: []string{"a"}, Observed: noon,
			},
		},
	}
	rec := record.Record{
		Version: record.Version, Run: "r1", Started: noon.Add(-time.Hour), Phase: record.PhaseUpgrade, PhaseBegan: noon.Add(-time.Hour), Target: revision, Previous: revision, Total: 4,
		Provider: "aws", Sizes: nodegroup.Sizes{Desired: 4, Max: 4, Zones: map[string]int{"a": 4}},
		Request: record.Request{
			Group: "workers", Run: "r1", Strategy: record.Surge, Like: "eks", MaxUnavailable: 1, Window: 1, OnTimeout: record.Fail,
			DrainTimeout: record.Duration{Duration: 15 * time.Minute}, Settle: record.Duration{Duration: time.Minute}, BootTimeout: record.Duration{Duration: 20 * time.Minute},
		},
		Nodes: map[string]record.NodeRecord{}, Begun: len(draining),
	}
	if delegated {
		rec.Request.Strategy, rec.Delegation = record.Delegated, &record.Delegation{ID: "u1", Draining: map[string]time.Time{}}
		g.group.Managed = &nodegroup.Managed{TerminateFirst: true, Operation: nodegroup.Operation{ID: "u1", State: nodegroup.OperationRunning, Began: noon.Add(-time.Hour), To: revision}}
	}
	view := &g.cluster.view
	for i := range 4 {
		name := fmt.Sprintf("n%d", i)
		view.Nodes = append(view.Nodes, build.Node(name, "a", func(n *corev1.Node) { n.Spec.ProviderID = "aws:///a/i-" + name }))
		g.group.Instances = append(g.group.Instances, nodegroup.Instance{ID: "i-" + name, Zone: "a", State: nodegroup.InstanceInService, Outdated: true})
		view.Pods[name] = []*corev1.Pod{build.Pod("web-"+name, build.On(name))}
		since, started := draining[name]
		switch {
		case !started:
		case delegated:
			rec.Delegation.Draining[name] = noon.Add(-since)
		default:
			rec.Nodes[name] = record.NodeRecord{
				UID: "n0", Instance: "i-" + name, Zone: "a", State: record.NodeDraining, Batch: 1, Began: noon.Add(-since), Deadline: noon.Add(15*time.Minute - since),
			}
		}
	}
	view.PDBs = []*policyv1.PodDisruptionBudget{build.Budget("web", build.Counts(4, 4, 4-allowed))}
	view.Budgets = drain.NewBudgets(view.PDBs)
	g.joinNodes(&g.record)
	return g, rec
}

// TestTimeLeftEndsWhenUpgradeFails checks a node that does not become empty in time. It ends the upgrade with
// PodEvictionFailure, also if EKS drains it (EKS E42). The time left must end at the same time as the line about that
// node says.
func TestTimeLeftEndsWhenUpgradeFails(t *testing.T) {
	tenMinutes := map[string]time.Duration{"n0": 10 * time.Minute}
	cases := map[string]struct {
		allowed   int32
		delegated bool
		draining  map[string]time.Duration
		force     bool
		failsAt   string
		remaining time.Duration
	}{
		"EKS has drained a node for ten minutes":   {delegated: true, draining: tenMinutes, failsAt: "n0", remaining: 5 * time.Minute},
		"EKS has not begun with a node":            {delegated: true, failsAt: "n0", remaining: 15 * time.Minute},
		"EKS forces":                               {delegated: true, draining: tenMinutes, force: true},
		"EKS may evict":                            {allowed: 1, delegated: true, draining: tenMinutes},
		"this tool has drained it for ten minutes": {draining: tenMinutes, failsAt: "n0", remaining: 5 * time.Minute},
		"this tool may evict":                      {allowed: 1, draining: tenMinutes},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			g, rec := drainedGroup(c.allowed, c.delegated, c.draining)
			if c.force {
				rec.Request.OnTimeout = record.Force
			}
			rest := (&session{}).forecastRest(t.Context(), *g, rec, loadNothing)
			fast, slow := "", ""
			if ends := rest.RemainingEnds; ends != nil {
				fast, slow = ends.Fast.Node, ends.Slow.Node
			}
			if rest.RemainingUnknown != "" || fast != c.failsAt || (slow == "") != (c.failsAt == "") {
				t.Fatalf("fails at %q, in the slow case at %q, want %q: %+v", fast, slow, c.failsAt, rest)
			}
			if c.failsAt == "" && rest.Remaining.Latest.Duration == 0 || c.failsAt != "" && (rest.Remaining.Latest.Duration != c.remaining || rest.Remaining.Earliest.Duration != c.remaining) {
				t.Errorf("%v remains, want %s", rest.Remaining, c.remaining)
			}
		})
	}
}

func TestForecastForStatusTimesOut(t *testing.T) {
	g, record := drainedGroup(1, false, nil)
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Millisecond, errors.New("it takes longer than 1ms to work out"))
	defer cancel()
	rest := (&session{}).forecastRest(ctx, *g, record, func(ctx context.Context, _ *planning) error {
		<-ctx.Done()
		return ctx.Err()
	})
	if rest.RemainingUnknown != "it takes longer than 1ms to work out" {
		t.Errorf("%+v", rest)
	}
}

func loadNothing(context.Context, *planning) error { return nil }

// balancerCloud is a cloud with load balancers in front of all nodes of the group.
type balancerCloud struct {
	everyNodeOutdated
	groups, targets int
}

var web = nodegroup.TargetGroup{ID: "arn:web", Name: "web", Delay: 5 * time.Minute, Bound: true}

// TargetGroups implements cloud.Balancer.
func (p *balancerCloud) TargetGroups(context.Context, *nodegroup.Group, []string) (cloud.TargetGroups, error) {
	p.groups++
	return cloud.TargetGroups{Groups: []nodegroup.TargetGroup{web}}, nil
}

// Targets implements cloud.Balancer.
func (p *balancerCloud) Targets(context.Context, []nodegroup.TargetGroup, []string) ([]nodegroup.Target, error) {
	p.targets++
	var all []nodegroup.Target
	for i := range 4 {
		all = append(all, nodegroup.Target{Group: web, ID: fmt.Sprintf("i-n%d", i)})
	}
	return all, nil
}

// TestTimeLeftIncludesLoadBalancers checks that the forecast of the rest waits until load balancers have removed each node,
// as the upgrade does. The list of load balancers is read from time to time, their targets for each forecast.
func TestTimeLeftIncludesLoadBalancers(t *testing.T) {
	s := &session{command: newBlueUpgrade(t).connect(t)}
	harbour, known := &balancerCloud{}, restData{}
	for range 2 {
		g, record := drainedGroup(1, false, nil)
		without := s.forecastRest(t.Context(), *g, record, loadNothing)
		g.provider = harbour
		with := s.forecastRest(t.Context(), *g, record, func(ctx context.Context, p *planning) error { return p.loadRestData(ctx, &known) })
		if later := with.Remaining.Earliest.Duration - without.Remaining.Earliest.Duration; later < 15*time.Minute {
			t.Errorf("%v remains, and %v without load balancers: four nodes wait for them five minutes each, of which a drain takes some: %s", with.Remaining, without.Remaining, with.RemainingUnknown)
		}
	}
	if harbour.groups != 1 || harbour.targets != 2 {
		t.Errorf("load balancers were read %d times and their targets %d times, want 1 and 2", harbour.groups, harbour.targets)
	}
}
