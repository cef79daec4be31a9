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

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/preflight"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/shell"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
)

// commandLine is the parsed command line. It does not change after it was parsed.
type commandLine struct {
	console
	choices
	groups   groupSelection
	settings upgrade.Settings
	dryRun   dryRun
	// skipChecks are the ids of the rules to skip.
	skipChecks []string
	// typed reports whether the user typed a flag. retryCommand is the command that continues the upgrade.
	// repeatCommand is the typed command itself. groupArguments are the arguments that name the group and its current
	// nodes.
	typed          func(flag string) bool
	retryCommand   string
	repeatCommand  string
	groupArguments []string
}

// groupSelection is how the user named groups: by their names, by a node or by a selector. It may be empty.
type groupSelection struct {
	names          []string
	node, selector string
	labels         labels.Selector
}

// isSingle reports whether the user named a single group, so that a program gets an object instead of a list.
func (g groupSelection) isSingle() bool {
	return len(g.names) == 1 || g.node != "" || g.selector != ""
}

func (g groupSelection) isEmpty() bool { return len(g.names) == 0 && g.node == "" && g.selector == "" }

func (l *commandLine) isDryRun() bool { return l.dryRun != dryRunNone }

// needsNoForecast reports whether the command shows no plan with times.
func (l *commandLine) needsNoForecast() bool {
	if l.isDryRun() {
		return !l.forecast
	}
	return l.consent.yes && l.reportFile == ""
}

// newCommandLine returns a command line with the values of the flags. It does not check them.
func (f *flags) newCommandLine() commandLine {
	groups := groupSelection{node: f.node, selector: f.selector}
	return commandLine{console: f.console, choices: f.choices, groups: groups, settings: f.settings.Settings, typed: noFlagTyped}
}

// parseRootCommand parses the command line of the root command: list, plan or upgrade. Like all parse functions, it
// rejects flags that contradict each other and sends no request.
func (f *flags) parseRootCommand(cmd *cobra.Command, args []string) (*commandLine, error) {
	line, err := f.parseCommandLine(cmd, args)
	if err == nil {
		err = checkCompare(line)
	}
	if err != nil {
		return nil, err
	}
	switch named := !line.groups.isEmpty(); {
	case named && line.outdated:
		return nil, errors.New("--outdated filters the list of groups: remove the flag, or the group")
	case named && line.watch:
		return nil, errors.New("--watch works only for the list of groups: use kubectl nodeupgrade status GROUP --watch for one group")
	case named:
		return line, nil
	case line.consent.yes:
		return nil, errors.New("--yes without a group: name the group to upgrade (kubectl nodeupgrade lists them)")
	case line.isDryRun():
		return nil, errors.New("--dry-run without a group: name the group to plan for (kubectl nodeupgrade lists them)")
	}
	return line, nil
}

// parseCommandLine parses a command line. It also parses --dry-run and the settings of an upgrade if the command has
// these flags.
func (f *flags) parseCommandLine(cmd *cobra.Command, args []string) (*commandLine, error) {
	if err := rejectEmptyValues(cmd); err != nil {
		return nil, err
	}
	line, err := f.parseSharedFlags(args)
	if err != nil {
		return nil, err
	}
	line.retryCommand, line.clusterFlags, line.groupArguments = makeRetryCommand(cmd, args), typedClusterFlags(cmd), typedGroupArguments(cmd, args)
	line.repeatCommand = formatCommand(cmd, args, append([]string{"report"}, secretFlags...))
	if cmd.Flags().Lookup("dry-run") != nil {
		line.dryRun, err = parseDryRun(cmd, args)
	}
	if err == nil && cmd.Flags().Lookup("strategy") != nil {
		err = f.parseSettings(cmd, line)
	}
	if err == nil {
		err = f.rejectIgnoredFlags(cmd, line)
	}
	if err == nil {
		err = checkReport(cmd, line)
	}
	return line, err
}

// rejectEmptyValues returns an error for a flag of this tool with an empty value, as from a script whose variable is
// not set. An empty --output is allowed: it is kubectl's default.
func rejectEmptyValues(cmd *cobra.Command) (err error) {
	kubectls := listConnectionFlags()
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		if flag.Value.Type() == "string" && flag.Value.String() == "" && flag.Name != "output" && kubectls.Lookup(flag.Name) == nil {
			err = fmt.Errorf("--%s= is empty: pass a value, or remove the flag", flag.Name)
		}
	})
	return err
}

// parseSharedFlags parses the flags that every command has.
func (f *flags) parseSharedFlags(args []string) (*commandLine, error) {
	line := f.newCommandLine()
	var err error
	if line.groups, err = parseGroups(args, line.groups, f.providerName); err != nil {
		return nil, err
	}
	if names := listProviderNames(); !slices.Contains(names, f.providerName) {
		return nil, fmt.Errorf("--provider=%s is not known: use %s", f.providerName, joinAlternatives(names))
	}
	if i := slices.IndexFunc(f.kube.userExtra, func(pair string) bool { return !strings.Contains(pair, "=") }); i >= 0 {
		return nil, fmt.Errorf("--as-user-extra=%s has no value: use --as-user-extra=KEY=VALUE", f.kube.userExtra[i])
	}
	if !slices.Contains(listFlagValues("color"), f.color) {
		return nil, fmt.Errorf("--color=%s is not known: use auto, always or never", f.color)
	}
	if !slices.Contains(listFlagValues("progress"), f.progress) {
		return nil, fmt.Errorf("--progress=%s is not known: use auto, live, tty, plain, json or quiet", f.progress)
	}
	for _, id := range f.skipChecks {
		rule, known := preflight.FindRule(id)
		if !known {
			return nil, fmt.Errorf("--skip-check=%s: there is no such rule: use one of %s", id, strings.Join(listRuleIDs(), ", "))
		}
		if rule.Severity == preflight.Refuse {
			return nil, fmt.Errorf("--skip-check=%s: this rule cannot be skipped: run %s to see why", id, shell.Command("kubectl nodeupgrade check --explain", rule.ID))
		}
		line.skipChecks = append(line.skipChecks, rule.ID)
	}
	if line.settings.Current, err = parseLabels(f.current); err != nil {
		return nil, fmt.Errorf("--current=%s: %w", f.current, err)
	}
	return &line, checkFormat(f.format)
}

