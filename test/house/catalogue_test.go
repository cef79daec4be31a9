package house

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/preflight"
)

var update = flag.Bool("update", false, "write the rows of the catalogue into docs/internals/rules.md")

// catalogueRow returns the row of docs/rules.md for a rule of check.
func catalogueRow(r *preflight.Rule) string {
	verb := map[preflight.Severity]string{
		preflight.Refuse: "Refuses", preflight.Block: "Blocks", preflight.Error: "Error", preflight.Warn: "Warns", preflight.Note: "Info",
	}[r.Severity]
	return fmt.Sprintf("| %s | %s: %s | %s |", r.ID, verb, r.Text, r.Source)
}

// TestRulesPageMatchesExplainTexts checks that --explain and docs/internals/rules.md have the same texts. With -update it writes the rows into
// the page.
func TestRulesPageMatchesExplainTexts(t *testing.T) {
	file := filepath.Join(repoRoot(t), rulesPage)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	page, known := string(text), map[string]bool{}
	for _, rule := range append(preflight.Catalogue(), preflight.PlanRules()...) {
		known[rule.ID] = true
		want := catalogueRow(&rule)
		row := regexp.MustCompile(`(?m)^\| ` + rule.ID + ` \|.*$`).FindString(page)
		switch {
		case row == want:
		case !*update:
			t.Errorf("%s has\n%s\nand the catalogue\n%s", rulesPage, row, want)
		case row == "":
			page = addRow(page, rule.ID, want)
		default:
			page = strings.Replace(page, row, want, 1)
		}
	}
	_, findings, _ := strings.Cut(page, "\n## Findings\n")
	for _, row := range rowPattern.FindAllStringSubmatch(findings, -1) {
		if !known[row[1]] {
			t.Errorf("%s has a row for %s, which --explain does not know", rulesPage, row[1])
		}
	}
	if page != string(text) {
		if err := os.WriteFile(file, []byte(page), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// addRow inserts a row into the findings, which are the last part of the page and are sorted by their ids.
func addRow(page, id, row string) string {
	head, findings, _ := strings.Cut(page, "\n## Findings\n")
	lines := strings.Split(findings, "\n")
	at := len(lines)
	for i, line := range lines {
		if m := rowPattern.FindStringSubmatch(line); m != nil {
			at = i + 1
			if m[1] > id {
				at = i
				break
			}
		}
	}
	lines = append(lines[:at], append([]string{row}, lines[at:]...)...)
	return head + "\n## Findings\n" + strings.Join(lines, "\n")
}
