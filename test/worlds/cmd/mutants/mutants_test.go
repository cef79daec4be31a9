package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/mutant"
)

const folder = "test/worlds/mutants"

// TestEveryMutantFitsCurrentSource applies each mutant to the product's current source, without building it.
func TestEveryMutantFitsCurrentSource(t *testing.T) {
	t.Chdir("../../../..")
	for dir, least := range map[string]int{folder: 100, "test/house/mutants": 20} {
		mutants, err := mutant.ReadAll(dir, "*")
		if err != nil {
			t.Error(err)
		}
		if len(mutants) < least {
			t.Errorf("%s has %d mutants, want at least %d", dir, len(mutants), least)
		}
		for _, m := range mutants {
			if !strings.HasPrefix(m.File, "pkg/") || strings.HasSuffix(m.File, "_test.go") {
				t.Errorf("mutant %s is planted in %s, which is not part of the product", m.Name, m.File)
			}
		}
	}
}

// TestMutantsAreFoundAndHarmlessChangesAreNot checks that two mutants are found, and that a harmless change is not.
func TestMutantsAreFoundAndHarmlessChangesAreNot(t *testing.T) {
	t.Chdir("../../../..")
	mutants, err := mutant.ReadAll(folder, "*")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"window-off-by-one": "I1: ", "shrink-not-booked": "I9: ", "comment": ""}
	hunted := []mutant.Mutant{harmlessMutant(t)}
	for _, m := range mutants {
		if want[m.Name] != "" {
			hunted = append(hunted, m)
		}
	}
	if len(hunted) != len(want) {
		t.Fatalf("want the mutants %v, found %d of them", want, len(hunted))
	}
	for found := range (hunt{worlds: 40, parallel: 2}).huntAll(hunted) {
		switch rule := want[found.mutant.Name]; {
		case (found.err == nil) != (rule != ""):
			t.Errorf("mutant %s: broken rule %q, error %v", found.mutant.Name, found.broken, found.err)
		case !strings.HasPrefix(found.broken, rule):
			t.Errorf("mutant %s breaks %q, not %q", found.mutant.Name, found.broken, rule)
		}
	}
}

// harmlessMutant returns a change of the source that does not change its behaviour.
func harmlessMutant(t *testing.T) mutant.Mutant {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "pkg/upgrade/doc.txtar"), "-- comment --\nnothing is wrong\n-- old --\n\npackage upgrade\n-- new --\n\npackage upgrade // as ever\n")
	mutants, err := mutant.ReadAll(dir, "*")
	if err != nil {
		t.Fatal(err)
	}
	return mutants[0]
}

// TestMalformedMutantsAreRejected checks that malformed mutants, and mutants that do not fit their source, are refused with an error
// that names them.
func TestMalformedMutantsAreRejected(t *testing.T) {
	const source = "package lamp\n\nconst on, off = 1, 0\n"
	for name, c := range map[string]struct{ of, text, want string }{
		"no parts":       {"lamp", "", "mutant blown of lamp.go needs three parts: what is wrong"},
		"no source":      {"lump", "-- old --\n1\n-- new --\n0\n", "mutant blown: reading its source"},
		"gone":           {"lamp", "-- old --\ntwo\n-- new --\nthree\n", "mutant blown: its old text stands 0 times"},
		"more than once": {"lamp", "-- old --\no\n-- new --\na\n", "mutant blown: its old text stands 3 times in lamp.go, not once"},
		"as another":     {"lamp", "-- old --\n= 1, 0\n-- new --\n= 0, 1\n", "mutant blown: it plants the same bug as aglow"},
		"no change":      {"lamp", "-- old --\n1, 0\n-- new --\n1, 0\n", "mutant blown: it changes nothing"},
		"twice":          {"lamp", "-- old --\n1\n-- new --\n0\n-- aglow --\nlight\n-- old --\n1\n-- new --\n2\n", "two mutants have the name aglow"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			write(t, "lamp.go", source)
			archives := map[string]string{"lamp": "-- aglow --\nlight\n-- old --\n1, 0\n-- new --\n0, 1\n"}
			archives[c.of] += "-- blown --\ndark\n" + c.text
			for of, text := range archives {
				write(t, of+".txtar", text)
			}
			err := run(new(bytes.Buffer), hunt{worlds: 1, parallel: 1}, ".", "*")
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got error %v, want one that contains %q", err, c.want)
			}
		})
	}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
