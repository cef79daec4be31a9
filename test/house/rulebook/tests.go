package rulebook

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Test is a test of the product that cites a rule.
type Test struct {
	// Dir is the package's folder.
	Dir, Name string
	// Case is a part of the names of the test's cases that cite the rule: the rule's id, or the name of a file. "" means all cases.
	Case string
}

// String returns the test's name as go test writes it.
func (t Test) String() string { return strings.TrimSuffix(t.Name+"/"+t.Case, "/") }

// matches reports whether a test name from go test is this test.
func (t Test) matches(dir, named string) bool {
	name, sub, _ := strings.Cut(named, "/")
	return dir == t.Dir && name == t.Name && strings.Contains(sub, t.Case)
}

// addTests adds the tests of a file to the rules that they cite in their comments, their strings, or the names of their cases.
// Citations in test helpers do not count.
func addTests(top fs.FS, name string, at map[string]*Rule) error {
	text, err := fs.ReadFile(top, name)
	if err != nil {
		return fmt.Errorf("reading what cites rules: %w", err)
	}
	file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ParseComments)
	if err != nil {
		return fmt.Errorf("reading what cites rules: %w", err)
	}
	for _, decl := range file.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if !ok || f.Recv != nil || !strings.HasPrefix(f.Name.Name, "Test") {
			continue
		}
		whole, cases := citations(file, f)
		for _, id := range whole {
			at[id].addTest(Test{Dir: path.Dir(name), Name: f.Name.Name})
		}
		for _, id := range cases {
			at[id].addTest(Test{Dir: path.Dir(name), Name: f.Name.Name, Case: id})
		}
	}
	return nil
}

// addScenarios adds a file of scenarios to the rules that its comments cite. A mutant of such a rule must break one scenario of the
// file.
func addScenarios(top fs.FS, name string, at map[string]*Rule) error {
	text, err := fs.ReadFile(top, name)
	if err != nil {
		return fmt.Errorf("reading what cites rules: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "#") {
			continue
		}
		for _, id := range citedIDs(line) {
			at[id].addTest(Test{Dir: path.Dir(scenarios), Name: "TestScenariosPrintExpectedTranscripts", Case: strings.TrimSuffix(path.Base(name), ".txt")})
		}
	}
	return nil
}

// addTest adds a test unless the rule has it. It does nothing if the rule is nil, because its id belongs to another family.
func (r *Rule) addTest(t Test) {
	if r != nil && !slices.Contains(r.Tests, t) {
		r.Tests = append(r.Tests, t)
	}
}

// citations returns the ids that a test cites as a whole, and the ids at the beginning of its cases' names:
// "E33 user data", "E41 E42 as EKS".
func citations(file *ast.File, f *ast.FuncDecl) (whole, cases []string) {
	caseName := regexp.MustCompile(`^"((?:[A-Z]+[0-9]{1,3} )+)[^"]`)
	for _, c := range file.Comments {
		if c == f.Doc || f.Pos() <= c.Pos() && c.End() <= f.End() {
			whole = append(whole, citedIDs(c.Text())...)
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		lit, ok := n.(*ast.BasicLit)
		switch {
		case !ok || lit.Kind != token.STRING:
		case caseName.MatchString(lit.Value):
			cases = append(cases, citedIDs(caseName.FindString(lit.Value))...)
		default:
			whole = append(whole, citedIDs(lit.Value)...)
		}
		return true
	})
	return whole, cases
}
