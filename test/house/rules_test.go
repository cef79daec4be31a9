package house

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/house/rulebook"
)

// rulesPage defines the rules. Code, tests and pages cite them by their ids.
const rulesPage = "docs/internals/rules.md"

// idPattern matches a rule's id. The families with three digits are those of preflight findings. docs/internals/rules.md describes each
// family.
const idPattern = `(?:[EGK][0-9]{2}|[ILS][0-9]{1,2}|` +
	`(?:CAP|IAM|KRP|LB|NG|NS|PDB|POD|PRB|RBAC|REP|STR|SYS|TERM|TSC|VER|WH)[0-9]{3})`

var (
	rowPattern       = regexp.MustCompile(`(?m)^\| (` + idPattern + `) \|(.*)$`)
	citationPattern  = regexp.MustCompile(`\b` + idPattern + `\b`)
	rangePattern     = regexp.MustCompile(`\b([EGIKLS])([0-9]{1,2})[–-]([EGIKLS])([0-9]{1,2})\b`)
	elsewherePattern = regexp.MustCompile(`\bsemantics [0-9]`)
)

// definitionFaults lists the faults of the page's rows that define rules: an id in two rows, or a row without a text or a source.
func definitionFaults(page string) []string {
	seen := map[string]bool{}
	var faults []string
	for _, m := range rowPattern.FindAllStringSubmatch(page, -1) {
		id, cells := m[1], strings.Split(strings.TrimSuffix(m[2], "|"), "|")
		whole := len(cells) == 2 && strings.TrimSpace(cells[0]) != "" && strings.TrimSpace(cells[1]) != ""
		faults = append(faults, failedChecks(
			check{!seen[id], id + " is defined twice"},
			check{whole, id + " needs what it says and its source"},
		)...)
		seen[id] = true
	}
	return faults
}

// definedRules returns the ids that have a row in the page.
func definedRules(page string) map[string]bool {
	defined := map[string]bool{}
	for _, m := range rowPattern.FindAllStringSubmatch(page, -1) {
		defined[m[1]] = true
	}
	return defined
}

// citationFaults lists the ids that a file cites and that are not defined, also in ranges such as K01–K03. It also lists citations of
// sections of a specification outside this repository.
func citationFaults(name, text string, defined map[string]bool) []string {
	var faults []string
	n := 0
	for line := range strings.Lines(text) {
		n++
		for _, id := range citedIDs(line) {
			if !defined[id] {
				faults = append(faults, fmt.Sprintf("%s:%d: %s is not defined in %s", name, n, id, rulesPage))
			}
		}
		if elsewherePattern.MatchString(line) {
			faults = append(faults, fmt.Sprintf("%s:%d: cite an id of %s, not a section of another page", name, n, rulesPage))
		}
	}
	return faults
}

// citedIDs lists the ids that a line cites, each once.
func citedIDs(line string) []string {
	ids := map[string]bool{}
	for _, id := range citationPattern.FindAllString(line, -1) {
		ids[id] = true
	}
	for _, m := range rangePattern.FindAllStringSubmatch(line, -1) {
		first, _ := strconv.Atoi(m[2])
		last, _ := strconv.Atoi(m[4])
		for n := first; m[1] == m[3] && n <= last; n++ {
			ids[fmt.Sprintf("%s%0*d", m[1], len(m[2]), n)] = true
		}
	}
	return slices.Sorted(maps.Keys(ids))
}

