package house

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// decisionFaults lists the decision records that the index does not link, the links without a target, and the numbers that are
// used twice. names are the names of the folder's files.
func decisionFaults(index string, names []string) []string {
	link := regexp.MustCompile(`\]\(([0-9]{4}-[^)]*\.md)\)`)
	var linked []string
	for _, m := range link.FindAllStringSubmatch(index, -1) {
		linked = append(linked, m[1])
	}
	var faults []string
	numbers := map[string]bool{}
	for _, name := range names {
		number, _, _ := strings.Cut(name, "-")
		faults = append(faults, failedChecks(
			check{slices.Contains(linked, name), name + " is not in the index"},
			check{!numbers[number], name + " has a number that is taken"},
		)...)
		numbers[number] = true
	}
	for _, name := range linked {
		faults = append(faults, failedChecks(check{slices.Contains(names, name), "the index links " + name + ", which is not there"})...)
	}
	return faults
}

func TestDecisionIndexListsEachDecision(t *testing.T) {
	const folder = "docs/decisions"
	found, err := filepath.Glob(filepath.Join(repoRoot(t), folder, "[0-9][0-9][0-9][0-9]-*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range found {
		found[i] = filepath.Base(found[i])
	}
	reportFaults(t, decisionFaults(readFile(t, folder+"/README.md"), found))
}

func TestFaultsInDecisionIndexAreFound(t *testing.T) {
	cases := map[string]struct {
		index string
		names []string
		want  string
	}{
		"in step":        {"[a](0001-a.md)", []string{"0001-a.md"}, ""},
		"not in index":   {"", []string{"0001-a.md"}, "0001-a.md is not in the index"},
		"dead link":      {"[a](0001-a.md)", nil, "which is not there"},
		"a number twice": {"[a](0001-a.md) [b](0001-b.md)", []string{"0001-a.md", "0001-b.md"}, "0001-b.md has a number that is taken"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { checkFaults(t, decisionFaults(c.index, c.names), c.want) })
	}
}
