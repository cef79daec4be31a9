package rulebook

import (
	"slices"
	"testing"
	"testing/fstest"
)

func TestRead(t *testing.T) {
	top := fstest.MapFS{}
	for name, text := range map[string]string{
		Page:                               "| E01 | One. | a page |\n| E02 | Two. | a page |\n| E03 | Three. | a page |\n| E04 | Four. | a page |\n| G10 | Five. | a page |\n* E03: it is the cloud's\n",
		"pkg/x/x.go":                       "// (EKS E04)",
		"pkg/x/x_test.go":                  "// (EKS E01, E01x), xE04",
		"pkg/x/testdata/y.txt":             "# E01",
		"test/house/rules_test.go":         "E04",
		"test/worlds/rules.go":             `r.fail("E02", "no") // E04`,
		"test/worlds/mutants/no-luck.txt":  "no luck (EKS E02)",
		".git/refs/testdata/branch_E04.go": "E04",
	} {
		top[name] = &fstest.MapFile{Data: []byte(text)}
	}
	rules, err := Read(top, "E")
	if err != nil || len(rules) != 4 {
		t.Fatalf("%v: %+v", err, rules)
	}
	for i, want := range []string{"held", "held", "not ours: it is the cloud's", "not held"} {
		if got := rules[i].Verdict(); got != want {
			t.Errorf("%s: %s, want %s", rules[i].ID, got, want)
		}
	}
	if !slices.Equal(rules[0].Tests, []string{"pkg/x/testdata/y.txt", "pkg/x/x_test.go"}) || !slices.Equal(rules[1].Mutants, []string{"no-luck"}) {
		t.Errorf("%+v", rules[:2])
	}
}
