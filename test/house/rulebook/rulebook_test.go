package rulebook

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

const someTests = `package x
// TestWhole is whole (EKS E01).
func TestWhole(t *testing.T) {
	for name := range map[string]int{"E02 a case": 1, "xE03": 2} {
		t.Run(name, func(t *testing.T) { t.Error("E05: no") }) // E06
	}
}
// helper cites E04.
func helper() { _ = "E04" }
`

func TestReadRulesWithTestsAndMutantsThatCiteThem(t *testing.T) {
	page := ""
	for _, id := range []string{"E01", "E02", "E03", "E04", "E05", "E06", "E07", "G10"} {
		page += "| " + id + " | A rule. | a page |\n"
	}
	top := fstest.MapFS{}
	for name, text := range map[string]string{
		Page:                               page + "* E03: it is the cloud's\n",
		"pkg/x/x.go":                       "// (EKS E04)",
		"pkg/x/x_test.go":                  someTests,
		"test/y/y_test.go":                 "package y\n// E04\nfunc TestY() {}\n",
		"test/worlds/mutants/pkg/x.txtar":  "-- no-luck --\nno luck (EKS E02, E05)\n-- old --\n-- new --\n-- all-luck --\nall luck (EKS E07)\n-- old --\n-- new --\n",
		"pkg/upgrade/testdata/drain.txt":   "# A node (E07).\nrun E04\n",
		"test/house/mutants/pkg/x.txtar":   "-- bad-luck --\nbad luck (EKS E01)\n-- old --\nE06\n-- new --\n",
		".git/refs/testdata/branch_E04.go": "E04",
	} {
		top[name] = &fstest.MapFile{Data: []byte(text)}
	}
	rules, err := Read(top, "E")
	if err != nil || len(rules) != 7 {
		t.Fatalf("%v: %+v", err, rules)
	}
	whole := Test{Dir: "pkg/x", Name: "TestWhole"}
	one := Test{Dir: "pkg/x", Name: "TestWhole", Case: "E02"}
	for i, want := range []struct {
		verdict string
		tests   []Test
	}{
		{"held", []Test{whole}},
		{"held", []Test{one}},
		{"not ours: it is the cloud's", nil},
		{"not held: no test cites it", nil},
		{"held", []Test{whole}},
		{"not held: no mutant cites it", []Test{whole}},
		{"held", []Test{{Dir: "pkg/upgrade", Name: "TestScenariosPrintExpectedTranscripts", Case: "drain"}}},
	} {
		if got := &rules[i]; got.Verdict() != want.verdict || !slices.Equal(got.Tests, want.tests) || got.IsHeld() == strings.HasPrefix(want.verdict, "not held") {
			t.Errorf("%s: %q by %v, want %q by %v", got.ID, got.Verdict(), got.Tests, want.verdict, want.tests)
		}
	}
}

// TestProveReportsRulesWhoseTestsMissAMutant plants a mutant that breaks the tests of its rule. Another rule cites the mutant, and its tests do not break.
func TestProveReportsRulesWhoseTestsMissAMutant(t *testing.T) {
	t.Chdir("../../..")
	const dir = "pkg/nodegroup"
	rules := []Rule{
		{ID: "E08", Tests: []Test{{Dir: dir, Name: "TestMaxUnavailableIsResolvedToNumberOfNodes", Case: "E08"}}, Mutants: []string{"percentage-rounded-up"}},
		{ID: "E05", Tests: []Test{{Dir: dir, Name: "TestMaxUnavailableIsResolvedToNumberOfNodes", Case: "E05"}}, Mutants: []string{"percentage-rounded-up"}},
	}
	if err := Prove(t.Context(), rules, 1); err != nil {
		t.Fatal(err)
	}
	if got := rules[0].Verdict(); got != "held" {
		t.Errorf("a rule whose test fails with its mutant is %q", got)
	}
	if got := rules[1].Verdict(); got != "not held: the tests that cite it pass with its mutants" {
		t.Errorf("a rule whose test passes with its mutant is %q", got)
	}
}
