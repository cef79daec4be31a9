package upgrade_test

import (
	"strings"
	"testing"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// S21: TestRetriedRequestsAreNamed: requests of each kind are refused temporarily, without end. Within half a minute
// the status says which and why, and the run ends within the limit with the same reason.
func TestRetriedRequestsAreNamed(t *testing.T) {
	const detail = `admission webhook "guard" denied the request: no`
	limits := map[string]time.Duration{"fence": 2 * time.Minute, "start-drain": 2 * time.Minute, "unfence": 5 * time.Minute, "resume": 5 * time.Minute, "set-revision": 2 * time.Minute, "terminate": 2 * time.Minute}
	for kind, limit := range limits {
		t.Run(kind, func(t *testing.T) {
			prepare := "upgrade"
			if kind == "unfence" {
				prepare = "stop while nodes drain"
			}
			d := reachedBy(t, true)[prepare]()
			d.req.BootTimeout = duration(2*time.Minute + 10*time.Second)
			d.record.Request.BootTimeout = d.req.BootTimeout
			d.faults = []fault{{key: kind + "/", outcome: nodegroup.OutcomeLater, detail: detail, times: 1 << 20}}
			if kind == "resume" {
				d.faults[0].key = kind
			}
			var refused, told time.Time
			d.watch = func(w upgrade.World, step upgrade.Step) {
				for key, attempt := range w.Open {
					if strings.HasPrefix(key, kind) && attempt.Detail == detail && refused.IsZero() {
						refused = w.Now
					}
				}
				if r := step.Status.Retried; r.Detail == detail && told.IsZero() {
					told = w.Now
				}
			}
			for !d.run(d.cluster.Now().Add(time.Second)) {
				if took := d.cluster.Now().Sub(refused); !refused.IsZero() && took > limit+time.Minute {
					t.Fatalf("%s after the first refusal it is in phase %q, stopping with %q, waiting for %q", took, d.record.Phase, d.record.Stopping, d.record.Message)
				}
			}
			switch {
			case refused.IsZero():
				t.Fatal("nothing was refused")
			case told.IsZero() || told.Sub(refused) > 30*time.Second:
				t.Errorf("named at %s, refused at %s", told, refused)
			case !strings.Contains(d.record.Message, detail):
				t.Errorf("it ended %q and does not say why: %q", d.record.Result, d.record.Message)
			}
		})
	}
}

// S21: TestRetriesContinueAfterANodeChangesState: the first patch of a node is refused while its drain timeout ends. The node
// changes to another state, and the upgrade stops within the limit nevertheless.
func TestRetriesContinueAfterANodeChangesState(t *testing.T) {
	d := reachedBy(t, true)["upgrade"]()
	d.req.BootTimeout, d.req.DrainTimeout, d.req.OnTimeout = duration(3*time.Minute), duration(2*time.Minute), record.Force
	d.record.Request = d.req
	d.faults = []fault{
		{key: "start-drain/", outcome: nodegroup.OutcomeLater, detail: "not now", times: 1 << 20},
		{key: "evict/", outcome: nodegroup.OutcomeLater, detail: "not now", times: 1 << 20},
	}
	var refused time.Time
	forced := false
	d.watch = func(w upgrade.World, step upgrade.Step) {
		for key := range w.Open {
			if strings.HasPrefix(key, "start-drain/") && refused.IsZero() {
				refused = w.Now
			}
		}
		for _, n := range step.Record.Nodes {
			forced = forced || n.State == record.NodeForcing
		}
	}
	d.run(time.Time{})
	if took := d.cluster.Now().Sub(refused); !forced || refused.IsZero() || took > 4*time.Minute || d.record.Result != record.Failed {
		t.Errorf("%s after the first refusal it ended %q, a node was forced: %t: %s", took, d.record.Result, forced, d.record.Message)
	}
}

// TestUnansweredEvictionIsNamed: a node is given up because the eviction of its pod was never answered. The message names the
// unanswered eviction, not the pod's finalizers.
func TestUnansweredEvictionIsNamed(t *testing.T) {
	d := reachedBy(t, true)["upgrade"]()
	d.req.DrainTimeout = duration(time.Minute)
	d.faults = []fault{{key: "evict/", outcome: nodegroup.OutcomeLater, detail: "failed calling webhook", times: 1 << 20}}
	inFlight := false
	d.watch = func(w upgrade.World, _ upgrade.Step) {
		for key, attempt := range w.Open {
			if strings.HasPrefix(key, "evict/") { // it is sent again, and has no answer yet
				attempt.InFlight, attempt.Outcome, attempt.Detail = inFlight, "", ""
				w.Open[key], d.failed[key] = attempt, attempt
			}
		}
	}
	d.run(start.Add(2*time.Minute + 30*time.Second))
	inFlight = true
	d.run(time.Time{})
	if m := d.record.Message; d.record.Result != record.PodEvictionFailure || strings.Contains(m, "finalizers") || !strings.Contains(m, "eviction") {
		t.Errorf("it ended %q: %s", d.record.Result, m)
	}
}

// S21: TestRefusedLaunchesAreNamedAtTheEnd: the cloud temporarily refuses launches until the boot timeout.
func TestRefusedLaunchesAreNamedAtTheEnd(t *testing.T) {
	for _, how := range []string{"upgrade", "rollback"} {
		d := reachedBy(t, true)[how]()
		d.faults = []fault{{key: "add/", outcome: nodegroup.OutcomeLater, detail: "Rate exceeded (Throttling)", times: 1 << 20}}
		d.run(time.Time{})
		if !strings.Contains(d.record.Message, "Throttling") {
			t.Errorf("%s: it ends %q: %q", how, d.record.Result, d.record.Message)
		}
	}
}
