// Package measure counts what a linter does not: how large types are, how long names, how wide
// comments, and how the files of a package hang together. It reads product code only, the packages
// under pkg and cmd without tests and generated files, from a file system, so that another checkout
// can be measured by the same program.
package measure

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// Package is the product code of one folder, parsed and type-checked.
type Package struct {
	// Dir is the folder, relative to the top of the checkout and with forward slashes.
	Dir string
	// Files are the package's files by name, without tests and generated code.
	Files []File

	module string
	fset   *token.FileSet
	types  *types.Package
	info   *types.Info
}

// File is one source file.
type File struct {
	// Name has no folder.
	Name string

	text []byte
	tree *ast.File
}

// Load reads the packages under pkg and cmd of a checkout, by folder. It returns an error for what
// cannot be read or parsed, and none for what does not type-check: libraries outside the standard
// one are not read, so that nothing has to be downloaded to measure.
func Load(checkout fs.FS) ([]*Package, error) {
	module, err := modulePath(checkout)
	if err != nil {
		return nil, err
	}
	fset := token.NewFileSet()
	l := &loader{
		checkout: checkout, module: module, fset: fset,
		standard: importer.ForCompiler(fset, "gc", nil), loaded: map[string]*Package{},
	}
	dirs, err := l.folders()
	if err != nil {
		return nil, err
	}
	var all []*Package
	for _, dir := range dirs {
		p, err := l.load(dir)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

// modulePath is the path that go.mod declares.
func modulePath(checkout fs.FS) (string, error) {
	text, err := fs.ReadFile(checkout, "go.mod")
	if err != nil {
		return "", fmt.Errorf("reading the module's path: %w", err)
	}
	for line := range bytes.Lines(text) {
		if fields := strings.Fields(string(line)); len(fields) >= 2 && fields[0] == "module" {
			return fields[1], nil
		}
	}
	return "", errors.New("reading the module's path: go.mod has no module line")
}

// loader type-checks the packages of a checkout, each once. It is their importer, too.
type loader struct {
	checkout fs.FS
	module   string
	fset     *token.FileSet
	standard types.Importer
	loaded   map[string]*Package
}

// folders lists the folders under pkg and cmd that hold product code, sorted.
func (l *loader) folders() ([]string, error) {
	var dirs []string
	for _, top := range []string{"pkg", "cmd"} {
		err := fs.WalkDir(l.checkout, top, func(name string, entry fs.DirEntry, err error) error {
			switch {
			case errors.Is(err, fs.ErrNotExist) && name == top:
				return nil
			case err != nil:
				return err
			case entry.IsDir() && (entry.Name() == "testdata" || strings.HasPrefix(entry.Name(), ".")):
				return fs.SkipDir
			case isProduct(entry):
				dirs = append(dirs, path.Dir(name))
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	slices.Sort(dirs)
	return slices.Compact(dirs), nil
}

func isProduct(entry fs.DirEntry) bool {
	name := entry.Name()
	return !entry.IsDir() && strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go")
}

// load parses and checks the package in a folder.
func (l *loader) load(dir string) (*Package, error) {
	if p, ok := l.loaded[dir]; ok {
		return p, nil
	}
	entries, err := fs.ReadDir(l.checkout, dir)
	if err != nil {
		return nil, err
	}
	p := &Package{
		Dir: dir, module: l.module, fset: l.fset,
		info: &types.Info{Uses: map[*ast.Ident]types.Object{}},
	}
	var trees []*ast.File
	for _, entry := range entries {
		if !isProduct(entry) {
			continue
		}
		file, err := l.parse(dir, entry.Name())
		if err != nil {
			return nil, err
		}
		trees = append(trees, file.tree)
		if !ast.IsGenerated(file.tree) {
			p.Files = append(p.Files, file)
		}
	}
	// A name of a library that is not read is an error to the checker, and of no interest here.
	config := types.Config{Importer: l, Error: func(error) {}}
	p.types, _ = config.Check(path.Join(l.module, dir), l.fset, trees, p.info)
	l.loaded[dir] = p
	return p, nil
}

func (l *loader) parse(dir, name string) (File, error) {
	full := path.Join(dir, name)
	text, err := fs.ReadFile(l.checkout, full)
	if err != nil {
		return File{}, err
	}
	tree, err := parser.ParseFile(l.fset, full, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return File{}, err
	}
	return File{Name: name, text: text, tree: tree}, nil
}

// Import implements types.Importer: the checkout's own packages are checked, the standard library
// comes from the compiler, and any other library is taken to be empty.
func (l *loader) Import(imported string) (*types.Package, error) {
	if dir, ok := strings.CutPrefix(imported, l.module+"/"); ok {
		p, err := l.load(dir)
		if err != nil {
			return nil, err
		}
		return p.types, nil
	}
	if first, _, _ := strings.Cut(imported, "/"); !strings.Contains(first, ".") {
		return l.standard.Import(imported)
	}
	empty := types.NewPackage(imported, path.Base(imported))
	empty.MarkComplete()
	return empty, nil
}
