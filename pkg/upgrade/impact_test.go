package upgrade_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain/schedule"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/build"
)

// TestRecordReportsEvictionsAndOutagesOfWorkloads: at its end an upgrade reports how often each workload was touched, and for how long it lacked pods or
// had none, even after a crash.
func TestRecordReportsEvictionsAndOutagesOfWorkloads(t *testing.T) {
	for _, crash := range []bool{false, true} {
		spec := groupSketch{outdated: map[string]int{"a": 3}, provider: "aws", zonal: true}.spec()
		addWorkload(&spec, "web", "ReplicaSet", 3, -1)
		addWorkload(&spec, "solo", "ReplicaSet", 1, -1)
		spec.Facts = drain.Webhooks{}.FactsOf([]*corev1.Service{{
			ObjectMeta: metav1.ObjectMeta{Namespace: build.Namespace}, Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "web"}},
		}})
		d := newDriver(t, spec, record.Request{
			Group: "workers", Run: "r1", Strategy: record.Surge, Like: "eks", MaxUnavailable: 1, Window: 1, Surge: 1,
			DrainTimeout: duration(15 * time.Minute), Settle: duration(time.Minute), BootTimeout: duration(20 * time.Minute), OnTimeout: record.Fail,
		})
		d.watch = func(upgrade.World, upgrade.Step) {}
		if crash {
			d.run(start.Add(4 * time.Minute)) // the second node is in drain
			d.crash()
		}
		d.run(time.Time{})
		rec := d.world().Record
		if rec.Result != record.Succeeded {
			t.Fatalf("it ends with %q: %s", rec.Result, rec.Message)
		}
		ready := record.Duration{Duration: spec.Times.Ready}
		want := []record.WorkloadImpact{
			{Name: "shop/ReplicaSet/solo", Impact: record.Impact{Evictions: 1, Below: ready, None: ready}},
			{Name: "shop/ReplicaSet/web", Impact: record.Impact{Evictions: 3, Below: record.Duration{Duration: 3 * spec.Times.Ready}}},
		}
		got := upgrade.ListImpacts(&rec)
		if len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
			t.Errorf("crash %t: %+v, want %+v", crash, got, want)
		}
	}
}

// TestRecordSumsImpactOfLeastAffectedWorkloads: if there are more workloads than the record holds, those with the least impact are summed up.
func TestRecordSumsImpactOfLeastAffectedWorkloads(t *testing.T) {
	spec := groupSketch{outdated: map[string]int{"a": 3}, provider: "aws", zonal: true}.spec()
	for i := range 600 {
		addWorkload(&spec, fmt.Sprintf("app%d", i), "ReplicaSet", 1, -1)
	}
	addWorkload(&spec, "web", "ReplicaSet", 3, -1)
	d := newDriver(t, spec, record.Request{
		Group: "workers", Run: "r1", Strategy: record.Surge, Like: "eks", MaxUnavailable: 1, Window: 1, Surge: 1,
		DrainTimeout: duration(15 * time.Minute), Settle: duration(time.Minute), BootTimeout: duration(20 * time.Minute), OnTimeout: record.Fail,
	})
	d.run(time.Time{})
	all := upgrade.ListImpacts(&d.record)
	evictions, others := 0, 0
	for _, w := range all {
		evictions += w.Evictions
		if w.Name == record.OtherWorkloads {
			others = w.Evictions
		}
	}
	if evictions != 603 || others == 0 || len(all) > 603-others+1 {
		t.Errorf("%d workloads with %d evictions, %d of others", len(all), evictions, others)
	}
}

// TestLastEvictionIsCounted: an eviction that is answered after the user stopped the upgrade is counted and stored.
func TestLastEvictionIsCounted(t *testing.T) {
	g := newGateScene(t, 2)
	var evict schedule.Eviction
	for range 30 {
		g.Workloads = g.index.Snapshot()
		for _, action := range g.next().Actions {
			if found, ok := action.(schedule.Eviction); ok {
				evict = found
				g.begun(evict)
			} else {
				g.do(action)
			}
		}
		if evict.UID != "" {
			break
		}
	}
	g.Stop = true
	for step := g.next(); !step.Finished; step = g.next() {
		g.do(step.Actions...)
	}
	g.answer(evict, nodegroup.OutcomeDone, "")
	step := g.next()
	if got := upgrade.ListImpacts(&step.Record); !step.Finished || !step.Persist || len(got) != 1 || got[0].Evictions != 1 {
		t.Errorf("finished %t, stored %t, impacts %+v, want one eviction", step.Finished, step.Persist, got)
	}
}
