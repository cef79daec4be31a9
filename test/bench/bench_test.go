package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/controlplane"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/fixture"
)

func TestShortestDrainTimeDependsOnWindowAndWorkloads(t *testing.T) {
	workload := fixture.Workload{Replicas: 8, Ready: 2 * second, Gone: 3 * second}
	with := func(change func(*fixture.Workload)) []fixture.Workload {
		changed := workload
		change(&changed)
		return []fixture.Workload{workload, changed}
	}
	cases := map[string]struct {
		nodes, window int
		workloads     []fixture.Workload
		want          time.Duration
	}{
		"the window decides":            {24, 4, with(func(w *fixture.Workload) { w.MaxUnavailable = "1" }), 18 * second},
		"a turn that is not full":       {5, 4, with(func(*fixture.Workload) {}), 6 * second},
		"the slowest pod":               {4, 4, with(func(w *fixture.Workload) { w.Gone = 7 * second }), 7 * second},
		"a budget decides":              {4, 4, with(func(w *fixture.Workload) { w.MaxUnavailable = "1" }), 16 * second},
		"all but one needed":            {4, 4, with(func(w *fixture.Workload) { w.MinAvailable = "7" }), 16 * second},
		"half":                          {4, 4, with(func(w *fixture.Workload) { w.MinAvailable, w.Ready = "50%", 5*second }), 10 * second},
		"a share rounded up":            {4, 4, with(func(w *fixture.Workload) { w.MaxUnavailable = "30%" }), 6 * second},
		"a budget that lets nothing go": {4, 4, with(func(w *fixture.Workload) { w.MinAvailable = "8" }), 3 * second},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := floorOfDrain(c.nodes, c.window, c.workloads).time; got != c.want {
				t.Errorf("floor %s, want %s", got, c.want)
			}
		})
	}
}

func TestShortestUpgradeTimeDependsOnSurgeAndWindow(t *testing.T) {
	cases := map[string]struct {
		surge, window int
		want          time.Duration
	}{
		"machines are awaited one by one": {1, 1, 1500 * second},
		"surge and drains alike":          {3, 3, 600 * second},
		"drains are awaited one by one":   {6, 1, 420 * second},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := cloudFloor(10, c.surge, c.window, 120*second, 30*second).time; got != c.want {
				t.Errorf("floor %s, want %s", got, c.want)
			}
		})
	}
}

func TestRequestsAreCountedByKind(t *testing.T) {
	var r requests
	for _, e := range []controlplane.Event{
		{Verb: "create", ObjectRef: controlplane.ObjectRef{Resource: "pods", Subresource: "eviction"}, ResponseStatus: controlplane.ResponseStatus{Code: 429}},
		{Verb: "create", ObjectRef: controlplane.ObjectRef{Resource: "pods", Subresource: "eviction"}, ResponseStatus: controlplane.ResponseStatus{Code: 201}},
		{Verb: "get", ObjectRef: controlplane.ObjectRef{Resource: "pods", Name: "web-0"}},
		{Verb: "list", ObjectRef: controlplane.ObjectRef{Resource: "pods"}},
		{Verb: "watch", ObjectRef: controlplane.ObjectRef{Resource: "nodes"}},
		{Verb: "patch", ObjectRef: controlplane.ObjectRef{Resource: "nodes"}},
		{Verb: "update", ObjectRef: controlplane.ObjectRef{Resource: "leases"}},
	} {
		r.countRequest(&e)
	}
	want := requests{all: 7, evictions: 2, refused: 1, get: 1, list: 1, watch: 1, write: 2, pods: 1, leaseAndRecord: 1, other: 4}
	if r != want {
		t.Errorf("got %+v, want %+v", r, want)
	}
}

func TestTimeUntilReportOfBlockedNodeIsMeasured(t *testing.T) {
	const began = `W1121 a warning of a library
{"time":"2026-03-02T09:00:00Z","type":"node","node":"other","state":"draining","text":"node other draining 1 pod"}
{"time":"2026-03-02T09:00:01Z","type":"node","node":"n1","state":"draining","text":"node n1 draining 1 pod"}
`
	const text = `"text":"node n1 waits: pod default/broken-1: PDB default/broken allows no disruption (needs 7 healthy, has 0): repair"}`
	cases := map[string]struct {
		events string
		want   time.Duration
	}{
		"said":             {began + `{"time":"2026-03-02T09:00:04Z","type":"blocked","node":"n1",` + text, 3 * second},
		"never":            {began, neverExplained},
		"of another node":  {began + `{"time":"2026-03-02T09:00:04Z","type":"blocked","node":"other",` + text, neverExplained},
		"of another event": {began + `{"time":"2026-03-02T09:00:04Z","type":"note","node":"n1",` + text, neverExplained},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := timeToExplanation(c.events, map[string]bool{"n1": true}, "broken"); got != c.want {
				t.Errorf("after %s, want %s", got, c.want)
			}
		})
	}
}

func TestFiguresAndTargetsAreTabulated(t *testing.T) {
	figureOf := func(way string, took time.Duration, evictions int) figure {
		return figure{way: way, ended: ended{took: took, cpu: second}, requests: requests{all: 100, evictions: evictions, refused: 2, other: 40}, busy: -1}
	}
	sc := &scenario{
		name: "small", title: "one", nodes: 4, floor: floor{"nodes", 10 * second}, workloads: []fixture.Workload{{Replicas: 10}},
		targets: []target{floorTarget(1.2), rivalTarget(oneByOne, 0.3), rivalTarget(fourAtOnce, 0.5)},
	}
	var text bytes.Buffer
	if err := (&result{sc, []figure{figureOf(oneByOne.way, 40*second, 20), figureOf(toolName, 12*second, 11)}}).write(&text); err != nil {
		t.Fatal(err)
	}
	want := `
small: one
floor = nodes = 10s

WAY TIME TO-FLOOR TO-1 OTHERS EVICTIONS PER-POD 429S GET ONE-POD LIST WATCH WRITE LEASE+RECORD
1 kubectl drain, one by one 40.0s 4.00 1.00 - 20 2.00 2.0% 0 0 0 0 0 0
2 kubectl nodeupgrade 12.0s 1.20 0.30 - 11 1.10 2.0% 0 0 0 0 0 0

CPU time during each way

WAY TOOL API-SERVER ETCD CONTROLLERS SCHEDULER KWOK MACHINE-BUSY
1 kubectl drain, one by one 1.0s - - - - - -
2 kubectl nodeupgrade 1.0s - - - - - -

TARGET AT-MOST MEASURED VERDICT
time to floor 1.20 1.20 met
time to kubectl drain, one by one 0.30 0.30 met
time to xargs -P 4 kubectl drain 0.50 - unknown
evictions per pod 1.01 1.10 missed
share of answers 429, in % 1.00 2.00 missed
other requests per node, except 40 4.00 0.00 met
gets of single pods 0.00 0.00 met
`
	if got := collapseSpaces(text.String()); got != want {
		t.Errorf("got\n%s", got)
	}
}

// collapseSpaces replaces the spaces between the columns with one space.
func collapseSpaces(table string) string {
	var text strings.Builder
	for line := range strings.Lines(table) {
		text.WriteString(strings.Join(strings.Fields(line), " ") + "\n")
	}
	return text.String()
}
