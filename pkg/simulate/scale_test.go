package simulate_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/simulate"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/bench/fleet"
)

// smallFleet returns a fleet with all kinds of workloads, and the request to upgrade it.
func smallFleet() (simulate.Spec, record.Request) {
	spec := fleet.New(24)
	spec.Times, _ = simulate.Estimate(&spec)
	return spec, fleet.Request(5)
}

// What the cluster caches about nodes, and what it leaves out, does not change a step.
func TestCachesDoNotChangeSteps(t *testing.T) {
	spec, req := smallFleet()
	steps := 0
	_, err := simulate.New(spec).Run(t.Context(), req, func(w upgrade.World, step upgrade.Step) {
		steps++
		plain := make([]nodegroup.Member, 0, len(w.Members))
		for _, m := range w.Members {
			plain = append(plain, nodegroup.Member{Node: m.Node, Instance: m.Instance, Outdated: m.Outdated, Pods: m.Pods})
		}
		w.Members, w.Memo = plain, nil
		if again := upgrade.Next(w); !reflect.DeepEqual(again, step) {
			t.Fatalf("step %d at %s:\n%+v\nwith all nodes looked at:\n%+v", steps, w.Now, step, again)
		}
		w.Brief = true
		again := upgrade.Next(w)
		again.Status.Nodes = step.Status.Nodes
		if !reflect.DeepEqual(again, step) {
			t.Fatalf("step %d at %s is another one when brief", steps, w.Now)
		}
	})
	if err != nil || steps < 100 {
		t.Errorf("%d steps: %v", steps, err)
	}
}

// ignoreTimes clears how long workloads lacked pods. These times are less exact if the upgrade looks less often.
func ignoreTimes(workloads map[string]record.WorkloadRecord) {
	for name, w := range workloads {
		w.Below, w.None = record.Duration{}, record.Duration{}
		workloads[name] = w
	}
}

// Run forgets answers and skips steps. An upgrade that does neither ends in the same way. The settle time is chosen
// so that nodes do not become empty at the moment at which pods become ready: the order of these two would change
// which node is next.
func TestRunEqualsSingleSteps(t *testing.T) {
	spec, req := smallFleet()
	req.Settle.Duration += 437 * time.Millisecond
	want, err := simulate.New(spec).Run(t.Context(), req, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := simulate.New(spec)
	for range 100_000 {
		step := upgrade.Next(c.World(req))
		c.Do(step)
		if step.Finished {
			break
		}
		if len(step.Actions) == 0 && step.Wake.After(c.Now()) {
			c.Advance(step.Wake)
		}
	}
	got := c.Record()
	ignoreTimes(got.Workloads)
	ignoreTimes(want.Workloads)
	if !reflect.DeepEqual(got, want) || want.Result != record.Succeeded {
		t.Errorf("run:\n%+v\nstep by step:\n%+v", want, got)
	}
}
