package plugin

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/report"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/simulate"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
)

// addAnswers adds the flags of verbs that carry something out.
func (o *options) addAnswers(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVarP(&o.yes, "yes", "y", false, "Do not ask; required where there is no terminal")
	flags.BoolVar(&o.parallelGroups, "parallel-groups", false, "Continue although another group of the cluster is being upgraded")
}

func addDryRun(cmd *cobra.Command, text string) {
	cmdutil.AddDryRunFlag(cmd)
	dry := cmd.Flags().Lookup("dry-run")
	dry.NoOptDefVal, dry.Usage = "client", text
}

func (o *options) dryRunning() bool { return o.dryRun != cmdutil.DryRunNone }

func newRollbackCommand(o *options) *cobra.Command {
	cmd := o.verbCommand(verb{
		use: "rollback", doing: "rolling back", short: "Take a partly upgraded group back to the revision it had before",
		long: `Replaces the nodes that were upgraded already by nodes of the revision before,
in the same way and with the same settings. Whoever carries the upgrade out
gives way first. An upgrade that is complete is not rolled back: upgrade to the
older revision with --to.`,
		run: o.rollback,
	})
	o.addAnswers(cmd)
	addDryRun(cmd, "Show the plan of the way back and change nothing: client, or server to also ask the API server about one pod of each budget and owner")
	cmd.Flags().StringVar(&o.settings.To, "to", "", "AMI or launch-template version to go back to; otherwise the one that the nodes had before")
	return cmd
}

// rollback takes the upgrade from its holder and goes back.
func (o *options) rollback(ctx context.Context, conn *connection, u *recordedUpgrade) error {
	if err := o.bars(modeRollback, u.name, &u.record); err != nil {
		return err
	}
	s, err := o.enter(ctx, conn, u, modeRollback)
	if err != nil {
		return err
	}
	if nodegroup.InfoOf(s.provider.Name()).Refill == nodegroup.RefillByUser {
		return usage(fmt.Errorf("rolling back group %q: without a cloud only you can bring nodes of the older revision: take the fence away with "+
			"kubectl nodeupgrade abort %s, bring them up, and upgrade to them with --current and their labels", u.name, u.name))
	}
	p, err := o.look(ctx, s, u.name, modeRollback)
	if err != nil {
		return err
	}
	if o.dryRunning() {
		return o.printPlanOf(ctx, s, p)
	}
	if err := errors.Join(p.refused(), p.unmanaged()); err != nil {
		return err
	}
	if p.group.Follows != "" {
		fmt.Fprintf(o.ErrOut, "note: node group %s follows %s: it is pinned to %s, until it is pointed elsewhere\n", u.name, p.group.Follows, p.group.Wanted.Name)
	}
	return o.undo(ctx, s, u, p, undoing{
		mode:     modeRollback,
		question: fmt.Sprintf("Roll node group %s back to %s", u.name, p.group.Wanted.Name), show: o.showPlan(ctx, p, s),
	})
}

// undoing is what undoes an upgrade, and how the one who asked for it is asked.
type undoing struct {
	mode     mode
	question string
	show     func() error
}

// undo asks, has the holder give way and carries out what is left to do.
func (o *options) undo(ctx context.Context, s *session, u *recordedUpgrade, p *prospect, how undoing) error {
	if err := o.permitted(ctx, s.connection, how.mode, &p.request); err != nil {
		return err
	}
	if err := o.confirm(s, how); err != nil {
		return err
	}
	if err := u.ask(ctx, how.mode.fulfils()); err != nil {
		return err
	}
	p.deeds = &deeds{}
	record, err := o.carryOut(ctx, s, p, how.mode)
	if err != nil {
		return fmt.Errorf("%s: %w", doing(u.name, &p.record), err)
	}
	if record.Result == upgrade.Aborted {
		return o.printAborted(u, record, p.deeds)
	}
	return o.printOutcome(u.name, record)
}

func newAbortCommand(o *options) *cobra.Command {
	cmd := o.verbCommand(verb{
		use: "abort", doing: "aborting the upgrade of", short: "Take away what an upgrade left, and forget it",
		long: `Unfences nodes, returns added nodes that carry no pods, lowers the group's
maximum again, resumes suspended processes and points the group at the revision
from before. Nodes that were replaced stay replaced. Whoever carries the upgrade
out gives way first. What could not be taken away is printed, with the reason.`,
		run: o.abort,
	})
	o.addAnswers(cmd)
	addDryRun(cmd, "Show what would be undone and change nothing")
	return cmd
}

// abort takes the upgrade from its holder and undoes what is its.
func (o *options) abort(ctx context.Context, conn *connection, u *recordedUpgrade) error {
	s, err := o.enter(ctx, conn, u, modeAbort)
	if err != nil {
		return err
	}
	p, err := o.look(ctx, s, u.name, modeAbort)
	if err != nil {
		return err
	}
	foreseen := func() (*deeds, upgrade.Record, error) {
		if err := p.study(ctx, s); err != nil {
			return nil, upgrade.Record{}, err
		}
		d := &deeds{}
		record, err := simulate.New(p.spec()).Run(p.request, func(_ upgrade.World, step upgrade.Step) { d.note(step) })
		return d, record, err
	}
	if o.dryRunning() {
		d, record, err := foreseen()
		if err != nil {
			return err
		}
		return o.printDone(u, record, d.report(fmt.Sprintf("%s%s would be aborted%s", groupPrefix, u.name, aside(record.Message)), "would ")...)
	}
	return o.undo(ctx, s, u, p, undoing{mode: modeAbort, question: "Abort the upgrade of node group " + u.name, show: func() error {
		d, _, err := foreseen()
		if err != nil {
			return err
		}
		return writeLines(o.ErrOut, d.report("To be undone:", "  "))
	}})
}

func (o *options) printAborted(u *recordedUpgrade, record upgrade.Record, d *deeds) error {
	head := fmt.Sprintf("%s%s aborted: %d of %d nodes had been replaced", groupPrefix, u.name, record.Replaced, record.Total)
	if record.Message != "" {
		head += "; " + record.Message
	}
	return o.printDone(u, record, d.report(head, "done: ")...)
}

// deeds are the actions of a run, each once, in the order in which they were decided.
type deeds struct {
	known map[string]bool
	texts []string
}

// note takes down what a step decides.
func (d *deeds) note(step upgrade.Step) {
	if d == nil {
		return
	}
	if d.known == nil {
		d.known = map[string]bool{}
	}
	for _, action := range step.Actions {
		if key := action.Key(); !d.known[key] {
			d.known[key] = true
			d.texts = append(d.texts, action.String())
		}
	}
}

// report is the deeds as lines under a head.
func (d *deeds) report(head, before string) []string {
	lines := []string{head}
	for _, text := range d.texts {
		lines = append(lines, before+text)
	}
	return lines
}

// printPlanOf prints one plan, with what only a dry run tells.
func (o *options) printPlanOf(ctx context.Context, s *session, p *prospect) error {
	plan, err := p.plan(ctx, s)
	if err != nil {
		return err
	}
	if o.dryRun == cmdutil.DryRunServer {
		plan.Probes = p.probe(ctx, s.connection)
	}
	if err := o.printPlans(&report.PlanList{Items: []report.Plan{*plan}}, []string{groupPrefix + p.group.Name}); err != nil {
		return err
	}
	if plan.Structural() {
		return &exitErr{code: exitStructural}
	}
	return nil
}
