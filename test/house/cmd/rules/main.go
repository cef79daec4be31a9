// Command rules prints the rules of docs/rules.md by which EKS upgrades node groups, each with the tests and the
// mutants that cite it. It returns an error for a rule that no test cites and that the page does not call another's.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/report"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/house/rulebook"
)

func main() {
	dir := flag.String("dir", ".", "The top of the checkout to read")
	flag.Parse()
	if err := run(os.Stdout, *dir); err != nil {
		fmt.Fprintf(os.Stderr, "rules: %v\n", err)
		os.Exit(1)
	}
}

func run(w io.Writer, dir string) error {
	rules, err := rulebook.Read(os.DirFS(dir), "E")
	if err != nil {
		return err
	}
	rows := make([][]string, 0, len(rules))
	var open []string
	for i := range rules {
		rule := &rules[i]
		text, _, _ := strings.Cut(rule.Text, ". ")
		rows = append(rows, []string{rule.ID, shorten(text, 60), summarize(rule.Tests), summarize(rule.Mutants), rule.Verdict()})
		if rule.Verdict() == "not held" {
			open = append(open, rule.ID)
		}
	}
	if err := report.WriteTable(w, report.Plain, []string{"rule", "what it says", "tests", "mutants", "verdict"}, rows); err != nil {
		return err
	}
	if len(open) > 0 {
		return fmt.Errorf("no test cites %s, and %s does not say why they are not ours to hold", strings.Join(open, ", "), rulebook.Page)
	}
	return nil
}

func shorten(text string, most int) string {
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return text
}

// summarize names the first of what cites a rule, and how many more there are.
func summarize(citing []string) string {
	switch len(citing) {
	case 0:
		return "-"
	case 1:
		return path.Base(citing[0])
	default:
		return fmt.Sprintf("%s and %d more", path.Base(citing[0]), len(citing)-1)
	}
}
