package measure

import (
	"bytes"
	"go/ast"
	"go/scanner"
	"go/token"
	"strings"
	"unicode/utf8"
)

// MaxColumns is how wide a comment may be, a tab counting as TabColumns.
const (
	MaxColumns = 100
	TabColumns = 4
)

// Text counts the lines of a file. A line with code and a comment is a line of code.
type Text struct {
	Lines, Code, Comments int
	// Widths are the columns of each line that is a comment and nothing else.
	Widths []int
}

// Wide is the number of comment lines over MaxColumns.
func (t Text) Wide() int {
	n := 0
	for _, width := range t.Widths {
		if width > MaxColumns {
			n++
		}
	}
	return n
}

// Text counts the file's lines.
func (f File) Text() Text {
	lines := strings.Split(strings.TrimSuffix(string(f.text), "\n"), "\n")
	code, comments := scanLines(f.text)
	t := Text{Lines: len(lines), Code: len(code)}
	for i, line := range lines {
		if comments[i] && !code[i] {
			t.Comments++
			t.Widths = append(t.Widths, utf8.RuneCountInString(line)+(TabColumns-1)*strings.Count(line, "\t"))
		}
	}
	return t
}

// scanLines tells which lines, counted from 0, hold code and which a comment.
func scanLines(text []byte) (code, comments map[int]bool) {
	code, comments = map[int]bool{}, map[int]bool{}
	file := token.NewFileSet().AddFile("", -1, len(text))
	var s scanner.Scanner
	s.Init(file, text, nil, scanner.ScanComments)
	for {
		pos, tok, literal := s.Scan()
		marked := code
		switch {
		case tok == token.EOF:
			return code, comments
		case tok == token.SEMICOLON && literal != ";": // the scanner's own, at the end of a line
			continue
		case tok == token.COMMENT:
			marked = comments
		}
		first := file.Line(pos) - 1
		for i := range bytes.Count([]byte(literal), []byte("\n")) + 1 {
			marked[first+i] = true
		}
	}
}

// HasComment tells whether the package has a comment of its own.
func (p *Package) HasComment() bool {
	for _, file := range p.Files {
		if file.tree.Doc != nil {
			return true
		}
	}
	return false
}

// Exported counts the exported names of the package's scope and the exported methods of its
// exported types, and those of them that have a comment; the comment of a group counts for all in it.
func (p *Package) Exported() (all, documented int) {
	count := func(name *ast.Ident, comments ...*ast.CommentGroup) {
		if !name.IsExported() {
			return
		}
		all++
		for _, comment := range comments {
			if comment != nil {
				documented++
				return
			}
		}
	}
	for _, file := range p.Files {
		for _, decl := range file.tree.Decls {
			switch decl := decl.(type) {
			case *ast.FuncDecl:
				if decl.Recv == nil || ast.IsExported(receiverName(decl)) {
					count(decl.Name, decl.Doc)
				}
			case *ast.GenDecl:
				countSpecs(decl, count)
			}
		}
	}
	return all, documented
}

func countSpecs(decl *ast.GenDecl, count func(*ast.Ident, ...*ast.CommentGroup)) {
	for _, spec := range decl.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			count(spec.Name, decl.Doc, spec.Doc, spec.Comment)
		case *ast.ValueSpec:
			for _, name := range spec.Names {
				count(name, decl.Doc, spec.Doc, spec.Comment)
			}
		}
	}
}

// receiverName is the name of the type that a method is declared on.
func receiverName(fn *ast.FuncDecl) string {
	receiver := fn.Recv.List[0].Type
	if star, ok := receiver.(*ast.StarExpr); ok {
		receiver = star.X
	}
	switch generic := receiver.(type) {
	case *ast.IndexExpr:
		receiver = generic.X
	case *ast.IndexListExpr:
		receiver = generic.X
	}
	if name, ok := receiver.(*ast.Ident); ok {
		return name.Name
	}
	return ""
}
