// Package rulebook joins the rules of docs/rules.md with the tests that hold them and with the mutants that show
// that a test would miss them.
package rulebook

import (
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
)

// Page defines the rules: a row of a table each. A line "* E63: why" says that a rule is not this tool's to hold.
const Page = "docs/rules.md"

// mutants is the folder of the bugs that are planted.
const mutants = "test/worlds/mutants/"

// Rule is a rule of the page with what holds it. Tests are files, Mutants names, both sorted; Apart is why it is
// not ours to hold, "" where it is.
type Rule struct {
	ID, Text, Apart string
	Tests, Mutants  []string
}

// Verdict is "held", why the rule is not ours, or "not held".
func (r *Rule) Verdict() string {
	switch {
	case len(r.Tests) > 0:
		return "held"
	case r.Apart != "":
		return "not ours: " + r.Apart
	default:
		return "not held"
	}
}

// Read reads the rules of a family, "E", from the top of a checkout.
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
	err = fs.WalkDir(top, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != "." && strings.HasPrefix(entry.Name(), "."):
			return fs.SkipDir
		case entry.IsDir():
			return nil
		}
		return addCitations(top, name, at)
	})
	return rules, err
}

// addCitations notes a file at the rules that it cites, as a test of theirs or as a mutant.
func addCitations(top fs.FS, name string, at map[string]*Rule) error {
	inWorlds := strings.HasPrefix(name, "test/worlds/") && strings.HasSuffix(name, ".go")
	mutant, isMutant := strings.CutPrefix(name, mutants)
	if !inWorlds && !isMutant && !isTest(name) {
		return nil
	}
	text, err := fs.ReadFile(top, name)
	if err != nil {
		return fmt.Errorf("reading what cites rules: %w", err)
	}
	for _, id := range cited(string(text), inWorlds && !isTest(name)) {
		switch rule := at[id]; {
		case rule == nil:
		case isMutant:
			rule.Mutants = append(rule.Mutants, strings.TrimSuffix(mutant, ".txt"))
		default:
			rule.Tests = append(rule.Tests, name)
		}
	}
	return nil
}

// isTest reports whether the file is a test's or of its data. Those of the house are about the page itself.
func isTest(name string) bool {
	test := strings.HasSuffix(name, "_test.go") || slices.Contains(strings.Split(name, "/"), "testdata")
	return test && !strings.HasPrefix(name, "test/house/")
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

// cited lists the ids that a text cites, each once. Of the random worlds only those count that a world fails by:
// what their cloud does follows rules, too.
func cited(text string, failing bool) []string {
	pattern := `\b[A-Z]+[0-9]{1,3}\b`
	if failing {
		pattern = `\.fail\("[A-Z]+[0-9]{1,3}"`
	}
	ids := regexp.MustCompile(pattern).FindAllString(text, -1)
	for i, id := range ids {
		ids[i] = strings.Trim(strings.TrimPrefix(id, ".fail("), `"`)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}
