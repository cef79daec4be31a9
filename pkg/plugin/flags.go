package plugin

import (
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// flags are the typed flags. Flags of the same name share a field, whatever their command.
type flags struct {
	console
	choices
	kube *connectionFlags
	// conn is the connection to the cluster; nil before the command has connected.
	conn *connection

	node, selector, current, dump string

	skipChecks []string

	settings settingFlags
}

// choices are flags whose values are used as typed.
type choices struct {
	providerName, clusterName, stateNamespace string
	// outdated filters the list, watch keeps the list up to date, forecast simulates plans, and compare shows other
	// ways beside the requested one.
	controlPlane, outdated, watch, forecast, compare bool
	// reportFile is the file for the report, "" for none.
	reportFile string

	consent consents
}

// settingFlags are the settings of an upgrade. The embedded ones are used as typed, the others are parsed.
type settingFlags struct {
	upgrade.Settings
	maxUnavailable, maxSurge, batch, unmanaged string
	drainTimeout, settle, batchSoak, soak      time.Duration
	waitForDrain                               time.Duration
	implicitBudgets                            bool
}

// consents are the flags by which the user agrees to something.
type consents struct {
	yes, replan, rebuild, takeover, parallelGroups, wait bool
}

func newFlags(streams genericiooptions.IOStreams) *flags {
	return &flags{console: console{IOStreams: streams, printed: new(bool)}, kube: newConnectionFlags()}
}

// addSharedFlags adds the flags that every command has.
func (f *flags) addSharedFlags(flags *pflag.FlagSet) {
	f.kube.addTo(flags)
	addVerbosityFlag(flags, f.ErrOut)
	flags.StringVarP(&f.format, "output", "o", "", usageOfOutput)
	flags.StringVar(&f.node, "node", "", "Select the group that contains this node")
	flags.StringVarP(&f.selector, "selector", "l", "", "Use the nodes with these labels as the group; in a cluster, implies --provider=manual")
	flags.StringVar(&f.current, "current", "", "Labels that only up-to-date nodes have, KEY=VALUE[,KEY=VALUE]; required without a cloud, except to control a recorded upgrade")
	flags.StringVar(&f.providerName, "provider", "auto", "Where the nodes come from: "+joinAlternatives(listProviderNames())+"; manual uses node labels and asks no cloud")
	flags.StringVar(&f.clusterName, "cluster-name", "", "Cluster name in the cloud: EKS's name, if two clusters have a node group of the same name; for GKE gke_PROJECT_LOCATION_CLUSTER, if the kubeconfig does not show it")
	flags.StringVar(&f.stateNamespace, "state-namespace", "kube-system", "Namespace of the Lease and ConfigMap with an upgrade's state")
	flags.BoolVar(&f.controlPlane, "control-plane", false, "Allow an upgrade of control-plane nodes")
	flags.StringVar(&f.color, "color", "auto", "When to use colours: auto (on a terminal, unless NO_COLOR is set), always or never")
	flags.BoolVar(&f.noHeaders, "no-headers", false, "Print tables without column headers")
	flags.StringVar(&f.progress, "progress", "auto", "How progress is shown on stderr: auto, live (a row for each node, on a terminal), tty (one line), plain, json or quiet")
}

// addListFlags adds the flags of the list command.
func (f *flags) addListFlags(flags *pflag.FlagSet) {
	flags.BoolVarP(&f.watch, "watch", "w", false, "Keep the list of groups up to date until Ctrl-C")
	flags.BoolVar(&f.outdated, "outdated", false, "List only groups that have outdated nodes and can be upgraded")
}

// addPlanFlags adds the flags that plans and upgrades have.
func (f *flags) addPlanFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	addDryRunFlag(cmd, "Show the plan and change nothing: client, or server to also ask the API server whether it would evict the pods and create new ones")
	flags.BoolVar(&f.forecast, "forecast", true, "With a plan: simulate the upgrade to show the order of the nodes and the times; =false saves time on a large cluster")
	f.addReportFlag(flags)
	f.addStrategyFlags(flags)
	f.addSkipCheckFlag(flags)
	flags.BoolVar(&f.consent.replan, "replan", false, "Continue an upgrade although its settings or its target have changed")
}

// addUpgradeFlags adds the flags that only upgrades have.
func (f *flags) addUpgradeFlags(flags *pflag.FlagSet) {
	flags.BoolVar(&f.settings.KeepFence, "keep-fence", false, "When the upgrade stops, keep the cordon and the taint of nodes that it has not started to drain")
	f.addWaitFlag(flags)
	flags.BoolVar(&f.consent.rebuild, "rebuild", false, "If the record of an upgrade is lost, rebuild it from the annotations of its nodes without asking")
	flags.BoolVar(&f.consent.takeover, "takeover", false, "Take over an upgrade from another process that is still running")
	flags.BoolVar(&f.consent.parallelGroups, "parallel-groups", false, "Continue although another group of the cluster is being upgraded")
	flags.BoolVarP(&f.consent.yes, "yes", "y", false, "Do not ask; required without a terminal")
}

