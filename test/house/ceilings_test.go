package house

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/house/measure"
)

var update = flag.Bool("update", false, "lower the ceilings of known exceptions to what is there now")

// ceilingsFile lists what is known to break a rule of rules(), and how far it does.
const ceilingsFile = "test/house/testdata/ceilings.txt"

// subject is what a rule counts something of: a type or a package's folder.
type subject struct{ rule, name string }

// rules maps what is counted to the most there may be of it.
func rules() map[string]int {
	return map[string]int{
		"methods":           measure.MaxMethods,
		"fields":            measure.MaxFields,
		"one-word-methods":  0, // unexported ones, of a type with more than measure.OneWordMethods methods
		"comments-too-wide": 0, // lines over measure.MaxColumns
	}
}

// broken counts what breaks a rule in product code.
func broken(packages []*measure.Package) map[subject]int {
	found := map[subject]int{}
	note := func(rule, name string, n int) {
		if n > rules()[rule] {
			found[subject{rule, name}] = n
		}
	}
	for _, p := range packages {
		wide := 0
		for _, file := range p.Files {
			wide += file.Text().Wide()
		}
		note("comments-too-wide", p.Dir, wide)
		for _, t := range p.Types() {
			note("methods", t.Name, t.Methods)
			note("fields", t.Name, t.Fields)
			if t.Methods > measure.OneWordMethods {
				note("one-word-methods", t.Name, t.OneWord)
			}
		}
	}
	return found
}

// ceilingFaults lists what breaks a rule further than it may, and the exceptions
// that nothing needs any more: the list may only shrink.
func ceilingFaults(found, ceilings map[subject]int) []string {
	var faults []string
	for s, n := range found {
		if most := max(ceilings[s], rules()[s.rule]); n > most {
			faults = append(faults, fmt.Sprintf("%s: %d %s, at most %d", s.name, n, s.rule, most))
		}
	}
	for s := range ceilings {
		if found[s] == 0 {
			faults = append(faults, fmt.Sprintf("%s: the exception from the rule %s is no longer needed: run go test ./test/house -update", s.name, s.rule))
		}
	}
	slices.Sort(faults)
	return faults
}

// lowered are the ceilings that are still needed, none higher than it was.
func lowered(found, ceilings map[subject]int) map[subject]int {
	low := map[subject]int{}
	for s, most := range ceilings {
		if n := min(found[s], most); n > 0 {
			low[s] = n
		}
	}
	return low
}

// parseCeilings reads lines of a rule, a name and a number.
func parseCeilings(text string) (map[subject]int, error) {
	ceilings := map[subject]int{}
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		var s subject
		var most int
		if _, err := fmt.Sscan(line, &s.rule, &s.name, &most); err != nil {
			return nil, fmt.Errorf("%q is not a rule, a name and a number: %w", line, err)
		}
		if _, ok := rules()[s.rule]; !ok {
			return nil, fmt.Errorf("%q: there is no rule %s", line, s.rule)
		}
		ceilings[s] = most
	}
	return ceilings, nil
}

func formatCeilings(ceilings map[subject]int) string {
	lines := "# What breaks a rule of test/house/ceilings_test.go today, and how far it may. Numbers go down and lines go\n" +
		"# away with go test ./test/house -update; nothing is added.\n"
	sorted := slices.SortedFunc(maps.Keys(ceilings), func(a, b subject) int {
		return cmp.Or(cmp.Compare(a.rule, b.rule), cmp.Compare(a.name, b.name))
	})
	for _, s := range sorted {
		lines += fmt.Sprintf("%-18s %-26s %d\n", s.rule, s.name, ceilings[s])
	}
	return lines
}

