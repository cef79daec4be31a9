// Command rules prints the rules of docs/internals/rules.md about upgrades by EKS and GKE and about check, each with the tests and the mutants
// that cite it. It fails if a rule lacks tests or mutants, unless the page says that the tool does not have to follow the rule. With
// -check it also plants the mutants, and fails if a rule's tests pass nevertheless.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/report"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/house/rulebook"
)

func main() {
	check := flag.Bool("check", false, "Plant each mutant and see the tests of its rule fail")
	only := flag.String("only", "", "Only the rules whose ids match the regular expression")
	parallel := flag.Int("j", runtime.GOMAXPROCS(0), "How many mutants at once")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Stdout, *only, *check, *parallel)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "rules: %v\n", err)
		os.Exit(1)
	}
}

// run prints the table. The working directory must be the top of the checkout.
func run(ctx context.Context, w io.Writer, only string, check bool, parallel int) error {
	wanted, err := regexp.Compile(only)
	if err != nil {
		return fmt.Errorf("reading -only: %w", err)
	}
	rules, err := rulebook.Read(os.DirFS("."), rulebook.Families)
	if err != nil {
		return err
	}
	rules = slices.DeleteFunc(rules, func(r rulebook.Rule) bool { return !wanted.MatchString(r.ID) })
	if check {
		if err := rulebook.Prove(ctx, rules, parallel); err != nil {
			return err
		}
	}
	return writeTable(w, rules)
}

func writeTable(w io.Writer, rules []rulebook.Rule) error {
	rows := make([][]string, 0, len(rules))
	var open []string
	for i := range rules {
		rule := &rules[i]
		text, _, _ := strings.Cut(rule.Text, ". ")
		rows = append(rows, []string{rule.ID, shorten(text, 60), describeTests(rule), summarize(rule.Mutants), rule.Verdict()})
		if !rule.IsHeld() {
			open = append(open, rule.ID)
		}
	}
	if err := report.WriteTable(w, report.Plain, []string{"rule", "what it says", "tests", "mutants", "verdict"}, rows); err != nil {
		return err
	}
	if len(open) > 0 {
		return fmt.Errorf("not held, and %s does not say why they are not ours to hold: %s", rulebook.Page, strings.Join(open, ", "))
	}
	return nil
}

func shorten(text string, most int) string {
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return text
}

// describeTests returns the name of the rule's first test, and how many more there are. After the mutants were tried, it returns the
// name of the first test that they broke, and the number of broken tests.
func describeTests(r *rulebook.Rule) string {
	tests := r.Tests
	if len(r.Broken) > 0 {
		tests = r.Broken
	}
	names := make([]string, 0, len(tests))
	for _, t := range tests {
		names = append(names, t.String())
	}
	if !r.Tried {
		return summarize(names)
	}
	return fmt.Sprintf("%s (%d of %d broken)", summarize(names[:min(1, len(names))]), len(r.Broken), len(r.Tests))
}

// summarize returns the first name, and how many more there are.
func summarize(names []string) string {
	switch len(names) {
	case 0:
		return "-"
	case 1:
		return names[0]
	default:
		return fmt.Sprintf("%s and %d more", names[0], len(names)-1)
	}
}
