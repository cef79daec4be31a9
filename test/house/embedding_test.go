package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"
)

// maxEmbeddingLevels is how many levels of embedded values a type may have. With more levels, readers cannot find the type to which a field
// or a method belongs.
const maxEmbeddingLevels = 2

// TestTypesEmbedFewLevels checks that no type of this module embeds values more than two levels deep.
func TestTypesEmbedFewLevels(t *testing.T) {
	loaded, err := packages.Load(&packages.Config{Mode: packages.LoadSyntax | packages.NeedModule, Dir: repoRoot(t)}, "./pkg/...", "./cmd/...")
	if err != nil {
		t.Fatal(err)
	}
	if packages.PrintErrors(loaded) > 0 {
		t.Fatal("the packages have errors")
	}
	embedding := 0
	for _, pkg := range loaded {
		isOurs := func(path string) bool { return strings.HasPrefix(path, pkg.Module.Path+"/") }
		for _, of := range listStructs(pkg.TypesInfo) {
			path := deepestEmbedding(of, isOurs)
			if len(path) > 1 {
				embedding++
			}
			if len(path) > 1+maxEmbeddingLevels {
				t.Errorf("%s: %s embeds values %d levels deep: name one of the fields", pkg.Fset.Position(of.Pos()), strings.Join(path, " > "), len(path)-1)
			}
		}
	}
	if embedding < 20 {
		t.Errorf("only %d types embed another", embedding)
	}
}

// TestDeepEmbeddingIsFound checks deepestEmbedding, also for a type of another module, which counts as one level.
func TestDeepEmbeddingIsFound(t *testing.T) {
	const theirs = "package theirs\ntype inner struct{}\ntype middle struct{ inner }\ntype Outer struct{ middle }\n"
	const ours = `package ours

import "theirs"

type a struct{ n int }
type b struct{ a }
type c struct{ *b }
type d struct {
	n int
	c
}
type named struct {
	c c
	b
}
type of[T any] struct{ c }
type generic struct{ of[int] }
type foreign struct{ theirs.Outer }
type behind struct{ *foreign }
type face interface{ error }
type answer struct{ face }

func f() {
	type local struct{ d }
	_ = local{}
}
`
	want := map[string]string{
		"a": "a", "b": "b > a", "c": "c > b > a", "d": "d > c > b > a", "named": "named > b > a", "of": "of > c > b > a", "generic": "generic > of > c > b > a",
		"foreign": "foreign > Outer", "behind": "behind > foreign > Outer", "answer": "answer > face", "local": "local > d > c > b > a",
	}
	dependency, _ := checkText(t, theirs, nil)
	_, info := checkText(t, ours, dependency)
	for _, of := range listStructs(info) {
		got := strings.Join(deepestEmbedding(of, func(path string) bool { return path == "ours" }), " > ")
		if got != want[of.Name()] {
			t.Errorf("%s: %q, want %q", of.Name(), got, want[of.Name()])
		}
		delete(want, of.Name())
	}
	if len(want) > 0 {
		t.Errorf("these types were not checked: %v", want)
	}
}

// dependencies is an importer that knows only one package.
type dependencies struct{ only *types.Package }

// Import implements types.Importer.
func (d dependencies) Import(string) (*types.Package, error) { return d.only, nil }

// checkText type-checks a text of Go and returns its package. The text may import the other package.
func checkText(t *testing.T, text string, other *types.Package) (*types.Package, *types.Info) {
	t.Helper()
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "text.go", text, 0)
	if err != nil {
		t.Fatal(err)
	}
	info := &types.Info{Defs: map[*ast.Ident]types.Object{}}
	config := types.Config{Importer: dependencies{other}}
	checked, err := config.Check(file.Name.Name, fset, []*ast.File{file}, info)
	if err != nil {
		t.Fatal(err)
	}
	return checked, info
}

// listStructs lists the declared struct types in the order of their positions, also those in functions.
func listStructs(info *types.Info) []*types.TypeName {
	var all []*types.TypeName
	for _, object := range info.Defs {
		if of, ok := object.(*types.TypeName); ok && !of.IsAlias() {
			if _, ok := of.Type().Underlying().(*types.Struct); ok {
				all = append(all, of)
			}
		}
	}
	slices.SortFunc(all, func(a, b *types.TypeName) int { return int(a.Pos() - b.Pos()) })
	return all
}

// deepestEmbedding returns the longest path of types, by name, in which each type embeds the next. It begins with of. A type of
// another module ends the path.
func deepestEmbedding(of *types.TypeName, isOurs func(path string) bool) []string {
	path := []string{of.Name()}
	structure, ok := of.Type().Underlying().(*types.Struct)
	if !ok || of.Pkg() == nil || !isOurs(of.Pkg().Path()) {
		return path
	}
	var deepest []string
	for field := range structure.Fields() {
		if !field.Embedded() {
			continue
		}
		below := []string{field.Name()}
		kind := types.Unalias(field.Type())
		if pointer, ok := kind.(*types.Pointer); ok {
			kind = types.Unalias(pointer.Elem())
		}
		if named, ok := kind.(*types.Named); ok {
			below = deepestEmbedding(named.Obj(), isOurs)
		}
		if len(below) > len(deepest) {
			deepest = below
		}
	}
	return append(path, deepest...)
}
