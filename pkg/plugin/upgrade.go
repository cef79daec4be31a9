package plugin

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/cli-runtime/pkg/printers"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/preflight"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/report"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// runRootCommand runs the root command. Without a group it lists the groups. With --dry-run it plans the groups,
// otherwise it upgrades them one after the other.
func runRootCommand(ctx context.Context, c *command, suggest func(string) []string) error {
	if c.line.groups.isEmpty() {
		return listGroups(ctx, c)
	}
	if err := rejectWaitingEarly(ctx, c); err != nil {
		return err
	}
	s, err := c.openSession(ctx)
	if err != nil {
		return err
	}
	s, names, err := s.openNamedGroups(ctx, c.line.groups, suggest)
	if err != nil {
		return err
	}
	if s.account, err = s.main.Account(ctx); err != nil {
		return err
	}
	s.podsOfGroupOnly = c.line.needsNoForecast()
	if c.line.isDryRun() {
		return planGroups(ctx, s, names)
	}
	return upgradeGroups(ctx, s, names)
}

// rejectWaitingEarly calls rejectWaitingUpgrade for a single group, before the cluster and the cloud are read.
func rejectWaitingEarly(ctx context.Context, c *command) error {
	if len(c.line.groups.names) != 1 || c.line.isDryRun() || c.line.consent.wait {
		return nil
	}
	name := c.line.groups.names[0]
	if record, err := c.openStore(name).LoadRecord(ctx); err == nil { // otherwise reading the group returns a better error
		return rejectWaitingUpgrade(c.line, name, record)
	}
	return nil
}

// rejectWaitingUpgrade returns the outcome as an error if the upgrade must wait for the end of a soak and --wait was
// not passed.
func rejectWaitingUpgrade(line *commandLine, group string, record record.Record) error {
	if line.consent.wait || !upgrade.IsWaiting(&record, line.now()) {
		return nil
	}
	return line.reportOutcome(group, record)
}

// upgradeGroups upgrades the groups one after the other and stops at the first one that does not reach its goal. If
// several groups were named, -o json and -o yaml print one list of all of them at the end.
func upgradeGroups(ctx context.Context, s *session, names []string) error {
	if s.line.groups.isSingle() || !s.line.isJSONOrYAML() {
		return upgradeOneByOne(ctx, s, names)
	}
	statuses := []report.UpgradeStatus{}
	s.line.groupStatuses = &statuses
	err := upgradeOneByOne(ctx, s, names)
	s.line.groupStatuses = nil
	if len(statuses) == 0 {
		return err
	}
	return cmp.Or(err, printAll(s.line.console, "UpgradeStatusList", false, statuses, report.WriteStatus))
}

func upgradeOneByOne(ctx context.Context, s *session, names []string) error {
	for i, name := range names {
		if i > 0 { // the previous upgrade has changed the cluster
			if err := s.reloadCluster(ctx); err != nil {
				return err
			}
		}
		if err := upgradeGroup(ctx, s, name, modeUpgrade); err != nil {
			s.line.addFailedStatus(name, err)
			return err
		}
	}
	return nil
}

// planGroups prints the plans of all groups as one document.
func planGroups(ctx context.Context, s *session, names []string) error {
	var plans []report.Plan
	for _, name := range names {
		g, err := s.loadGroup(ctx, name, modeUpgrade)
		if err != nil {
			return err
		}
		if s.line.compare {
			p := &planning{groupContext: g, s: s}
			p.believeFindings(p.runRules())
			return p.printComparison(ctx)
		}
		s.line.warn(g.keptSurge)
		if g.nodesToUnfence != nil {
			s.line.note(fmt.Sprintf("node group %s: the fence would be removed from nodes that are %s", name, describeReleases(g.nodesToUnfence)))
		}
		plan, err := s.planGroup(ctx, g)
		if err != nil {
			return err
		}
		plans = append(plans, *plan)
	}
	return s.line.printPlans(s.line.groups.isSingle(), plans...)
}

