package plugin

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/report"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/simulate"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// addConsentFlags adds --yes and --parallel-groups.
func (f *flags) addConsentFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVarP(&f.consent.yes, "yes", "y", false, "Do not ask; required without a terminal")
	flags.BoolVar(&f.consent.parallelGroups, "parallel-groups", false, "Continue although another group of the cluster is being upgraded")
}

// addDryRunFlag adds kubectl's --dry-run with the usage text. Without a value it means client.
func addDryRunFlag(cmd *cobra.Command, text string) {
	cmd.Flags().String("dry-run", string(dryRunNone), text)
	cmd.Flags().Lookup("dry-run").NoOptDefVal = string(dryRunClient)
}

func newRollbackCommand(f *flags) *cobra.Command {
	cmd := f.newVerbCommand(verb{
		use: "rollback", doing: "rolling back", short: "Return a partly upgraded group to its earlier revision",
		long: `Replace the nodes that are already upgraded with nodes of the earlier revision,
with the same strategy and settings. If another process runs the upgrade, it is
stopped first. A complete upgrade cannot be rolled back: use upgrade --to with
the earlier revision.`,
		needs: record.VerbRollback,
		run:   rollBackUpgrade,
	})
	f.addConsentFlags(cmd)
	f.addReportFlag(cmd.Flags())
	addDryRunFlag(cmd, "Show the plan of the rollback and change nothing: client, or server to also ask the API server whether it would evict the pods and create new ones")
	cmd.Flags().StringVar(&f.settings.To, "to", "", "AMI or launch-template version to go back to (default: the one that the nodes had before)")
	return cmd
}

// rollBackUpgrade rolls the upgrade back after its process has stopped.
func rollBackUpgrade(ctx context.Context, c *command, u *recordedUpgrade) error {
	if err := rejectConflictingCommand(modeRollback, c.line.isDryRun(), u.name, &u.record); err != nil {
		return err
	}
	s, err := u.openSession(ctx, c, modeRollback)
	if err != nil {
		return err
	}
	if nodegroup.InfoOf(s.of(u.name).Name()).Can.Refill == nodegroup.RefillByUser {
		return usageError(fmt.Errorf("rolling back group %q: without a cloud only you can add nodes of the older revision: remove the fence with %s, add the nodes, and upgrade to them with --current and their labels", u.name, nodegroup.Command("abort", u.name)))
	}
	g, err := s.loadGroup(ctx, u.name, modeRollback)
	if err != nil {
		return err
	}
	if c.line.isDryRun() {
		plan, err := s.planGroup(ctx, g)
		if err != nil {
			return err
		}
		return c.line.printPlans(true, *plan)
	}
	s.warnOfForeignJobs(g)
	if err := cmp.Or(g.rejectRefusedUpgrade(), g.rejectBlockedUpgrade(true)); err != nil {
		return err
	}
	if g.group.Follows != "" {
		c.line.note(fmt.Sprintf("node group %s followed %s and is now set to %s: change it back when the older revision is no longer needed", u.name, g.group.Follows, g.group.Wanted.Name))
	}
	e := &execution{s: s, g: g, mode: modeRollback}
	return e.undoUpgrade(ctx, u, confirmation{
		mode: modeRollback, question: fmt.Sprintf("Roll node group %s back to %s", u.name, g.group.Wanted.Name),
		show: func() error { return e.showPlan(ctx) },
	})
}

// undoUpgrade asks the user, requests that the upgrade's process stops, and carries out the rollback or abort.
func (e *execution) undoUpgrade(ctx context.Context, u *recordedUpgrade, how confirmation) error {
	if err := e.s.checkRights(ctx, how.mode, &e.g.request); err != nil {
		return err
	}
	if err := e.s.requireConsent(how); err != nil {
		return err
	}
	e.planForReport(ctx)
	if err := u.storeRequest(ctx, e.s.command, how.mode.correspondingVerb()); err != nil {
		return err
	}
	record, err := e.carryOut(ctx)
	e.writeReport(ctx, &record, err)
	if err != nil {
		return fmt.Errorf("%s: %w", describeRun(u.name, &e.g.record), err)
	}
	return e.printFinalResult(record)
}

