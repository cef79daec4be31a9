package plugin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cluster"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/report"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
)

func newStatusCommand(o *options) *cobra.Command {
	watch := false
	cmd := &cobra.Command{
		Use:               "status [GROUP]",
		Short:             "Show an upgrade's phase, what is in flight and what blocks",
		Args:              func(cmd *cobra.Command, args []string) error { return usage(cobra.MaximumNArgs(1)(cmd, args)) },
		ValidArgsFunction: o.completeOneGroup,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.completeShared(args); err != nil {
				return usage(err)
			}
			conn, err := o.connect(cmd.Context())
			if err != nil {
				return err
			}
			err = o.status(cmd.Context(), conn, watch)
			if err == nil || watch || o.node != "" || o.selector != "" {
				return err
			}
			status, err := statusUnread(cmd.Context(), conn, o.stateSpace, o.groups, err)
			if err != nil {
				return err
			}
			return o.printStatus(status)
		},
	}
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "Follow the upgrade to its end: print it again whenever it changes")
	return cmd
}

// status prints one group's upgrade; without a group, of the only one that there is a record of.
func (o *options) status(ctx context.Context, conn *connection, watch bool) error {
	s, err := o.open(ctx, conn)
	if err != nil {
		return err
	}
	if done, err := o.statusGroup(ctx, s); done || err != nil {
		return err
	}
	names, err := o.groupNames(ctx, s, func(string) []string { return nil })
	if err != nil {
		return err
	}
	store := cluster.NewStore(conn.client, o.stateSpace, names[0])
	record, err := store.Load(ctx)
	if err != nil {
		return err
	}
	o.settings.BootTimeout = time.Hour // nothing is asked for here; the record's settings count
	p, err := o.look(ctx, s, names[0], modeStatus)
	if err != nil {
		return err
	}
	if watch {
		return o.follow(ctx, s, p, store)
	}
	held, err := tenureOf(ctx, conn, o.stateSpace, names[0])
	if err != nil {
		return err
	}
	stands := stored{record: record, asked: store.Asked(), tenure: held}
	status := p.status(stands, time.Now())
	if record.Running() {
		status.Remaining = p.remaining(ctx, s, record)
	}
	if status.Leftovers, err = o.leftovers(ctx, s, p, stands); err != nil {
		return err
	}
	return o.printStatus(status)
}

func (o *options) printStatus(status *report.UpgradeStatus) error {
	return o.output.print(o.Out, status, []string{groupPrefix + status.Name}, func(ro report.Options) error { return report.WriteStatus(o.Out, status, ro) })
}

// stored is what the cluster keeps of an upgrade, at one moment.
type stored struct {
	record upgrade.Record
	asked  upgrade.Asked
	tenure tenure
}

// status is what the next step would see, without doing it.
func (p *prospect) status(stands stored, now time.Time) *report.UpgradeStatus {
	record := stands.record
	status := statusOf(p.group.Name, record)
	status.Holder = stands.tenure.holder
	world := p.world(now)
	world.Record, world.Asked = record, stands.asked
	if record.Run == "" {
		status.Status.Outdated = p.outdated()
		return status
	}
	world.Request = record.Request
	step := upgrade.Next(world)
	status.Status, status.Blocked, status.Suspended = step.Status, step.Blocked, stillSuspended(record.Suspended, p.group.Suspended)
	return status
}

// statusGroup chooses the group when none was named: the only one with a record, or the only one
// under way. Where there is none it prints what others have left, and is done.
func (o *options) statusGroup(ctx context.Context, s *session) (done bool, err error) {
	if len(o.groups) > 0 || o.node != "" || o.selector != "" {
		return false, nil
	}
	records, err := cluster.Records(ctx, s.client, o.stateSpace)
	if err != nil {
		return false, err
	}
	o.groups = spokenOf(records)
	switch len(o.groups) {
	case 0:
		return o.noGroup(ctx, s, records)
	case 1:
		return false, nil
	default:
		return false, usage(errors.New("several groups are being upgraded: name one"))
	}
}

// spokenOf are the groups that a status without a name can be about: the only one with a record, or
// those with an upgrade under way; sorted.
func spokenOf(records map[string]upgrade.Record) []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(records)) {
		if record := records[name]; len(records) == 1 || record.Running() {
			names = append(names, name)
		}
	}
	return names
}

func (o *options) noGroup(ctx context.Context, s *session, records map[string]upgrade.Record) (done bool, err error) {
	left, err := o.allLeftovers(ctx, s, records)
	if err != nil {
		return false, err
	}
	status := &report.UpgradeStatus{Leftovers: left}
	status.TypeMeta, _ = report.NewMeta("UpgradeStatus", "")
	return true, o.output.print(o.Out, status, nil, func(report.Options) error {
		lines := report.LeftoverLines(left)
		if len(left) == 0 {
			lines = []string{fmt.Sprintf("No upgrade is under way. Groups with a record of one: %d; see kubectl nodeupgrade status GROUP.", len(records))}
		}
		return writeLines(o.Out, lines)
	})
}

func holderOf(ctx context.Context, conn *connection, namespace, group string) (string, error) {
	t, err := tenureOf(ctx, conn, namespace, group)
	return t.holder, err
}

// stillSuspended are the processes that we suspended and that nobody has resumed.
func stillSuspended(ours, now []string) []string {
	return slices.DeleteFunc(slices.Clone(ours), func(process string) bool { return !slices.Contains(now, process) })
}