// planGroup returns the plan of one group. With --dry-run=server it also asks the API server.
func (s *session) planGroup(ctx context.Context, g *groupContext) (*report.Plan, error) {
	if err := g.rejectLargeRecord(); err != nil {
		return nil, err
	}
	p := &planning{groupContext: g, s: s, recorder: s.newSimulationRecorder()}
	p.loadRights(ctx)
	p.balancers = g.findBalancers(ctx, s.conn.Client, g.cluster.objectsForChecks())
	if g.rebuilt {
		s.line.note(g.describeLostRecord())
	}
	var probes []report.Probe
	if s.line.dryRun == dryRunServer {
		probes = append(probeEvictions(ctx, s.conn, g), probeCreations(ctx, s.conn, g)...)
		p.addRefusals(refusalsOfProbes(probes))
	}
	plan, err := p.makePlan(ctx)
	if err != nil {
		return nil, err
	}
	plan.Probes = probes
	return plan, p.writePlanReport(ctx, plan, report.AboutPlan)
}

// upgradeGroup shows the plan of one group, asks the user and runs the upgrade.
func upgradeGroup(ctx context.Context, s *session, name string, m mode) error {
	g, err := s.loadGroup(ctx, name, m)
	if err != nil {
		return err
	}
	if err := g.rejectRefusedUpgrade(); err != nil {
		return err
	}
	if g.isCurrent() {
		return s.reportUpToDate(ctx, g, m)
	}
	s.line.warn(g.keptSurge)
	s.warnOfForeignJobs(g)
	if err := cmp.Or(g.rejectBlockedUpgrade(g.record.IsResumable()), g.rejectLargeRecord()); err != nil {
		return err
	}
	if err := s.checkRights(ctx, m, &g.request); err != nil {
		return err
	}
	if err := s.confirmRebuild(g); err != nil {
		return err
	}
	e := &execution{s: s, g: g, mode: m}
	how := confirmation{mode: m, question: "Upgrade node group " + name, show: func() error { return e.showPlan(ctx) }}
	if g.nodesToUnfence != nil {
		how.question, how.show = "Release nodes of node group "+name, func() error {
			return writeLines(s.line.ErrOut, []string{describeReleases(g.nodesToUnfence)})
		}
	}
	if err := s.requireConsent(how); err != nil {
		return err
	}
	e.planForReport(ctx)
	record, err := e.carryOut(ctx)
	e.writeReport(ctx, &record, err)
	if err != nil {
		record.Message = cmp.Or(record.Message, err.Error())
		s.line.printUnfinishedStatus(name, record)
		return fmt.Errorf("%s: %w", describeRun(name, &record), err)
	}
	return e.printFinalResult(record)
}

// warnOfForeignJobs lists the pods whose work may be lost for good, because their jobs cannot start again. It does so
// before anything begins or is refused.
func (s *session) warnOfForeignJobs(g *groupContext) {
	lines := report.DescribeRuleFindings(g.findings, preflight.RuleForeignJob)
	if len(lines) == 0 {
		return
	}
	display := s.line.openDisplay(g.group.Name, nil)
	defer display.Close()
	display.SetRun(g.request.Run)
	for _, line := range lines {
		display.ShowNote(line)
	}
}

func describeReleases(nodes []string) string {
	return "current and still fenced: " + strings.Join(nodes, ", ")
}

// checkRights returns an error if the user lacks a permission without which the upgrade would stop halfway.
func (c *command) checkRights(ctx context.Context, m mode, request *record.Request) error {
	missing := c.conn.ListMissingRights(ctx, request, m != modeAbort, c.line.stateNamespace)
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("upgrading group %q: you may not %s: ask for a role that allows it (see docs/permissions.md)",
		request.Group, strings.Join(missing, ", "))
}

