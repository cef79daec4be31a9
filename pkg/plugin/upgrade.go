package plugin

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/printers"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cluster"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/report"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
)

// run is the root command: the list without a group, else the plan and, unless it is a dry run, the
// upgrade of one group after the other.
func (o *options) run(ctx context.Context, cmd *cobra.Command) error {
	conn, err := o.connect(ctx)
	if err != nil {
		return err
	}
	if len(o.groups) == 0 && o.node == "" && o.selector == "" {
		return o.list(ctx, conn)
	}
	s, err := o.open(ctx, conn)
	if err != nil {
		return err
	}
	names, err := o.groupNames(ctx, s, cmd.SuggestionsFor)
	if err != nil {
		return err
	}
	if s.account, err = s.provider.Account(ctx); err != nil {
		return err
	}
	if o.dryRun != cmdutil.DryRunNone {
		s.narrow = !o.forecast
		return o.plans(ctx, s, names)
	}
	s.narrow = o.yes // nobody is shown a plan
	return o.upgradeAll(ctx, s, names)
}

// upgradeAll upgrades one group after the other, and stops at the first that does not reach its
// goal.
func (o *options) upgradeAll(ctx context.Context, s *session, names []string) error {
	for i, name := range names {
		if i > 0 { // the upgrade before this one has changed what was read
			var err error
			if s.view, err = s.read(ctx); err != nil {
				return err
			}
			s.background = nil
		}
		if err := o.upgradeGroup(ctx, s, name, modeUpgrade); err != nil {
			return err
		}
	}
	return nil
}

// plans prints the plan of every group as one answer.
func (o *options) plans(ctx context.Context, s *session, names []string) error {
	list := &report.PlanList{}
	list.TypeMeta, _ = report.NewMeta("PlanList", "")
	var lines []string
	structural := false
	for _, name := range names {
		p, err := o.look(ctx, s, name, modeUpgrade)
		if err != nil {
			return err
		}
		plan, err := p.plan(ctx, s)
		if err != nil {
			return err
		}
		if o.dryRun == cmdutil.DryRunServer {
			plan.Probes = p.probe(ctx, s.connection)
		}
		structural = structural || plan.Structural()
		list.Items = append(list.Items, *plan)
		lines = append(lines, "nodegroup/"+name)
	}
	if err := o.printPlans(list, lines); err != nil {
		return err
	}
	if structural {
		return &exitErr{code: exitStructural}
	}
	return nil
}

// printPlans writes one plan as itself and several as a list, so that stdout holds one document.
func (o *options) printPlans(list *report.PlanList, names []string) error {
	table := func(ro report.Options) error {
		for i := range list.Items {
			if i > 0 {
				fmt.Fprintln(o.Out)
			}
			if err := report.WritePlan(o.Out, &list.Items[i], ro); err != nil {
				return err
			}
		}
		return nil
	}
	if len(list.Items) == 1 {
		return o.output.print(o.Out, &list.Items[0], names, table)
	}
	return o.output.print(o.Out, list, names, table)
}

// upgradeGroup shows one group's plan, asks, and carries it out.
func (o *options) upgradeGroup(ctx context.Context, s *session, name string, m mode) error {
	p, err := o.look(ctx, s, name, m)
	if err != nil {
		return err
	}
	if err := p.refused(); err != nil {
		return err
	}
	if p.isCurrent() {
		return o.nothingToDo(ctx, s.connection, p, m)
	}
	if err := p.unmanaged(); err != nil {
		return err
	}
	if err := o.permitted(ctx, s.connection, m, &p.request); err != nil {
		return err
	}
	if err := o.confirm(s, undoing{mode: m, question: "Upgrade node group " + name, show: o.showPlan(ctx, p, s)}); err != nil {
		return err
	}
	record, err := o.carryOut(ctx, s, p, m)
	if err != nil {
		return fmt.Errorf("%s: %w", doing(name, &record), err)
	}
	return o.printOutcome(name, record)
}

// nothingToDo says that the group is current. A run that died right after its last write has left
// its name in the lease, which is taken away as for an upgrade that goes on.
func (o *options) nothingToDo(ctx context.Context, conn *connection, p *prospect, m mode) error {
	holder, err := holderOf(ctx, conn, o.stateSpace, p.group.Name)
	if err != nil {
		return err
	}
	if holder != "" {
		progress := newProgress(o, p.group.Name)
		hold, err := o.acquire(ctx, conn, p.group.Name, m, progress)
		progress.close()
		var held *cluster.HeldError
		switch {
		case err == nil:
			hold.Release()
		case !errors.As(err, &held): // who lives gives it back
			return err
		}
	}
	return o.printOutcome(p.group.Name, p.currentRecord())
}

