package simulate_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/simulate"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/build"
)

// newSlots returns a group of nodes in zones, one letter each, that its cloud replaces in slots. Each node has a pod. A machine boots in
// 60 s and ends in 30 s, and pods end at once.
func newSlots(zones string, how simulate.Rolling) (simulate.Spec, record.Request) {
	spec, req := shop(), request()
	spec.Nodes, spec.Pods, spec.Group.Instances, spec.Group.Zones = nil, nil, nil, nil
	for i, letter := range zones {
		name, zone := fmt.Sprintf("old-%d", i), string(letter)
		n := node(name, zone, allocatable("2", "4Gi", "10"))
		n.Spec.ProviderID = fmt.Sprintf("sim:///%s/i-%s", zone, name)
		spec.Nodes = append(spec.Nodes, n)
		spec.Group.Instances = append(spec.Group.Instances, nodegroup.Instance{ID: "i-" + name, Zone: zone, State: nodegroup.InstanceInService, Outdated: true})
		spec.Pods = append(spec.Pods, build.Pod(fmt.Sprintf("web-%d", i), build.App("web"), build.On(name), started(start.Add(-time.Hour), 5*time.Second)))
	}
	spec.Group.Desired, spec.Rolling = len(zones), &how
	spec.Times = simulate.Times{Boot: time.Minute, Leave: 30 * time.Second, Ready: 5 * time.Second}
	req.OnTimeout, req.Settle = record.Force, record.Duration{}
	return spec, req
}

func TestForecastOfSlotsReplacesOneNodeOfEachAfterAnother(t *testing.T) {
	const boot, leave = 60 * time.Second, 30 * time.Second
	for name, c := range map[string]struct {
		zones string
		how   simulate.Rolling
		took  time.Duration
		peak  int
	}{
		"one node first":                  {"aaa", simulate.Rolling{Surge: 1}, 3 * (boot + leave), 4},
		"two nodes first":                 {"aaaa", simulate.Rolling{Surge: 2}, 2 * (boot + leave), 6},
		"more than the zone has":          {"aa", simulate.Rolling{Surge: 9}, boot + leave, 4},
		"one zone after the other":        {"aabb", simulate.Rolling{Surge: 2}, 2 * (boot + leave), 6},
		"none first":                      {"aaa", simulate.Rolling{Unavailable: 1}, 3 * (boot + leave), 3},
		"two first, and one that is down": {"aaaaaa", simulate.Rolling{Surge: 2, Unavailable: 1}, 2 * (boot + leave), 8},
		"a node is added already":         {"aaa", simulate.Rolling{Surge: 1, Added: 1}, 2*boot + 3*leave, 0},
	} {
		t.Run(name, func(t *testing.T) {
			spec, req := newSlots(c.zones, c.how)
			f, err := simulate.Predict(t.Context(), spec, req)
			if err != nil {
				t.Fatal(err)
			}
			if f.Duration.Latest.Duration != c.took || f.Fast.Result != record.Succeeded || len(f.Nodes) != len(c.zones) {
				t.Errorf("it takes %s for %d nodes and ends as %q, want %s", f.Duration, len(f.Nodes), f.Fast.Result, c.took)
			}
			if c.peak > 0 && f.Peak != c.peak {
				t.Errorf("it has up to %d nodes, want %d", f.Peak, c.peak)
			}
		})
	}
}

// TestForecastOfSlotsDeletesPodsAtTheHour: a budget that never opens keeps each node for its drain timeout, which may have begun before
// (GKE G15).
func TestForecastOfSlotsDeletesPodsAtTheHour(t *testing.T) {
	for begun, want := range map[time.Duration]time.Duration{0: 3*(90*time.Second) + 3*time.Hour, 20 * time.Minute: 3*(90*time.Second) + 3*time.Hour - 20*time.Minute - time.Minute} {
		spec, req := newSlots("aaa", simulate.Rolling{Surge: 1})
		req.DrainTimeout.Duration = time.Hour
		allow(&spec, 0)
		if begun > 0 {
			spec.Rolling.Added, spec.Rolling.Draining = 1, map[string]time.Time{"old-1": start.Add(-begun)}
			spec.Nodes[1].Spec.Unschedulable = true
		}
		f, err := simulate.Predict(t.Context(), spec, req)
		if err != nil {
			t.Fatal(err)
		}
		if got := f.Duration.Latest.Duration; got != want || f.Forced < 3 || f.Evictions != 0 {
			t.Errorf("after %s of a drain: %s, %d pods deleted past their budgets, %d evicted; want %s", begun, got, f.Forced, f.Evictions, want)
		}
		if first := f.Nodes[0]; begun > 0 && first.Name != "old-1" || first.WaitsFor != "PDB shop/web" {
			t.Errorf("the first node is %s, which waits for %s", first.Name, first.WaitsFor)
		}
	}
}

// TestForecastOfSlotsRetriesRefusedEvictions: an eviction that a budget refuses is sent again at the next interval.
func TestForecastOfSlotsRetriesRefusedEvictions(t *testing.T) {
	spec, req := newSlots("a", simulate.Rolling{Surge: 1, Retry: 7 * time.Second})
	for i := range 2 {
		spec.Pods = append(spec.Pods, build.Pod(fmt.Sprintf("web-%d", i+1), build.App("web"), build.On("old-0"), started(start.Add(-time.Hour), 5*time.Second)))
	}
	allow(&spec, 1)
	f, err := simulate.Predict(t.Context(), spec, req)
	if err != nil {
		t.Fatal(err)
	}
	if want := 60*time.Second + 2*7*time.Second + 30*time.Second; f.Duration.Latest.Duration != want || f.Evictions != 3 {
		t.Errorf("%s and %d evictions, want %s and 3", f.Duration, f.Evictions, want)
	}
}
