package plugin

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
)

// options are the flags as typed, and what complete makes of them.
type options struct {
	genericiooptions.IOStreams
	config *genericclioptions.ConfigFlags
	output output

	node, selector, current string
	provider, stateSpace    string
	controlPlane, outdated  bool
	progress                string

	strategy, like, maxUnavailable, maxSurge, onTimeout, unmanaged, to string
	drainTimeout, settle, bootTimeout                                  time.Duration
	yes, replan, takeover, parallelGroups, forecast                    bool

	// What complete makes of them.
	groups   []string
	dryRun   cmdutil.DryRunStrategy
	settings upgrade.Settings
	labels   labels.Selector
	// given tells the flags that were typed, and again is the whole command to type once more.
	given func(flag string) bool
	again string
}

func newOptions(streams genericiooptions.IOStreams) *options {
	config := genericclioptions.NewConfigFlags(true).WithDiscoveryQPS(50).WithDiscoveryBurst(300)
	config.Namespace = nil // nodes have none
	return &options{IOStreams: streams, config: config, given: func(string) bool { return false }}
}

// addShared adds the flags that every command takes.
func (o *options) addShared(flags *pflag.FlagSet) {
	o.config.AddFlags(flags)
	addVerbosity(flags, o.ErrOut)
	o.output.addFlags(flags)
	flags.StringVar(&o.node, "node", "", "Name a group by one of its nodes")
	flags.StringVarP(&o.selector, "selector", "l", "", "Name a group by a label selector of its nodes; implies --provider=manual")
	flags.StringVar(&o.current, "current", "", "Labels that a current node carries, KEY=VALUE[,KEY=VALUE]; required without a cloud")
	flags.StringVar(&o.provider, "provider", "auto", "Where the nodes come from: "+alternatives(providerNames()))
	flags.StringVar(&o.stateSpace, "state-namespace", "kube-system", "Namespace of the Lease and ConfigMap that hold an upgrade's state")
	flags.BoolVar(&o.controlPlane, "control-plane", false, "Let control-plane nodes be part of a group")
	flags.StringVar(&o.progress, "progress", "auto", "How progress is shown on stderr: auto, tty, plain, json or quiet")
}

// addUpgrade adds the flags of the list, the plan and the upgrade.
func (o *options) addUpgrade(cmd *cobra.Command) {
	flags := cmd.Flags()
	cmdutil.AddDryRunFlag(cmd)
	dry := flags.Lookup("dry-run")
	dry.NoOptDefVal = "client"
	dry.Usage = "Show the plan and change nothing: client, or server to also ask the API server about one pod of each budget and owner"
	flags.BoolVar(&o.forecast, "forecast", true, "With a plan: simulate the upgrade, for the order of nodes and the times; =false is faster on a large cluster")
	flags.BoolVar(&o.outdated, "outdated", false, "With the list: only groups with outdated nodes that can be driven")
	o.addStrategy(flags)
	flags.BoolVar(&o.settings.KeepFence, "keep-fence", false, "When stopped, leave nodes fenced that were never started")
	flags.BoolVar(&o.settings.WaitReplacement, "wait-replacement", true, "Without a cloud: drain the next node only when a replacement is Ready")
	flags.BoolVar(&o.replan, "replan", false, "Continue an upgrade although its settings or its target have changed")
	flags.BoolVar(&o.takeover, "takeover", false, "Take an upgrade over from a holder that is still alive")
	flags.BoolVar(&o.parallelGroups, "parallel-groups", false, "Upgrade although another group of the cluster is being upgraded")
	flags.BoolVarP(&o.yes, "yes", "y", false, "Do not ask; required where there is no terminal")
}

// addStrategy adds the flags that shape an upgrade, be it carried out or simulated.
func (o *options) addStrategy(flags *pflag.FlagSet) {
	flags.StringVar(&o.strategy, "strategy", "", "How the group is replaced: "+strings.Join(texts(upgrade.Strategies()), ", "))
	flags.StringVar(&o.like, "like", "", "Whose numbers are the defaults: eks or gke (by provider: aws eks, gke gke, manual eks)")
	flags.StringVar(&o.to, "to", "", "AMI or launch-template version to move to; otherwise what the group's template says")
	flags.StringVar(&o.maxUnavailable, "max-unavailable", "", "Nodes that may be missing or draining at once, a number up to 100 or a percentage (eks 1, gke 0)")
	flags.StringVar(&o.maxSurge, "max-surge", "", "Nodes added first: 2, 10% or 2/zone (eks min(max(2×zones, max-unavailable), outdated), gke 1/zone, manual 0)")
	flags.BoolVar(&o.settings.BatchBarrier, "batch-barrier", false, "Wait for each batch of max-unavailable nodes to end before the next begins")
	flags.DurationVar(&o.drainTimeout, "drain-timeout", 0, "How long a node may take to drain (eks 15m, gke 1h)")
	flags.StringVar(&o.onTimeout, "on-timeout", "", "What happens to a node that is not empty in time: fail, force or skip (eks fail, gke force)")
	flags.StringVar(&o.unmanaged, "unmanaged-pods", "refuse", "Pods without a controller, which nothing brings back: refuse or evict")
	flags.BoolVar(&o.settings.RespectDoNotDisrupt, "respect-do-not-disrupt", false, "Wait for pods whose owners ask autoscalers not to disrupt them, by annotation")
	flags.DurationVar(&o.settle, "settle", 0, "Wait after a node is empty and out of the load balancers (eks 60s, gke 0)")
	flags.DurationVar(&o.bootTimeout, "boot-timeout", 20*time.Minute, "How long new nodes may take to be Ready and labelled")
	flags.BoolVar(&o.settings.KeepMax, "keep-max", false, "Do not raise the group's maximum size; add only as many nodes as fit")
}

