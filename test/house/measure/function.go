package measure

import (
	"go/ast"
	"go/token"
	"unicode"
	"unicode/utf8"
)

// Function is a declared function or method.
type Function struct {
	Name string
	// Lines are those from the func keyword to the closing brace.
	Lines      int
	Parameters int
	// Nesting is how many statements that branch or loop, and function literals, stand around the
	// innermost one; an else-if is no deeper than its if.
	Nesting int
	// Complexity is the cyclomatic complexity as gocyclo counts it.
	Complexity int
	Exported   bool
	Documented bool
}

// Functions lists what the package declares, in the order of its files.
func (p *Package) Functions() []Function {
	var all []Function
	for _, file := range p.Files {
		for _, decl := range file.tree.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok {
				all = append(all, p.function(fn))
			}
		}
	}
	return all
}

func (p *Package) function(fn *ast.FuncDecl) Function {
	f := Function{
		Name:       fn.Name.Name,
		Lines:      p.line(fn.End()) - p.line(fn.Pos()) + 1,
		Parameters: fn.Type.Params.NumFields(),
		Exported:   fn.Name.IsExported(),
		Documented: fn.Doc != nil,
		Complexity: 1,
	}
	if fn.Body != nil {
		f.Nesting = nesting(fn.Body)
		f.Complexity = complexity(fn.Body)
	}
	return f
}

func (p *Package) line(at token.Pos) int { return p.fset.Position(at).Line }

// nesting is the depth of the deepest branch, loop or function literal below a node.
func nesting(top ast.Node) int {
	deepest := 0
	ast.Inspect(top, func(n ast.Node) bool {
		if n == nil || n == top || !isNesting(n) {
			return true
		}
		depth := nesting(n)
		if ifs, ok := n.(*ast.IfStmt); !ok || !isElseOf(top, ifs) {
			depth++
		}
		deepest = max(deepest, depth)
		return false
	})
	return deepest
}

func isNesting(n ast.Node) bool {
	switch n.(type) {
	case *ast.IfStmt, *ast.ForStmt, *ast.RangeStmt, *ast.SwitchStmt, *ast.TypeSwitchStmt, *ast.SelectStmt, *ast.FuncLit:
		return true
	}
	return false
}

func isElseOf(n ast.Node, inner *ast.IfStmt) bool {
	outer, ok := n.(*ast.IfStmt)
	return ok && outer.Else == inner
}

func complexity(body ast.Node) int {
	paths := 1
	ast.Inspect(body, func(n ast.Node) bool {
		if isBranch(n) {
			paths++
		}
		return true
	})
	return paths
}

func isBranch(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.IfStmt, *ast.ForStmt, *ast.RangeStmt:
		return true
	case *ast.CaseClause:
		return n.List != nil
	case *ast.CommClause:
		return n.Comm != nil
	case *ast.BinaryExpr:
		return n.Op == token.LAND || n.Op == token.LOR
	}
	return false
}

// Words is the number of words in a name. A word begins at a capital letter, where digits begin or
// end, and after an underscore; capitals in a row are one word, less the last one before a small
// letter: URLOf is two.
func Words(name string) int {
	words := 0
	letters := []rune(name)
	for i, r := range letters {
		if r != '_' && (i == 0 || beginsWord(letters, i)) {
			words++
		}
	}
	return words
}

func beginsWord(letters []rune, i int) bool {
	before, here := letters[i-1], letters[i]
	switch {
	case before == '_', unicode.IsDigit(before) != unicode.IsDigit(here):
		return true
	case !unicode.IsUpper(here):
		return false
	}
	return !unicode.IsUpper(before) || i+1 < len(letters) && unicode.IsLower(letters[i+1])
}

// Letters is the length of a name in characters.
func Letters(name string) int { return utf8.RuneCountInString(name) }
