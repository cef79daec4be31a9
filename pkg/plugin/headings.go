package plugin

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// helpWidth is the maximum width of the help, in columns.
const helpWidth = 80

// exitCodes is the part of the help about exit codes. docs/automation.md explains them in full.
const exitCodes = `
Exit codes:
  0    done, or nothing to do; all workloads have their pods
  1    failed, or the group is refused; fix the cause and run it again
  2    the command line is wrong or something is missing; nothing was touched
  3    fix something first: a plan, check or simulate names it
  4    finished, but some nodes could not be replaced
  5    paused, or stopped by a user or another process, or run by one
  6    waiting, for example for a soak; run it again at the time that it names
  130  interrupted; run the same command again
`

// rootFlags is the part of the help that refers to the flags of other commands.
const rootFlags = `
Flags:
  The command takes the flags of list without a group, the flags of upgrade with
  a group, and the flags of plan with --dry-run. See kubectl nodeupgrade help
  upgrade.
`

// heading is a heading of the help with the flags under it.
type heading struct {
	title string
	flags []string
}

func listFlagHeadings() []heading {
	return []heading{
		{"Which group", []string{"node", "selector", "current", "provider", "cluster-name", "control-plane", "outdated", "all-namespaces", "all-nodes", "filename"}},
		{"How it is upgraded", []string{
			"to", "strategy", "like", "max-surge", "max-unavailable", "update-strategy", "batch-barrier", "batch", "batch-soak", "soak", "wait-for-drain", "keep-max", "unmanaged-pods", "respect-do-not-disrupt", "implicit-budgets", "move", "ignore-unready", "settle", "wait-replacement",
		}},
		{"When it stops", []string{
			"drain-timeout", "on-timeout", "boot-timeout", "wait", "keep-fence", "replan", "rebuild", "takeover", "parallel-groups",
		}},
		{"Plan and output", []string{"explain", "fail-on", "skip-check", "dry-run", "forecast", "compare", "yes", "output", "no-headers", "color", "progress", "report", "watch", "exit-code", "v"}},
		{"Cluster", []string{"context", "kubeconfig", "state-namespace"}},
	}
}

// printUsage prints how a command is used: its forms, its flags under headings, and where to find more.
func printUsage(cmd *cobra.Command) error {
	var b strings.Builder
	b.WriteString("Usage:\n")
	if cmd.Runnable() {
		fmt.Fprintf(&b, "  %s\n", cmd.UseLine())
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "  %s [command]\n", cmd.CommandPath())
	}
	if cmd.HasExample() {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", cmd.Example)
	}
	if cmd.HasAvailableSubCommands() {
		b.WriteString("\nCommands:\n")
		for _, sub := range cmd.Commands() {
			if sub.IsAvailableCommand() || sub.Name() == "help" {
				fmt.Fprintf(&b, "  %-11s %s\n", sub.Name(), sub.Short)
			}
		}
	}
	var refused []string
	for _, row := range listFlagsIgnoredByCommand() {
		if row.applies(cmd, nil) {
			refused = append(refused, row.flags...)
		}
	}
	if cmd.HasParent() {
		for _, h := range listFlagHeadings() {
			b.WriteString(h.describeFlags(cmd.Flags(), refused))
		}
	} else {
		b.WriteString(rootFlags + exitCodes)
	}
	root := cmd.Root().CommandPath()
	fmt.Fprintf(&b, "\n%s options lists the flags that connect to a cluster.\n", root)
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "%s help COMMAND explains a command and its flags.\n", root)
	}
	_, err := fmt.Fprint(cmd.OutOrStderr(), b.String())
	return err
}

// describeFlags returns the help of the heading's flags that the command has and accepts; "" if there are none.
func (h heading) describeFlags(flags *pflag.FlagSet, refused []string) string {
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	own.SortFlags = false
	for _, name := range h.flags {
		if f := flags.Lookup(name); f != nil && !slices.Contains(refused, name) {
			own.AddFlag(f)
		}
	}
	if !own.HasAvailableFlags() {
		return ""
	}
	return "\n" + h.title + ":\n" + own.FlagUsagesWrapped(helpWidth)
}
