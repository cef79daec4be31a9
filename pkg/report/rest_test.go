package report

import (
	"testing"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/simulate"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// TestRestIsTold in one line: how long the rest takes, how it fails, or why that is not known.
func TestRestIsTold(t *testing.T) {
	made := func(r Rest, age time.Duration) Rest {
		r.RemainingAsOf = ago(age)
		return r.At(now)
	}
	done := func(d time.Duration) simulate.Ending {
		return simulate.Ending{Result: record.Succeeded, After: record.Duration{Duration: d}}
	}
	fails := func(d time.Duration) simulate.Ending {
		return simulate.Ending{Result: record.PodEvictionFailure, After: record.Duration{Duration: d}, Node: "n1", Blocker: "PDB shop/web"}
	}
	rest := func(fast, slow simulate.Ending) Rest {
		return NewRest(span(fast.After.Duration, slow.After.Duration), fast, slow)
	}
	cases := map[string]struct {
		rest    Rest
		manager string
		want    string
	}{
		"it is known":                    {made(rest(done(3*time.Minute), done(9*time.Minute)), 0), "", "Remaining   3m-9m, if nothing else interferes"},
		"it was forecast a while ago":    {made(rest(done(3*time.Minute), done(9*time.Minute)), 4*time.Minute), "", "Remaining   0s-5m, if nothing else interferes (forecast 4m ago)"},
		"it takes longer":                {made(rest(done(time.Minute), done(2*time.Minute)), 3*time.Minute), "", "Remaining   not known: it takes longer than forecast (forecast 3m ago)"},
		"it is the first forecast":       {Rest{RemainingUnknown: WorkingItOut}, "", "Remaining   working it out"},
		"it could not be worked out":     {Rest{RemainingUnknown: "reading the cluster: no"}, "", "Remaining   not known: reading the cluster: no"},
		"nothing is under way":           {Rest{}, "", ""},
		"the cloud gives up":             {made(rest(fails(14*time.Minute), fails(14*time.Minute)), 0), "EKS", "Remaining   EKS gives up in 14m: PodEvictionFailure at node n1 (PDB shop/web)"},
		"it gives up later":              {made(rest(fails(14*time.Minute), fails(14*time.Minute)), time.Minute), "EKS", "Remaining   EKS gives up in 13m: PodEvictionFailure at node n1 (PDB shop/web) (forecast 60s ago)"},
		"the upgrade fails":              {made(rest(fails(14*time.Minute), fails(20*time.Minute)), time.Minute), "", "Remaining   PodEvictionFailure after 13m-19m at node n1 (PDB shop/web) (forecast 60s ago)"},
		"it fails in the slow case":      {made(rest(done(3*time.Minute), fails(14*time.Minute)), 0), "EKS", "Remaining   done after 3m; in the slow case PodEvictionFailure after 14m at node n1 (PDB shop/web)"},
		"a forecast of the next seconds": {Rest{Remaining: simulate.Span{}, RemainingAsOf: now}, "", "Remaining   0s, if nothing else interferes"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := ""
			for _, line := range RestLines(&c.rest, c.manager, now) {
				got += line
			}
			if got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// A change of the forecast is worth a line if it is more than a change of times.
func TestDescribeRestChange(t *testing.T) {
	known := func(d time.Duration) Rest { return Rest{Remaining: span(d, 2*d), RemainingAsOf: now} }
	fails := func(node string, d time.Duration) Rest {
		end := simulate.Ending{Result: record.PodEvictionFailure, After: record.Duration{Duration: d}, Node: node, Blocker: "PDB shop/web"}
		r := NewRest(span(d, d), end, end)
		r.RemainingAsOf = now
		return r
	}
	cases := map[string]struct {
		before, now Rest
		want        string
	}{
		"the first one":          {Rest{}, known(time.Minute), "time left: 60s-2m, if nothing else interferes"},
		"other times":            {known(time.Minute), known(time.Hour), ""},
		"it fails":               {known(time.Minute), fails("n1", 14*time.Minute), "time left: PodEvictionFailure after 14m at node n1 (PDB shop/web)"},
		"it fails later":         {fails("n1", time.Minute), fails("n1", 14*time.Minute), ""},
		"at another node":        {fails("n1", time.Minute), fails("n2", time.Minute), "time left: PodEvictionFailure after 60s at node n2 (PDB shop/web)"},
		"no longer":              {fails("n1", time.Minute), known(time.Minute), "time left: 60s-2m, if nothing else interferes"},
		"not known":              {known(time.Minute), Rest{RemainingUnknown: "no right", RemainingAsOf: now}, "time left: not known: no right"},
		"still not known":        {Rest{RemainingUnknown: "no right"}, Rest{RemainingUnknown: "no right"}, ""},
		"for another reason":     {Rest{RemainingUnknown: "no right"}, Rest{RemainingUnknown: "no answer"}, "time left: not known: no answer"},
		"it is being worked out": {Rest{}, Rest{RemainingUnknown: WorkingItOut}, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			event, differs := DescribeRestChange(&c.before, &c.now, "")
			if event.Text != c.want || differs != (c.want != "") {
				t.Errorf("%t, %q, want %q", differs, event.Text, c.want)
			}
		})
	}
}
