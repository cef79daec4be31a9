package plugin

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/preflight"
)

// referenceFolder has the pages of the docs that are generated from the commands and the rules.
const referenceFolder = "../../docs/reference"

const generated = "<!-- generated: go test ./pkg/plugin -run TestReferencePagesMatchCommandsFlagsAndRules -update -->\n\n"

// TestReferencePagesMatchCommandsFlagsAndRules compares docs/reference with the pages that are generated from the program.
func TestReferencePagesMatchCommandsFlagsAndRules(t *testing.T) {
	kubeconfig(t, nowhere)
	pages := map[string]string{"flags.md": flagsPage(), "commands.md": commandsPage(t), "findings.md": findingsPage()}
	for name, text := range pages {
		t.Run(name, func(t *testing.T) { golden(t, filepath.Join(referenceFolder, name), generated+text) })
	}
}

// listCommands returns the commands that have a page, in the order of the root command's help.
func listCommands() []*cobra.Command {
	root := NewCommand(genericiooptions.NewTestIOStreamsDiscard())
	return slices.DeleteFunc(slices.Clone(root.Commands()), func(cmd *cobra.Command) bool { return !cmd.IsAvailableCommand() })
}

// flagsPage returns a page with each flag under its heading, its default and the commands that have it.
func flagsPage() string {
	var b strings.Builder
	b.WriteString("# Which flags are there?\n\n" +
		"`kubectl nodeupgrade` without a word takes the flags of `list`. `kubectl nodeupgrade GROUP` takes those of `upgrade`, with `--dry-run` those of `plan`.\n" +
		"A command refuses a flag that has no effect on it (exit code 2). Kubectl's connection flags are listed by `kubectl nodeupgrade options`.\n")
	for _, h := range listFlagHeadings() {
		fmt.Fprintf(&b, "\n## %s\n\n| flag | default | meaning | commands |\n|---|---|---|---|\n", h.title)
		for _, name := range h.flags {
			f, meaning, takers := findFlag(name)
			if f == nil {
				continue
			}
			term := "`--" + name + "`"
			if f.Shorthand != "" {
				term = "`-" + f.Shorthand + "`, " + term
			}
			value := f.DefValue
			if value == "false" || value == "0s" || value == "[]" {
				value = ""
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", term, value, strings.ReplaceAll(meaning, "|", `\|`), strings.Join(takers, ", "))
		}
	}
	return b.String()
}

// findFlag returns a flag, its meaning and the names of the commands that take it. If the meaning depends on the command, each meaning
// stands after its commands.
func findFlag(name string) (found *pflag.Flag, meaning string, takers []string) {
	var meanings []string
	users := map[string][]string{}
	for _, cmd := range listCommands() {
		f := cmp.Or(cmd.LocalFlags().Lookup(name), cmd.InheritedFlags().Lookup(name))
		refused := slices.ContainsFunc(listFlagsIgnoredByCommand(), func(row ignoredFlags) bool { return row.applies(cmd, nil) && slices.Contains(row.flags, name) })
		if f == nil || f.Hidden || refused || cmd.Name() == "options" {
			continue
		}
		found = cmp.Or(found, f)
		takers = append(takers, cmd.Name())
		if users[f.Usage] == nil {
			meanings = append(meanings, f.Usage)
		}
		users[f.Usage] = append(users[f.Usage], cmd.Name())
	}
	if len(meanings) == 1 {
		return found, meanings[0], takers
	}
	for i, text := range meanings {
		meanings[i] = strings.Join(users[text], ", ") + ": " + text
	}
	return found, strings.Join(meanings, ". "), takers
}

// commandsPage returns a page with the help of each command.
func commandsPage(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("# What does each command do?\n\nThis is what `kubectl nodeupgrade help COMMAND` prints. [flags.md](flags.md) explains the flags side by side.\n")
	for _, cmd := range listCommands() {
		help, _, _ := invoke(t, cmd.Name(), "--help")
		fmt.Fprintf(&b, "\n## %s\n\n```\n%s```\n", cmd.Name(), help)
	}
	return b.String()
}

// describeStop returns whether findings of the rule stop an upgrade that begins, if they have the rule's severity.
func describeStop(r *preflight.Rule) string {
	switch {
	case r.StartsAnyway:
		return "no; if it is `block`, a plan ends with 3"
	case r.ID == preflight.RuleUnmanaged:
		return "yes, also one that continues"
	case r.Severity == preflight.Refuse || r.Severity == preflight.Block:
		return "yes"
	default:
		return "no"
	}
}

// findingsPage returns a page with each rule of check and of plans under its id.
func findingsPage() string {
	var b strings.Builder
	b.WriteString("# What does each finding mean?\n\n" +
		"`kubectl nodeupgrade check` and plans print findings with the id of their rule. `kubectl nodeupgrade check --explain ID` prints the same text.\n" +
		"[check.md](../check.md) says what each severity means, and how to leave a rule out. It also says [when a finding stops an upgrade](../check.md#which-findings-stop-an-upgrade).\n\n| id | severity | stops an upgrade that begins |\n|---|---|---|\n")
	rules := append(preflight.Catalogue(), preflight.PlanRules()...)
	slices.SortFunc(rules, func(a, b preflight.Rule) int { return strings.Compare(a.ID, b.ID) })
	for i := range rules {
		fmt.Fprintf(&b, "| [%s](#%s) | %s | %s |\n", rules[i].ID, strings.ToLower(rules[i].ID), rules[i].Severity, describeStop(&rules[i]))
	}
	for i := range rules {
		r := &rules[i]
		fmt.Fprintf(&b, "\n## %s\n\nSeverity: %s, unless the finding says otherwise.\n\n%s\n\nSource: %s.\n", r.ID, r.Severity, r.Text, strings.TrimSuffix(r.Source, "."))
	}
	return b.String()
}

// TestReferenceNamesEachFlag checks that the flags page has each flag of each command.
func TestReferenceNamesEachFlag(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(referenceFolder, "flags.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, cmd := range listCommands() {
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden && f.Name != "help" && !strings.Contains(string(page), "`--"+f.Name+"`") {
				t.Errorf("--%s of %s is missing", f.Name, cmd.Name())
			}
		})
	}
}
