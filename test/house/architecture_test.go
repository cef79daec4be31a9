package house

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// TestArchitectureListsImports checks that the table of packages lists the imports of each package.
func TestArchitectureListsImports(t *testing.T) {
	imported := map[string]map[string]bool{}
	for _, src := range sources(t) {
		if src.isTest() || !isUnder(src.path, "pkg") && !isUnder(src.path, "cmd") {
			continue
		}
		if imported[src.dir()] == nil {
			imported[src.dir()] = map[string]bool{}
		}
		for name := range src.imports() {
			if rest, ours := strings.CutPrefix(name, module+"/"); ours {
				imported[src.dir()][rest] = true
			}
		}
	}
	reportFaults(t, importTableFaults(readFile(t, "docs/internals/architecture.md"), imported))
}

// importTableFaults lists the packages without a row, and the rows whose last cell does not list the package's imports. A row is for a
// folder, and may also be for the folders below it.
func importTableFaults(page string, imported map[string]map[string]bool) (faults []string) {
	row := regexp.MustCompile("(?m)^\\|[^|]*\\| `((?:pkg|cmd)/[\\w/-]+)`(?: with [^|]*)? \\|[^|]*\\| ([^|]*) \\|$")
	known := map[string]bool{}
	for _, cells := range row.FindAllStringSubmatch(page, -1) {
		known[cells[1]] = true
	}
	for _, cells := range row.FindAllStringSubmatch(page, -1) {
		names := map[string]bool{}
		for folder, imports := range imported {
			if folder != cells[1] && (known[folder] || !isUnder(folder, cells[1])) {
				continue
			}
			for name := range imports {
				if name != cells[1] && (known[name] || !isUnder(name, cells[1])) {
					names["`"+path.Base(name)+"`"] = true
				}
			}
		}
		want := strings.Join(slices.Sorted(maps.Keys(names)), ", ")
		if want == "" {
			want = "–"
		}
		if cells[2] != want && cells[2] != "everything below" {
			faults = append(faults, fmt.Sprintf("%s imports %s, and its row says %s", cells[1], want, cells[2]))
		}
	}
	for _, folder := range slices.Sorted(maps.Keys(imported)) {
		if !known[folder] && !known[path.Dir(folder)] {
			faults = append(faults, folder+" has no row")
		}
	}
	return faults
}

func TestErrorsInImportTableAreFound(t *testing.T) {
	imported := map[string]map[string]bool{"pkg/a": {"pkg/b": true, "pkg/c/d": true}, "pkg/c": {"pkg/c/d": true}, "pkg/c/d": {}, "pkg/b": {}}
	for page, fault := range map[string]string{
		"| x | `pkg/a` | is a | `b`, `d` |\n| | `pkg/b` | is b | – |\n| | `pkg/c` with `d` | is c | – |\n": "",
		"| x | `pkg/a` | is a | `b` |\n| | `pkg/b` | is b | – |\n| | `pkg/c` with `d` | is c | – |\n":      "pkg/a imports `b`, `d`, and its row says `b`",
		"| x | `pkg/a` | is a | `b`, `d` |\n| | `pkg/c` with `d` | is c | – |\n":                           "pkg/b has no row",
	} {
		checkFaults(t, importTableFaults(page, imported), fault)
	}
}

// TestStateMachineIsDocumented checks that the package comment of pkg/upgrade names each phase and each state of a node.
func TestStateMachineIsDocumented(t *testing.T) {
	doc := strings.Join(strings.Fields(strings.ReplaceAll(readFile(t, "pkg/upgrade/doc.go"), "//", "")), " ")
	for _, name := range record.Strategies() {
		var phases []string
		for _, phase := range upgrade.Phases(name) {
			phases = append(phases, string(phase))
		}
		if line := string(name) + ": " + strings.Join(phases, " → "); !strings.Contains(doc, line) {
			t.Errorf("the package comment does not say %q", line)
		}
	}
	for _, decl := range regexp.MustCompile(`(?m)^\tNode\w+ +NodeState = "(\w+)"$`).FindAllStringSubmatch(readFile(t, "pkg/upgrade/record/node.go"), -1) {
		if !strings.Contains(doc, decl[1]) {
			t.Errorf("the package comment does not name the state %s", decl[1])
		}
	}
}

// TestArchitectureListsPurePackages checks that docs/architecture.md names exactly the folders of pureFolders.
func TestArchitectureListsPurePackages(t *testing.T) {
	sentence := regexp.MustCompile("(?m)^((?:`[\\w/]+`(?: with | and |, )?)+) are pure:").FindStringSubmatch(readFile(t, "docs/internals/architecture.md"))
	if sentence == nil {
		t.Fatal("docs/internals/architecture.md does not say which packages are pure")
	}
	var named []string
	for _, m := range regexp.MustCompile("`(pkg/\\w+)`").FindAllStringSubmatch(sentence[1], -1) {
		named = append(named, m[1])
	}
	slices.Sort(named)
	if tested := slices.Sorted(slices.Values(pureFolders())); !slices.Equal(named, tested) {
		t.Errorf("docs/internals/architecture.md calls %q pure, and the test checks %q", named, tested)
	}
}
