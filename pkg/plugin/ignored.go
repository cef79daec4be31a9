package plugin

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// ignoredFlags are flags that have no effect on some command lines. They are rejected there, so that users do not rely on
// them.
//
// Three kinds of flags are accepted without an effect:
//
//   - --color and --no-headers, because kubectl accepts them with each format.
//   - Consents such as --yes and --wait beside --dry-run, because --dry-run may be added to any upgrade.
//   - Settings of a strategy that the group's cloud does not have. Preflight refuses them or the plan explains them.
type ignoredFlags struct {
	// applies reports whether the flags have no effect on this command line.
	applies func(cmd *cobra.Command, line *commandLine) bool
	flags   []string
	// because explains why the flags have no effect, and what to do.
	because string
}

// matchesCommand returns a function that reports whether the command has one of the names. The root command is "".
func matchesCommand(names ...string) func(*cobra.Command, *commandLine) bool {
	return func(cmd *cobra.Command, _ *commandLine) bool { return slices.Contains(names, commandName(cmd)) }
}

func commandName(cmd *cobra.Command) string {
	if !cmd.HasParent() {
		return ""
	}
	return cmd.Name()
}

// listIgnoredFlags returns all rows of flags without an effect.
func (f *flags) listIgnoredFlags(cmd *cobra.Command) []ignoredFlags {
	ofUpgrades := &cobra.Command{}
	scratch := newFlags(f.IOStreams)
	scratch.addPlanFlags(ofUpgrades)
	scratch.addUpgradeFlags(ofUpgrades.Flags())
	ofDump := func(cmd *cobra.Command, _ *commandLine) bool { return commandName(cmd) == "check" && f.dump != "" }
	lists := func(cmd *cobra.Command, line *commandLine) bool { // --dry-run and --yes without a group have their own errors
		return commandName(cmd) == "" && line.groups.isEmpty() && !line.isDryRun() && !line.consent.yes
	}

	return append(listFlagsIgnoredByCommand(), []ignoredFlags{
		{lists, flagNames(ofUpgrades.Flags()), "the flag sets how a group is upgraded, but no group was named: name a group"},
		{lists, []string{"progress"}, "a list has no progress: remove the flag, or name a group"},
		{
			func(cmd *cobra.Command, line *commandLine) bool {
				return commandName(cmd) == "abort" && line.dryRun == dryRunServer
			},
			[]string{"dry-run"},
			"an abort evicts no pod, so there is nothing to ask the API server: use --dry-run=client",
		},
		{
			func(cmd *cobra.Command, line *commandLine) bool {
				return commandName(cmd) == "abort" && line.isDryRun()
			},
			[]string{"report"},
			"--dry-run aborts nothing, so there is nothing to report: remove one of the two flags",
		},
		{
			func(_ *cobra.Command, line *commandLine) bool {
				return line.compare && line.dryRun == dryRunServer
			},
			[]string{"dry-run"},
			"a comparison does not ask the API server: use --dry-run=client with --compare",
		},
		{
			func(cmd *cobra.Command, line *commandLine) bool {
				return (commandName(cmd) == "" || commandName(cmd) == "upgrade") && !line.isDryRun()
			},
			[]string{"forecast"},
			"the flag works only with plans: add --dry-run, or remove the flag",
		},
		{ofDump, listFlagsOfClusters(), readsDump},
		{
			func(cmd *cobra.Command, line *commandLine) bool {
				return commandName(cmd) == "simulate" && line.compare
			},
			[]string{"progress"},
			"a comparison shows no progress: remove the flag",
		},
		{
			func(cmd *cobra.Command, line *commandLine) bool {
				return commandName(cmd) == "simulate" && (line.progress == "live" || line.progress == "tty")
			},
			[]string{"progress"},
			"it runs in virtual time: use plain, json or quiet",
		},
		{
			func(cmd *cobra.Command, _ *commandLine) bool { return cmd.Flags().Changed("explain") },
			flagNames(cmd.Flags(), "explain", "color", "help"), "with --explain it only shows a rule: remove the flag",
		},
	}...)
}

