package simulate

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/ledger"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/build"
)

var midnight = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// busyGroup returns a group of six outdated nodes in three zones, with pods of a Deployment, a StatefulSet and a
// DaemonSet, under budgets.
func busyGroup() Spec {
	revision := nodegroup.Revision{ID: "2", Name: "workers:2"}
	zones := []string{"a", "b", "c"}
	spec := Spec{
		Now: midnight, Outdated: func(*corev1.Node) bool { return true },
		Group: nodegroup.Group{
			Name: "workers", Provider: "aws", Can: nodegroup.FullControl(), Wanted: revision, Pointed: revision, Desired: 6, Max: 6, Zones: zones,
		},
		Times: Times{
			Boot: 90 * time.Second, Leave: 40 * time.Second, Ready: 15 * time.Second, Seen: 2 * time.Second,
			Gone: func(*corev1.Pod) time.Duration { return 20 * time.Second },
		},
		Workloads: map[types.UID]Workload{
			"ReplicaSet/web": {Replicas: 6, Pods: &PodSet{Kind: replicaSet, Namespace: build.Namespace, Name: "web", Count: 6}},
			"StatefulSet/db": {Replicas: 3, Ordered: true, Pods: &PodSet{Kind: statefulSet, Namespace: build.Namespace, Name: "db", Count: 3}},
		},
		Budgets: []*policyv1.PodDisruptionBudget{build.Budget("web", build.Counts(6, 6, 5)), build.Budget("db", build.Counts(3, 3, 2))},
	}
	for i := range 6 {
		name, zone := fmt.Sprintf("old-%d", i), zones[i%3]
		spec.Nodes = append(spec.Nodes, build.Node(name, zone, func(n *corev1.Node) {
			n.Spec.ProviderID, n.CreationTimestamp = "sim:///"+zone+"/i-"+name, metav1.Time{Time: midnight.Add(-24 * time.Hour)}
			n.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8Gi"), corev1.ResourcePods: resource.MustParse("20")}
		}))
		spec.Group.Instances = append(spec.Group.Instances, nodegroup.Instance{ID: "i-" + name, Zone: zone, State: nodegroup.InstanceInService, Outdated: true})
		spec.Pods = append(spec.Pods, build.Pod(fmt.Sprintf("web-%d", i), build.On(name)),
			build.Pod(fmt.Sprintf("agent-%d", i), build.App("agent"), build.OwnedBy("DaemonSet", "agent"), build.On(name)))
		if i < 3 {
			spec.Pods = append(spec.Pods, build.Pod(fmt.Sprintf("db-%d", i), build.App("db"), build.OwnedBy("StatefulSet", "db"), build.On(name)))
		}
	}
	return spec
}

// specAt returns the cluster as a process would read it now, with an earlier reading of the group and its launches.
func specAt(c *Cluster, base *Spec, group nodegroup.Group, launched map[string]time.Time) Spec {
	s := *base
	s.Now, s.Group, s.Record, s.Launched = c.clock.now, group, c.record.Clone(), launched
	s.Nodes, s.Others, s.Pods, s.Budgets = nil, nil, nil, nil
	for _, n := range c.index.nodes.sorted {
		s.Nodes = append(s.Nodes, n.node)
		s.Pods = append(s.Pods, n.pods...)
	}
	for _, g := range c.scheduler.pending {
		for _, u := range g.pods {
			s.Pods = append(s.Pods, u.pod)
		}
	}
	for _, budget := range c.budgets.budgets {
		s.Budgets = append(s.Budgets, budget.DeepCopy())
	}
	return s
}

// answer is the result of a forecast at a moment, and what really happened after that.
type answer struct {
	at, lag, said, is time.Duration
	result            record.Result
	phase             record.Phase
}

// isRight reports whether the forecast differs from what happened by at most a quarter of the time, or half a minute.
func (a answer) isRight() bool {
	return a.result == record.Succeeded && (a.said-a.is).Abs() <= max(a.is/4, 30*time.Second)
}

