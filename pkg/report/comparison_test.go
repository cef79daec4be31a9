package report_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/report"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/simulate"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

func TestComparisonChoosesBestStrategy(t *testing.T) {
	span := func(d time.Duration) simulate.Span {
		return simulate.Span{Earliest: record.Duration{Duration: d}, Latest: record.Duration{Duration: d}}
	}
	way := func(flags string, of record.Strategy, with func(*report.Way)) report.Way {
		w := report.Way{Flags: flags, Request: record.Request{Strategy: of}, WayForecast: &report.WayForecast{Result: record.Succeeded, Duration: span(time.Hour), ExtraInstanceHours: new(2.0)}}
		if with != nil {
			with(&w)
		}
		return w
	}
	plain := way("plain", record.Surge, nil)
	cases := map[string]struct {
		other report.Way
		fits  record.Strategy
		want  string
	}{
		"the first of two alike":                      {way("other", record.Surge, nil), record.Surge, "plain"},
		"the cheaper one":                             {way("other", record.Surge, func(w *report.Way) { w.ExtraInstanceHours = new(1.0) }), record.Surge, "other"},
		"the shorter one, be it dearer":               {way("other", record.Surge, func(w *report.Way) { w.Duration, w.ExtraInstanceHours = span(time.Minute), new(9.0) }), record.Surge, "other"},
		"less outage, be it longer":                   {way("other", record.Surge, func(w *report.Way) { w.Duration, w.Outage.Duration = span(time.Minute), time.Minute }), record.Surge, "plain"},
		"fewer deleted past budgets":                  {way("other", record.Surge, func(w *report.Way) { w.Duration, w.Forced = span(time.Minute), 1 }), record.Surge, "plain"},
		"one that does not reach the goal":            {way("other", record.Surge, func(w *report.Way) { w.Duration, w.Result = span(time.Minute), record.LeftBehind }), record.Surge, "plain"},
		"one that is refused":                         {way("other", record.Surge, func(w *report.Way) { w.WayForecast, w.Refused = nil, "no room" }), record.Surge, "plain"},
		"the strategy that fits deletes past budgets": {way("other", record.BlueGreen, func(w *report.Way) { w.Forced = 3 }), record.BlueGreen, "plain"},
		"G07 the strategy that fits the pods":         {way("other", record.BlueGreen, func(w *report.Way) { w.Duration = span(9 * time.Hour) }), record.BlueGreen, "other"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			comparison := report.NewComparison("workers", c.fits, "for a reason", []report.Way{plain, c.other})
			var text bytes.Buffer
			if err := report.WriteComparison(&text, comparison, report.Options{}); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(text.String(), "\nBest        "+c.want+":") {
				t.Errorf("want %s to be the best in\n%s", c.want, text.String())
			}
		})
	}
}

// The best way may be one that deletes pods at their timeout. The comparison says so even if the forecast
// deletes none.
func TestComparisonNotesThatBestStrategyDeletesPods(t *testing.T) {
	forces := report.Way{
		Flags: "--like=gke", Request: record.Request{Strategy: record.Surge, OnTimeout: record.Force, DrainTimeout: record.Duration{Duration: time.Hour}},
		WayForecast: &report.WayForecast{Result: record.Succeeded},
	}
	var text bytes.Buffer
	if err := report.WriteComparison(&text, report.NewComparison("workers", record.Surge, "for a reason", []report.Way{forces}), report.Options{}); err != nil {
		t.Fatal(err)
	}
	if want := "\nDeletes     pods that are still on their node after 60m, even against their budget (0 in this forecast)\n"; !strings.Contains(text.String(), want) {
		t.Errorf("want %q in\n%s", want, text.String())
	}
}

// A way that deletes pods against their budgets is the best only if every way does.
func TestBestStrategyDeletesNoPodsAgainstBudgets(t *testing.T) {
	left := report.Way{Flags: "left", Request: record.Request{Strategy: record.Surge}, WayForecast: &report.WayForecast{Result: record.LeftBehind}}
	leftForced := left
	leftForced.WayForecast = &report.WayForecast{Result: record.LeftBehind, Forced: 1}
	forced := report.Way{Flags: "forced", Request: record.Request{Strategy: record.Surge}, WayForecast: &report.WayForecast{Result: record.Succeeded, Forced: 3}}
	refused := report.Way{Flags: "refused", Refused: "no room"}
	unknown := report.Way{Flags: "unknown", Unforecast: "not known"}
	cases := map[string]struct {
		ways []report.Way
		want string
	}{
		"a way that leaves nodes behind forces none": {[]report.Way{left, forced}, "none: each way that replaces all nodes deletes pods"},
		"each way forces": {[]report.Way{leftForced, forced}, "forced:"},
		"what is refused forces none, and is no way":  {[]report.Way{refused, forced}, "forced:"},
		"what is not known forces none that is known": {[]report.Way{unknown, forced}, "forced:"},
		"no way reaches the goal":                     {[]report.Way{left, refused}, "none: no forecast replaces all nodes"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var text bytes.Buffer
			if err := report.WriteComparison(&text, report.NewComparison("workers", record.Surge, "for a reason", c.ways), report.Options{}); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(text.String(), "\nBest        "+c.want) || strings.Count(text.String(), "\nBest ") != 1 {
				t.Errorf("want %s to be the best in\n%s", c.want, text.String())
			}
		})
	}
}

// A comparison in which no way has a forecast has no table. It says why.
func TestComparisonWithoutForecastsHasNoTable(t *testing.T) {
	waits := report.Way{Flags: "as asked", Unforecast: "it would wait for a node"}
	cases := map[string]struct {
		other report.Way
		want  string
	}{
		"one reason":  {report.Way{Flags: "--max-surge=0", Unforecast: "it would wait for a node"}, "No way could be forecast: it would wait for a node\n"},
		"two reasons": {report.Way{Flags: "--max-surge=0", Refused: "--max-surge=0: no room"}, "No way could be forecast: the reason for each way is below\n"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			comparison := report.NewComparison("workers", record.Surge, "for a reason", []report.Way{waits, c.other})
			var text bytes.Buffer
			if err := report.WriteComparison(&text, comparison, report.Options{}); err != nil {
				t.Fatal(err)
			}
			if got := text.String(); !strings.HasPrefix(got, c.want) || strings.Contains(got, "TAKES") || !strings.Contains(got, "\nNot known   as asked: it would wait for a node\n") {
				t.Errorf("got\n%s", got)
			}
		})
	}
}
