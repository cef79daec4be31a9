package plugin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cluster"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/report"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
)

func newStatusCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use:               "status [GROUP]",
		Short:             "Show how an upgrade stands: phase, progress, what is in flight, what blocks",
		Args:              func(cmd *cobra.Command, args []string) error { return usage(cobra.MaximumNArgs(1)(cmd, args)) },
		ValidArgsFunction: o.completeGroups,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.completeShared(args); err != nil {
				return usage(err)
			}
			conn, err := o.connect(cmd.Context())
			if err != nil {
				return err
			}
			return o.status(cmd.Context(), conn)
		},
	}
}

// status prints one group's upgrade; without a group, of the only one that there is a record of.
func (o *options) status(ctx context.Context, conn *connection) error {
	if err := o.statusGroup(ctx, conn); err != nil {
		return err
	}
	s, err := o.open(ctx, conn)
	if err != nil {
		return err
	}
	names, err := o.groupNames(ctx, s, func(string) []string { return nil })
	if err != nil {
		return err
	}
	name := names[0]
	record, err := cluster.NewStore(conn.client, o.stateSpace, name).Load(ctx)
	if err != nil {
		return err
	}
	o.settings.BootTimeout = time.Hour // nothing is asked for here; the record's settings count
	o.replan = true
	p, err := o.look(ctx, s, name)
	if err != nil {
		return err
	}
	status := p.status(record, time.Now())
	if record.Running() {
		status.Remaining = p.remaining(ctx, s, record)
	}
	if status.Holder, err = holderOf(ctx, conn, o.stateSpace, name); err != nil {
		return err
	}
	return o.output.print(o.Out, status, []string{"nodegroup/" + name}, func(ro report.Options) error { return report.WriteStatus(o.Out, status, ro) })
}

// status is what the next step would see, without doing it.
func (p *prospect) status(record upgrade.Record, now time.Time) *report.UpgradeStatus {
	status := statusOf(p.group.Name, record)
	world := p.world(now)
	world.Record = record
	if record.Run == "" {
		status.Status.Outdated = p.outdated()
		return status
	}
	world.Request = record.Request
	step := upgrade.Next(world)
	status.Status, status.Blocked, status.Suspended = step.Status, step.Blocked, stillSuspended(record.Suspended, p.group.Suspended)
	return status
}

// statusGroup chooses the group when none was named: the only one with a record, or the only one under way.
func (o *options) statusGroup(ctx context.Context, conn *connection) error {
	if len(o.groups) > 0 || o.node != "" || o.selector != "" {
		return nil
	}
	records, err := cluster.Records(ctx, conn.client, o.stateSpace)
	if err != nil {
		return err
	}
	for name, record := range records {
		if len(records) == 1 || record.Running() {
			o.groups = append(o.groups, name)
		}
	}
	switch len(o.groups) {
	case 0:
		return usage(fmt.Errorf("no upgrade is under way: name a group (%d have a record)", len(records)))
	case 1:
		return nil
	default:
		return usage(errors.New("several groups are being upgraded: name one"))
	}
}

func holderOf(ctx context.Context, conn *connection, namespace, group string) (string, error) {
	lease, err := conn.client.CoordinationV1().Leases(namespace).Get(ctx, cluster.ObjectName(group), metav1.GetOptions{})
	if apierrors.IsNotFound(err) || (err == nil && lease.Spec.HolderIdentity == nil) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("reading the lease of group %q: %w", group, err)
	}
	return *lease.Spec.HolderIdentity, nil
}

// stillSuspended are the processes that we suspended and that nobody has resumed.
func stillSuspended(ours, now []string) []string {
	return slices.DeleteFunc(slices.Clone(ours), func(process string) bool { return !slices.Contains(now, process) })
}