func TestTypesNamesAndCommentsStayWithinLimits(t *testing.T) {
	packages, err := measure.Load(os.DirFS(root(t)))
	if err != nil {
		t.Fatal(err)
	}
	if len(packages) == 0 {
		t.Fatal("no package found: nothing would be checked")
	}
	ceilings, err := parseCeilings(read(t, ceilingsFile))
	if err != nil {
		t.Fatal(err)
	}
	found := broken(packages)
	if *update {
		ceilings = lowered(found, ceilings)
		name := filepath.Join(root(t), filepath.FromSlash(ceilingsFile))
		if err := os.WriteFile(name, []byte(formatCeilings(ceilings)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	report(t, ceilingFaults(found, ceilings))
	for _, p := range packages {
		if under(p.Dir, "pkg/upgrade") {
			report(t, upwardFaults(p.Dir, p.Graph()))
		}
	}
}

// upwardFaults lists the files of a package more than a tenth of whose arrows lead up: what they
// share belongs into a file below them.
func upwardFaults(dir string, g measure.Graph) []string {
	var faults []string
	for i, room := range g.Rooms {
		if 10*g.Up[i] > g.Arrows[i] {
			faults = append(faults, fmt.Sprintf("%s/%s uses %d files above it of %d (make house)", dir, room, g.Up[i], g.Arrows[i]))
		}
	}
	return faults
}

func TestUpwardRule(t *testing.T) {
	cases := map[string]struct {
		arrows, up int
		want       string
	}{
		"a file that uses none": {0, 0, ""},
		"a tenth":               {10, 1, ""},
		"more than a tenth":     {9, 1, "pkg/a/b.go uses 1 files above it of 9"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			g := measure.Graph{Rooms: []string{"b.go"}, Arrows: []int{c.arrows}, Up: []int{c.up}}
			want(t, upwardFaults("pkg/a", g), c.want)
		})
	}
}

func TestCeilingRule(t *testing.T) {
	cases := map[string]struct {
		found    int
		ceilings string
		want     string
		low      string
	}{
		"within the limit":          {0, "", "", ""},
		"above it":                  {41, "", "pkg/a.T: 41 methods, at most 40", ""},
		"known":                     {50, "methods pkg/a.T 50", "", "methods pkg/a.T 50"},
		"better than known":         {45, "methods pkg/a.T 50", "", "methods pkg/a.T 45"},
		"worse than known":          {51, "methods pkg/a.T 50", "51 methods, at most 50", "methods pkg/a.T 50"},
		"no longer needed":          {0, "methods pkg/a.T 50", "no longer needed: run", ""},
		"an exception of another":   {41, "methods pkg/a.T 41\nmethods pkg/b.T 41", "pkg/b.T: the exception", "methods pkg/a.T 41"},
		"a ceiling below the limit": {41, "methods pkg/a.T 3", "at most 40", "methods pkg/a.T 3"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			found := map[subject]int{}
			if c.found > 0 {
				found[subject{"methods", "pkg/a.T"}] = c.found
			}
			ceilings, low := mustParseCeilings(t, c.ceilings), mustParseCeilings(t, c.low)
			want(t, ceilingFaults(found, ceilings), c.want)
			if got := lowered(found, ceilings); !maps.Equal(got, low) {
				t.Errorf("lowered to %v, want %v", got, low)
			}
		})
	}
}

func TestBrokenRules(t *testing.T) {
	methods := func(n int) string {
		text := "func (t *T) x() {}\n"
		for i := range n - 1 {
			text += fmt.Sprintf("func (t *T) Of%c%c() {}\n", 'A'+i/26, 'a'+i%26)
		}
		return text
	}
	fields := func(n int) string { return "type T struct {" + strings.Repeat(" _ int;", n) + "}\n" }
	cases := map[string]struct {
		text string
		want map[subject]int
	}{
		"at every limit":     {fields(25) + methods(20) + "// " + strings.Repeat("x", 97), nil},
		"a field above":      {fields(26), map[subject]int{{"fields", "pkg/a.T"}: 26}},
		"a method above":     {fields(0) + methods(41), map[subject]int{{"methods", "pkg/a.T"}: 41, {"one-word-methods", "pkg/a.T"}: 1}},
		"one word of 21":     {fields(0) + methods(21), map[subject]int{{"one-word-methods", "pkg/a.T"}: 1}},
		"a comment too wide": {"// " + strings.Repeat("x", 98), map[subject]int{{"comments-too-wide", "pkg/a"}: 1}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			packages, err := measure.Load(fstest.MapFS{
				"go.mod":     {Data: []byte("module m\n")},
				"pkg/a/a.go": {Data: []byte("package a\n\n" + c.text)},
			})
			if err != nil {
				t.Fatal(err)
			}
			if got := broken(packages); !maps.Equal(got, c.want) {
				t.Errorf("broken %v, want %v", got, c.want)
			}
		})
	}
}

func TestCeilingsAreReadAsWritten(t *testing.T) {
	ceilings := map[subject]int{{"methods", "pkg/a.T"}: 41, {"fields", "pkg/a.T"}: 26}
	if got := mustParseCeilings(t, formatCeilings(ceilings)); !maps.Equal(got, ceilings) {
		t.Errorf("read %v, want %v", got, ceilings)
	}
	for _, line := range []string{"methods pkg/a.T", "methods pkg/a.T many", "letters pkg/a.T 3"} {
		if _, err := parseCeilings(line); err == nil {
			t.Errorf("%q was read, want an error", line)
		}
	}
}

func mustParseCeilings(t *testing.T, text string) map[subject]int {
	t.Helper()
	ceilings, err := parseCeilings(text)
	if err != nil {
		t.Fatal(err)
	}
	return ceilings
}
