package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/simulate"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// sampleScenarios returns three scenarios that need little CPU time, so that they pass while other tests run.
func sampleScenarios() []scenario {
	names := []string{"the whole grace period", "random ends without budgets", "gke blue-green"}
	return slices.DeleteFunc(scenarios(seed), func(s scenario) bool { return !slices.Contains(names, s.name) })
}

// TestSampleOfForecastsMatchesUpgrades runs three of the scenarios; "make fidelity" runs all.
func TestSampleOfForecastsMatchesUpgrades(t *testing.T) {
	if testing.Short() {
		t.Skip("it needs a control plane, which -short leaves out")
	}
	all := sampleScenarios()
	if len(all) != 3 {
		t.Fatalf("got %d scenarios, want 3", len(all))
	}
	outcomes, err := runAll(t.Context(), all, len(all))
	if err != nil {
		t.Fatal(err)
	}
	if err := writeTable(t.Output(), outcomes); err != nil {
		t.Fatal(err)
	}
	for i := range outcomes {
		for _, fault := range outcomes[i].faults() {
			t.Errorf("%s: %s", outcomes[i].name, fault)
		}
	}
}

func spanOf(earliest, latest time.Duration) simulate.Span {
	return simulate.Span{Earliest: record.Duration{Duration: earliest}, Latest: record.Duration{Duration: latest}}
}

func TestWrongPredictionsAreListed(t *testing.T) {
	exact := outcome{span: spanOf(40*second, 40*second), predicted: figures{took: 40 * second, evictions: 7, result: record.Succeeded}, measured: figures{took: 40 * second, evictions: 7, result: record.Succeeded}}
	cases := map[string]struct {
		change func(*outcome)
		want   string
	}{
		"as predicted":                  {func(*outcome) {}, ""},
		"a tenth longer":                {func(o *outcome) { o.measured.took = 44 * second }, ""},
		"more than a tenth longer":      {func(o *outcome) { o.measured.took = 45 * second }, "off by more than 10 %"},
		"more than a tenth shorter":     {func(o *outcome) { o.measured.took = 36 * second }, "off by more than 10 %"},
		"an eviction more":              {func(o *outcome) { o.measured.evictions++ }, "evictions differ"},
		"another end":                   {func(o *outcome) { o.measured.result = record.PodEvictionFailure }, `it ends as "PodEvictionFailure", and not as "succeeded"`},
		"another order":                 {func(o *outcome) { o.measured.order = []string{"a"} }, ""},
		"a range where all is known":    {func(o *outcome) { o.span = spanOf(30*second, 40*second) }, "a range where all delays are known"},
		"at random, within the range":   {func(o *outcome) { o.random, o.span = true, spanOf(10*second, 90*second) }, ""},
		"at random, before the range":   {func(o *outcome) { o.random, o.span = true, spanOf(41*second, 90*second) }, "outside the range"},
		"at random, after the range":    {func(o *outcome) { o.random, o.span = true, spanOf(10*second, 39*second) }, "outside the range"},
		"at random, an eviction missed": {func(o *outcome) { o.random, o.measured.evictions = true, 6 }, "evictions differ"},
		"EKS, near the middle":          {func(o *outcome) { o.managed, o.span = true, spanOf(30*second, 46*second) }, ""},
		"EKS, one eviction of seven":    {func(o *outcome) { o.managed, o.measured.evictions = true, 8 }, ""},
		"EKS, two evictions of seven":   {func(o *outcome) { o.managed, o.measured.evictions = true, 9 }, "evictions differ"},
		"EKS, far from the middle":      {func(o *outcome) { o.managed, o.span = true, spanOf(39*second, 60*second) }, "off by more than 15 % of the middle"},
		"EKS, after the range":          {func(o *outcome) { o.managed, o.span = true, spanOf(36*second, 39*second) }, "outside the range"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			o := exact
			c.change(&o)
			if got := strings.Join(o.faults(), "; "); got != c.want {
				t.Errorf("faults %q, want %q", got, c.want)
			}
		})
	}
}

func TestNodesAreSortedByStartOfDrain(t *testing.T) {
	ms := time.Millisecond
	cases := map[string]struct {
		starts []nodeStart
		want   string
	}{
		"none":                        {nil, ""},
		"by time":                     {[]nodeStart{{"b", 3 * second}, {"a", 5 * second}, {"c", 0}}, "c b a"},
		"by name in one step":         {[]nodeStart{{"b", 10 * ms}, {"a", 12 * ms}, {"c", 0}}, "a b c"},
		"a step is no chain of steps": {[]nodeStart{{"c", 0}, {"b", 150 * ms}, {"a", 300 * ms}}, "b c a"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := strings.Join(startOrder(c.starts), " "); got != c.want {
				t.Errorf("order %q, want %q", got, c.want)
			}
		})
	}
}

func TestDrainStartsAreReadFromEvents(t *testing.T) {
	const events = `W1121 a warning of a library
{"time":"2026-03-02T09:00:00Z","group":"g","type":"phase","state":"upgrade","text":"phase upgrade"}
{"time":"2026-03-02T09:00:01Z","group":"g","type":"node","node":"b","state":"draining","text":"node b draining 1 pod"}
{"time":"2026-03-02T09:00:03.5Z","group":"g","type":"node","node":"b","state":"empty","text":"node b empty"}
{"time":"2026-03-02T09:00:04Z","group":"g","type":"node","node":"a","state":"empty","text":"node a empty"}
{"time":"2026-03-02T09:00:05Z","group":"g","type":"node","node":"c","state":"gone","text":"node c is gone"}
`
	if got, want := parseNodeStarts(events), []nodeStart{{"b", 0}, {"a", 3 * second}}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestSameSeedGivesSamePodTerminationTimes checks that equal seeds give equal termination times, and that each time is between 10 and
// 40 % of the grace period.
func TestSameSeedGivesSamePodTerminationTimes(t *testing.T) {
	ends := func(seed uint64) (all []time.Duration) {
		for _, s := range scenarios(seed) {
			for _, w := range s.workloads {
				if s.random {
					all = append(all, w.Gone)
				}
				if s.random && (w.Gone < w.Grace/10 || w.Gone > w.Grace*4/10) {
					t.Errorf("%s: the pods of %s terminate after %s, with a grace period of %s", s.name, w.Name, w.Gone, w.Grace)
				}
			}
		}
		return all
	}
	first := ends(1)
	if len(first) == 0 || !slices.Equal(first, ends(1)) || slices.Equal(first, ends(2)) {
		t.Errorf("the same seed gives different termination times: %v", first)
	}
}

func TestPredictionsAndMeasurementsAreTabulated(t *testing.T) {
	var text bytes.Buffer
	err := writeTable(&text, []outcome{
		{
			name: "exact", span: spanOf(40*second, 40*second), predicted: figures{took: 40 * second, evictions: 7, order: []string{"a"}}, measured: figures{took: 50 * second, evictions: 6, order: []string{"b"}},
		},
		{name: "random", random: true, span: spanOf(10*second, 30*second), predicted: figures{took: 30 * second, evictions: 7}, measured: figures{took: 20 * second, evictions: 7}},
	})
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(text.String()) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	want := []string{
		"SCENARIO PREDICTED RANGE MEASURED RATIO EVICTIONS ORDER VERDICT",
		"exact 40.0s - 50.0s 0.80 7/6 differs off by more than 10 %; evictions differ",
		"random - 10.0s-30.0s 20.0s - 7/7 same ok",
	}
	if !slices.Equal(lines, want) {
		t.Errorf("got\n%s", text.String())
	}
}
