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
		Use:   "list",
		Short: "List the node groups and how many of their nodes are outdated",
		Long: `List the node groups of the cluster, how many nodes of each group are outdated,
and the phase of an upgrade. A "?" is a number that could not be read; a note
names the reason.`,
		Example: `  # list all groups, with the reason if a group is refused
  kubectl nodeupgrade list -o wide

  # upgrade every group that has outdated nodes; xargs hides the exit code
  kubectl nodeupgrade --outdated -o name | xargs -r kubectl nodeupgrade --yes

  # follow all groups until Ctrl-C
  kubectl nodeupgrade list -w`,
		ValidArgsFunction: cobra.NoFileCompletions,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return usageError(errors.New("list takes no group: use " + shell.Join(append([]string{"kubectl", "nodeupgrade", "plan"}, args...)) + " to see its plan"))
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := f.openCommand(cmd, args, f.parseCommandLine)
			if err != nil {
				return err
			}
			return listGroups(cmd.Context(), c)
		},
	}
	f.addListFlags(cmd.Flags())
	return cmd
}

// newPlanCommand returns the plan command. It does what upgrade does with --dry-run.
func newPlanCommand(f *flags) *cobra.Command {
	cmd := f.newGroupsCommand("plan", "Show the plan of an upgrade and change nothing")
	cmd.Long = `Show what an upgrade would do: the order of the nodes, the time, the evictions,
and the pods and budgets that would block it. The plan simulates the upgrade on
a copy of the cluster. The command changes nothing. The exit code is 3 if
something must be fixed first.`
	cmd.Example = `  # show the plan of one group
  kubectl nodeupgrade plan workers

  # compare strategies and numbers of nodes
  kubectl nodeupgrade plan workers --compare

  # write the plan into a file that can be sent to a reviewer
  kubectl nodeupgrade plan workers --report plan.html`
	f.addPlanFlags(cmd)
	dry := cmd.Flags().Lookup("dry-run")
	dry.DefValue, dry.Usage = "client", "client, or server to also ask the API server whether it would evict the pods and create new ones"
	cobra.CheckErr(dry.Value.Set("client"))
	return cmd
}

// newUpgradeCommand returns the upgrade command. It does what the root command does with a group.
func newUpgradeCommand(f *flags) *cobra.Command {
	cmd := f.newGroupsCommand("upgrade", "Upgrade node groups, one after the other")
	cmd.Long = `Replace the outdated nodes of node groups, one group after the other. The
command shows the plan and asks before it changes anything. After an
interruption, run the same command again: it continues the upgrade, from any
machine.`
	cmd.Example = `  # replace the outdated nodes of two groups without a question
  kubectl nodeupgrade upgrade workers gpu --yes

  # replace up to three nodes at a time
  kubectl nodeupgrade upgrade workers --max-unavailable=3

  # keep the outdated nodes for a day after the last one is drained
  kubectl nodeupgrade upgrade workers --strategy=blue-green --soak=24h

  # without a cloud: nodes labelled pool=workers; image=v2 is current
  kubectl nodeupgrade upgrade -l pool=workers --current image=v2`
	f.addPlanFlags(cmd)
	f.addUpgradeFlags(cmd.Flags())
	return cmd
}

// newGroupsCommand returns a command whose arguments are groups.
func (f *flags) newGroupsCommand(use, short string) *cobra.Command {
	return &cobra.Command{
		Use: use + " GROUP...", Short: short,
		ValidArgsFunction: completeWords(f.suggestGroups),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := f.openCommand(cmd, args, f.parseGroupsCommand)
			if err != nil {
				return err
			}
			return runRootCommand(cmd.Context(), c, suggestNoCommand)
		},
	}
}

// parseGroupsCommand parses the command line of a command that needs a group.
func (f *flags) parseGroupsCommand(cmd *cobra.Command, args []string) (*commandLine, error) {
	line, err := f.parseCommandLine(cmd, args)
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
		ValidArgsFunction: completeWords(func(_ context.Context, args []string, _ string) []string {
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
