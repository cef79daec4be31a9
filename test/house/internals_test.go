package house

import (
	"go/ast"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestInternalsNameExistingDeclarations checks that the pages of docs/internals name each function with the file that contains it.
func TestInternalsNameExistingDeclarations(t *testing.T) {
	pages := map[string]struct {
		folder string // the folder of files that the page names without a folder
		least  int    // how many declarations the page must name at least
	}{
		"one-node.md":       {"pkg/upgrade", 40},
		"eviction-order.md": {"pkg/drain/schedule", 30},
	}
	has := declaredNames(sources(t))
	testedElsewhere := []string{"architecture.md", "rules.md", "glossary.md"} // in architecture_test.go, in rules_test.go; a glossary names no code
	files, err := os.ReadDir(filepath.Join(repoRoot(t), "docs/internals"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if slices.Contains(testedElsewhere, file.Name()) {
			continue
		}
		page, known := pages[file.Name()]
		if !known {
			t.Errorf("docs/internals/%s is not tested", file.Name())
			continue
		}
		faults, named := internalsFaults(readFile(t, "docs/internals/"+file.Name()), page.folder, has)
		for _, fault := range faults {
			t.Errorf("%s: %s", file.Name(), fault)
		}
		if named < page.least {
			t.Errorf("%s names only %d declarations", file.Name(), named)
		}
	}
}

// TestEvictionOrderPageHasNumbersOfCode checks that docs/internals/eviction-order.md has the same numbers as the code.
func TestEvictionOrderPageHasNumbersOfCode(t *testing.T) {
	values := map[string]string{}
	for _, src := range sources(t) {
		if !src.isTest() && (src.dir() == "pkg/drain/schedule" || src.path == "pkg/upgrade/window.go") {
			maps.Copy(values, numberConstants(src.file))
		}
	}
	rows := 0
	for _, row := range regexp.MustCompile("(?m)^\\| ((?:`\\w+`(?:, )?)+) in `[\\w/]+\\.go` \\| ([^|]+) \\|").FindAllStringSubmatch(readFile(t, "docs/internals/eviction-order.md"), -1) {
		names, written := regexp.MustCompile(`\w+`).FindAllString(row[1], -1), strings.Split(row[2], ", ")
		for i, name := range names {
			if rows++; len(written) != len(names) || values[name] != written[i] {
				t.Errorf("%s is %s, and the page says %q", name, values[name], written)
			}
		}
	}
	if rows < 8 {
		t.Errorf("the page has only %d numbers", rows)
	}
}

// numberConstants returns the constants of a file that are an integer, or an integer times a unit of time: "32", "0.2 s", "50 ms".
func numberConstants(file *ast.File) map[string]string {
	values := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			return true
		}
		switch value := spec.Values[0].(type) {
		case *ast.BasicLit:
			values[spec.Names[0].Name] = value.Value
		case *ast.BinaryExpr:
			number, isNumber := value.X.(*ast.BasicLit)
			unit, isUnit := value.Y.(*ast.SelectorExpr)
			if isNumber && isUnit {
				values[spec.Names[0].Name] = writeDuration(number.Value, unit.Sel.Name)
			}
		}
		return true
	})
	return values
}

// writeDuration returns "0.2 s" for 200 and Millisecond, and "50 ms" for 50 and Millisecond.
func writeDuration(number, unit string) string {
	n, err := strconv.Atoi(number)
	switch {
	case err != nil:
		return ""
	case unit == "Millisecond" && n >= 100:
		return strconv.FormatFloat(float64(n)/1000, 'f', -1, 64) + " s"
	case unit == "Millisecond":
		return number + " ms"
	default:
		return number + " " + strings.ToLower(unit[:1])
	}
}

// TestWrongNamesInInternalsPagesAreFound checks the faults that internalsFaults finds.
func TestWrongNamesInInternalsPagesAreFound(t *testing.T) {
	has := map[string][]string{"pkg/upgrade/a.go": {"look"}, "pkg/upgrade/b.go": {"act", "stay"}}
	text := "`look` (`a.go`), `act`, `look` (`b.go`), `gone` (`a.go`), `act` (`c.go`)"
	faults, named := internalsFaults(text, "pkg/upgrade", has)
	want := []string{"b.go has no look", "a.go has no gone", "c.go is not a file of pkg/upgrade"}
	if strings.Join(faults, "; ") != strings.Join(want, "; ") || named != 5 {
		t.Errorf("%d named, %q, want %q", named, faults, want)
	}
}

// declaredNames returns the names of the functions, types and constants of each file that is not a test.
func declaredNames(all []source) map[string][]string {
	names := map[string][]string{}
	for _, src := range all {
		if src.isTest() {
			continue
		}
		for name := range topLevelNames(src.file) {
			names[src.path] = append(names[src.path], name)
		}
	}
	return names
}

func topLevelNames(file *ast.File) map[string]bool {
	names := map[string]bool{}
	for _, decl := range file.Decls {
		if f, ok := decl.(*ast.FuncDecl); ok {
			names[f.Name.Name] = true
			continue
		}
		ast.Inspect(decl, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.TypeSpec:
				names[n.Name.Name] = true
			case *ast.ValueSpec:
				for _, id := range n.Names {
					names[id.Name] = true
				}
			case *ast.Field: // of a struct
				for _, id := range n.Names {
					names[id.Name] = true
				}
			}
			return true
		})
	}
	return names
}

// internalsFaults lists the names that the page assigns to a file that does not contain them, and counts all names. A file that
// is named without a folder belongs to the given folder.
func internalsFaults(text, folder string, has map[string][]string) (faults []string, named int) {
	places := regexp.MustCompile("((?:`\\w+`(?:, )?)+) (?:of |in )?\\(?`([\\w/]+\\.go)`\\)?")
	for _, place := range places.FindAllStringSubmatch(text, -1) {
		file := place[2]
		if !strings.HasPrefix(file, "pkg/") {
			file = path.Join(folder, file)
		}
		for _, name := range regexp.MustCompile(`\w+`).FindAllString(place[1], -1) {
			switch named++; {
			case has[file] == nil:
				faults = append(faults, place[2]+" is not a file of "+folder)
			case !slices.Contains(has[file], name):
				faults = append(faults, place[2]+" has no "+name)
			}
		}
	}
	return faults, named
}
