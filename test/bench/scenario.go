package main

import (
	"fmt"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/controlplane"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/fixture"
)

// scenario is a group whose nodes are drained, in each of several ways.
type scenario struct {
	// name is what -run matches.
	name, title string
	// nodes is the number of outdated nodes. window is how many are drained at a time. spare is the number of additional nodes from
	// the start. With zones the nodes are an Auto Scaling group, whose machines take boot to become nodes.
	nodes, window, spare int
	zones                []string
	boot                 time.Duration
	workloads            []fixture.Workload
	// broken is added when the workloads have settled. Its pods crash, so that its budget never allows an eviction.
	broken *fixture.Workload
	// limit is how long a node may take; 0 for no limit.
	limit  time.Duration
	rivals []rival
	floor  floor
	// targets are the scenario's own targets, in addition to those of every scenario.
	targets []target
	// heavy scenarios, and heavy rivals, run only with -all.
	heavy bool
	// disturbed makes the API server fail now and then for the tool, and makes the benchmark watch the budgets.
	disturbed bool
}

const second = time.Second

// scenarios returns all scenarios.
func scenarios() []scenario {
	mixed := guarded(2*second, 3*second)
	broken := fixture.Workload{
		Name: "broken", Replicas: 8, Ready: second, Gone: 3 * second, MaxUnavailable: "1",
		Annotations: map[string]string{controlplane.AnnotationCrashLoop: "true"},
	}
	bare := unguarded(mixed)
	single := func(pods int32) []fixture.Workload {
		return []fixture.Workload{{
			Name: "web", Replicas: pods, Ready: second, Gone: 500 * time.Millisecond, MaxUnavailable: "1", Annotations: terse(),
		}}
	}
	wide := single(40)
	wide[0].MaxUnavailable = "50%"
	large := thousands()
	zones := []string{"us-east-1a", "us-east-1b", "us-east-1c"}
	return []scenario{
		{
			name: "node-of-8", title: "One node, 8 pods, PDB maxUnavailable 1, ready after 1s, gone after 0.5s",
			nodes: 1, window: 1, spare: 2, workloads: single(8), rivals: []rival{loop}, floor: drainFloor(1, 1, single(8)),
		},
		{
			name: "node-of-40", title: "One node, 40 pods, PDB maxUnavailable 1, ready after 1s, gone after 0.5s",
			nodes: 1, window: 1, spare: 2, workloads: single(40), rivals: []rival{loop}, floor: drainFloor(1, 1, single(40)),
			targets: []target{toFloor(1.05)},
		},
		{
			name: "wide-budget", title: "One node, 40 pods, PDB maxUnavailable 50%, ready after 1s, gone after 0.5s",
			nodes: 1, window: 1, spare: 2, workloads: wide, rivals: []rival{loop}, floor: drainFloor(1, 1, wide),
		},
		{
			name: "budgets", title: "24 nodes, 4 at a time, 30 workloads, ready after 2s, gone after 3s",
			nodes: 24, window: 4, spare: 24, workloads: mixed, rivals: []rival{loop, four}, floor: drainFloor(24, 4, mixed),
			targets: []target{toFloor(1.45), toRival(four, 0.45), toRival(loop, 0.25)},
		},
		{
			name: "disturbed", title: "budgets, with watches cut after 2s, 5% of answers 500 and 5% 429 with Retry-After 1",
			nodes: 24, window: 4, spare: 24, workloads: mixed, rivals: []rival{undisturbed}, floor: drainFloor(24, 4, mixed),
			targets: []target{toRival(undisturbed, 1.5), keptBudgets()}, disturbed: true,
		},
		{
			name: "no-budgets", title: "24 nodes, 4 at a time, 30 workloads without budgets, ready after 2s, gone after 3s",
			nodes: 24, window: 4, spare: 24, workloads: bare, rivals: []rival{loop, four}, floor: drainFloor(24, 4, bare),
			targets: []target{toFloor(1.2)},
		},
		{
			name: "broken", title: "24 nodes, 4 at a time, 30 workloads and one whose 8 pods crash under PDB maxUnavailable 1, a minute for each node",
			nodes: 24, window: 4, spare: 24, workloads: mixed, broken: &broken, limit: time.Minute, rivals: []rival{heavyLoop, four},
			floor: drainFloor(24, 4, mixed), targets: []target{othersToFloor(1.35), told(5 * second)},
		},
		{
			name: "cloud", title: "12 nodes of an Auto Scaling group, 6 more at first, 1 at a time, boot 20s, 30 workloads, ready after 2s, gone after 3s",
			nodes: 12, window: 1, zones: zones, boot: 20 * second, workloads: mixed,
			floor: cloudFloor(12, 6, 1, 20*second, 3*second), targets: []target{toFloor(1.15)},
		},
		{
			name: "4000-pods", title: "200 nodes, 20 at a time, 100 workloads of 40 pods, ready after 20s, gone after 30s",
			nodes: 200, window: 20, spare: 200, workloads: large, floor: drainFloor(200, 20, large), targets: []target{toFloor(1.25)}, heavy: true,
		},
	}
}

// terse returns the annotations that make kubelets report as little as they can. Times to ready then begin with the binding, as the
// floors assume, and the control plane is not what is measured.
func terse() map[string]string {
	return map[string]string{controlplane.AnnotationTerse: "true"}
}

// guarded returns thirty workloads, a fifth of each kind: one pod may be missing, all but one are needed, half are needed, no budget,
// and a single pod.
func guarded(ready, gone time.Duration) []fixture.Workload {
	var all []fixture.Workload
	for i := range 6 {
		for _, w := range []fixture.Workload{
			{Name: "one-missing", Replicas: 8, MaxUnavailable: "1"},
			{Name: "all-but-one", Replicas: 8, MinAvailable: "7"},
			{Name: "half", Replicas: 8, MinAvailable: "50%"},
			{Name: "free", Replicas: 8},
			{Name: "alone", Replicas: 1},
		} {
			w.Name, w.Ready, w.Gone, w.Annotations = fmt.Sprintf("%s-%d", w.Name, i), ready, gone, terse()
			all = append(all, w)
		}
	}
	return all
}

func unguarded(guarded []fixture.Workload) []fixture.Workload {
	var all []fixture.Workload
	for _, w := range guarded {
		w.MaxUnavailable, w.MinAvailable = "", ""
		all = append(all, w)
	}
	return all
}

// thousands returns a hundred workloads of forty pods, a quarter of each kind: a tenth may be missing, nine tenths are needed, half
// are needed, and no budget.
func thousands() []fixture.Workload {
	var all []fixture.Workload
	for i := range 25 {
		for _, w := range []fixture.Workload{
			{Name: "tenth", MaxUnavailable: "10%"}, {Name: "nine-tenths", MinAvailable: "90%"}, {Name: "half", MinAvailable: "50%"}, {Name: "free"},
		} {
			w.Name, w.Replicas, w.Ready, w.Gone, w.Annotations = fmt.Sprintf("%s-%d", w.Name, i), 40, 20*second, 30*second, terse()
			all = append(all, w)
		}
	}
	return all
}

// pods counts the pods that must move.
func (sc *scenario) pods() int {
	n := 0
	for i := range sc.workloads {
		n += int(sc.workloads[i].Replicas)
	}
	return n
}
