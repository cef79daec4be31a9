package report

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/olekukonko/tablewriter/pkg/twwidth"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/preflight"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/simulate"
)

// widths returns common widths of terminals.
func widths() []int { return []int{80, 100, 120, 200} }

// largePlan returns a plan of sixty nodes with long names in three zones.
func largePlan() *Plan {
	p := surgePlan()
	p.Nodes = nil
	for i := range 60 {
		n := surgePlan().Nodes[i%3]
		n.Batch, n.Name, n.Zone = i/2+1, fmt.Sprintf("ip-10-0-%d-%d.eu-central-1.compute.internal", i%3, i), fmt.Sprintf("eu-central-1%c", 'a'+i%3)
		n.Pods, n.Staying = 10+i, 3
		p.Nodes = append(p.Nodes, n)
	}
	return p
}

// longBlockedPlan returns a plan whose sentences and names are longer than a terminal line.
func longBlockedPlan() *Plan {
	p := blockedPlan()
	p.Nodes[0].BlockedBy = []string{"PDB shop/cart can never allow a disruption: it needs every pod that it covers (needs 3 healthy, has 3)"}
	for i := range 3 {
		n := p.Nodes[0]
		n.Name, n.Batch, n.Start = fmt.Sprintf("gke-prod-default-pool-%s-%d", strings.Repeat("x", 30), i), i+2, new(simulate.Span{})
		p.Nodes = append(p.Nodes, n)
	}
	p.Findings = append(p.Findings, preflight.Finding{
		Rule: "POD012", Severity: preflight.Warn, Object: "DaemonSet " + strings.Repeat("very-long-name-", 20) + "節点", Message: strings.Repeat("節点のデーモン", 30),
	})
	return p
}

func someComparison() *Comparison {
	ways := []Way{{Flags: "as asked"}, {Flags: "--max-surge=0"}, {Flags: "--strategy=blue-green --batch=25% --batch-soak=10m"}, {Flags: "--strategy=short-lived", Unforecast: "when the outdated nodes end by themselves is not known"}}
	for i := range ways[:3] {
		ways[i].WayForecast = &WayForecast{Result: "succeeded", Duration: span(time.Duration(i+8)*time.Minute, time.Duration(i+20)*time.Minute), Peak: new(6 * i), ExtraInstanceHours: new(1.5), Evictions: 50}
	}
	return NewComparison("workers", "surge", "all pods can stop within an hour", ways)
}

// No line is wider than the terminal, and no text is lost.
func TestScreensFitTerminalWidth(t *testing.T) {
	for name, write := range screens(t) {
		for _, width := range widths() {
			t.Run(fmt.Sprintf("%s/%d", name, width), func(t *testing.T) {
				var got bytes.Buffer
				if err := write(&got, Options{Now: now, Width: width}); err != nil {
					t.Fatal(err)
				}
				compare(t, filepath.Join("testdata", "screens", fmt.Sprintf("%s-%d.golden", name, width)), got.Bytes())
				for line := range strings.Lines(got.String()) {
					if n := twwidth.Width(strings.TrimSuffix(line, "\n")); n > width {
						t.Errorf("%d cells: %q", n, line)
					}
				}
			})
		}
	}
}

// Colours do not change the text.
func TestColoursKeepTheText(t *testing.T) {
	for name, write := range screens(t) {
		var plain, coloured bytes.Buffer
		if err := write(&plain, Options{Now: now, Width: 100}); err != nil {
			t.Fatal(err)
		}
		if err := write(&coloured, Options{Now: now, Width: 100, Color: true}); err != nil {
			t.Fatal(err)
		}
		text := coloured.String()
		for _, code := range []string{"\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[0m"} {
			text = strings.ReplaceAll(text, code, "")
		}
		if text != plain.String() {
			t.Errorf("%s: without its colours it is\n%s\nwant\n%s", name, text, plain.String())
		}
		if name == "blocked/plan" && !strings.Contains(coloured.String(), "\x1b[31mBlocked\x1b[0m ") {
			t.Errorf("what is blocked is not red:\n%q", coloured.String())
		}
	}
}

func TestTableWithoutHeadersHasOnlyRows(t *testing.T) {
	var with, without bytes.Buffer
	if err := WriteGroups(&with, someGroups(), Options{Now: now}); err != nil {
		t.Fatal(err)
	}
	if err := WriteGroups(&without, someGroups(), Options{Now: now, NoHeaders: true}); err != nil {
		t.Fatal(err)
	}
	_, rows, _ := strings.Cut(with.String(), "\n")
	if got, want := strings.Fields(without.String()), strings.Fields(rows); !slices.Equal(got, want) || strings.Count(without.String(), "\n") != len(someGroups().Items) {
		t.Errorf("got\n%s\nwant\n%s", without.String(), rows)
	}
}

func TestTextIsWrappedAtWords(t *testing.T) {
	cases := map[string]struct {
		text  string
		width int
		want  []string
	}{
		"short":                    {"a b", 5, []string{"a b"}},
		"empty":                    {"", 5, []string{""}},
		"at words":                 {"one two three", 7, []string{"one two", "three"}},
		"a long word":              {"abcdefghij kl", 4, []string{"abcd", "efgh", "ij", "kl"}},
		"at the joints of a name":  {"default/Deployment/mailer", 12, []string{"default/", "Deployment/", "mailer"}},
		"wide characters":          {"節点 節点", 5, []string{"節点", "節点"}},
		"no wider than a cell can": {"節点", 1, []string{"節", "点"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := wrapWords(c.text, c.width); fmt.Sprint(got) != fmt.Sprint(c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