// forecastEachStep runs an upgrade and makes a forecast of the rest at each of its steps. The group was read that long
// before.
func forecastEachStep(t *testing.T, spec Spec, req record.Request, lags ...time.Duration) []answer {
	t.Helper()
	c := New(spec)
	c.clock.serial = 1_000_000 // new objects of a forecast do not get names of existing ones
	var readings []nodegroup.Group
	var answers []answer
	launched := map[string]time.Time{}
	_, err := c.Run(t.Context(), req, func(upgrade.World, upgrade.Step) {
		group := c.World(req).Group
		readings = append(readings, group)
		for _, instance := range group.Instances {
			if _, known := launched[instance.ID]; !known {
				launched[instance.ID] = c.clock.now
			}
		}
		for _, lag := range lags {
			read := readings[0]
			for _, r := range readings {
				if !r.Observed.After(c.clock.now.Add(-lag)) {
					read = r
				}
			}
			known := maps.Clone(launched)
			maps.DeleteFunc(known, func(_ string, at time.Time) bool { return at.After(read.Observed) })
			f, err := Predict(t.Context(), specAt(c, &spec, read, known), req)
			if err != nil {
				t.Fatal(err)
			}
			answers = append(answers, answer{at: c.clock.now.Sub(spec.Now), lag: lag, said: f.Duration.Latest.Duration, result: f.Slow.Result, phase: c.record.Phase})
		}
	})
	if err != nil || c.record.Result != record.Succeeded {
		t.Fatalf("the upgrade ends %q: %v", c.record.Result, err)
	}
	for i := range answers {
		answers[i].is = c.clock.now.Sub(spec.Now) - answers[i].at
	}
	return answers
}

func underWayRequests() map[string]record.Request {
	span := func(d time.Duration) record.Duration { return record.Duration{Duration: d} }
	base := record.Request{
		Group: "workers", Run: "r1", Strategy: record.Surge, Like: "eks", MaxUnavailable: 1, Window: 1, Surge: 3, OnTimeout: record.Fail,
		DrainTimeout: span(15 * time.Minute), Settle: span(time.Minute), BootTimeout: span(20 * time.Minute),
	}
	wide, minimal, turns, both := base, base, base, base
	wide.MaxUnavailable, wide.Window, wide.Surge = 3, 3, 3
	minimal.Surge = 0
	turns.Like, turns.MaxUnavailable, turns.Surge = "gke", 0, 1
	both.Strategy, both.Surge, both.MaxUnavailable, both.Window = record.BlueGreen, 6, 0, 2
	both.BlueGreen = &record.BlueGreenRequest{Batch: 2, BatchSoak: span(2 * time.Minute), Soak: span(10 * time.Minute)}
	return map[string]record.Request{"one at a time": base, "three at a time": wide, "without a surge": minimal, "zone by zone": turns, "blue-green": both}
}

// At each step of an upgrade, the forecast of the rest is right, even if the group was read up to 30 s before. Nodes
// are being launched, booted and removed, and pods are moving. Nothing else happens in these clusters, so all
// forecasts must be right.
func TestForecastIsRightDuringUpgrade(t *testing.T) {
	for name, req := range underWayRequests() {
		for launches, zonal := range map[string]bool{"launches name a zone": true, "launches name none": false} {
			t.Run(name+", "+launches, func(t *testing.T) {
				spec := busyGroup()
				spec.Group.Can.NameZone = zonal
				answers := forecastEachStep(t, spec, req, 0, 5*time.Second, 15*time.Second, 30*time.Second)
				wrong := slices.DeleteFunc(slices.Clone(answers), answer.isRight)
				for _, a := range wrong {
					t.Errorf("after %s in phase %s, read %s before: says %q in %s, and it was %s", a.at, a.phase, a.lag, a.result, a.said, a.is)
				}
				t.Logf("%d of %d answers are right", len(answers)-len(wrong), len(answers))
			})
		}
	}
}

// machinesAt lists the group's machines except those of old nodes, at that time after midnight. Each has the taints
// that keep pods from its node, or "-" without a node. The group's size follows.
func machinesAt(spec Spec, passed time.Duration) string {
	c := New(spec)
	for end := spec.Now.Add(passed); c.clock.now.Before(end); {
		c.Advance(end)
	}
	text := ""
	for _, id := range slices.Sorted(maps.Keys(c.group.members)) {
		m := c.group.members[id]
		switch {
		case strings.HasPrefix(id, "i-old") && id != "i-old-5":
			continue
		case m.node == nil:
			text += fmt.Sprintf("%s %s -, ", id, m.instance.State)
			continue
		}
		text += fmt.Sprintf("%s %s ready=%t", id, m.instance.State, nodegroup.IsNodeReady(m.node.node))
		for _, taint := range m.node.node.Spec.Taints {
			text += " " + taint.Key
		}
		text += ", "
	}
	return fmt.Sprintf("%s%d of %d", text, c.group.Desired, c.group.Max)
}

