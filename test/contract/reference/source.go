package reference

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/report"
)

// source is the information about types in the Go files of pkg.
type source struct {
	// comments are the comments of types and fields, by PACKAGE.TYPE and PACKAGE.TYPE.FIELD.
	comments map[string]string
	// values are the constants of string types as documents contain them, in the order of the source, by PACKAGE.TYPE. The empty
	// string is omitted.
	values map[string][]any
}

func typeKey(t reflect.Type) string { return t.PkgPath() + "." + t.Name() }

// comment returns the comment of a type or, with a field's name, of the field.
func (s *source) comment(t reflect.Type, field string) string {
	switch field {
	case "":
		return s.comments[typeKey(t)]
	case "ObjectMeta":
		return "The metadata has the name of the node group."
	case "ListMeta":
		return "The metadata of a list is empty."
	}
	base, _, _ := strings.Cut(typeKey(t), "[")
	return s.comments[base+"."+field]
}

// readSource parses the Go files below top/pkg, without tests.
func readSource(top string) (*source, error) {
	s := &source{comments: map[string]string{}, values: map[string][]any{}}
	files := token.NewFileSet()
	err := filepath.WalkDir(filepath.Join(top, "pkg"), func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(files, name, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		folder, err := filepath.Rel(top, filepath.Dir(name))
		if err != nil {
			return err
		}
		for _, declaration := range file.Decls {
			if general, ok := declaration.(*ast.GenDecl); ok {
				s.addDeclaration(path.Join(module, filepath.ToSlash(folder)), general)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading the types of documents: %w", err)
	}
	return s, nil
}

func (s *source) addDeclaration(pkg string, declaration *ast.GenDecl) {
	for _, spec := range declaration.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			key := pkg + "." + spec.Name.Name
			s.comments[key] = joinLines(firstComment(spec.Doc, declaration.Doc))
			if structure, ok := spec.Type.(*ast.StructType); ok {
				s.addFields(key, structure)
			}
		case *ast.ValueSpec:
			named, ok := spec.Type.(*ast.Ident)
			if declaration.Tok != token.CONST || !ok {
				continue
			}
			for _, value := range spec.Values {
				literal, ok := value.(*ast.BasicLit)
				if !ok || literal.Kind != token.STRING {
					continue
				}
				if text, err := strconv.Unquote(literal.Value); err == nil && text != "" {
					s.values[pkg+"."+named.Name] = append(s.values[pkg+"."+named.Name], report.KebabCase(text))
				}
			}
		}
	}
}

// addFields adds the comments of a struct's fields. If a comment also names the next fields, it is added to them too.
func (s *source) addFields(key string, structure *ast.StructType) {
	last := ""
	for _, field := range structure.Fields.List {
		if text := joinLines(firstComment(field.Doc, field.Comment)); text != "" {
			last = text
		}
		for _, name := range namesOf(field) {
			if field.Doc != nil || regexp.MustCompile(`\b`+name+`\b`).MatchString(last) {
				s.comments[key+"."+name] = last
			}
		}
	}
}

// namesOf lists the names of a field. An embedded type has one name.
func namesOf(field *ast.Field) []string {
	if len(field.Names) == 0 {
		switch embedded := field.Type.(type) {
		case *ast.SelectorExpr:
			return []string{embedded.Sel.Name}
		case *ast.Ident:
			return []string{embedded.Name}
		}
		return nil
	}
	names := make([]string, 0, len(field.Names))
	for _, name := range field.Names {
		names = append(names, name.Name)
	}
	return names
}

func firstComment(groups ...*ast.CommentGroup) string {
	for _, group := range groups {
		if text := group.Text(); text != "" {
			return text
		}
	}
	return ""
}

// joinLines joins the lines of a comment into one line.
func joinLines(text string) string { return strings.Join(strings.Fields(text), " ") }