// addReportFlag adds --report.
func (f *flags) addReportFlag(flags *pflag.FlagSet) {
	flags.StringVar(&f.reportFile, "report", "", "Write a report of one group into a new file: FILE.html, FILE.md or FILE.json")
}

// addSkipCheckFlag adds --skip-check.
func (f *flags) addSkipCheckFlag(flags *pflag.FlagSet) {
	flags.StringSliceVar(&f.skipChecks, "skip-check", nil, "Ids of rules to skip, such as PDB001,TERM001; kubectl nodeupgrade check prints the ids")
}

// addWaitFlag adds --wait.
func (f *flags) addWaitFlag(flags *pflag.FlagSet) {
	flags.BoolVar(&f.consent.wait, "wait", false, "Keep running during waits of more than 15 minutes (soak, wait for drain) instead of exiting with code 6")
}

// addStrategyFlags adds the settings of an upgrade or of its simulation.
func (f *flags) addStrategyFlags(flags *pflag.FlagSet) {
	flags.StringVar((*string)(&f.settings.Strategy), "strategy", "", "How to replace the nodes: "+strings.Join(convertToStrings(record.Strategies()), ", "))
	flags.StringVar(&f.settings.Like, "like", "", "Use the default values of eks or gke (default: gke for GKE node pools, else eks)")
	flags.StringVar(&f.settings.To, "to", "", "AMI, launch-template version or Kubernetes version to upgrade to (default: the one that the group launches now; for EKS managed groups the newest release of the group's Kubernetes version; for GKE node pools the version of the control plane)")
	flags.StringVar(&f.settings.maxUnavailable, "max-unavailable", "", "Maximum number of nodes that may be missing or draining at a time: N up to 100, or N% (default: 1 with --like=eks, 0 of each zone with --like=gke; for GKE node pools their own setting, which the flag changes)")
	flags.StringVar(&f.settings.maxSurge, "max-surge", "", "Nodes to add during the upgrade: N, N% or N/zone (default: with --like=eks 2 per zone or max-unavailable, whichever is more, but at most one for each outdated node; with --like=gke 1; without a cloud 0; for GKE node pools their own setting, which the flag changes)")
	flags.StringVar(&f.settings.UpdateStrategy, "update-strategy", "", "default: add nodes first; minimal: add no nodes and terminate first, like --max-surge=0")
	flags.BoolVar(&f.settings.BatchBarrier, "batch-barrier", false, "Start the next batch of --max-unavailable nodes only when the whole previous batch is finished")
	flags.StringVar(&f.settings.batch, "batch", "", "blue-green: nodes to drain before each soak: N or N% (default 1; 0: no batches)")
	durationVar(flags, &f.settings.batchSoak, "batch-soak", 0, "blue-green: how long to wait after each batch (default: no wait)")
	durationVar(flags, &f.settings.soak, "soak", time.Hour, "blue-green: how long outdated nodes are kept after the last batch")
	durationVar(flags, &f.settings.waitForDrain, "wait-for-drain", 3*24*time.Hour, "autoscaled-blue-green: how long outdated nodes stay cordoned before they are drained, up to 168h")
	durationVar(flags, &f.settings.drainTimeout, "drain-timeout", 0, "How long a node may take to drain (default: 15m with --like=eks; 1h with --like=gke or autoscaled-blue-green)")
	flags.StringVar((*string)(&f.settings.OnTimeout), "on-timeout", "", "What to do if a node is not empty after --drain-timeout: fail, force or skip (default: fail with --like=eks, force with --like=gke)")
	flags.StringVar(&f.settings.unmanaged, "unmanaged-pods", "refuse", "What to do if a node has pods without a controller, which nothing creates again: refuse or evict")
	flags.BoolVar(&f.settings.RespectDoNotDisrupt, "respect-do-not-disrupt", false, "Wait for pods whose annotations ask autoscalers not to disrupt them")
	flags.BoolVar(&f.settings.implicitBudgets, "implicit-budgets", true, "Evict pods of a workload only as new ones become ready, even without a PDB, and keep the last ready pod behind a Service")
	flags.StringVar((*string)(&f.settings.Move), "move", "", "How to move the only ready pod of a workload: evict (the default), or surge (restart its Deployment; only if the rollout starts the new pod first)")
	flags.StringSliceVar(&f.settings.IgnoreUnready, "ignore-unready", nil, "Do not wait until these workloads are ready on current nodes: NAMESPACE/KIND/NAME,…; '*' for all")
	durationVar(flags, &f.settings.settle, "settle", 0, "How long to wait after a node is empty and out of the load balancers (default: 60s with --like=eks, 0 with --like=gke)")
	flags.BoolVar(&f.settings.WaitReplacement, "wait-replacement", true, "Without a cloud: wait after each drained node until its replacement takes pods")
	durationVar(flags, &f.settings.BootTimeout, "boot-timeout", 20*time.Minute, "How long new nodes may take to be Ready and labelled")
	flags.BoolVar(&f.compare, "compare", false, "With a plan: also show the time, cost and outage of other strategies and numbers of nodes")
	flags.BoolVar(&f.settings.KeepMax, "keep-max", false, "Do not raise the group's maximum size; add only as many nodes as fit")
}