// filesThatMayCite lists the files that may cite a rule: Go, Markdown, and the files of testdata folders. Paths are relative to the
// top.
func filesThatMayCite(t *testing.T) []string {
	t.Helper()
	top := repoRoot(t)
	var names []string
	err := filepath.WalkDir(top, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && name != top && strings.HasPrefix(entry.Name(), ".") {
			return filepath.SkipDir
		}
		rel, err := filepath.Rel(top, name)
		if err == nil && entry.Type().IsRegular() && mayCite(filepath.ToSlash(rel)) {
			names = append(names, filepath.ToSlash(rel))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func mayCite(name string) bool {
	return strings.HasSuffix(name, ".go") || strings.HasSuffix(name, ".md") ||
		slices.Contains(strings.Split(name, "/"), "testdata")
}

func TestRulesAreDefinedOnce(t *testing.T) {
	reportFaults(t, definitionFaults(readFile(t, rulesPage)))
}

func TestCitedRulesAreDefined(t *testing.T) {
	defined := definedRules(readFile(t, rulesPage))
	if len(defined) == 0 {
		t.Fatal("no rule is defined: nothing would be checked")
	}
	for _, name := range filesThatMayCite(t) {
		reportFaults(t, citationFaults(name, readFile(t, name), defined))
	}
}

// TestEachRuleHasATestAndAMutant checks that a test and a mutant cite each rule about EKS, GKE and check, or that the page says why this tool does
// not have to follow the rule. "make rules CHECK=1" checks that the tests fail with the mutants.
func TestEachRuleHasATestAndAMutant(t *testing.T) {
	rules, err := rulebook.Read(os.DirFS(repoRoot(t)), rulebook.Families)
	if err != nil || len(rules) == 0 {
		t.Fatalf("read %d rules: %v", len(rules), err)
	}
	for i := range rules {
		if rule := &rules[i]; !rule.IsHeld() {
			t.Errorf("%s: %s, and %s does not say why it is not ours to hold: %s", rule.ID, rule.Verdict(), rulebook.Page, rule.Text)
		}
	}
}

func TestFaultyRuleDefinitionsAreFound(t *testing.T) {
	const good = "| id | rule |\n|---|---|\n| E42 | It ends. | a page |\n| I1 | One at a time. | this project |\n"
	cases := map[string]struct{ page, want string }{
		"good":               {good, ""},
		"an id twice":        {good + "| E42 | It goes. | another page |\n", "E42 is defined twice"},
		"twice in two lists": {good + "\n## More\n\n| I1 | Two. | this project |\n", "I1 is defined twice"},
		"no source":          {"| E42 | It ends. |\n", "E42 needs what it says and its source"},
		"an empty source":    {"| E42 | It ends. | |\n", "E42 needs what it says and its source"},
		"says nothing":       {"| E42 | | a page |\n", "E42 needs what it says and its source"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { checkFaults(t, definitionFaults(c.page), c.want) })
	}
}

func TestCitationsOfUndefinedRulesAreFound(t *testing.T) {
	defined := map[string]bool{"E24": true, "E25": true, "E27": true, "I1": true, "K08": true, "POD001": true}
	cases := map[string]struct{ text, want string }{
		"defined":                     {"// waits (EKS E24, E25).", ""},
		"not defined":                 {"// one\n// two (EKS E42).", "x.go:2: E42 is not defined in docs/internals/rules.md"},
		"in a test's name":            {`"G25 a pause": {},`, "G25 is not defined"},
		"before a colon":              {`t.Errorf("I3: the pod moved")`, "I3 is not defined"},
		"a finding":                   {`Rule: "PDB001",`, "PDB001 is not defined"},
		"cited twice in a line":       {"// E42 and E42 again", "E42 is not defined"},
		"a range":                     {"// (EKS E24–E25)", ""},
		"a range with a gap":          {"// (EKS E24–E27)", "E26 is not defined"},
		"a range with a hyphen":       {"// (EKS E24-E27)", "E26 is not defined"},
		"a section of another page":   {"// (semantics " + "3.2.8)", "cite an id of docs/internals/rules.md"},
		"part of a word":              {"// SHA256, base64 and xE42y", ""},
		"a version":                   {"// v1.36.3, since 1.19", ""},
		"a finding's id in a message": {"// POD001 and K08 hold (I1)", ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { checkFaults(t, citationFaults("x.go", c.text, defined), c.want) })
	}
}

func TestGoSumAndMutantsMayNotCiteRules(t *testing.T) {
	cases := map[string]bool{
		"pkg/upgrade/surge.go":                    true,
		"docs/decisions/README.md":                true,
		"pkg/upgrade/testdata/gke.txt":            true,
		"pkg/plugin/testdata/help/upgrade.golden": true,
		"go.sum": false,
		"test/worlds/mutants/pkg/upgrade/draft.txtar": false,
	}
	for name, want := range cases {
		if got := mayCite(name); got != want {
			t.Errorf("mayCite(%q) = %t, want %t", name, got, want)
		}
	}
}
