package house

import (
	"go/ast"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestInternalsNameWhatIsThere: in docs/internals/one-node.md each function stands with the file that has it.
func TestInternalsNameWhatIsThere(t *testing.T) {
	faults, named := internalsFaults(read(t, "docs/internals/one-node.md"), declared(sources(t)))
	for _, fault := range faults {
		t.Error(fault)
	}
	if named < 40 {
		t.Errorf("the page names only %d declarations", named)
	}
}

// TestInternalsFaults shows what the rule finds.
func TestInternalsFaults(t *testing.T) {
	has := map[string][]string{"pkg/upgrade/a.go": {"look"}, "pkg/upgrade/b.go": {"act", "stay"}}
	text := "`look` (`a.go`), `act`, `look` (`b.go`), `gone` (`a.go`), `act` (`c.go`)"
	faults, named := internalsFaults(text, has)
	want := []string{"b.go has no look", "a.go has no gone", "c.go is not a file of pkg/upgrade"}
	if strings.Join(faults, "; ") != strings.Join(want, "; ") || named != 5 {
		t.Errorf("%d named, %q, want %q", named, faults, want)
	}
}

// declared are the names of the functions, types and constants of each file that is not a test.
func declared(all []source) map[string][]string {
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

// internalsFaults lists the names that the page puts into a file that does not have them, and counts all names. A file
// without a folder is one of pkg/upgrade.
func internalsFaults(text string, has map[string][]string) (faults []string, named int) {
	places := regexp.MustCompile("((?:`\\w+`(?:, )?)+) (?:of |in )?\\(?`([\\w/]+\\.go)`\\)?")
	for _, place := range places.FindAllStringSubmatch(text, -1) {
		file := place[2]
		if !strings.HasPrefix(file, "pkg/") {
			file = path.Join("pkg/upgrade", file)
		}
		for _, name := range regexp.MustCompile(`\w+`).FindAllString(place[1], -1) {
			switch named++; {
			case has[file] == nil:
				faults = append(faults, place[2]+" is not a file of pkg/upgrade")
			case !slices.Contains(has[file], name):
				faults = append(faults, place[2]+" has no "+name)
			}
		}
	}
	return faults, named
}