// reportUpToDate reports that the group is current. If a process crashed after its last write, its name is still in the
// lease, so reportUpToDate clears it.
func (s *session) reportUpToDate(ctx context.Context, g *groupContext, m mode) error {
	if err := s.clearStaleHolder(ctx, g.group.Name, m); err != nil {
		return err
	}
	rec := g.makeUpToDateRecord()
	(&execution{s: s, g: g, mode: m, whyNoPlan: "the group is current"}).writeReport(ctx, &rec, nil)
	return s.line.reportOutcome(g.group.Name, rec)
}

// showPlan prints the plan before the user is asked.
func (e *execution) showPlan(ctx context.Context) error {
	if err := e.makePlan(ctx); err != nil {
		return err
	}
	return report.WritePlan(e.s.line.ErrOut, e.plan, e.s.line.optionsFor(e.s.line.ErrOut))
}

// makePlan makes the plan of an upgrade. It uses a copy of the group, so later readings do not change the plan.
func (e *execution) makePlan(ctx context.Context) (err error) {
	group := *e.g
	p := &planning{groupContext: &group, s: e.s, balancers: group.findBalancers(ctx, e.s.conn.Client, group.cluster.objectsForChecks())}
	if e.plan, err = p.makePlan(ctx); err == nil {
		e.planning = p
	}
	return err
}

// confirmation is a question to the user and what is shown before it.
type confirmation struct {
	mode     mode
	question string
	show     func() error
}

// requireConsent shows what would be done and asks for consent, unless --yes was passed. Without a terminal it returns an
// error.
func (c *command) requireConsent(how confirmation) error {
	if c.line.consent.yes {
		return nil
	}
	if !printers.IsTerminal(c.line.In) || !isTerminal(c.line.ErrOut) {
		return usageError(errors.New("a question needs a terminal: run " + c.line.retryCommand + " --yes" + suggestDryRun(how.mode, c.line.retryCommand)))
	}
	if err := how.show(); err != nil {
		return err
	}
	return c.readConsent(how.question)
}

// confirmRebuild asks the user whether a lost record may be rebuilt from the marks on nodes. --yes is not enough,
// because the user may have typed it for a recorded upgrade.
func (s *session) confirmRebuild(g *groupContext) error {
	switch text := g.describeLostRecord(); {
	case !g.rebuilt || s.line.consent.rebuild:
		return nil
	case s.line.consent.yes || !printers.IsTerminal(s.line.In) || !isTerminal(s.line.ErrOut):
		return usageError(fmt.Errorf("upgrading group %q: %s: check that this is right (%s lists the marks and the commands that remove them), and run %s --rebuild to continue that run",
			g.group.Name, text, nodegroup.Command("status", g.group.Name), s.line.retryCommand))
	default:
		fmt.Fprintf(s.line.ErrOut, "%s.\n", text)
		return s.readConsent("Continue run " + g.record.Run + " of node group " + g.name + " by these marks")
	}
}

// readConsent asks the question, and returns an error unless the answer is yes.
func (c *command) readConsent(question string) error {
	fmt.Fprintf(c.line.ErrOut, "\n%s in context %s (%s)? Type yes to continue: ", question, c.conn.context, c.conn.Server)
	answer, err := bufio.NewReader(c.line.In).ReadString('\n')
	if err != nil && answer == "" {
		return usageError(fmt.Errorf("reading the answer: %w", err))
	}
	if strings.TrimSpace(answer) != "yes" {
		return usageError(errors.New("nothing was changed: type yes to continue"))
	}
	return nil
}

// suggestDryRun returns a hint to use --dry-run, "" if the command has no such flag.
func suggestDryRun(m mode, retry string) string {
	if m == modeResume || m == modeComplete {
		return ""
	}
	return ", or " + retry + " --dry-run to see what would be done"
}