// showPlan writes the plan for the one who is asked.
func (o *options) showPlan(ctx context.Context, p *prospect, s *session) func() error {
	return func() error {
		plan, err := p.plan(ctx, s)
		if err != nil {
			return err
		}
		return report.WritePlan(o.ErrOut, plan, report.Options{Now: time.Now()})
	}
}

// confirm shows what would be done and asks, unless --yes. Without a terminal there is nobody to
// ask.
func (o *options) confirm(s *session, how undoing) error {
	if o.yes {
		return nil
	}
	if !printers.IsTerminal(o.In) || !printers.IsTerminal(o.ErrOut) {
		return usage(errors.New("there is no terminal to ask at: run " + o.again + " --yes" + o.orPlan(how.mode)))
	}
	if err := how.show(); err != nil {
		return err
	}
	fmt.Fprintf(o.ErrOut, "\n%s in context %s (%s)? Type yes to continue: ", how.question, s.context, s.server)
	answer, err := bufio.NewReader(o.In).ReadString('\n')
	if err != nil && answer == "" {
		return usage(fmt.Errorf("reading the answer: %w", err))
	}
	if a := strings.ToLower(strings.TrimSpace(answer)); a != "yes" && a != "y" {
		return usage(errors.New("nothing was done: the answer was not yes"))
	}
	return nil
}

// orPlan names the flag that shows what would be done, where the command has one.
func (o *options) orPlan(m mode) string {
	if m == modeResume {
		return ""
	}
	return ", or " + o.again + " --dry-run to see what would be done"
}

// printOutcome says how the upgrade ended: on stdout when it reached its goal, else as the error
// that names what to do.
func (o *options) printOutcome(name string, record upgrade.Record) error {
	code := resultCode(record.Result)
	switch record.Result {
	case upgrade.Succeeded, upgrade.LeftBehind:
		if err := o.printResult(name, record); err != nil { // the exit code still tells how the upgrade ended
			fmt.Fprintf(o.ErrOut, "warning: group %q was upgraded (%s), but that could not be written to stdout: %v\n", name, record.Result, err)
		}
		if code != exitDone {
			return &exitErr{code: code}
		}
		return nil
	case upgrade.Interrupted:
		return &exitErr{code: code, err: fmt.Errorf("%s: interrupted in phase %q with %d of %d nodes replaced%s: run %s to continue",
			doing(name, &record), record.Phase, record.Replaced, record.Total, aside(record.Message), o.again)}
	case upgrade.Paused, upgrade.TargetMoved: // a person decides; the message says between what
		if record.PausedBy != "" {
			return &exitErr{code: code, err: fmt.Errorf("%s: %s", doing(name, &record), pauseText(name, &record))}
		}
		return &exitErr{code: code, err: fmt.Errorf("%s: %s: %s", doing(name, &record), record.Result, record.Message)}
	default:
		return &exitErr{code: code, err: fmt.Errorf("%s: %s: %s; run %s to continue", doing(name, &record), record.Result, record.Message, o.again)}
	}
}

func (o *options) printResult(name string, record upgrade.Record) error {
	status := statusOf(name, record)
	return o.output.print(o.Out, status, []string{"nodegroup/" + name}, func(report.Options) error {
		verb := "upgraded"
		switch {
		case record.Total == 0:
			verb = "is current"
		case record.Back:
			verb = "rolled back to " + record.Target.Name
		}
		lines := []string{fmt.Sprintf("nodegroup/%s %s%s", name, verb, suffix(record))}
		for _, node := range slices.Sorted(maps.Keys(record.Nodes)) {
			if n := record.Nodes[node]; n.State == upgrade.NodeQuarantined {
				lines = append(lines, fmt.Sprintf("left behind: node %s: %s", node, n.Reason))
			}
		}
		return writeLines(o.Out, lines)
	})
}

func suffix(record upgrade.Record) string {
	var parts []string
	if record.Total > 0 {
		took := record.Ended.Sub(record.Started).Round(time.Second)
		parts = append(parts, fmt.Sprintf("%d of %d nodes replaced in %s", record.Replaced, record.Total, took))
	}
	if record.Message != "" {
		parts = append(parts, record.Message)
	}
	if len(parts) == 0 {
		return ""
	}
	return ": " + strings.Join(parts, "; ")
}

func statusOf(name string, record upgrade.Record) *report.UpgradeStatus {
	s := &report.UpgradeStatus{
		Run: record.Run, Started: record.Started, Result: record.Result, Message: record.Message, Target: record.Target,
		Status: upgrade.Status{Group: name, Phase: record.Phase, Since: record.PhaseBegan, Total: record.Total, Replaced: record.Replaced, Owed: record.Ledger.Contribution()},
	}
	s.TypeMeta, s.ObjectMeta = report.NewMeta("UpgradeStatus", name)
	return s
}

func aside(message string) string {
	if message == "" {
		return ""
	}
	return " (" + message + ")"
}
