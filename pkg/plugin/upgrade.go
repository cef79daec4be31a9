package plugin

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/user"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/cli-runtime/pkg/printers"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cluster"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/report"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/runner"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
)

// run is the root command: the list without a group, else the plan and, unless it is a dry run, the upgrade of
// one group after the other.
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
		return o.plans(ctx, s, names)
	}
	return o.upgradeAll(ctx, s, names)
}

// upgradeAll upgrades one group after the other, and stops at the first that does not reach its goal.
func (o *options) upgradeAll(ctx context.Context, s *session, names []string) error {
	for i, name := range names {
		if i > 0 { // the upgrade before this one has changed what was read
			var err error
			if s.view, err = s.read(ctx); err != nil {
				return err
			}
			s.background = nil
		}
		if err := o.upgradeGroup(ctx, s, name); err != nil {
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
		p, err := o.look(ctx, s, name)
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
func (o *options) upgradeGroup(ctx context.Context, s *session, name string) error {
	p, err := o.look(ctx, s, name)
	if err != nil {
		return err
	}
	if err := p.refused(); err != nil {
		return err
	}
	if p.outdated() == 0 && p.record.Run == "" {
		return o.nothingToDo(ctx, s.connection, p)
	}
	if err := p.unmanaged(); err != nil {
		return err
	}
	if err := o.permitted(ctx, s.connection, &p.request); err != nil {
		return err
	}
	if err := o.confirm(ctx, p, s); err != nil {
		return err
	}
	record, err := o.carryOut(ctx, s.connection, p)
	if err != nil {
		return fmt.Errorf("upgrading group %q: %w", name, err)
	}
	return o.printOutcome(name, record)
}

// nothingToDo says that the group is current. A run that died right after its last write has left its name in the lease, which
// is taken away as for an upgrade that goes on.
func (o *options) nothingToDo(ctx context.Context, conn *connection, p *prospect) error {
	holder, err := holderOf(ctx, conn, o.stateSpace, p.group.Name)
	if err != nil {
		return err
	}
	if holder != "" {
		progress := newProgress(o, p.group.Name)
		hold, err := o.acquire(ctx, conn, p.group.Name, progress)
		progress.close()
		var held *cluster.HeldError
		switch {
		case err == nil:
			hold.Release()
		case !errors.As(err, &held): // who lives gives it back
			return err
		}
	}
	return o.printOutcome(p.group.Name, upgrade.Record{Result: upgrade.Succeeded, Message: fmt.Sprintf("all %d nodes are current", len(p.members))})
}

// confirm shows the plan and asks, unless --yes. Without a terminal there is nobody to ask.
func (o *options) confirm(ctx context.Context, p *prospect, s *session) error {
	if o.yes {
		return nil
	}
	if !printers.IsTerminal(o.In) || !printers.IsTerminal(o.ErrOut) {
		return usage(errors.New("there is no terminal to ask at: pass --yes, or --dry-run to see the plan"))
	}
	plan, err := p.plan(ctx, s)
	if err != nil {
		return err
	}
	if err := report.WritePlan(o.ErrOut, plan, report.Options{Now: time.Now()}); err != nil {
		return err
	}
	fmt.Fprintf(o.ErrOut, "\nUpgrade node group %s in context %s (%s)? Type yes to go on: ", plan.Name, s.context, s.server)
	answer, err := bufio.NewReader(o.In).ReadString('\n')
	if err != nil && answer == "" {
		return usage(fmt.Errorf("reading the answer: %w", err))
	}
	if a := strings.ToLower(strings.TrimSpace(answer)); a != "yes" && a != "y" {
		return usage(errors.New("not upgraded: the answer was not yes"))
	}
	return nil
}

// carryOut takes the lease, watches the cluster and runs the upgrade to its end.
func (o *options) carryOut(ctx context.Context, conn *connection, p *prospect) (upgrade.Record, error) {
	progress := newProgress(o, p.group.Name)
	defer progress.close()
	if err := o.onlyOne(ctx, conn, p.group.Name); err != nil {
		return upgrade.Record{}, err
	}
	hold, err := o.acquire(ctx, conn, p.group.Name, progress)
	if err != nil {
		return upgrade.Record{}, err
	}
	defer hold.Release()
	store := cluster.NewStore(conn.client, o.stateSpace, p.group.Name)
	if p.record, err = store.Load(ctx); err != nil { // again: it may have gone on while the lease was waited for
		return upgrade.Record{}, err
	}
	if err := o.adopt(p); err != nil {
		return upgrade.Record{}, err
	}
	if p.request.Run == "" {
		p.request.Run = rand.String(8)
	}
	watchCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	watched := context.AfterFunc(ctx, cancel) // nothing is under way yet: an interrupt ends the wait for the first view
	watcher, err := cluster.Watch(watchCtx, conn.client)
	if err == nil && !watched() {
		err = context.Cause(ctx)
	}
	if err != nil {
		return upgrade.Record{}, err
	}
	r := &runner.Runner{
		Request: p.request, Cluster: watcher, Cloud: p.provider,
		Writer: cluster.NewWriter(conn.client, watcher, p.request.Run, p.group.Provider),
		Store:  store, Group: p.group, Record: p.record, Lost: hold.Lost(), Expires: hold.Expires,
		Watch: progress.step, Polled: progress.polled,
	}
	progress.say(fmt.Sprintf("run %s: upgrading to %s", p.request.Run, p.group.Wanted.Name))
	record, err := r.Run(ctx)
	if err != nil {
		err = fmt.Errorf("%w: run the same command to go on", err)
	}
	return record, err
}

// acquire takes the group's lease, and says whom it waits for.
func (o *options) acquire(ctx context.Context, conn *connection, group string, progress *progress) (*cluster.Hold, error) {
	return cluster.Acquire(ctx, conn.client, cluster.Claim{
		Namespace: o.stateSpace, Group: group, Identity: identity(), Takeover: o.takeover,
		Waiting: func(holder string) {
			progress.say(fmt.Sprintf("the lease is held by %s: waiting up to %s to see whether it is alive", holder, cluster.LeaseDuration))
		},
	})
}

// onlyOne refuses a second upgrade in the cluster, since two groups drained together can hold each other's
// budgets closed (containers-roadmap#1865).
func (o *options) onlyOne(ctx context.Context, conn *connection, group string) error {
	if o.parallelGroups {
		return nil
	}
	leases, err := conn.client.CoordinationV1().Leases(o.stateSpace).List(ctx, metav1.ListOptions{LabelSelector: cluster.LabelManagedBy + "=" + cluster.FieldManager})
	if err != nil {
		return fmt.Errorf("listing the leases of upgrades: %w", err)
	}
	for i := range leases.Items {
		lease := &leases.Items[i]
		holder := lease.Spec.HolderIdentity
		if lease.Name == cluster.ObjectName(group) || holder == nil || *holder == "" || lease.Spec.RenewTime == nil {
			continue
		}
		if time.Since(lease.Spec.RenewTime.Time) < cluster.LeaseDuration {
			return usage(fmt.Errorf("%s is upgrading another group (lease %s): wait for it, or pass --parallel-groups", *holder, lease.Name))
		}
	}
	return nil
}

// identity names this process to whoever finds its lease.
func identity() string {
	name := "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s@%s/%d-%s", name, host, os.Getpid(), rand.String(5))
}

// printOutcome says how the upgrade ended: on stdout when it reached its goal, else as the error that names what to do.
func (o *options) printOutcome(name string, record upgrade.Record) error {
	code := resultCode(record.Result)
	switch record.Result {
	case upgrade.Succeeded, upgrade.LeftBehind:
		if err := o.printResult(name, record); err != nil {
			return err
		}
		if code != exitDone {
			return &exitErr{code: code}
		}
		return nil
	case upgrade.Interrupted:
		return &exitErr{code: code, err: fmt.Errorf("upgrading group %q: interrupted in phase %q with %d of %d nodes replaced%s: run the same command to go on",
			name, record.Phase, record.Replaced, record.Total, aside(record.Message))}
	case upgrade.Paused, upgrade.TargetMoved: // a person decides; the message says between what
		return &exitErr{code: code, err: fmt.Errorf("upgrading group %q: %s: %s", name, record.Result, record.Message)}
	default:
		return &exitErr{code: code, err: fmt.Errorf("upgrading group %q: %s: %s; run the same command to go on", name, record.Result, record.Message)}
	}
}

func (o *options) printResult(name string, record upgrade.Record) error {
	status := statusOf(name, record)
	return o.output.print(o.Out, status, []string{"nodegroup/" + name}, func(report.Options) error {
		verb := "upgraded"
		if record.Total == 0 {
			verb = "is current"
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
