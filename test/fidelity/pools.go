package main

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/fixture"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/gkecloud"
)

// The zones of GKE node pools.
const (
	poolZoneA = "us-central1-a"
	poolZoneB = "us-central1-b"
)

// startGKE creates the scenario's node pool and its workloads. GKE reports neither launches nor terminations, so its machines take the
// times that a plan assumes.
func (sc *scenario) startGKE(ctx context.Context, s *fixture.Fixture) (*gkecloud.Cloud, error) {
	o := gkecloud.Options{Cluster: "fidelity", Boot: 45 * time.Second, Delete: 30 * time.Second, DrainLimit: time.Hour}
	if sc.pool.Autoscaled {
		o.Lacking = func(ctx context.Context, _ string) (int, error) { return countLackingNodes(ctx, s) }
	}
	cloud, env, err := s.StartGKE(ctx, o)
	if err != nil {
		return nil, err
	}
	spec := *sc.pool
	spec.Name, sc.env, sc.cluster = sc.group(), env, cloud.Name()
	var all []fixture.Workload
	for _, w := range sc.workloads {
		w.NodeSelector = map[string]string{"pool": sc.group()}
		all = append(all, w)
	}
	if err := s.DeployPool(ctx, cloud, spec, all); err != nil {
		cloud.Stop()
		return nil, err
	}
	return cloud, nil
}

// countLackingNodes returns how many nodes of a pool the namespace's pods need that no node takes. Pods of the scenarios are small, so
// one node has room for all of them.
func countLackingNodes(ctx context.Context, s *fixture.Fixture) (int, error) {
	pods, err := s.Cluster.Client().CoreV1().Pods(s.Namespace).List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName="})
	if err != nil {
		return 0, err
	}
	for i := range pods.Items {
		for _, c := range pods.Items[i].Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable {
				return 1, nil
			}
		}
	}
	return 0, nil
}

// surgeSettings returns the upgradeSettings of a surge.
func surgeSettings(surge, unavailable int) map[string]any {
	return map[string]any{"strategy": "SURGE", "maxSurge": float64(surge), "maxUnavailable": float64(unavailable)}
}

// blueGreenSettings returns the upgradeSettings of a blue-green upgrade.
func blueGreenSettings(batch int, batchSoak, soak string) map[string]any {
	return map[string]any{"strategy": "BLUE_GREEN", "blueGreenSettings": map[string]any{
		"nodePoolSoakDuration": soak, "standardRolloutPolicy": map[string]any{"batchNodeCount": float64(batch), "batchSoakDuration": batchSoak},
	}}
}

// poolScenarios returns scenarios in which GKE upgrades its node pool (GKE G10 to G15, G40 to G49, G70 to G76).
func poolScenarios() []scenario {
	oneZone, twoZones := []string{poolZoneA}, []string{poolZoneA, poolZoneB}
	serving := []fixture.Workload{withBudget(withKnownTermination("web", 8, 4*second, 4*second), "2"), withKnownTermination("job", 4, 2*second, 6*second)}
	blocked := append([]fixture.Workload{withBudget(withKnownTermination("stubborn", 1, second, second), "0")}, serving...)
	const skipsBudgets = "--skip-check=PDB001"
	return []scenario{
		{name: "gke surge", nodes: 3, workloads: serving, pool: &gkecloud.PoolSpec{Zones: oneZone, Counts: []int{3}}},
		{name: "gke wide surge", nodes: 6, workloads: serving, pool: &gkecloud.PoolSpec{Zones: oneZone, Counts: []int{6}, Settings: surgeSettings(2, 1)}},
		{name: "gke two zones in turn", nodes: 6, workloads: serving, pool: &gkecloud.PoolSpec{Zones: twoZones, Counts: []int{3, 3}, Settings: surgeSettings(2, 0)}},
		{
			name: "gke surge past the hour", nodes: 3, workloads: blocked, flags: []string{skipsBudgets},
			pool: &gkecloud.PoolSpec{Zones: oneZone, Counts: []int{3}, DrainTimeout: 60 * second},
		},
		{
			name: "gke blue-green", nodes: 4, workloads: serving,
			pool: &gkecloud.PoolSpec{Zones: twoZones, Counts: []int{2, 2}, Settings: blueGreenSettings(2, "15s", "30s")},
		},
		{
			name: "gke blue-green past the hour", nodes: 4, workloads: blocked, flags: []string{skipsBudgets},
			pool: &gkecloud.PoolSpec{Zones: twoZones, Counts: []int{2, 2}, DrainTimeout: 60 * second, Settings: blueGreenSettings(2, "0s", "30s")},
		},
		{
			name: "gke autoscaled", nodes: 3, workloads: serving,
			pool: &gkecloud.PoolSpec{Zones: oneZone, Counts: []int{3}, Autoscaled: true, Settings: map[string]any{
				"strategy": "BLUE_GREEN", "blueGreenSettings": map[string]any{"autoscaledRolloutPolicy": map[string]any{"waitForDrainDuration": "30s"}},
			}},
		},
	}
}
