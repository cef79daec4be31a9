package house

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"
)

// TestPredicatesHaveNoSideEffects checks that functions with a name such as isReady or hasPods change nothing that their callers can
// see.
func TestPredicatesHaveNoSideEffects(t *testing.T) {
	loaded, err := packages.Load(&packages.Config{Mode: packages.LoadSyntax, Dir: repoRoot(t)}, "./pkg/...", "./cmd/...")
	if err != nil {
		t.Fatal(err)
	}
	if packages.PrintErrors(loaded) > 0 {
		t.Fatal("the packages have errors")
	}
	changers := findChangers(loaded)
	asked := 0
	for _, f := range changers.functions() {
		if !isQuestion(f.Name()) {
			continue
		}
		if asked++; changers.why[f] != "" {
			t.Errorf("%s: %s %s: give it a name that says so, or let its caller do it", loaded[0].Fset.Position(f.Pos()), f.Name(), changers.why[f])
		}
	}
	if asked < 100 {
		t.Errorf("only %d functions ask a question", asked)
	}
}

// TestPredicatesWithSideEffectsAreFound checks which changes findChangers finds, and which do not count.
func TestPredicatesWithSideEffectsAreFound(t *testing.T) {
	const head = "package p\ntype part struct{ n int }\ntype box struct { n int; m map[string]int; p part; q *part }\nfunc (b *box) put(n int) { b.n = n }\nfunc look(b *box) int { return b.n }\n"
	for body, want := range map[string]string{
		`func (b *box) isA() bool { b.n = 1; return true }`:                          "assigns b.n",
		`func (b *box) isA() bool { b.p.n++; return true }`:                          "changes b.p.n",
		`func (b box) isA() bool { b.m["x"] = 1; return true }`:                      `assigns b.m["x"]`,
		`func (b box) isA() bool { b.q.n = 1; return true }`:                         "assigns b.q.n",
		`func (b *box) isA() bool { delete(b.m, "x"); return true }`:                 "calls delete(b.m)",
		`func (b *box) isA() bool { b.put(1); return true }`:                         "calls put, which assigns b.n",
		`func isA(b *box) bool { c := &b.p; c.n = 1; return true }`:                  "assigns c.n",
		`func isA(b *box) bool { func() { b.put(1) }(); return true }`:               "calls put, which assigns b.n",
		`func (b box) isA() bool { b.n = 1; b.p.n = 2; return b.n == 1 }`:            "",
		`func isA(b *box) bool { c := *b; c.n = 1; return look(&c) == 1 }`:           "",
		`func isA(b *box) bool { var c box; c.put(b.n); return look(b) == 1 }`:       "",
		`func isA(b *box) bool { c := map[string]int{}; c["x"] = b.n; return true }`: "",
	} {
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, "p.go", head+body, 0)
		if err != nil {
			t.Fatal(err)
		}
		info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{}, Selections: map[*ast.SelectorExpr]*types.Selection{}}
		if _, err := new(types.Config).Check("p", fset, []*ast.File{file}, info); err != nil {
			t.Fatal(err)
		}
		c := findChangers([]*packages.Package{{Fset: fset, Syntax: []*ast.File{file}, TypesInfo: info}})
		for _, f := range c.functions() {
			if isQuestion(f.Name()) && c.why[f] != want {
				t.Errorf("%s: %q, want %q", body, c.why[f], want)
			}
		}
	}
}

// questions returns the first words of names of predicates.
func questions() []string { return []string{"is", "has", "can", "are", "must", "may"} }

// isQuestion reports whether the name begins with such a word.
func isQuestion(name string) bool {
	return slices.ContainsFunc(questions(), func(word string) bool {
		rest, begins := strings.CutPrefix(strings.ToLower(name[:1])+name[1:], word)
		return begins && rest != "" && rest[:1] == strings.ToUpper(rest[:1])
	})
}

// cachingFunctions returns the functions that store their result in a field, so that they compute it only once. No other function
// reads the stored result.
func cachingFunctions() []string {
	return []string{"classifyPodsOf", "findClosingTaint", "findMissingDevice", "findShortage", "guardOf", "budgetsOfPeers"}
}

// changers contains all functions. why describes what a function changes through its receiver or a parameter; "" for no change.
type changers struct {
	info  map[*types.Func]*types.Info
	decls map[*types.Func]*ast.FuncDecl
	why   map[*types.Func]string
}