func newAbortCommand(f *flags) *cobra.Command {
	cmd := f.newVerbCommand(verb{
		use: "abort", doing: "aborting the upgrade of", short: "Undo what a stopped upgrade left: taints, added nodes, raised max",
		long: `Undo what an upgrade has left in the cluster and in the cloud. Abort lets pods
onto fenced nodes again, removes added nodes that have no pods, lowers the
group's maximum size, resumes suspended processes, and restores the group's
revision if the upgrade changed it. Replaced nodes stay replaced. If another
process runs the upgrade, it is stopped first. Abort prints what it could not
undo, and why. After an upgrade has ended, abort releases nodes that have become
current and are still fenced. An upgrade that EKS or GKE carries out continues
there: abort only forgets it.`,
		afterEnd: true,
		run:      abortUpgrade,
	})
	f.addConsentFlags(cmd)
	f.addReportFlag(cmd.Flags())
	addDryRunFlag(cmd, "Show what would be undone and change nothing")
	return cmd
}

// abortUpgrade aborts the upgrade after its process has stopped.
func abortUpgrade(ctx context.Context, c *command, u *recordedUpgrade) error {
	s, err := u.openSession(ctx, c, modeAbort)
	if err != nil {
		return err
	}
	g, err := s.loadGroup(ctx, u.name, modeAbort)
	if errors.Is(err, errUpgradeEnded) {
		return cmp.Or(rejectFinishedUpgrade("aborting the upgrade of", u.name, &u.record), err)
	}
	if err != nil {
		return err
	}
	if u.record.IsResumable() && upgrade.AbortKeepsBoth(&u.record) {
		c.line.note(fmt.Sprintf("an abort keeps both the outdated and the new nodes of %s, because pods run on the new ones: run %s to remove the new nodes instead", u.name, nodegroup.Command("rollback", u.name)))
	}
	if c.line.isDryRun() {
		log, record, err := s.simulateAbort(ctx, g)
		if err != nil {
			return err
		}
		return c.line.printDone(u.name, record, log.formatLines(fmt.Sprintf("%s%s would be aborted%s", nodegroup.Prefix, u.name, report.Parenthesize(record.Message)), "would ")...)
	}
	e := &execution{s: s, g: g, mode: modeAbort}
	return e.undoUpgrade(ctx, u, confirmation{mode: modeAbort, question: "Abort the upgrade of node group " + u.name, show: func() error {
		log, _, err := s.simulateAbort(ctx, g)
		if err != nil {
			return err
		}
		return writeLines(c.line.ErrOut, log.formatLines("To be undone:", "  "))
	}})
}

// simulateAbort aborts the upgrade in virtual time and returns the actions.
func (s *session) simulateAbort(ctx context.Context, g *groupContext) (*actionLog, record.Record, error) {
	p := &planning{groupContext: g, s: s}
	if err := p.loadForecastData(ctx); err != nil {
		return nil, record.Record{}, err
	}
	log := &actionLog{}
	record, err := simulate.New(p.makeSpec()).Run(ctx, g.request, func(_ upgrade.World, step upgrade.Step) { log.addActions(step) })
	return log, record, err
}

// actionLog has the actions of a run in the order of their decisions, each once.
type actionLog struct {
	known map[string]bool
	texts []string
}

// addActions adds the actions of a step.
func (l *actionLog) addActions(step upgrade.Step) {
	if l.known == nil {
		l.known = map[string]bool{}
	}
	for _, action := range step.Actions {
		if key := action.Key(); !l.known[key] {
			l.known[key] = true
			l.texts = append(l.texts, action.String())
		}
	}
}

// formatLines returns the head and a line for each action, with the text before in front of it.
func (l *actionLog) formatLines(head, before string) []string {
	lines := []string{head}
	for _, text := range l.texts {
		lines = append(lines, before+text)
	}
	return lines
}