// readsDump explains why a command that reads a dump ignores the flags of listFlagsOfClusters.
const readsDump = "it reads a dump, not a cluster: remove the flag"

// listFlagsOfClusters returns the flags that have no effect without a cluster.
func listFlagsOfClusters() []string {
	return append(flagNames(listConnectionFlags()), "state-namespace", "cluster-name")
}

// listFlagsIgnoredByCommand returns the rows that depend only on the command. The command's help hides these flags.
func listFlagsIgnoredByCommand() []ignoredFlags {
	return []ignoredFlags{
		{matchesCommand("simulate"), listFlagsOfClusters(), readsDump},
		{matchesCommand("list"), []string{"node", "selector"}, "it shows all groups: remove the flag, or use kubectl nodeupgrade plan"},
		{matchesCommand("list", "plan", "check", "status", "version"), []string{"progress"}, "it changes nothing, so there is no progress to show: remove the flag"},
		{matchesCommand("version"), []string{"node", "selector", "current", "provider", "cluster-name", "state-namespace", "control-plane"}, "it needs no group: remove the flag"},
		{matchesCommand("check"), []string{"compare"}, "it compares no strategies: use kubectl nodeupgrade plan GROUP --compare"},
		{matchesCommand("abort"), []string{"parallel-groups"}, "it drains no node, so it never waits for other groups: remove the flag"},
	}
}

func flagNames(set *pflag.FlagSet, except ...string) (names []string) {
	set.VisitAll(func(flag *pflag.Flag) {
		if !slices.Contains(except, flag.Name) {
			names = append(names, flag.Name)
		}
	})
	return names
}

// rejectIgnoredFlags returns an error if the user typed a flag that has no effect.
func (f *flags) rejectIgnoredFlags(cmd *cobra.Command, line *commandLine) error {
	for _, row := range f.listIgnoredFlags(cmd) {
		if !row.applies(cmd, line) {
			continue
		}
		for _, name := range row.flags {
			if cmd.Flags().Changed(name) {
				return fmt.Errorf("%s takes no --%s: %s", describeCommand(cmd), name, row.because)
			}
		}
	}
	return nil
}

func describeCommand(cmd *cobra.Command) string {
	if !cmd.HasParent() {
		return "kubectl nodeupgrade"
	}
	return cmd.Name()
}

// explainFlagError returns the error for a flag that the command does not have. It names the commands that have the
// flag.
func explainFlagError(cmd *cobra.Command, err error) error {
	_, isNoBool := errors.AsType[*strconv.NumError](err)
	if invalid, is := errors.AsType[*pflag.InvalidValueError](err); is && isNoBool && invalid.GetFlag().Value.Type() == "bool" {
		return fmt.Errorf("--%s=%s: use true or false", invalid.GetFlag().Name, invalid.GetValue())
	}
	unknown, isUnknown := errors.AsType[*pflag.NotExistError](err)
	if !isUnknown {
		return fmt.Errorf("%w: see kubectl nodeupgrade --help", err)
	}
	name := unknown.GetSpecifiedName()
	var have []string
	for _, other := range append([]*cobra.Command{cmd.Root()}, cmd.Root().Commands()...) {
		flag := other.LocalNonPersistentFlags().Lookup(name)
		if flag == nil && len(name) == 1 {
			flag = other.LocalNonPersistentFlags().ShorthandLookup(name)
		}
		if flag != nil && other.HasParent() && !other.Hidden {
			name = flag.Name
			have = append(have, other.Name())
		}
	}
	if len(have) == 0 {
		return fmt.Errorf("%w: see kubectl nodeupgrade --help", err)
	}
	return fmt.Errorf("%s takes no --%s (only %s): remove the flag", describeCommand(cmd), name, describeCommandsWithFlag(have))
}

func describeCommandsWithFlag(commands []string) string {
	if len(commands) == 1 {
		return commands[0] + " does"
	}
	last := len(commands) - 1
	return strings.Join(commands[:last], ", ") + " and " + commands[last] + " do"
}