// complete turns what was typed into typed values and refuses what contradicts itself. It touches
// nothing.
func (o *options) complete(cmd *cobra.Command, args []string) error {
	if err := o.completeShared(args); err != nil {
		return err
	}
	o.again = again(cmd, args)
	if err := o.completeDryRun(cmd, args); err != nil {
		return err
	}
	if err := o.completeSettings(cmd); err != nil {
		return err
	}
	switch named := len(o.groups) > 0 || o.node != "" || o.selector != ""; {
	case named && o.outdated:
		return errors.New("--outdated filters the list: leave it out, or the group")
	case named:
		return nil
	case o.yes:
		return errors.New("--yes without a group: name the group to upgrade (kubectl nodeupgrade lists them)")
	case o.dryRun != cmdutil.DryRunNone:
		return errors.New("--dry-run without a group: name the group to plan for (kubectl nodeupgrade lists them)")
	}
	return nil
}

func (o *options) completeShared(args []string) error {
	if err := o.completeNames(args); err != nil {
		return err
	}
	if names := providerNames(); !slices.Contains(names, o.provider) {
		return fmt.Errorf("--provider=%s is not known: use %s", o.provider, alternatives(names))
	}
	if !slices.Contains(valuesOf("progress"), o.progress) {
		return fmt.Errorf("--progress=%s is not known: use auto, tty, plain, json or quiet", o.progress)
	}
	var err error
	if o.settings.Current, err = parseLabels(o.current); err != nil {
		return fmt.Errorf("--current=%s: %w", o.current, err)
	}
	return o.output.complete()
}

// completeNames reads the names of groups: as arguments, by a node or by a selector, but in one way
// only.
func (o *options) completeNames(args []string) error {
	for _, arg := range args {
		name := strings.TrimPrefix(arg, "nodegroup/")
		if name == "" {
			return errors.New("a group's name is empty: kubectl nodeupgrade lists the groups")
		}
		o.groups = append(o.groups, name)
	}
	ways := slices.DeleteFunc([]bool{len(o.groups) > 0, o.node != "", o.selector != ""}, func(given bool) bool { return !given })
	if len(ways) > 1 {
		return errors.New("a group is named by its name, by --node or by -l: use one of them")
	}
	if o.selector == "" {
		return nil
	}
	if _, ofCloud := clouds()[o.provider]; ofCloud {
		return errors.New("--selector names labelled nodes: it goes with --provider=manual")
	}
	var err error
	if o.labels, err = labels.Parse(o.selector); err != nil {
		return fmt.Errorf("--selector=%s: %w", o.selector, err)
	}
	return nil
}

func (o *options) completeDryRun(cmd *cobra.Command, args []string) error {
	switch text := cmdutil.GetFlagString(cmd, "dry-run"); text {
	case "none":
		o.dryRun = cmdutil.DryRunNone
	case "client":
		o.dryRun = cmdutil.DryRunClient
	case "server":
		o.dryRun = cmdutil.DryRunServer
	default:
		return fmt.Errorf("--dry-run=%s is not known: use none, client or server", text)
	}
	for _, arg := range args {
		// A value behind a space is an argument of its own, as with kubectl: it must not pass for a
		// group.
		if cmd.Flags().Changed("dry-run") && slices.Contains(valuesOf("dry-run"), arg) {
			return fmt.Errorf("--dry-run %s has a space: write --dry-run=%s", arg, arg)
		}
	}
	return nil
}

func (o *options) completeSettings(cmd *cobra.Command) error {
	s := &o.settings
	s.Like, s.Strategy, s.To, s.OnTimeout = o.like, upgrade.Strategy(o.strategy), o.to, upgrade.OnTimeout(o.onTimeout)
	s.BootTimeout = o.bootTimeout
	o.given = cmd.Flags().Changed
	if o.given("drain-timeout") {
		s.DrainTimeout = &o.drainTimeout
	}
	if o.given("settle") {
		s.Settle = &o.settle
	}
	var err error
	if s.MaxUnavailable, err = quantity("max-unavailable", o.maxUnavailable); err != nil {
		return err
	}
	if s.MaxSurge, err = quantity("max-surge", o.maxSurge); err != nil {
		return err
	}
	switch o.unmanaged {
	case "refuse":
	case "evict":
		s.EvictUnmanaged = true
	default:
		return fmt.Errorf("--unmanaged-pods=%s is not known: use refuse or evict", o.unmanaged)
	}
	return s.Check()
}

func quantity(flag, text string) (*nodegroup.Quantity, error) {
	if text == "" {
		return nil, nil
	}
	q, err := nodegroup.ParseQuantity(text)
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", flag, err)
	}
	return &q, nil
}

// parseLabels reads KEY=VALUE[,KEY=VALUE].
func parseLabels(text string) (map[string]string, error) {
	if text == "" {
		return nil, nil
	}
	set, err := labels.ConvertSelectorToLabelsMap(text)
	if err != nil {
		return nil, fmt.Errorf("%w: write KEY=VALUE[,KEY=VALUE]", err)
	}
	return set, nil
}
