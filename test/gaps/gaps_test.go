package main

import (
	"bytes"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/fixture"
)

// smallLayout returns a small layout whose pods start and end fast.
func smallLayout() *layout {
	l := drawLayout(1, 5, 6, false)
	for i := range l.workloads {
		w := &l.workloads[i]
		w.Ready, w.Gone = second/2, min(w.Gone, 2*second)
	}
	return &l
}

// TestServiceGapsDuringUpgradeAreMeasured moves the pods of a small layout with the tool. "make gaps" moves the pods of larger
// layouts with the tool and with kubectl drain. A workload with one pod must have a gap that lasts until its new pod is ready. That
// shows that the test measures gaps.
func TestServiceGapsDuringUpgradeAreMeasured(t *testing.T) {
	if testing.Short() {
		t.Skip("it needs a control plane, which -short leaves out")
	}
	l := smallLayout()
	alone := &l.workloads[0]
	alone.Ready = 2 * second
	p, err := l.runOnNewControlPlane(t.Context(), toolWay(""), "")
	if err != nil {
		t.Fatal(err)
	}
	if err := writeTable(t.Output(), []outcome{p}, nil); err != nil {
		t.Error(err)
	}
	if gaps := p.gaps[alone.Name]; len(gaps) != 1 || gaps[0] < alone.Ready {
		t.Errorf("the only pod of %s moved with gaps %v, want one of %s or more", alone.Name, gaps, alone.Ready)
	}
}

func TestSameSeedGivesSameLayout(t *testing.T) {
	for seed := range uint64(50) {
		l := drawLayout(seed, nodes, workloads, false)
		if !reflect.DeepEqual(l, drawLayout(seed, nodes, workloads, false)) {
			t.Fatalf("seed %d gives two different layouts", seed)
		}
		checkWorkloads(t, &l)
		counts := []int{l.countKind(several), l.countKind(aloneSurging), l.countKind(aloneFixed)}
		if !slices.Equal(counts, []int{22, 5, 3}) {
			t.Errorf("seed %d: the numbers of workloads by kind are %v", seed, counts)
		}
		for name, places := range drawLayout(seed, nodes, workloads, true).places {
			if distinct := slices.Compact(slices.Sorted(slices.Values(places))); len(distinct) != len(places) {
				t.Errorf("seed %d: %s is on nodes %v, not spread", seed, name, places)
			}
		}
	}
}

// checkWorkloads checks that a layout has workloads of all kinds, on existing nodes.
func checkWorkloads(t *testing.T, l *layout) {
	t.Helper()
	bare, together := 0, 0
	for _, w := range l.workloads {
		if w.MaxUnavailable == "" && w.MinAvailable == "" {
			bare++
		}
		places := l.places[w.Name]
		if len(places) != int(w.Replicas) || slices.Max(places) >= nodes || w.Replicas > 5 || !w.Service {
			t.Errorf("seed %d: %s has %d pods on nodes %v, a Service: %t", l.seed, w.Name, w.Replicas, places, w.Service)
		}
		if len(places) > 1 && slices.Min(places) == slices.Max(places) {
			together++
		}
		if w.Replicas == 1 && w.MinAvailable != "" {
			t.Errorf("seed %d: the budget of %s never allows an eviction", l.seed, w.Name)
		}
	}
	if bare != workloads/3 || together == l.countKind(several) {
		t.Errorf("seed %d: %d workloads without a budget, %d with their pods on one node", l.seed, bare, together)
	}
}

// sliceOf returns a slice of a Service, with an endpoint for each value of ready.
func sliceOf(service, name string, ready ...bool) *discoveryv1.EndpointSlice {
	slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: service}}}
	for i := range ready {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Conditions: discoveryv1.EndpointConditions{Ready: &ready[i]}})
	}
	return slice
}

