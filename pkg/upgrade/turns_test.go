package upgrade_test

import (
	"testing"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain/schedule"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// G14, G16: if zones are upgraded without surge, the last node of a zone is recreated and Ready before a node of the
// next zone is drained.
func TestNextZoneWaitsForTheNodeThatIsRecreated(t *testing.T) {
	spec := groupSketch{outdated: map[string]int{"a": 2, "b": 2}, provider: "aws", zonal: true, pointed: "2"}.spec()
	addWorkload(&spec, "web", "ReplicaSet", 8, 1)
	d := newDriver(t, spec, record.Request{
		Group: "workers", Run: "r1", Strategy: record.Surge, Like: "gke", Window: 2, MaxUnavailable: 2,
		DrainTimeout: duration(time.Hour), BootTimeout: duration(20 * time.Minute), OnTimeout: record.Force,
	})
	begun := false
	d.watch = func(w upgrade.World, step upgrade.Step) {
		ready := 0
		for i := range w.Members {
			if m := &w.Members[i]; m.Zone() == "a" && m.IsReady() && !m.Outdated {
				ready++
			}
		}
		for _, action := range step.Actions {
			evict, evicts := action.(schedule.Eviction)
			if !evicts || zoneOf(w.Members, evict.Node) != "b" {
				continue
			}
			begun = true
			if ready < 2 {
				t.Fatalf("it drains node %s while zone a has %d of its 2 new nodes", evict.Node, ready)
			}
		}
	}
	d.run(start.Add(6 * time.Hour))
	if !begun || d.record.Result != record.Succeeded {
		t.Errorf("got %q (%s), zone b begun: %t", d.record.Result, d.record.Message, begun)
	}
}

func zoneOf(members []nodegroup.Member, node string) string {
	for i := range members {
		if members[i].Name() == node {
			return members[i].Zone()
		}
	}
	return ""
}
