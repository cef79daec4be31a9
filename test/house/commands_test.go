package house

import (
	"go/ast"
	"go/token"
	"go/types"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// printedCommand matches the beginning of a command that a user can copy.
func printedCommand() *regexp.Regexp {
	return regexp.MustCompile(`\b(kubectl|aws (autoscaling|ec2|eks|elbv2|ssm)|gcloud) `)
}

// commandFaults lists the commands with unquoted words. A word is unquoted if it is inserted by a verb of a format, or added with "+"
// without a function of isQuoted.
func commandFaults(src source) []string {
	var faults []string
	commands, inner := printedCommand(), map[ast.Expr]bool{}
	ast.Inspect(src.file, func(n ast.Node) bool {
		expr, ok := n.(ast.Expr)
		if !ok || inner[expr] {
			return true
		}
		text := ""
		for sum, ok := expr.(*ast.BinaryExpr); ok; sum, ok = sum.X.(*ast.BinaryExpr) {
			inner[sum.X], inner[sum.Y] = true, true
		}
		for _, operand := range operandsOf(expr) {
			part, isText := textOf(operand)
			if !isText && commands.MatchString(text) && !isQuoted(operand) {
				faults = append(faults, src.fault(operand.Pos(), "this is put into a command as it is: quote it with pkg/shell"))
			}
			text += part
		}
		if at := commands.FindStringIndex(text); at != nil && strings.Contains(strings.ReplaceAll(text[at[0]:], "%%", ""), "%") {
			faults = append(faults, src.fault(expr.Pos(), "a %%verb of a format is a word of a command: quote the whole command with pkg/shell"))
		}
		return true
	})
	return faults
}

// operandsOf returns the operands of "+", from left to right. A single expression is its own operand.
func operandsOf(expr ast.Expr) []ast.Expr {
	if sum, ok := expr.(*ast.BinaryExpr); ok && sum.Op == token.ADD {
		return append(operandsOf(sum.X), operandsOf(sum.Y)...)
	}
	return []ast.Expr{expr}
}

func textOf(expr ast.Expr) (text string, ok bool) {
	literal, ok := expr.(*ast.BasicLit)
	if !ok || literal.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(literal.Value)
	return text, err == nil
}

// isQuoted reports whether the expression calls a function that quotes its arguments, or is a command of pkg/dump.
func isQuoted(expr ast.Expr) bool {
	name := ""
	switch e := expr.(type) {
	case *ast.SelectorExpr:
		name = types.ExprString(e)
	case *ast.CallExpr:
		name = types.ExprString(e.Fun) + "()"
	}
	switch name {
	case "shell.Quote()", "shell.Command()", "shell.Option()", "shell.Join()", "nodegroup.Command()", "dump.Command()", "dump.Script()":
		return true
	default:
		return false
	}
}

func TestPrintedCommandsAreQuoted(t *testing.T) {
	for _, src := range sources(t) {
		if !src.isTest() && (isUnder(src.dir(), "pkg") || isUnder(src.dir(), "cmd")) {
			reportFaults(t, commandFaults(src))
		}
	}
}

func TestUnquotedValuesInPrintedCommandsAreFound(t *testing.T) {
	cases := map[string]struct{ expr, want string }{
		"a verb behind a command":         {`f("run kubectl nodeupgrade abort %s", name)`, "verb of a format"},
		"a quoting verb is Go's":          {`f("run kubectl uncordon %q", name)`, "verb of a format"},
		"a verb in the second half":       {`f("%s: "+"kubectl get node "+"%s", err, name)`, "verb of a format"},
		"an indexed verb":                 {`f("aws eks wait nodegroup-active --name %[2]s", a, b)`, "verb of a format"},
		"a verb before a command":         {`f("%s: see kubectl nodeupgrade --help", err)`, ""},
		"a percent sign":                  {`f("kubectl top is at 100%%")`, ""},
		"a name added":                    {`"kubectl uncordon " + name`, "put into a command"},
		"a name added in brackets":        {`f("kubectl uncordon " + node.Name + " ok")`, "put into a command"},
		"a join added":                    {`"kubectl delete node " + strings.Join(names, " ")`, "put into a command"},
		"a quoted word added":             {`"kubectl nodeupgrade status " + shell.Option("--state-namespace", name)`, ""},
		"a name added to a quoted word":   {`"kubectl get " + shell.Quote(kind) + name`, "put into a command"},
		"a command of this tool":          {`f("run %s", nodegroup.Command("abort", name))`, ""},
		"a flag behind one":               {`nodegroup.Command("status", name) + " -w"`, ""},
		"no command":                      {`f("kubectl-nodeupgrade: version %d", n)`, ""},
		"a name before a command is none": {`name + ": kubectl get nodes"`, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			src := mustParse(t, "pkg/plugin/a.go", "package plugin\n\nvar x = "+c.expr+"\n")
			checkFaults(t, commandFaults(src), c.want)
		})
	}
}