// reportOutcome prints the result of an upgrade that reached its goal. Otherwise it returns an error that explains what
// to do.
func (l *commandLine) reportOutcome(name string, rec record.Record) error {
	code := exitCodeOfResult(rec.Result)
	if rec.Result != record.Succeeded && rec.Result != record.LeftBehind {
		l.printUnfinishedStatus(name, rec)
	}
	switch rec.Result {
	case record.Succeeded, record.LeftBehind:
		if err := l.printResult(name, rec); err != nil { // the exit code still shows the result
			l.warn(fmt.Sprintf("group %q was upgraded (%s), but that could not be written to stdout: %v", name, rec.Result, err))
		}
		if code != exitDone {
			return &exitErr{code: code}
		}
		return nil
	case record.Interrupted:
		return &exitErr{code: code, err: fmt.Errorf("%s: interrupted in phase %q with %s%s: run %s to continue",
			describeRun(name, &rec), rec.Phase, report.DescribeProgress(rec.Replaced, rec.CountDrained(), rec.Total), report.Parenthesize(rec.Message), l.retryCommand)}
	case record.Waiting:
		if upgrade.Allows(&rec, record.VerbComplete) != nil {
			return &exitErr{code: code, err: fmt.Errorf("%s: %s; no process needs to run until then: run %s to check again", describeRun(name, &rec), rec.Message, l.retryCommand)}
		}
		return &exitErr{code: code, err: fmt.Errorf("%s: %s; no process needs to run until then: to continue after that time, run %s; to end the soak now, run %s", describeRun(name, &rec), rec.Message, l.retryCommand, nodegroup.Command("complete", name))}
	case record.Paused, record.TargetMoved: // the user must decide; the message explains the alternatives
		if rec.PausedBy != "" {
			return &exitErr{code: code, err: fmt.Errorf("%s: %s", describeRun(name, &rec), record.PauseMessage(&rec, name))}
		}
		return &exitErr{code: code, err: fmt.Errorf("%s: %s: %s", describeRun(name, &rec), rec.Result, rec.Message)}
	default:
		return &exitErr{code: code, err: fmt.Errorf("%s: %s: %s; run %s to continue", describeRun(name, &rec), rec.Result, rec.Message, l.retryCommand)}
	}
}

// printUnfinishedStatus prints the status of an upgrade that did not reach its goal, if stdout has a document. For
// people the error is enough. If the status cannot be written, the exit code still shows the result.
func (l *commandLine) printUnfinishedStatus(name string, record record.Record) {
	if !l.isForPrograms() || l.format == "name" {
		return
	}
	if err := l.printDone(name, record); err != nil {
		l.warn(fmt.Sprintf("the status of group %q could not be written to stdout: %v", name, err))
	}
}

func describeResult(record record.Record) string {
	var parts []string
	if record.Total > 0 {
		took := record.Ended.Sub(record.Started).Round(time.Second)
		drained := record.CountDrained()
		parts = append(parts, fmt.Sprintf("%s in %s", report.DescribeProgress(record.Replaced, drained, record.Total), took))
		if drained > 0 {
			parts = append(parts, "drained nodes stay fenced until you replace them")
		}
	}
	if record.Message != "" {
		parts = append(parts, record.Message)
	}
	if len(parts) == 0 {
		return ""
	}
	return ": " + strings.Join(parts, "; ")
}

// makeUpgradeStatus returns the status of an upgrade according to its record. It does not contain the group's current
// numbers.
func makeUpgradeStatus(name string, rec record.Record) *report.UpgradeStatus {
	s := &report.UpgradeStatus{
		Run: rec.Run, Started: rec.Started, Result: rec.Result, Message: rec.Message, Target: rec.Target, Impacts: upgrade.ListImpacts(&rec),
		Status: record.Status{Group: name, Phase: rec.Phase, Since: rec.PhaseBegan, Total: rec.Total, Replaced: rec.Replaced, Drained: rec.CountDrained(), Outdated: rec.CountUnstarted(), Owed: rec.Ledger.Contribution()},
	}
	s.TypeMeta, s.ObjectMeta = report.NewMeta("UpgradeStatus", name)
	return s
}
