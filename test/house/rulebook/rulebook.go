// Package rulebook joins the rules of docs/rules.md with the tests of the product that cite them and with the mutants
// that break them.
package rulebook

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/mutant"
)

// scenarios are the transcripts of upgrades, each file a case of TestScenarios.
const scenarios = "pkg/upgrade/testdata"

// manifests are the clusters that the rules of check find something in, or nothing: each file is the case of TestRules of its name,
// and the rule's whose id it begins with.
const manifests = "pkg/preflight/testdata/rules"

// Families are the families of rules that tests and mutants have to hold, as a regular expression: what EKS and GKE do, what is not
// trusted (S30 and on), and what check finds.
const Families = "(?:E|G|S3|CAP|IAM|LB|NG|PDB|POD|PRB|RBAC|REP|STR|SYS|TERM|TSC|VER|WH)"

// Page defines the rules: a row of a table each. A line "* E63: why" says that a rule is not this tool's to hold.
const Page = "docs/rules.md"

// folders hold the bugs that are planted: those that the random worlds find, and those that a rule's tests find alone.
func folders() []string { return []string{"test/worlds/mutants", "test/house/mutants"} }

// Rule is a rule of the page with what holds it. Mutants are names, sorted; Apart is why it is not ours to hold, ""
// where it is.
type Rule struct {
	ID, Text, Apart string
	Tests           []Test
	Mutants         []string
	// Broken are those of the tests that fail with one of the mutants; Tried tells that they were looked for.
	Broken []Test
	Tried  bool
}

// Verdict is "held", why the rule is not ours, or "not held" and what is missing. A test that no mutant of the rule
// breaks holds nothing.
func (r *Rule) Verdict() string {
	switch {
	case r.Apart != "":
		return "not ours: " + r.Apart
	case len(r.Tests) == 0:
		return "not held: no test cites it"
	case len(r.Mutants) == 0:
		return "not held: no mutant cites it"
	case r.Tried && len(r.Broken) == 0:
		return "not held: the tests that cite it pass with its mutants"
	default:
		return "held"
	}
}

// IsHeld reports whether nothing is missing.
func (r *Rule) IsHeld() bool { return !strings.HasPrefix(r.Verdict(), "not held") }

// Read reads the rules of families, "E" or "[EG]", from the top of a checkout.
func Read(top fs.FS, family string) ([]Rule, error) {
	page, err := fs.ReadFile(top, Page)
	if err != nil {
		return nil, fmt.Errorf("reading the rules: %w", err)
	}
	rules := parse(string(page), family)
	at := map[string]*Rule{}
	for i := range rules {
		at[rules[i].ID] = &rules[i]
	}
	err = fs.WalkDir(top, "pkg", func(name string, _ fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case path.Dir(name) == scenarios:
			return addScenarios(top, name, at)
		case path.Dir(name) == manifests:
			file := strings.TrimSuffix(path.Base(name), ".yaml")
			id, _, _ := strings.Cut(file, ".")
			at[id].add(Test{Dir: "pkg/preflight", Name: "TestRules", Case: file})
		case strings.HasSuffix(name, "_test.go"):
			return addTests(top, name, at)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return rules, addMutants(top, at)
}

// addMutants notes the mutants at the rules that they cite.
func addMutants(top fs.FS, at map[string]*Rule) error {
	for _, folder := range folders() {
		below, err := fs.Sub(top, folder)
		if err != nil {
			return err
		}
		mutants, err := mutant.List(below)
		if err != nil {
			return err
		}
		for _, m := range mutants {
			for _, id := range cited(m.What) {
				if rule := at[id]; rule != nil {
					rule.Mutants = append(rule.Mutants, m.Name)
				}
			}
		}
	}
	for _, rule := range at {
		slices.Sort(rule.Mutants)
	}
	return nil
}

func parse(page, family string) []Rule {
	apart := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^\* ([A-Z]+[0-9]+): (.*)$`).FindAllStringSubmatch(page, -1) {
		apart[m[1]] = m[2]
	}
	var rules []Rule
	for _, m := range regexp.MustCompile(`(?m)^\| (`+family+`[0-9]+) \| ([^|]*) \|`).FindAllStringSubmatch(page, -1) {
		rules = append(rules, Rule{ID: m[1], Text: m[2], Apart: apart[m[1]]})
	}
	return rules
}

// cited lists the ids that a text cites, each once.
func cited(text string) []string {
	ids := regexp.MustCompile(`\b[A-Z]+[0-9]{1,3}\b`).FindAllString(text, -1)
	slices.Sort(ids)
	return slices.Compact(ids)
}