func TestServiceGapsAreCountedFromEndpointSlices(t *testing.T) {
	type seen struct {
		at    time.Duration
		event watch.EventType
		slice *discoveryv1.EndpointSlice
	}
	unknown := sliceOf("web", "a")
	unknown.Endpoints = []discoveryv1.Endpoint{{}}
	cases := map[string]struct {
		seen []seen
		want []time.Duration
	}{
		"never without": {[]seen{{0, watch.Added, sliceOf("web", "a", true)}, {2 * second, watch.Modified, sliceOf("web", "a", true, false)}}, nil},
		"not before it had one": {[]seen{
			{0, watch.Added, sliceOf("web", "a")}, {second, watch.Modified, sliceOf("web", "a", false)}, {2 * second, watch.Modified, sliceOf("web", "a", true)},
		}, nil},
		"two": {[]seen{
			{0, watch.Added, sliceOf("web", "a", true)},
			{second, watch.Modified, sliceOf("web", "a", false)},
			{2 * second, watch.Modified, sliceOf("web", "a")},
			{4 * second, watch.Modified, sliceOf("web", "a", true)},
			{5 * second, watch.Modified, sliceOf("web", "a", false)},
			{7 * second, watch.Modified, sliceOf("web", "a", true)},
		}, []time.Duration{3 * second, 2 * second}},
		"not over yet": {[]seen{{0, watch.Added, sliceOf("web", "a", true)}, {6 * second, watch.Modified, sliceOf("web", "a", false)}}, []time.Duration{4 * second}},
		"in another slice": {[]seen{
			{0, watch.Added, sliceOf("web", "a", true)}, {second, watch.Added, sliceOf("web", "b", true)}, {2 * second, watch.Modified, sliceOf("web", "a", false)},
		}, nil},
		"its slice is deleted": {[]seen{{0, watch.Added, sliceOf("web", "a", true)}, {7 * second, watch.Deleted, sliceOf("web", "a", true)}}, []time.Duration{3 * second}},
		"another's":            {[]seen{{0, watch.Added, sliceOf("web", "a", true)}, {second, watch.Added, sliceOf("db", "b", false)}}, nil},
		"whether it is ready is not known": {
			[]seen{{0, watch.Added, unknown}, {second, watch.Modified, sliceOf("web", "a")}, {2 * second, watch.Modified, unknown}},
			[]time.Duration{second},
		},
	}
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			all := services{}
			for _, s := range c.seen {
				all.noteSlice(s.event, s.slice, began.Add(s.at))
			}
			gaps := all.gaps(began.Add(10 * second))
			if !slices.Equal(gaps["web"], c.want) || len(gaps) > 1 {
				t.Errorf("gaps %v, want %v", gaps, c.want)
			}
		})
	}
}

func TestGapsAndBrokenPromisesAreTabulated(t *testing.T) {
	l := layout{seed: 7, workloads: []fixture.Workload{
		{Name: "many", Kind: "Deployment", Replicas: 3, MaxUnavailable: "1"},
		{Name: "few", Kind: "StatefulSet", Replicas: 2},
		{Name: "one", Kind: "Deployment", Replicas: 1},
		{Name: "disk", Kind: "StatefulSet", Replicas: 1},
	}}
	gapsOf := func(names ...string) map[string][]time.Duration {
		gaps := map[string][]time.Duration{}
		for _, name := range names {
			gaps[name] = []time.Duration{second, 2 * second}
		}
		return gaps
	}
	o := options{flags: []string{"", "--move=surge"}, against: "--canary=false"}
	ways, against := o.ways()
	all := []outcome{
		{&l, ways[0], 21 * second, 21 * second, gapsOf("one", "disk")},
		{&l, ways[1], 22 * second, 22 * second, gapsOf("few", "one", "disk")},
		{&l, ways[2], 15 * second, 20 * second, gapsOf("many")},
		{&l, ways[3], 40 * second, 42 * second, gapsOf("many", "few", "one", "disk")},
	}
	var text bytes.Buffer
	if err := writeTable(&text, all, against); err == nil {
		t.Error("write returned no error for broken promises")
	}
	want := `LAYOUT WAY TIME ALL-READY WITH-GAP-OF-MANY DEPLOYMENTS-OF-1 STATEFULSETS-OF-1 GAPS SUM LONGEST
7 kubectl nodeupgrade 21.0s 21.0s 0/2 1/1 1/1 4 6.0s 2.0s one
7 kubectl nodeupgrade --move=surge 22.0s 22.0s 1/2 1/1 1/1 6 9.0s 2.0s few
7 kubectl nodeupgrade --canary=false 15.0s 20.0s 1/2 0/1 0/1 2 3.0s 2.0s many
7 xargs -P 4 kubectl drain 40.0s 42.0s 2/2 1/1 1/1 8 12.0s 2.0s many

layout 7: kubectl nodeupgrade has all pods ready after 21.0s, kubectl nodeupgrade --canary=false after 20.0s: 1.050 times as long
in the middle 1.050 times as long, at most 1.05
layout 7: kubectl nodeupgrade --move=surge: StatefulSet few of 2 without a ready endpoint for 1.00s and 2.00s, no budget
layout 7: kubectl nodeupgrade --move=surge: Deployment one of 1 without a ready endpoint for 1.00s and 2.00s, no budget
`
	var got strings.Builder
	for line := range strings.Lines(text.String()) {
		got.WriteString(strings.Join(strings.Fields(line), " ") + "\n")
	}
	if got.String() != want {
		t.Errorf("got\n%s", got.String())
	}
	all[0].allReady, all[1].gaps = 22*second, nil
	if err := writeTable(&text, all, against); err == nil {
		t.Error("write returned no error for a way that takes a tenth longer")
	}
	all[0].allReady = 20 * second
	if err := writeTable(&text, all, against); err != nil {
		t.Error(err)
	}
}