// parseGroups parses how the user named the groups: by names, by a node or by a selector. It returns an error if the
// user combined them.
func parseGroups(args []string, g groupSelection, provider string) (groupSelection, error) {
	for _, arg := range args {
		name := strings.TrimPrefix(arg, nodegroup.Prefix)
		if name == "" {
			return g, errors.New("a group's name is empty: kubectl nodeupgrade lists the groups")
		}
		g.names = append(g.names, name)
	}
	ways := slices.DeleteFunc([]bool{len(g.names) > 0, g.node != "", g.selector != ""}, func(given bool) bool { return !given })
	if len(ways) > 1 {
		return g, errors.New("use only one of a group's name, --node and -l")
	}
	if g.selector == "" {
		return g, nil
	}
	if _, ofCloud := cloudProviders()[provider]; ofCloud {
		return g, errors.New("--selector works only with --provider=manual: change or remove --provider")
	}
	var err error
	if g.labels, err = labels.Parse(g.selector); err != nil {
		return g, fmt.Errorf("--selector=%s: %w", g.selector, err)
	}
	return g, nil
}

// dryRun is a value of --dry-run.
type dryRun string

// The values are the same as kubectl's.
const (
	dryRunNone   dryRun = "none"
	dryRunClient dryRun = "client"
	dryRunServer dryRun = "server"
)

// parseDryRun returns the value of --dry-run. It returns an error if a space stands before the value.
func parseDryRun(cmd *cobra.Command, args []string) (dryRun, error) {
	strategy := dryRun(cmd.Flags().Lookup("dry-run").Value.String())
	if !slices.Contains([]dryRun{dryRunNone, dryRunClient, dryRunServer}, strategy) {
		return dryRunNone, fmt.Errorf("--dry-run=%s is not known: use none, client or server", strategy)
	}
	for _, arg := range args {
		// As with kubectl, a value after a space is a separate argument. It must not be used as a group's name.
		if cmd.Flags().Changed("dry-run") && slices.Contains(listFlagValues("dry-run"), arg) {
			return strategy, fmt.Errorf("--dry-run %s has a space: write --dry-run=%s", arg, arg)
		}
	}
	return strategy, nil
}

// parseSettings adds the settings of an upgrade to the command line.
func (f *flags) parseSettings(cmd *cobra.Command, line *commandLine) error {
	s, typed := &line.settings, f.settings
	line.typed = cmd.Flags().Changed
	ifTyped := func(flag string, value *time.Duration) *time.Duration {
		if line.typed(flag) {
			return value
		}
		return nil
	}
	s.DrainTimeout, s.Settle = ifTyped("drain-timeout", &typed.drainTimeout), ifTyped("settle", &typed.settle)
	s.BatchSoak, s.Soak = ifTyped("batch-soak", &typed.batchSoak), ifTyped("soak", &typed.soak)
	s.WaitForDrain = ifTyped("wait-for-drain", &typed.waitForDrain)
	s.NoImplicitBudgets = line.typed("implicit-budgets") && !typed.implicitBudgets
	var err error
	if s.Batch, err = parseQuantity("batch", typed.batch); err != nil {
		return err
	}
	if s.MaxUnavailable, err = parseQuantity("max-unavailable", typed.maxUnavailable); err != nil {
		return err
	}
	if s.MaxSurge, err = parseQuantity("max-surge", typed.maxSurge); err != nil {
		return err
	}
	if s.EvictUnmanaged = typed.unmanaged == "evict"; !s.EvictUnmanaged && typed.unmanaged != "refuse" {
		return fmt.Errorf("--unmanaged-pods=%s is not known: use refuse or evict", typed.unmanaged)
	}
	if s.To != "" && (line.groups.selector != "" || line.providerName == providerManual) {
		return fmt.Errorf("--to=%s: labelled nodes have no revision: pass --current KEY=VALUE instead", s.To)
	}
	return s.Check()
}

func parseQuantity(flag, text string) (*nodegroup.Quantity, error) {
	if text == "" {
		return nil, nil
	}
	q, err := nodegroup.ParseQuantity(text)
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", flag, err)
	}
	return &q, nil
}

// parseLabels parses KEY=VALUE[,KEY=VALUE]. It returns an error if a key has two values.
func parseLabels(text string) (map[string]string, error) {
	if text == "" {
		return nil, nil
	}
	set, err := labels.ConvertSelectorToLabelsMap(text)
	if err != nil {
		return nil, fmt.Errorf("%w: write KEY=VALUE[,KEY=VALUE]", err)
	}
	for _, pair := range strings.Split(text, ",") {
		key, value, _ := strings.Cut(pair, "=")
		if key, value = strings.TrimSpace(key), strings.TrimSpace(value); set[key] != value {
			return nil, fmt.Errorf("label %s is given twice, with %q and %q: use one value", key, value, set[key])
		}
	}
	return set, nil
}

// noFlagTyped is commandLine.typed for commands without the flags of an upgrade.
func noFlagTyped(string) bool { return false }
