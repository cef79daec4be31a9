package main

import (
	"fmt"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/controlplane"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/fixture"
)

// scenario is a group whose nodes are drained, by the tool and by its rivals.
type scenario struct {
	// name is matched against -run.
	name, title string
	// nodes is the number of outdated nodes. window is how many of them are drained at a time. spare is the number of current nodes
	// that exist from the start. If zones is set, the nodes are an Auto Scaling group, and boot is the boot time of its machines.
	nodes, window, spare int
	zones                []string
	boot                 time.Duration
	workloads            []fixture.Workload
	// broken is a workload that is added after all others run. Its pods crash, so its budget never allows an eviction.
	broken *fixture.Workload
	// limit is the drain timeout of each node; 0 for none.
	limit  time.Duration
	rivals []rival
	floor  floor
	// targets are the scenario's own targets, in addition to those of every scenario.
	targets []target
	// heavy is true if the scenario runs only with -all.
	heavy bool
	// disturbed is true if some of the tool's requests to the API server fail, and the budgets are watched.
	disturbed bool
}

const second = time.Second

// scenarios returns all scenarios.
func scenarios() []scenario {
	mixed := workloadsWithBudgets(2*second, 3*second)
	broken := fixture.Workload{
		Name: "broken", Replicas: 8, Ready: second, Gone: 3 * second, MaxUnavailable: "1",
		Annotations: map[string]string{controlplane.AnnotationCrashLoop: "true"},
	}
	bare := withoutBudgets(mixed)
	single := func(pods int32) []fixture.Workload {
		return []fixture.Workload{{
			Name: "web", Replicas: pods, Ready: second, Gone: 500 * time.Millisecond, MaxUnavailable: "1", Annotations: terseAnnotations(),
		}}
	}
	wide := single(40)
	wide[0].MaxUnavailable = "50%"
	large := largeWorkloads()
	zones := []string{"us-east-1a", "us-east-1b", "us-east-1c"}
	return []scenario{
		{
			name: "node-of-8", title: "One node, 8 pods, PDB maxUnavailable 1, ready after 1s, gone after 0.5s",
			nodes: 1, window: 1, spare: 2, workloads: single(8), rivals: []rival{oneByOne}, floor: floorOfDrain(1, 1, single(8)),
		},
		{
			name: "node-of-40", title: "One node, 40 pods, PDB maxUnavailable 1, ready after 1s, gone after 0.5s",
			nodes: 1, window: 1, spare: 2, workloads: single(40), rivals: []rival{oneByOne}, floor: floorOfDrain(1, 1, single(40)),
			targets: []target{floorTarget(1.05)},
		},
		{
			name: "wide-budget", title: "One node, 40 pods, PDB maxUnavailable 50%, ready after 1s, gone after 0.5s",
			nodes: 1, window: 1, spare: 2, workloads: wide, rivals: []rival{oneByOne}, floor: floorOfDrain(1, 1, wide),
		},
		{
			name: "budgets", title: "24 nodes, 4 at a time, 30 workloads, ready after 2s, gone after 3s",
			nodes: 24, window: 4, spare: 24, workloads: mixed, rivals: []rival{oneByOne, fourAtOnce}, floor: floorOfDrain(24, 4, mixed),
			targets: []target{floorTarget(1.45), rivalTarget(fourAtOnce, 0.45), rivalTarget(oneByOne, 0.25)},
		},
		{
			name: "disturbed", title: "budgets, with watches cut after 2s, 5% of answers 500 and 5% 429 with Retry-After 1",
			nodes: 24, window: 4, spare: 24, workloads: mixed, rivals: []rival{undisturbed}, floor: floorOfDrain(24, 4, mixed),
			targets: []target{rivalTarget(undisturbed, 1.5), brokenBudgetsTarget()}, disturbed: true,
		},
		{
			name: "no-budgets", title: "24 nodes, 4 at a time, 30 workloads without budgets, ready after 2s, gone after 3s",
			nodes: 24, window: 4, spare: 24, workloads: bare, rivals: []rival{oneByOne, fourAtOnce}, floor: floorOfDrain(24, 4, bare),
			targets: []target{floorTarget(1.2)},
		},
		{
			name: "broken", title: "24 nodes, 4 at a time, 30 workloads and one whose 8 pods crash under PDB maxUnavailable 1, a minute for each node",
			nodes: 24, window: 4, spare: 24, workloads: mixed, broken: &broken, limit: time.Minute, rivals: []rival{heavyOneByOne, fourAtOnce},
			floor: floorOfDrain(24, 4, mixed), targets: []target{otherNodesTarget(1.35), explanationTarget(5 * second)},
		},
		{
			name: "cloud", title: "12 nodes of an Auto Scaling group, 6 more at first, 1 at a time, boot 20s, 30 workloads, ready after 2s, gone after 3s",
			nodes: 12, window: 1, zones: zones, boot: 20 * second, workloads: mixed,
			floor: cloudFloor(12, 6, 1, 20*second, 3*second), targets: []target{floorTarget(1.15)},
		},
		{
			name: "4000-pods", title: "200 nodes, 20 at a time, 100 workloads of 40 pods, ready after 20s, gone after 30s",
			nodes: 200, window: 20, spare: 200, workloads: large, floor: floorOfDrain(200, 20, large), targets: []target{floorTarget(1.25)}, heavy: true,
		},
	}
}

// terseAnnotations returns the annotations that make kubelets send as few requests as possible, so that the control plane has little
// work. The times to ready begin with the binding, as the floors assume.
func terseAnnotations() map[string]string {
	return map[string]string{controlplane.AnnotationTerse: "true"}
}

// workloadsWithBudgets returns thirty workloads, six of each kind: maxUnavailable 1, minAvailable 7 of 8, minAvailable 50 %, no budget,
// and a single pod without a budget.
func workloadsWithBudgets(ready, gone time.Duration) []fixture.Workload {
	var all []fixture.Workload
	for i := range 6 {
		for _, w := range []fixture.Workload{
			{Name: "one-missing", Replicas: 8, MaxUnavailable: "1"},
			{Name: "all-but-one", Replicas: 8, MinAvailable: "7"},
			{Name: "half", Replicas: 8, MinAvailable: "50%"},
			{Name: "free", Replicas: 8},
			{Name: "alone", Replicas: 1},
		} {
			w.Name, w.Ready, w.Gone, w.Annotations = fmt.Sprintf("%s-%d", w.Name, i), ready, gone, terseAnnotations()
			all = append(all, w)
		}
	}
	return all
}

func withoutBudgets(guarded []fixture.Workload) []fixture.Workload {
	var all []fixture.Workload
	for _, w := range guarded {
		w.MaxUnavailable, w.MinAvailable = "", ""
		all = append(all, w)
	}
	return all
}

// largeWorkloads returns a hundred workloads with forty pods each. 25 of them have a budget with maxUnavailable 10 %, 25 with minAvailable
// 90 %, 25 with minAvailable 50 %, and 25 have no budget.
func largeWorkloads() []fixture.Workload {
	var all []fixture.Workload
	for i := range 25 {
		for _, w := range []fixture.Workload{
			{Name: "tenth", MaxUnavailable: "10%"}, {Name: "nine-tenths", MinAvailable: "90%"}, {Name: "half", MinAvailable: "50%"}, {Name: "free"},
		} {
			w.Name, w.Replicas, w.Ready, w.Gone, w.Annotations = fmt.Sprintf("%s-%d", w.Name, i), 40, 20*second, 30*second, terseAnnotations()
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