// Machines that are starting or terminating at the beginning need the rest of their usual time, whatever the reading
// of the group shows.
func TestSimulationContinuesBootsAndTerminations(t *testing.T) {
	ago := func(d time.Duration) time.Time { return midnight.Add(-d) }
	add := func(state nodegroup.InstanceState, launched time.Duration) func(*Spec) {
		return func(s *Spec) {
			s.Group.Instances = append(s.Group.Instances, nodegroup.Instance{ID: "i-new", Zone: "b", State: state})
			s.Group.Desired++
			if launched > 0 {
				s.Launched = map[string]time.Time{"i-new": ago(launched)}
			}
		}
	}
	joined := func(age time.Duration, ready bool, taints ...string) func(*Spec) {
		return func(s *Spec) {
			add(nodegroup.InstanceInService, 0)(s)
			node := build.Node("new", "b", func(n *corev1.Node) {
				n.Spec.ProviderID, n.CreationTimestamp = "sim:///b/i-new", metav1.Time{Time: ago(age)}
			})
			for _, taint := range taints {
				build.Tainted(taint)(node)
			}
			if !ready {
				build.NotReady(ago(age))(node)
			}
			s.Nodes = append(s.Nodes, node)
		}
	}
	rec := func(books ledger.Books, nodes map[string]record.NodeRecord) func(*Spec) {
		books.Zonal = true
		return func(s *Spec) {
			s.Group.Observed = ago(20 * time.Second)
			s.Record = record.Record{
				Run: "r1", Sizes: nodegroup.Sizes{Desired: 6, Max: 6, Zones: map[string]int{"a": 2, "b": 2, "c": 2}}, Ledger: ledger.FromBooks(books), Nodes: nodes,
			}
		}
	}
	removed := func(landed, shrink bool, terminated time.Duration) map[string]record.NodeRecord {
		return map[string]record.NodeRecord{"old-5": {State: record.NodeRemoving, Instance: "i-old-5", Zone: "c", Landed: landed, Shrink: shrink, Terminated: ago(terminated)}}
	}
	zones := func(z ledger.Zone) map[string]ledger.Zone { return map[string]ledger.Zone{"b": z} }
	old := "i-old-5 InService ready=true, "
	late := func(s *Spec) { s.Group.Observed = midnight }
	cases := map[string]struct {
		with   []func(*Spec)
		passed time.Duration
		want   string
	}{
		"launched a minute ago, not yet":                {[]func(*Spec){add(nodegroup.InstancePending, time.Minute)}, 29 * time.Second, "i-new Pending -, " + old + "7 of 6"},
		"launched a minute ago, then":                   {[]func(*Spec){add(nodegroup.InstancePending, time.Minute)}, 31 * time.Second, "i-new InService ready=true, " + old + "7 of 6"},
		"in service before its node is there":           {[]func(*Spec){add(nodegroup.InstanceInService, time.Minute)}, 31 * time.Second, "i-new InService ready=true, " + old + "7 of 6"},
		"in service for an hour without a node":         {[]func(*Spec){add(nodegroup.InstanceInService, time.Hour)}, time.Hour, "i-new InService -, " + old + "7 of 6"},
		"its node is not Ready yet":                     {[]func(*Spec){joined(time.Minute, false)}, 31 * time.Second, "i-new InService ready=true, " + old + "7 of 6"},
		"its node is not Ready for long":                {[]func(*Spec){joined(time.Hour, false)}, time.Hour, "i-new InService ready=false, " + old + "7 of 6"},
		"its node keeps pods away until it has started": {[]func(*Spec){joined(time.Minute, true, "agent-not-ready")}, 31 * time.Second, "i-new InService ready=true, " + old + "7 of 6"},
		"its node keeps pods away for good":             {[]func(*Spec){joined(time.Hour, true, "gpu")}, time.Hour, "i-new InService ready=true gpu, " + old + "7 of 6"},
		"its node is cordoned":                          {[]func(*Spec){joined(time.Minute, false, corev1.TaintNodeUnschedulable)}, time.Minute, "i-new InService ready=true " + corev1.TaintNodeUnschedulable + ", " + old + "7 of 6"},
		"the group lacks a machine": {
			[]func(*Spec){func(s *Spec) { s.Group.Desired, s.Group.Max = 7, 7 }},
			91 * time.Second,
			old + "i-workers-new-a-1 InService ready=true, 7 of 7",
		},
		"the group launches none": {[]func(*Spec){func(s *Spec) { s.Group.Desired, s.Group.Suspended = 7, []string{"Launch"} }}, time.Hour, old + "7 of 6"},
		"its launches fail": {[]func(*Spec){func(s *Spec) {
			s.Group.Desired, s.Group.LaunchFailure = 7, nodegroup.LaunchFailure{At: midnight, Message: "no capacity"}
		}}, time.Hour, old + "7 of 6"},
		"a launch that the reading does not show": {
			[]func(*Spec){rec(ledger.Books{Changed: ago(10 * time.Second), MaxSeen: 8, MaxSeenAt: ago(15 * time.Second), Zones: zones(ledger.Zone{Launched: 1})}, nil)},
			81 * time.Second, old + "i-workers-new-b-1 InService ready=true, 7 of 8",
		},
		"a launch that somebody took back": {[]func(*Spec){rec(ledger.Books{Changed: ago(time.Minute), Zones: zones(ledger.Zone{Launched: 1})}, nil), late}, time.Hour, old + "6 of 6"},
		"a launch without an answer":       {[]func(*Spec){rec(ledger.Books{Changed: ago(10 * time.Second), Zones: zones(ledger.Zone{Launched: 1, Open: []ledger.Launch{{Serial: 1, N: 1}}})}, nil)}, time.Hour, old + "6 of 6"},
		"a machine terminated 10 s ago, not yet": {
			[]func(*Spec){rec(ledger.Books{Changed: ago(10 * time.Second), Zones: map[string]ledger.Zone{"c": {Shrunk: 1}}}, removed(true, true, 10*time.Second))},
			29 * time.Second,
			"i-old-5 Terminating ready=true, 5 of 6",
		},
		"a machine terminated 10 s ago, then": {[]func(*Spec){rec(ledger.Books{Changed: ago(10 * time.Second), Zones: map[string]ledger.Zone{"c": {Shrunk: 1}}}, removed(true, true, 10*time.Second))}, 31 * time.Second, "5 of 6"},
		"one whose termination has no answer": {[]func(*Spec){rec(ledger.Books{Changed: ago(10 * time.Second), Zones: map[string]ledger.Zone{"c": {Shrunk: 1}}}, removed(false, true, 10*time.Second))}, 31 * time.Second, "5 of 6"},
		"one whose termination had no effect": {[]func(*Spec){rec(ledger.Books{Changed: ago(time.Minute), Zones: map[string]ledger.Zone{"c": {Shrunk: 1}}}, removed(false, true, time.Minute)), late}, time.Hour, old + "6 of 6"},
		"one that the group replaces": {
			[]func(*Spec){rec(ledger.Books{Changed: ago(10 * time.Second)}, removed(true, false, 10*time.Second))},
			81 * time.Second,
			"i-workers-new-c-2 InService ready=true, 6 of 6",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			spec := busyGroup()
			spec.Group.Observed = midnight
			for _, change := range c.with {
				change(&spec)
			}
			if got := machinesAt(spec, c.passed); got != c.want {
				t.Errorf("%s\nwant %s", got, c.want)
			}
		})
	}
}

