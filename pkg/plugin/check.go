package plugin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cluster"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/inventory"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/preflight"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/report"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/trim"
)

// checkFlags are the flags that only the check command has.
type checkFlags struct {
	explain, failOn string
	all, everyNode  bool
	// format is one of formatsOfCheck, or "" for any other format.
	format string
}

const checkExamples = `  # show what would block the upgrade of a group and what users would notice
  kubectl nodeupgrade check workers

  # check all groups before a new image exists, as if every node were outdated
  kubectl nodeupgrade check -A --all-nodes

  # print commands that fix findings; read them before you run them
  kubectl nodeupgrade check workers -o patch

  # write files for CI: code scanning and test reports
  kubectl nodeupgrade check workers -o sarif > check.sarif
  kubectl nodeupgrade check workers -o junit > check.xml

  # check a dump of a cluster; help simulate shows how to write one
  kubectl nodeupgrade check -f dump.json

  # explain a rule
  kubectl nodeupgrade check --explain PDB001`

func newCheckCommand(f *flags) *cobra.Command {
	var own checkFlags
	cmd := &cobra.Command{
		Use:   "check [GROUP...]",
		Short: "Show what would block an upgrade or disturb workloads",
		Long: `Check the workloads that have pods on outdated nodes against every rule. Print
what would block the upgrade, what users would notice, and how to fix it. The
command changes nothing. The exit code is 3 if a finding is an error or worse,
or if it is unknown which nodes are outdated.`,
		Example: checkExamples,
		ValidArgsFunction: completeWords(func(ctx context.Context, args []string, typed string) []string {
			if f.dump != "" {
				return f.suggestDumpGroups(ctx, nil, typed)
			}
			return f.suggestGroups(ctx, args, typed)
		}),
		RunE: func(cmd *cobra.Command, args []string) error {
			if own.explain != "" {
				if err := f.rejectIgnoredFlags(cmd, &commandLine{}); err != nil {
					return usageError(err)
				}
				if len(args) > 0 {
					return usageError(errors.New("--explain shows a rule and needs no group: remove the group"))
				}
				return printRule(f, own.explain)
			}
			if slices.Contains(formatsOfCheck(), f.format) {
				own.format, f.format = f.format, ""
			} else if err := checkFormat(f.format, formatsOfCheck()...); err != nil {
				return usageError(err)
			}
			line, err := f.parseCommandLine(cmd, args)
			if err == nil {
				err = own.checkValues(line.groups)
			}
			if err != nil {
				return usageError(err)
			}
			c := &checker{line: line, checkFlags: own}
			if f.dump != "" {
				return c.checkDump(cmd.Context(), f.dump)
			}
			return c.checkCluster(cmd.Context(), f)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&own.explain, "explain", "", "Explain a rule: what it checks, how to skip it and its source")
	flags.StringVar(&own.failOn, "fail-on", string(preflight.Error), "Exit with code 3 for findings of at least this severity: block, error, warning or info; never: do not")
	f.addSkipCheckFlag(flags)
	flags.BoolVarP(&own.all, "all-namespaces", "A", false, "Check all groups, the default without a group")
	flags.BoolVar(&own.everyNode, "all-nodes", false, "Check as if every node of the group were outdated")
	flags.StringVarP(&f.dump, "filename", "f", "", "Dump to check instead of a cluster, JSON or YAML, also gzipped; - for stdin")
	f.addStrategyFlags(flags)
	flags.StringVarP(&f.format, "output", "o", "", usageOfOutput+", "+strings.Join(formatsOfCheck(), ", "))
	return cmd
}

// formatsOfCheck returns the formats that only check has: commands that fix findings, and files for CI systems.
func formatsOfCheck() []string { return []string{"patch", "sarif", "junit"} }

// neverFail is the value of --fail-on with which no finding changes the exit code.
const neverFail = "never"

// checkValues returns an error for unknown values and for flags that contradict each other.
func (c *checkFlags) checkValues(groups groupSelection) error {
	if c.all && !groups.isEmpty() {
		return errors.New("-A and a group: use either -A or a group name, not both")
	}
	if !slices.Contains(listFlagValues("fail-on"), c.failOn) {
		return fmt.Errorf("--fail-on=%s is unknown: use %s", c.failOn, joinAlternatives(listFlagValues("fail-on")))
	}
	return nil
}

func printRule(f *flags, id string) error {
	rule, known := preflight.FindRule(id)
	if !known {
		return usageError(fmt.Errorf("--explain=%s: there is no such rule: use one of %s", id, strings.Join(listRuleIDs(), ", ")))
	}
	return report.WriteRule(f.Out, &rule)
}

// checker is one run of the check command.
type checker struct {
	line *commandLine
	checkFlags
}

// checkCluster checks groups of the cluster that the flags name.
func (c *checker) checkCluster(ctx context.Context, f *flags) error {
	conn, err := f.connectCluster(ctx, f.ErrOut)
	if err != nil {
		return err
	}
	objects, err := cluster.ReadObjects(ctx, conn.Client, inventory.ForChecks)
	if err != nil {
		return explainReadError(err)
	}
	view := viewOfObjects(objects)
	found, err := c.line.findGroups(ctx, conn, view.Nodes)
	if err != nil {
		return err
	}
	c.line.warn(found.warning)
	s := &session{command: &command{c.line, conn}, providers: found.providers, cluster: &clusterReading{view: view, objects: objects, use: inventory.ForChecks}}
	names, err := c.chooseGroups(ctx, s, groupNames(found.groups))
	if err != nil {
		return err
	}
	var reports []report.CheckReport
	for _, name := range names {
		g, err := s.loadGroup(ctx, name, modeUpgrade)
		if err != nil {
			return err
		}
		if err := c.markAllOutdated(s, g); err != nil {
			return err
		}
		p := &planning{groupContext: g, s: s}
		p.loadRights(ctx)
		p.balancers = g.findBalancers(ctx, conn.Client, objects)
		p.rights.missingReads = cluster.ListMissingReads(ctx, conn.Client, c.line.stateNamespace)
		reports = append(reports, c.checkGroup(p, objects))
	}
	return c.printReports(reports)
}

// chooseGroups returns the groups that the user named, or all groups if the user named none.
func (c *checker) chooseGroups(ctx context.Context, s *session, all []string) ([]string, error) {
	switch {
	case !c.line.groups.isEmpty():
		return s.resolveGroupNames(ctx, c.line.groups, suggestNoCommand)
	case len(all) == 0:
		return nil, usageError(fmt.Errorf("the cluster's %d nodes belong to no known node group: pass -l SELECTOR --current KEY=VALUE", len(s.cluster.view.Nodes)))
	default:
		return all, nil
	}
}

// checkDump checks groups of a dump. All of their nodes are outdated, unless --current names the labels of current
// nodes.
func (c *checker) checkDump(ctx context.Context, file string) error {
	d, source, err := readDump(ctx, c.line.In, file, trim.ForChecks)
	if err != nil {
		return err
	}
	s := openDumpSession(c.line, d, source)
	groups, err := s.listGroups(ctx, d.Nodes)
	if err != nil {
		return err
	}
	names, err := c.chooseGroups(ctx, s, groupNames(groups))
	if err != nil {
		return err
	}
	var reports []report.CheckReport
	for _, name := range names {
		g, err := loadDumpedGroup(ctx, s, name, d.Taken)
		if err == nil {
			err = c.markAllOutdated(s, g)
		}
		if err != nil {
			return err
		}
		reports = append(reports, c.checkGroup(&planning{groupContext: g, s: s}, &d.Objects))
	}
	return c.printReports(reports)
}

// markAllOutdated marks every node as outdated if --all-nodes is given. It resolves the request again, because the
// number of added nodes depends on the number of outdated nodes.
func (c *checker) markAllOutdated(s *session, g *groupContext) error {
	if !c.everyNode {
		return nil
	}
	for i := range g.members {
		g.members[i].Outdated = true
	}
	g.group.Refusal = "" // with --all-nodes no target is needed
	return s.resolveGroup(g, modeUpgrade)
}

// checkGroup applies the rules to one group.
func (c *checker) checkGroup(p *planning, objects *inventory.Objects) report.CheckReport {
	world := p.makeWorld(p.now)
	scene := preflight.NewScene(&world, p.makeFacts(p.s.conn.Version, p.s.line.controlPlane), objects)
	r := report.CheckReport{
		Context: p.s.conn.context, Provider: p.group.Provider, Kind: p.group.Kind, Nodes: len(p.members), Outdated: countOutdatedIfKnown(&p.group, p.members),
		Workloads: len(scene.Workloads), Findings: []preflight.Finding{}, // not nil, so that JSON has an empty list
	}
	r.TypeMeta, r.ObjectMeta = report.NewMeta("CheckReport", p.group.Name)
	switch {
	case c.everyNode:
		r.Outdated = new(len(p.members))
	case r.Outdated == nil:
		r.Unknown = "pass --current KEY=VALUE, a label of current nodes"
		if f := preflight.FirstRefusal(p.findings); f != nil {
			r.Unknown = f.String()
		}
	}
	if objects.IsDump && !c.everyNode && len(c.line.settings.Current) == 0 {
		r.Assumptions = append(r.Assumptions, "every node is outdated: pass --current KEY=VALUE, a label of current nodes")
	}
	if r.Outdated != nil && *r.Outdated > 0 {
		r.Unread = objects.DescribeUnread(objects.Unread...)
		r.Findings = append(r.Findings, preflight.Check(scene, preflight.Catalogue(), c.line.skipChecks)...)
	}
	return r
}

// printReports prints a single report as an object and several as a list. It returns an error with exit code 3 if a
// finding counts.
func (c *checker) printReports(reports []report.CheckReport) error {
	var err error
	switch c.format {
	case "patch":
		err = report.WritePatches(c.line.Out, reports, c.line.clusterFlags)
	case "sarif":
		err = report.WriteSARIF(c.line.Out, reports, currentVersion())
	case "junit":
		err = report.WriteJUnit(c.line.Out, reports, func(f *preflight.Finding) bool {
			return c.failOn != neverFail && f.Severity.IsAtLeast(preflight.Severity(c.failOn))
		})
	default:
		err = printAll(c.line.console, "CheckList", c.line.groups.isSingle(), reports, report.WriteCheck)
	}
	if err != nil {
		return err
	}
	if slices.ContainsFunc(reports, c.isFailing) {
		return &exitErr{code: exitStructural}
	}
	return nil
}

// isFailing reports whether a finding is at least as severe as --fail-on, or the outdated nodes are unknown.
func (c *checker) isFailing(r report.CheckReport) bool {
	worst := r.WorstSeverity()
	return c.failOn != neverFail && (r.Outdated == nil || worst != "" && worst.IsAtLeast(preflight.Severity(c.failOn)))
}

// viewOfObjects returns a View of objects that were read.
func viewOfObjects(o *inventory.Objects) drain.Snapshot {
	return drain.Snapshot{
		Nodes: o.Nodes, PDBs: o.Budgets, Budgets: drain.NewBudgets(o.Budgets),
		Pods: groupPodsByNode(o.Pods), EndingNamespaces: o.EndingNamespaces(),
	}
}
