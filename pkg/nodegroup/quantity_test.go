package nodegroup_test

import (
	"strings"
	"testing"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

func TestQuantitiesAreParsedFromText(t *testing.T) {
	cases := map[string]struct {
		text string
		want nodegroup.Quantity
		err  string
	}{
		"a number":               {"2", nodegroup.Quantity{N: 2}, ""},
		"none (GKE G10)":         {"0", nodegroup.Quantity{}, ""},
		"over what EKS allows":   {"101", nodegroup.Quantity{N: 101}, ""}, // it is allowed as a surge
		"a percentage":           {"10%", nodegroup.Quantity{N: 10, Percent: true}, ""},
		"E07 the least":          {"1%", nodegroup.Quantity{N: 1, Percent: true}, ""},
		"E07 the most":           {"100%", nodegroup.Quantity{N: 100, Percent: true}, ""},
		"per zone (GKE G10)":     {"2/zone", nodegroup.Quantity{N: 2, PerZone: true}, ""},
		"E07 no percent":         {"0%", nodegroup.Quantity{}, "from 1% to 100%"},
		"E07 more than all":      {"101%", nodegroup.Quantity{}, "from 1% to 100%"},
		"a fraction":             {"1.5", nodegroup.Quantity{}, "write 2, 10% or 2/zone"},
		"a sign":                 {"-1", nodegroup.Quantity{}, "not a number of nodes"},
		"a plus":                 {"+1", nodegroup.Quantity{}, "not a number of nodes"},
		"nothing":                {"", nodegroup.Quantity{}, "not a number of nodes"},
		"only a percent sign":    {"%", nodegroup.Quantity{}, "not a number of nodes"},
		"only a zone":            {"/zone", nodegroup.Quantity{}, "not a number of nodes"},
		"space":                  {" 2", nodegroup.Quantity{}, "not a number of nodes"},
		"percent per zone":       {"10%/zone", nodegroup.Quantity{}, "not a number of nodes"},
		"per zone in percent":    {"2/zone%", nodegroup.Quantity{}, "not a number of nodes"},
		"more than a count":      {"4294967296", nodegroup.Quantity{}, "not a number of nodes"},
		"a number in other text": {"2 nodes", nodegroup.Quantity{}, "not a number of nodes"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := nodegroup.ParseQuantity(c.text)
			checkError(t, err, c.err)
			if got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
			if err == nil && got.String() != c.text {
				t.Errorf("String returns %q, want %q", got, c.text)
			}
		})
	}
}

func TestMaxUnavailableIsResolvedToNumberOfNodes(t *testing.T) {
	cases := map[string]struct {
		text  string
		nodes int
		want  int
		err   string
	}{
		"E05 one":                          {"1", 9, 1, ""},
		"E06 the most":                     {"100", 9, 100, ""},
		"E06 too many":                     {"101", 500, 0, "more than the limit of 100"},
		"E08 a third of ten":               {"33%", 10, 3, ""},
		"E08 is rounded down":              {"50%", 5, 2, ""},
		"E08 is one at least":              {"10%", 3, 1, ""},
		"E08 of no nodes":                  {"10%", 0, 1, ""},
		"E07 all of them":                  {"100%", 7, 7, ""},
		"E07 a percentage is at most 100":  {"50%", 1000, 100, ""},
		"a zone has no say in unavailable": {"1/zone", 9, 0, "whole group"},
		"GKE none":                         {"0", 9, 0, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := quantity(t, c.text).ResolveUnavailable(c.nodes)
			checkError(t, err, c.err)
			if got != c.want {
				t.Errorf("got %d, want %d", got, c.want)
			}
		})
	}
}

func TestSurgeIsResolvedToNumberOfNodes(t *testing.T) {
	cases := map[string]struct {
		text         string
		nodes, zones int
		want         int
	}{
		"a number":              {"4", 10, 3, 4},
		"per zone":              {"1/zone", 10, 3, 3},
		"a percentage":          {"20%", 10, 3, 2},
		"a percentage is up":    {"10%", 11, 3, 2},
		"a percentage of none":  {"10%", 0, 3, 0},
		"per zone without zone": {"2/zone", 10, 0, 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := quantity(t, c.text).ResolveSurge(c.nodes, c.zones); got != c.want {
				t.Errorf("got %d, want %d", got, c.want)
			}
		})
	}
}

func FuzzParseQuantity(f *testing.F) {
	for _, text := range []string{"1", "100", "101", "1%", "100%", "0%", "2/zone", "1.5", "-1", "", "%", "/zone", "007", "99999999999"} {
		f.Add(text, 7)
	}
	f.Fuzz(func(t *testing.T, text string, nodes int) {
		q, err := nodegroup.ParseQuantity(text)
		if err != nil {
			return
		}
		again, err := nodegroup.ParseQuantity(q.String())
		if err != nil || again != q {
			t.Errorf("%q is parsed as %+v, whose String %q is parsed as %+v, %v", text, q, q, again, err)
		}
		nodes = max(0, nodes%10_000)
		n, err := q.ResolveUnavailable(nodes)
		if q.Percent && (err != nil || n < 1 || n > nodegroup.MaxParallel) {
			t.Errorf("%q of %d nodes is %d unavailable, %v", text, nodes, n, err)
		}
		if err == nil && (n < 0 || n > nodegroup.MaxParallel) {
			t.Errorf("%q of %d nodes is %d unavailable", text, nodes, n)
		}
	})
}

func quantity(t *testing.T, text string) nodegroup.Quantity {
	t.Helper()
	q, err := nodegroup.ParseQuantity(text)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// checkError checks that the error contains the text, or is nil if the text is empty.
func checkError(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("unexpected error: %v", err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("got error %v, want one that contains %q", err, want)
	}
}