// If a launch has no known answer but the group shows its machines, a repeated request for it launches nothing.
func TestOpenLaunchIsNotRepeated(t *testing.T) {
	for shown, want := range map[bool]int{true: 7, false: 7} {
		spec := busyGroup()
		spec.Group.Observed, spec.Group.Max = midnight, 8
		if shown {
			spec.Group.Desired++
			spec.Group.Instances = append(spec.Group.Instances, nodegroup.Instance{ID: "i-new", Zone: "b", State: nodegroup.InstancePending})
		}
		books := ledger.Books{Zonal: true, Changed: midnight, Zones: map[string]ledger.Zone{"b": {Launched: 1, Open: []ledger.Launch{{Serial: 1, N: 1}}}}}
		spec.Record = record.Record{Run: "r1", Sizes: nodegroup.Sizes{Desired: 6, Max: 6, Zones: map[string]int{"a": 2, "b": 2, "c": 2}}, Ledger: ledger.FromBooks(books)}
		c := New(spec)
		c.carryOutAction(nodegroup.AddCapacity{Zone: "b", N: 1, Token: ledger.Token("r1", "b", 1)})
		if c.group.Desired != want || len(c.group.members) != want {
			t.Errorf("shown %t: the group is to have %d machines and has %d, want %d", shown, c.group.Desired, len(c.group.members), want)
		}
	}
}
