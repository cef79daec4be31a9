package upgrade_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
)

// refusedLimit is how long a run may take to end after one of its requests was refused for good.
const refusedLimit = 2 * time.Minute

// reachedBy are the ways in which requests are made: each prepares a driver at the moment at which the command begins.
func reachedBy(t *testing.T, zonal bool) map[string]func() *driver {
	begin := func(change func(*upgrade.Request)) *driver {
		spec := groupSketch{outdated: map[string]int{"a": 2, "b": 1}, provider: "aws", zonal: zonal, pointed: "1"}.spec()
		addWorkload(&spec, "web", "ReplicaSet", 6, 2)
		req := upgrade.Request{
			Group: "workers", Run: "r1", Strategy: upgrade.Surge, Like: "eks", MaxUnavailable: 1, Window: 1, Surge: 2, OnTimeout: upgrade.Fail,
			DrainTimeout: duration(15 * time.Minute), Settle: duration(time.Minute), BootTimeout: duration(20 * time.Minute),
		}
		change(&req)
		return newDriver(t, spec, req)
	}
	same := func(*upgrade.Request) {}
	stoppedAt := func(at time.Duration) *driver {
		d := begin(same)
		d.run(start.Add(at))
		return d
	}
	return map[string]func() *driver{
		"upgrade": func() *driver { return begin(same) },
		"blue-green upgrade": func() *driver {
			return begin(func(r *upgrade.Request) {
				r.Strategy, r.Surge, r.BlueGreen = upgrade.BlueGreen, 3, &upgrade.BlueGreenRequest{Batch: 1}
			})
		},
		"stop while nodes come up": func() *driver { d := stoppedAt(time.Minute); d.stop = true; return d },
		"stop while nodes drain":   func() *driver { d := stoppedAt(3*time.Minute + 20*time.Second); d.stop = true; return d },
		"abort while nodes come up": func() *driver {
			d := stoppedAt(2*time.Minute + time.Second)
			d.abort()
			return d
		},
		"abort while nodes drain": func() *driver { d := stoppedAt(3*time.Minute + 20*time.Second); d.abort(); return d },
		"rollback":                func() *driver { d := stoppedAt(5 * time.Minute); d.rollBack(); return d },
		"nodes that do not come up": func() *driver {
			d := begin(func(r *upgrade.Request) { r.BootTimeout = duration(time.Minute) })
			return d
		},
	}
}

// kindOf is the kind of an action, which its key begins with.
func kindOf(a nodegroup.Action) string {
	kind, _, _ := strings.Cut(a.Key(), "/")
	return kind
}

// S20: TestRefusedForGood has each kind of request be refused for good from each of its uses on, in upgrades, stops and undoings: the run ends
// soon, says which request was refused and why, and the same command reaches its end once the request is allowed.
func TestRefusedForGood(t *testing.T) {
	for _, zonal := range []bool{true, false} {
		for how, prepare := range reachedBy(t, zonal) {
			uses := map[string]int{}
			d := prepare()
			d.watch = func(_ upgrade.World, step upgrade.Step) {
				for _, a := range step.Actions {
					uses[kindOf(a)]++
				}
			}
			d.run(time.Time{})
			for kind, n := range uses {
				for at := range n {
					t.Run(fmt.Sprintf("zonal=%t %s: %s %d", zonal, how, kind, at), func(t *testing.T) { refusedForGood(t, reachedBy(t, zonal)[how](), kind, at) })
				}
			}
		}
	}
}

// mayBeLeftOut are the kinds that an upgrade continues without.
func mayBeLeftOut(kind string) bool { return slices.Contains([]string{"hold", "restart"}, kind) }

func refusedForGood(t *testing.T, d *driver, kind string, at int) {
	t.Helper()
	const detail = "you may not do that"
	undoing, back := d.record.Stopping == upgrade.Aborted, d.record.Back
	d.faults = []fault{{key: kind, after: at, outcome: nodegroup.OutcomeFatal, detail: detail, times: 1 << 20}}
	var refused time.Time
	d.watch = func(w upgrade.World, _ upgrade.Step) {
		for _, attempt := range w.Open {
			if attempt.Outcome == nodegroup.OutcomeFatal && refused.IsZero() {
				refused = w.Now
			}
		}
	}
	for !d.run(d.cluster.Now().Add(time.Second)) {
		if took := d.cluster.Now().Sub(refused); !refused.IsZero() && took > refusedLimit && !mayBeLeftOut(kind) {
			t.Fatalf("%s after the refusal it is in phase %q, stopping with %q", took, d.record.Phase, d.record.Stopping)
		}
	}
	if refused.IsZero() {
		t.Fatal("nothing was refused")
	}
	if !mayBeLeftOut(kind) && !strings.Contains(d.record.Message, detail) {
		t.Errorf("it ended %q and does not say what was refused: %q", d.record.Result, d.record.Message)
	}
	if d.record.Result == upgrade.Succeeded || d.record.Result == upgrade.Aborted {
		if !mayBeLeftOut(kind) {
			t.Errorf("it ended %q without what was refused", d.record.Result)
		}
		return
	}
	d.faults = nil
	want := upgrade.Succeeded
	switch {
	case undoing:
		d.abort()
		want = upgrade.Aborted
	case back:
		d.rollBack()
	default:
		d.reopen()
		d.req.BootTimeout = duration(20 * time.Minute)
		d.record.Request.BootTimeout = d.req.BootTimeout
	}
	d.watch = func(upgrade.World, upgrade.Step) {}
	d.run(time.Time{})
	if d.record.Result != want {
		t.Errorf("the same command ended %q once it was allowed, want %q: %s", d.record.Result, want, d.record.Message)
	}
}
