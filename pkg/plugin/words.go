package plugin

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/shell"
)

// newListCommand returns the list command. It does what the root command does without a group.
func newListCommand(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:               "list",
		Short:             "List the node groups and how many of their nodes are outdated",
		ValidArgsFunction: cobra.NoFileCompletions,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return usageError(errors.New("list takes no group: use " + shell.Join(append([]string{"kubectl", "nodeupgrade", "plan"}, args...)) + " to see its plan"))
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := f.openCommand(cmd, args, f.parseLine)
			if err != nil {
				return err
			}
			return listGroups(cmd.Context(), c)
		},
	}
	f.addList(cmd.Flags())
	return cmd
}

// newPlanCommand returns the plan command. It does what the root command does with --dry-run.
func newPlanCommand(f *flags) *cobra.Command {
	cmd := f.newGroupsCommand("plan", "Show the plan of an upgrade and change nothing")
	f.addPlan(cmd)
	dry := cmd.Flags().Lookup("dry-run")
	dry.DefValue, dry.Usage = "client", "client, or server to also ask the API server whether evictions are allowed (one pod per budget and owner)"
	cobra.CheckErr(dry.Value.Set("client"))
	return cmd
}

// newUpgradeCommand returns the upgrade command. It does what the root command does with a group.
func newUpgradeCommand(f *flags) *cobra.Command {
	cmd := f.newGroupsCommand("upgrade", "Upgrade node groups, one after the other")
	f.addPlan(cmd)
	f.addUpgrade(cmd.Flags())
	return cmd
}

// newGroupsCommand returns a command that takes names of groups.
func (f *flags) newGroupsCommand(use, short string) *cobra.Command {
	return &cobra.Command{
		Use: use + " GROUP...", Short: short,
		ValidArgsFunction: offerWords(f.listGroups),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := f.openCommand(cmd, args, f.parseGroupsCommand)
			if err != nil {
				return err
			}
			return runUpgrade(cmd.Context(), c, suggestNone)
		},
	}
}

// parseGroupsCommand reads the command line of a command that needs a group.
func (f *flags) parseGroupsCommand(cmd *cobra.Command, args []string) (*commandLine, error) {
	line, err := f.parseLine(cmd, args)
	switch {
	case err != nil:
		return nil, err
	case line.groups.isEmpty():
		return nil, errors.New("no group is named: " + shell.Command("kubectl nodeupgrade", cmd.Name()) + " GROUP (kubectl nodeupgrade list shows them)")
	case cmd.Name() == "plan" && !line.isDryRun():
		return nil, errors.New("--dry-run=none: plan never changes anything: use kubectl nodeupgrade upgrade")
	}
	return line, checkCompare(line)
}

// newHelpCommand returns the help command. Unlike cobra's, it returns an error for an unknown command.
func newHelpCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:   "help [command]",
		Short: "Print the help of a command",
		ValidArgsFunction: offerWords(func(_ context.Context, args []string, _ string) []string {
			var names []string
			for _, sub := range root.Commands() {
				if len(args) == 0 && sub.IsAvailableCommand() {
					names = append(names, sub.Name())
				}
			}
			return names
		}),
		RunE: func(_ *cobra.Command, args []string) error {
			cmd, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 || cmd == nil {
				return usageError(fmt.Errorf("there is no command %q: kubectl nodeupgrade --help lists them", strings.Join(args, " ")))
			}
			cmd.InitDefaultHelpFlag()
			return cmd.Help()
		},
	}
}
