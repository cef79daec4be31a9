package main

import (
	"reflect"
	"slices"
	"testing"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/fixture"
)

func TestCrashingWorkloadsShareNodes(t *testing.T) {
	for seed := range uint64(50) {
		l, broken := drawCrash(seed)
		if len(broken) != 3 || len(l.workloads) != workloads {
			t.Fatalf("seed %d: %d of %d workloads crash", seed, len(broken), len(l.workloads))
		}
		first := l.places[broken[0].Name]
		if len(slices.Compact(slices.Sorted(slices.Values(first)))) != 3 {
			t.Errorf("seed %d: the crashing workloads are on nodes %v", seed, first)
		}
		for _, w := range broken {
			if !slices.Equal(l.places[w.Name], first) || len(w.Annotations) != 1 {
				t.Errorf("seed %d: %s is on nodes %v, with %v", seed, w.Name, l.places[w.Name], w.Annotations)
			}
			if !slices.ContainsFunc(l.workloads, func(other fixture.Workload) bool { return reflect.DeepEqual(w, other) }) {
				t.Errorf("seed %d: %s is not in the layout", seed, w.Name)
			}
		}
	}
}

func TestStopsForWrongWorkloadsAreReported(t *testing.T) {
	broken := []fixture.Workload{{Kind: "Deployment", Name: "web-1"}, {Kind: "StatefulSet", Name: "db-2"}}
	const both = "error: upgrade stopped: default/Deployment/web-1 (1 of 2 ready); default/StatefulSet/db-2 (1 of 2 ready)\n"
	cases := map[string]struct {
		result   fixture.Result
		recorded record.Result
		want     int
	}{
		"as it has to be":   {fixture.Result{Code: 1, Stderr: both}, record.WorkloadUnhealthy, 0},
		"it ended well":     {fixture.Result{Stderr: both}, record.WorkloadUnhealthy, 1},
		"for another cause": {fixture.Result{Code: 1, Stderr: both}, record.PodEvictionFailure, 1},
		"one is not named":  {fixture.Result{Code: 1, Stderr: "error: default/StatefulSet/db-2\n"}, record.WorkloadUnhealthy, 1},
		"nothing is said":   {fixture.Result{Code: 1}, record.WorkloadUnhealthy, 2},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if faults := stopFaults(c.result, c.recorded, broken); len(faults) != c.want {
				t.Errorf("faults %q, want %d", faults, c.want)
			}
		})
	}
}
