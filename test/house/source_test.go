package house

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/kubectl-nodeupgrade/kubectl-nodeupgrade"

// source is one parsed Go file. Its path is relative to the top of the repository and has forward slashes.
type source struct {
	path string
	fset *token.FileSet
	file *ast.File
}

func parse(name string, text any) (source, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, text, parser.ParseComments)
	if err != nil {
		return source{}, fmt.Errorf("parsing %q: %w", name, err)
	}
	return source{path: name, fset: fset, file: file}, nil
}

func (s source) dir() string  { return path.Dir(s.path) }
func (s source) isTest() bool { return strings.HasSuffix(s.path, "_test.go") }

// fault returns a message with its position, in a form that editors understand.
func (s source) fault(at token.Pos, format string, args ...any) string {
	return fmt.Sprintf("%s:%d: %s", s.path, s.fset.Position(at).Line, fmt.Sprintf(format, args...))
}

// imports maps each import's path to its position.
func (s source) imports() map[string]token.Pos {
	paths := map[string]token.Pos{}
	for _, spec := range s.file.Imports {
		paths[unquote(spec)] = spec.Pos()
	}
	return paths
}

func unquote(spec *ast.ImportSpec) string {
	name, err := strconv.Unquote(spec.Path.Value)
	if err != nil {
		return spec.Path.Value
	}
	return name
}

// repoRoot returns the top of the repository.
func repoRoot(t *testing.T) string {
	t.Helper()
	top, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	return top
}

// sources parses every Go file of the main module, tests included.
func sources(t *testing.T) []source {
	t.Helper()
	top := repoRoot(t)
	var all []source
	err := filepath.WalkDir(top, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return skipFolder(top, name, entry.Name())
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		src, err := parseFile(top, name)
		all = append(all, src)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) == 0 {
		t.Fatal("no Go file found: nothing would be checked")
	}
	return all
}

// skipFolder returns filepath.SkipDir for the folders that the go command skips: names with a leading dot, testdata, and nested
// modules.
func skipFolder(top, name, base string) error {
	if name == top {
		return nil
	}
	_, err := os.Stat(filepath.Join(name, "go.mod"))
	if err == nil || base == "testdata" || strings.HasPrefix(base, ".") {
		return filepath.SkipDir
	}
	return nil
}

func parseFile(top, name string) (source, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return source{}, err
	}
	rel, err := filepath.Rel(top, name)
	if err != nil {
		return source{}, err
	}
	return parse(filepath.ToSlash(rel), text)
}

// isUnder reports whether an import path or folder is the tree itself or inside it.
func isUnder(name, tree string) bool {
	return name == tree || strings.HasPrefix(name, tree+"/")
}

// reportFaults reports each fault as an error of the test.
func reportFaults(t *testing.T, faults []string) {
	t.Helper()
	for _, fault := range faults {
		t.Error(fault)
	}
}

// checkFaults checks that there is exactly one fault and that it contains the text want. If want is "", there must be no fault.
func checkFaults(t *testing.T, faults []string, want string) {
	t.Helper()
	switch {
	case want == "" && len(faults) > 0:
		t.Errorf("faults %q, want none", faults)
	case want != "" && (len(faults) != 1 || !strings.Contains(faults[0], want)):
		t.Errorf("faults %q, want one that says %q", faults, want)
	}
}

func mustParse(t *testing.T, name, text string) source {
	t.Helper()
	src, err := parse(name, text)
	if err != nil {
		t.Fatal(err)
	}
	return src
}
