// Package rulebook connects the rules of docs/internals/rules.md with the tests of the product that cite them and with the mutants that
// break them.
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

// scenarios is the folder of the transcripts of upgrades. Each file is a case of TestScenariosPrintExpectedTranscripts.
const scenarios = "pkg/upgrade/testdata"

// manifests is the folder of the test clusters for the rules of check. Each file is a case of TestRulesFindExpectedFaultsInManifests.
// The file's name begins with the id of its rule.
const manifests = "pkg/preflight/testdata/rules"

// Families are the families of rules that need tests and mutants, as a regular expression: the behaviour of EKS and GKE,
// untrusted inputs (S30 and later), and the findings of check.
const Families = "(?:E|G|S3|CAP|IAM|KRP|LB|NG|NS|PDB|POD|PRB|RBAC|REP|STR|SYS|TERM|TSC|VER|WH)"

// Page is the page that defines the rules, each in a row of a table. A line "* E63: why" says why this tool does not have to follow a
// rule.
const Page = "docs/internals/rules.md"

// folders lists the folders of planted bugs: those that the random worlds find, and those that only a rule's tests find.
func folders() []string { return []string{"test/worlds/mutants", "test/house/mutants"} }

// Rule is a rule of the page with its tests and the sorted names of its mutants. Apart is the reason why this tool does not have to
// follow the rule; "" if it has to.
type Rule struct {
	ID, Text, Apart string
	Tests           []Test
	Mutants         []string
	// Broken contains the Tests that fail with one of the mutants. Tried is true after the mutants were run.
	Broken []Test
	Tried  bool
}

// Verdict returns "held", or "not ours" with the reason, or "not held" with what is missing. After the mutants were run, tests count
// only if a mutant breaks one of them.
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

// IsHeld reports whether the rule is held, or this tool does not have to follow it.
func (r *Rule) IsHeld() bool { return !strings.HasPrefix(r.Verdict(), "not held") }

// Read reads the rules of the families, "E" or "[EG]", from the top of a checkout.
func Read(top fs.FS, family string) ([]Rule, error) {
	page, err := fs.ReadFile(top, Page)
	if err != nil {
		return nil, fmt.Errorf("reading the rules: %w", err)
	}
	rules := parseRules(string(page), family)
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
			at[id].addTest(Test{Dir: "pkg/preflight", Name: "TestRulesFindExpectedFaultsInManifests", Case: file})
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

// addMutants adds the mutants to the rules that they cite.
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
			for _, id := range citedIDs(m.What) {
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

func parseRules(page, family string) []Rule {
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

// citedIDs lists the ids that a text cites, each once.
func citedIDs(text string) []string {
	ids := regexp.MustCompile(`\b[A-Z]+[0-9]{1,3}\b`).FindAllString(text, -1)
	slices.Sort(ids)
	return slices.Compact(ids)
}
