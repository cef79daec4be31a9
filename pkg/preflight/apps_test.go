package preflight_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/preflight"
)

// TestRulesRarelyFireOnCommonCharts applies the catalogue to testdata/apps, the default output of widely used charts. If a rule has findings
// above Note for more than half of them, the user does not know where to start. Then its condition is too wide or its severity
// too high. In these files the claims of a StatefulSet are in the pod template, where a real controller puts them, so all pods of
// one set have the same claim.
func TestRulesRarelyFireOnCommonCharts(t *testing.T) {
	files, err := filepath.Glob("testdata/apps/*.yaml")
	if err != nil || len(files) != 20 {
		t.Fatalf("testdata/apps has %d files: %v", len(files), err)
	}
	firing := map[string][]string{} // by "PDB001 block"
	for _, file := range files {
		for _, kind := range listFiringRules(t, file) {
			firing[kind] = append(firing[kind], strings.TrimSuffix(filepath.Base(file), ".yaml"))
		}
	}
	kinds := slices.Sorted(maps.Keys(firing))
	slices.SortStableFunc(kinds, func(a, b string) int { return len(firing[b]) - len(firing[a]) })
	var table strings.Builder
	for _, kind := range kinds {
		fmt.Fprintf(&table, "%-16s %2d  %s\n", kind, len(firing[kind]), strings.Join(firing[kind], " "))
	}
	t.Logf("rule and severity, of how many of %d files:\n%s", len(files), &table)
	for _, rule := range preflight.Catalogue() {
		if loud := listFilesWithWarnings(firing, rule.ID); 2*len(loud) > len(files) {
			t.Errorf("%s has findings above %s in %d of %d applications: %s", rule.ID, preflight.Note, len(loud), len(files), strings.Join(loud, ", "))
		}
	}
}

// listFiringRules returns the rules with findings in the file, with the severity of each finding. Set NOISE to a word in the file's
// name to log all of them.
func listFiringRules(t *testing.T, file string) []string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	found := preflight.Check(readScene(t, text), preflight.Catalogue(), nil)
	if word := os.Getenv("NOISE"); word != "" && strings.Contains(file, word) {
		t.Logf("%s:\n%s", file, strings.Join(describeFindings(found), "\n"))
	}
	var kinds []string
	for i := range found {
		kinds = append(kinds, found[i].Rule+" "+string(found[i].Severity))
		if strings.HasPrefix(found[i].Rule, "NG") || strings.HasPrefix(found[i].Rule, "VER") || strings.HasPrefix(found[i].Rule, "RBAC") {
			t.Errorf("%s: %s is of the group and not of its workloads: %s", file, found[i].Rule, found[i])
		}
	}
	slices.Sort(kinds)
	return slices.Compact(kinds)
}

// listFilesWithWarnings returns the files in which the rule has findings above Note.
func listFilesWithWarnings(firing map[string][]string, id string) []string {
	var loud []string
	for kind, files := range firing {
		rule, severity, _ := strings.Cut(kind, " ")
		if rule == id && preflight.Severity(severity).IsAtLeast(preflight.Warn) {
			loud = append(loud, files...)
		}
	}
	slices.Sort(loud)
	return slices.Compact(loud)
}
