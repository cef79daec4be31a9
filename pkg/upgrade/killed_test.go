package upgrade_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// I8: an upgrade that is killed in any step, before, during or after its actions, has the same result as one that was
// not killed.
func TestUpgradeKilledInAnyStepHasSameResult(t *testing.T) {
	for _, zonal := range []bool{true, false} {
		whole, steps := upgraded(t, zonal, -1, 0)
		for _, done := range []int{0, 1, -1} {
			t.Run(fmt.Sprintf("zonal=%t, %d actions done", zonal, done), func(t *testing.T) {
				t.Parallel()
				for kill := range steps {
					if got, _ := upgraded(t, zonal, kill, done); got != whole {
						t.Fatalf("killed in step %d it ends as\n%s\nand else as\n%s", kill+1, got, whole)
					}
				}
				if steps < 30 {
					t.Errorf("the upgrade takes %d steps: little was tried", steps)
				}
			})
		}
	}
}

// upgraded returns the final state of a group, and the number of steps of its upgrade. The upgrade is killed after kill
// steps, with done actions of the next one done; never if kill is negative.
func upgraded(t *testing.T, zonal bool, kill, done int) (left string, steps int) {
	t.Helper()
	spec := groupSketch{outdated: map[string]int{"a": 2, "b": 1}, provider: "aws", zonal: zonal}.spec()
	addWorkload(&spec, "web", "ReplicaSet", 6, 2)
	d := newDriver(t, spec, record.Request{
		Group: "workers", Run: "r1", Strategy: record.Surge, Like: "eks", MaxUnavailable: 1, Window: 1, Surge: 2, OnTimeout: record.Fail,
		DrainTimeout: duration(15 * time.Minute), Settle: duration(time.Minute), BootTimeout: duration(20 * time.Minute),
	})
	d.watch = func(upgrade.World, upgrade.Step) { steps++ }
	for range kill {
		if step := d.turn(-1); len(step.Actions) == 0 && !step.Finished {
			d.cluster.Advance(step.Wake)
		}
	}
	if kill >= 0 {
		d.turn(done)
		d.reopen()
	}
	d.run(time.Time{})
	w := d.world()
	left = fmt.Sprintf("%s, %d gone, owing %d, desired %d, max %d, suspended %v", d.record.Result, len(d.record.Gone),
		d.record.Ledger.Contribution(), w.Group.Desired, w.Group.Max, w.Group.Suspended)
	for i := range w.Members {
		m := &w.Members[i]
		left += " " + m.Zone() + ":" + m.Instance.Revision.ID
		if m.Node != nil {
			unmarked(t, m.Node)
		}
	}
	return left, steps
}
