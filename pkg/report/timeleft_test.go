package report

import (
	"testing"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/simulate"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// One line says how long the upgrade still takes, how it fails, or why the time is not known.
func TestTimeLeftLineShowsTimeFailureOrReason(t *testing.T) {
	made := func(r TimeLeft, age time.Duration) TimeLeft {
		r.RemainingAsOf = ago(age)
		return r.CountedFrom(now)
	}
	done := func(d time.Duration) simulate.Ending {
		return simulate.Ending{Result: record.Succeeded, After: record.Duration{Duration: d}}
	}
	fails := func(d time.Duration) simulate.Ending {
		return simulate.Ending{Result: record.PodEvictionFailure, After: record.Duration{Duration: d}, Node: "n1", Blocker: "PDB shop/web"}
	}
	rest := func(fast, slow simulate.Ending) TimeLeft {
		return NewTimeLeft(span(fast.After.Duration, slow.After.Duration), fast, slow)
	}
	cases := map[string]struct {
		rest    TimeLeft
		manager string
		want    string
	}{
		"it is known":                    {made(rest(done(3*time.Minute), done(9*time.Minute)), 0), "", "Remaining   3m-9m, if nothing else interferes"},
		"it was forecast a while ago":    {made(rest(done(3*time.Minute), done(9*time.Minute)), 4*time.Minute), "", "Remaining   0s-5m, if nothing else interferes (forecast 4m ago)"},
		"it takes longer":                {made(rest(done(time.Minute), done(2*time.Minute)), 3*time.Minute), "", "Remaining   not known: it takes longer than forecast (forecast 3m ago)"},
		"it is the first forecast":       {TimeLeft{RemainingUnknown: ForecastPending}, "", "Remaining   working it out"},
		"it could not be worked out":     {TimeLeft{RemainingUnknown: "reading the cluster: no"}, "", "Remaining   not known: reading the cluster: no"},
		"nothing is under way":           {TimeLeft{}, "", ""},
		"the cloud gives up":             {made(rest(fails(14*time.Minute), fails(14*time.Minute)), 0), "EKS", "Remaining   EKS gives up in 14m: PodEvictionFailure at node n1 (PDB shop/web)"},
		"it gives up later":              {made(rest(fails(14*time.Minute), fails(14*time.Minute)), time.Minute), "EKS", "Remaining   EKS gives up in 13m: PodEvictionFailure at node n1 (PDB shop/web) (forecast 60s ago)"},
		"the upgrade fails":              {made(rest(fails(14*time.Minute), fails(20*time.Minute)), time.Minute), "", "Remaining   PodEvictionFailure after 13m-19m at node n1 (PDB shop/web) (forecast 60s ago)"},
		"it fails in the slow case":      {made(rest(done(3*time.Minute), fails(14*time.Minute)), 0), "EKS", "Remaining   done after 3m; in the slow case PodEvictionFailure after 14m at node n1 (PDB shop/web)"},
		"a forecast of the next seconds": {TimeLeft{Remaining: simulate.Span{}, RemainingAsOf: now}, "", "Remaining   0s, if nothing else interferes"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := ""
			for _, line := range TimeLeftLines(&c.rest, c.manager, now) {
				got += line
			}
			if got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

func TestForecastChangeInTimesAloneIsNotReported(t *testing.T) {
	known := func(d time.Duration) TimeLeft { return TimeLeft{Remaining: span(d, 2*d), RemainingAsOf: now} }
	fails := func(node string, d time.Duration) TimeLeft {
		end := simulate.Ending{Result: record.PodEvictionFailure, After: record.Duration{Duration: d}, Node: node, Blocker: "PDB shop/web"}
		r := NewTimeLeft(span(d, d), end, end)
		r.RemainingAsOf = now
		return r
	}
	cases := map[string]struct {
		before, now TimeLeft
		want        string
	}{
		"the first one":          {TimeLeft{}, known(time.Minute), "time left: 60s-2m, if nothing else interferes"},
		"other times":            {known(time.Minute), known(time.Hour), ""},
		"it fails":               {known(time.Minute), fails("n1", 14*time.Minute), "time left: PodEvictionFailure after 14m at node n1 (PDB shop/web)"},
		"it fails later":         {fails("n1", time.Minute), fails("n1", 14*time.Minute), ""},
		"at another node":        {fails("n1", time.Minute), fails("n2", time.Minute), "time left: PodEvictionFailure after 60s at node n2 (PDB shop/web)"},
		"no longer":              {fails("n1", time.Minute), known(time.Minute), "time left: 60s-2m, if nothing else interferes"},
		"not known":              {known(time.Minute), TimeLeft{RemainingUnknown: "no right", RemainingAsOf: now}, "time left: not known: no right"},
		"still not known":        {TimeLeft{RemainingUnknown: "no right"}, TimeLeft{RemainingUnknown: "no right"}, ""},
		"for another reason":     {TimeLeft{RemainingUnknown: "no right"}, TimeLeft{RemainingUnknown: "no answer"}, "time left: not known: no answer"},
		"it is being worked out": {TimeLeft{}, TimeLeft{RemainingUnknown: ForecastPending}, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			event, differs := DescribeTimeLeftChange(&c.before, &c.now, "")
			if event.Text != c.want || differs != (c.want != "") {
				t.Errorf("%t, %q, want %q", differs, event.Text, c.want)
			}
		})
	}
}