func findChangers(loaded []*packages.Package) *changers {
	c := &changers{info: map[*types.Func]*types.Info{}, decls: map[*types.Func]*ast.FuncDecl{}, why: map[*types.Func]string{}}
	for _, pkg := range loaded {
		for _, file := range pkg.Syntax {
			for _, decl := range file.Decls {
				if f, ok := decl.(*ast.FuncDecl); ok && f.Body != nil {
					named := pkg.TypesInfo.Defs[f.Name].(*types.Func)
					c.decls[named], c.info[named] = f, pkg.TypesInfo
				}
			}
		}
	}
	for more := true; more; {
		more = false
		for _, f := range c.functions() {
			if c.why[f] == "" && !slices.Contains(cachingFunctions(), f.Name()) {
				c.why[f] = c.describeChange(f)
				more = more || c.why[f] != ""
			}
		}
	}
	return c
}

// functions returns the functions in the order of their positions.
func (c *changers) functions() []*types.Func {
	var all []*types.Func
	for f := range c.decls {
		all = append(all, f)
	}
	slices.SortFunc(all, func(a, b *types.Func) int { return int(a.Pos() - b.Pos()) })
	return all
}

// describeChange describes what the function changes through its receiver or a parameter. It returns "" if no change is known.
func (c *changers) describeChange(f *types.Func) (why string) {
	decl, info := c.decls[f], c.info[f]
	shared := map[types.Object]bool{}
	signature := f.Signature()
	if r := signature.Recv(); r != nil {
		shared[r] = true
	}
	for i := range signature.Params().Len() {
		shared[signature.Params().At(i)] = true
	}
	ast.Inspect(decl.Body, func(n ast.Node) bool {
		if why != "" {
			return false
		}
		switch n := n.(type) {
		case *ast.AssignStmt:
			for i, to := range n.Lhs {
				if id, ok := to.(*ast.Ident); ok && n.Tok == token.DEFINE && i < len(n.Rhs) && isSharedReference(info, n.Rhs[i], shared) {
					shared[info.Defs[id]] = true
				} else if isVisibleToCaller(info, to, shared) {
					why = "assigns " + types.ExprString(to)
				}
			}
		case *ast.IncDecStmt:
			if isVisibleToCaller(info, n.X, shared) {
				why = "changes " + types.ExprString(n.X)
			}
		case *ast.CallExpr:
			why = c.describeChangeByCall(info, n, shared)
		}
		return why == ""
	})
	return why
}

// describeChangeByCall describes how the call changes a value that is shared with the caller. It returns "" if it changes none.
func (c *changers) describeChangeByCall(info *types.Info, call *ast.CallExpr, shared map[types.Object]bool) string {
	var called types.Object
	given := slices.ContainsFunc(call.Args, func(e ast.Expr) bool { return isSharedReference(info, e, shared) })
	switch fun := ast.Unparen(call.Fun).(type) {
	case *ast.Ident:
		called = info.Uses[fun]
	case *ast.SelectorExpr:
		called, given = info.Uses[fun.Sel], given || isShared(info, fun.X, shared)
	}
	if called == nil || !given {
		return ""
	}
	switch called := called.(type) {
	case *types.Builtin:
		if name := called.Name(); name == "delete" || name == "clear" {
			return fmt.Sprintf("calls %s(%s)", name, types.ExprString(call.Args[0]))
		}
	case *types.Func:
		if c.why[called.Origin()] != "" {
			return "calls " + called.Name() + ", which " + c.why[called.Origin()]
		}
	}
	return ""
}

// isVisibleToCaller reports whether the caller sees a change of the place, because the place is reached from a shared value through a
// pointer, a map or a slice.
func isVisibleToCaller(info *types.Info, place ast.Expr, shared map[types.Object]bool) bool {
	through := false
	for {
		switch e := ast.Unparen(place).(type) {
		case *ast.SelectorExpr:
			if selected := info.Selections[e]; selected != nil && selected.Indirect() {
				through = true
			}
			place = e.X
		case *ast.IndexExpr:
			switch info.TypeOf(e.X).Underlying().(type) {
			case *types.Map, *types.Slice, *types.Pointer:
				through = true
			}
			place = e.X
		case *ast.StarExpr:
			through, place = true, e.X
		case *ast.Ident:
			return through && shared[info.Uses[e]]
		default:
			return false
		}
	}
}

// isShared reports whether the expression is a part of a shared value.
func isShared(info *types.Info, e ast.Expr, shared map[types.Object]bool) bool {
	for {
		switch x := ast.Unparen(e).(type) {
		case *ast.SelectorExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		case *ast.UnaryExpr:
			if x.Op != token.AND {
				return false
			}
			e = x.X
		case *ast.Ident:
			return shared[info.Uses[x]]
		default:
			return false
		}
	}
}

// isSharedReference reports whether the expression is a pointer, a map or a slice that belongs to a shared value.
func isSharedReference(info *types.Info, e ast.Expr, shared map[types.Object]bool) bool {
	of := info.TypeOf(e)
	if of == nil { // the guard of a type switch
		return false
	}
	switch of.Underlying().(type) {
	case *types.Pointer, *types.Map, *types.Slice:
		return isShared(info, e, shared)
	}
	return false
}
