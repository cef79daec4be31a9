package plugin

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // OIDC and the other login methods in kubeconfigs

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/report"
)

// Run executes the command line and returns the exit code. It prints an error once, in one line.
func Run(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer) int {
	errOut = NewStderr(errOut)
	streams := genericiooptions.IOStreams{In: in, Out: out, ErrOut: errOut}
	cmd, f := newRoot(streams)
	cmd.SetArgs(args)
	executed, err := cmd.ExecuteContextC(ctx)
	if ctx.Err() != nil && errors.Is(err, context.Canceled) && !f.hasWritten() {
		err = errInterrupted
	}
	if err != nil && err.Error() != "" {
		label := "error: "
		switch {
		case exitCodeOf(err) == exitWaiting:
			label = "waiting: "
		case errors.Is(err, errInterrupted):
			label = ""
		}
		lines := []string{label + err.Error()}
		if note := noteMissingFlags(err.Error(), typedClusterFlags(executed)); note != "" {
			lines = append(lines, note)
		}
		_ = f.writeNotes(lines) // the exit code still shows the failure
		f.printFailure(err)
	}
	return exitCodeOf(err)
}

// printFailure prints a document with the error on stdout, unless another document was printed or the command line was
// wrong.
func (c console) printFailure(err error) {
	code := exitCodeOf(err)
	if code == exitUsage || *c.printed || !c.isJSONOrYAML() {
		return
	}
	if err := c.printObject(report.NewFailure(err.Error(), code), nil, nil); err != nil {
		c.warn("the error could not be written to stdout: " + err.Error())
	}
}

const long = `Replace the nodes of a node group with current ones, from the client side.

New nodes are added first. The outdated nodes are fenced (cordoned and tainted
NoSchedule), drained at most --max-unavailable at a time within every
PodDisruptionBudget, and terminated. Then the extra nodes are removed again. For
EKS managed groups and GKE pools the command starts EKS's or GKE's own upgrade.

Without a group, the command lists the node groups of the cluster. It changes
nothing before you confirm or pass --yes, and nothing at all with --dry-run.`

const examples = `  # list the node groups and how many of their nodes are outdated
  kubectl nodeupgrade

  # show the plan for one group
  kubectl nodeupgrade workers --dry-run

  # run the upgrade
  kubectl nodeupgrade workers --yes

  # without a cloud: nodes labelled pool=workers; image=v2 is current
  kubectl nodeupgrade -l pool=workers --current image=v2 --yes`

// NewCommand returns the root command with its subcommands.
func NewCommand(streams genericiooptions.IOStreams) *cobra.Command {
	cmd, _ := newRoot(streams)
	return cmd
}

func newRoot(streams genericiooptions.IOStreams) (*cobra.Command, *flags) {
	f := newFlags(streams)
	cmd := &cobra.Command{
		Use:   "kubectl-nodeupgrade [GROUP...]",
		Short: "Replace the nodes of node groups with current ones",
		Long:  long, Example: examples,
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl nodeupgrade"},
		SilenceUsage:  true,
		SilenceErrors: true,

		SuggestionsMinimumDistance: 2,

		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: completeWords(f.suggestGroups),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := f.openCommand(cmd, args, f.parseRootCommand)
			if err != nil {
				return err
			}
			return runRootCommand(cmd.Context(), c, cmd.SuggestionsFor)
		},
	}
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return usageError(explainFlagError(cmd, err)) })
	cmd.SetIn(streams.In)
	cmd.SetOut(streams.Out)
	cmd.SetErr(streams.ErrOut)
	f.addSharedFlags(cmd.PersistentFlags())
	f.addListFlags(cmd.Flags())
	f.addPlanFlags(cmd)
	f.addUpgradeFlags(cmd.Flags())
	hideConnectionFlags(cmd.PersistentFlags())
	addUnsupportedFlags(cmd.PersistentFlags())
	cmd.AddCommand(newListCommand(f), newPlanCommand(f), newUpgradeCommand(f))
	cmd.AddCommand(newCheckCommand(f), newStatusCommand(f), newSimulateCommand(f), newVersionCommand(f), newOptionsCommand())
	cmd.AddCommand(newPauseCommand(f), newResumeCommand(f), newRollbackCommand(f), newCompleteCommand(f), newAbortCommand(f))
	cmd.CompletionOptions.HiddenDefaultCmd = true
	cmd.SetUsageFunc(printUsage)
	cmd.SetHelpCommand(newHelpCommand(cmd))
	cmd.Version = currentVersion() // a template of its own would make the binary larger (docs/decisions/0021)
	f.registerValueCompletions(cmd)
	rejectRepeatedFlags(cmd)
	return cmd, f
}

// hideConnectionFlags hides kubectl's connection flags from the help, except --context and --kubeconfig.
func hideConnectionFlags(all *pflag.FlagSet) {
	listConnectionFlags().VisitAll(func(flag *pflag.Flag) {
		if flag.Name != "context" && flag.Name != "kubeconfig" {
			all.Lookup(flag.Name).Hidden = true
		}
	})
}

// addUnsupportedFlags adds flags that users know from other kubectl commands but that make no sense here. Each flag
// returns an error that explains why.
func addUnsupportedFlags(flags *pflag.FlagSet) {
	flags.VarP(unsupportedFlag("nodes have no namespace: remove the flag, or set the namespace of the upgrade's state with --state-namespace"), "namespace", "n", "")
	flags.VarP(unsupportedFlag("nodes have no namespace, and all groups are listed anyway: remove the flag"), "all-namespaces", "A", "")
	flags.Lookup("all-namespaces").NoOptDefVal = "true"
	for _, name := range []string{"namespace", "all-namespaces"} {
		flags.Lookup(name).Hidden = true
	}
}

// unsupportedFlag is the value of a flag that is not supported: the explanation.
type unsupportedFlag string

// Set implements pflag.Value.
func (f unsupportedFlag) Set(string) error { return errors.New(string(f)) }

// String implements pflag.Value.
func (f unsupportedFlag) String() string { return "" }

// Type implements pflag.Value.
func (f unsupportedFlag) Type() string { return "bool" }

func newOptionsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "options",
		Short: "List the flags that connect to a cluster",
		Args:  rejectArguments,
		Run: func(cmd *cobra.Command, _ []string) {
			fmt.Fprint(cmd.OutOrStdout(), "Commands that use a cluster take these flags:\n\n", listConnectionFlags().FlagUsagesWrapped(helpWidth))
		},
	}
}
