package report_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/report"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/simulate"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
)

func TestBestWay(t *testing.T) {
	span := func(d time.Duration) simulate.Span {
		return simulate.Span{Earliest: upgrade.Duration{Duration: d}, Latest: upgrade.Duration{Duration: d}}
	}
	way := func(flags string, of upgrade.Strategy, with func(*report.Way)) report.Way {
		w := report.Way{Flags: flags, Request: upgrade.Request{Strategy: of}, WayForecast: &report.WayForecast{Result: upgrade.Succeeded, Duration: span(time.Hour), ExtraInstanceHours: new(2.0)}}
		if with != nil {
			with(&w)
		}
		return w
	}
	plain := way("plain", upgrade.Surge, nil)
	cases := map[string]struct {
		other report.Way
		fits  upgrade.Strategy
		want  string
	}{
		"the first of two alike":                      {way("other", upgrade.Surge, nil), upgrade.Surge, "plain"},
		"the cheaper one":                             {way("other", upgrade.Surge, func(w *report.Way) { w.ExtraInstanceHours = new(1.0) }), upgrade.Surge, "other"},
		"the shorter one, be it dearer":               {way("other", upgrade.Surge, func(w *report.Way) { w.Duration, w.ExtraInstanceHours = span(time.Minute), new(9.0) }), upgrade.Surge, "other"},
		"less outage, be it longer":                   {way("other", upgrade.Surge, func(w *report.Way) { w.Duration, w.Outage.Duration = span(time.Minute), time.Minute }), upgrade.Surge, "plain"},
		"fewer deleted past budgets":                  {way("other", upgrade.Surge, func(w *report.Way) { w.Duration, w.Forced = span(time.Minute), 1 }), upgrade.Surge, "plain"},
		"one that does not reach the goal":            {way("other", upgrade.Surge, func(w *report.Way) { w.Duration, w.Result = span(time.Minute), upgrade.LeftBehind }), upgrade.Surge, "plain"},
		"one that is refused":                         {way("other", upgrade.Surge, func(w *report.Way) { w.WayForecast, w.Refused = nil, "no room" }), upgrade.Surge, "plain"},
		"the strategy that fits deletes past budgets": {way("other", upgrade.BlueGreen, func(w *report.Way) { w.Forced = 3 }), upgrade.BlueGreen, "plain"},
		"G07 the strategy that fits the pods":         {way("other", upgrade.BlueGreen, func(w *report.Way) { w.Duration = span(9 * time.Hour) }), upgrade.BlueGreen, "other"},
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

// TestBestWayForcesNoPods: a way that deletes pods past their budgets is the best only where each way does.
func TestBestWayForcesNoPods(t *testing.T) {
	left := report.Way{Flags: "left", Request: upgrade.Request{Strategy: upgrade.Surge}, WayForecast: &report.WayForecast{Result: upgrade.LeftBehind}}
	leftForced := left
	leftForced.WayForecast = &report.WayForecast{Result: upgrade.LeftBehind, Forced: 1}
	forced := report.Way{Flags: "forced", Request: upgrade.Request{Strategy: upgrade.Surge}, WayForecast: &report.WayForecast{Result: upgrade.Succeeded, Forced: 3}}
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
		"no way reaches the goal":                     {[]report.Way{left, refused}, "none: no way that is forecast replaces all nodes"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var text bytes.Buffer
			if err := report.WriteComparison(&text, report.NewComparison("workers", upgrade.Surge, "for a reason", c.ways), report.Options{}); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(text.String(), "\nBest        "+c.want) || strings.Count(text.String(), "\nBest ") != 1 {
				t.Errorf("want %s to be the best in\n%s", c.want, text.String())
			}
		})
	}
}
