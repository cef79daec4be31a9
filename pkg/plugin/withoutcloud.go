package plugin

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cluster"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/report"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// statusWithoutCloud is the status of an upgrade whose group cannot be read from its cloud, for the
// reason given: what the cluster keeps of it. It returns the reason where it is none of the
// cloud's, or where no upgrade of the group is recorded.
func statusWithoutCloud(ctx context.Context, c *command, reason error) (*report.UpgradeStatus, error) {
	var fromCloud *cloud.Error
	if !errors.As(reason, &fromCloud) {
		return nil, reason
	}
	groups := c.line.groups.names
	if len(groups) == 0 { // the credentials were missing before a group was chosen
		records, _, err := c.loadRecords(ctx)
		if err != nil {
			return nil, err
		}
		groups = record.GroupsToReport(records)
	}
	if len(groups) != 1 {
		return nil, reason
	}
	name := groups[0]
	store := c.openStore(name)
	record, err := store.LoadRecord(ctx)
	if err != nil {
		return nil, err
	}
	if record.Run == "" {
		return nil, reason
	}
	lease, abandoned, err := c.readLease(ctx, store, name, &record)
	if err != nil {
		return nil, err
	}
	view, err := c.conn.readView(ctx)
	if err != nil {
		return nil, err
	}
	if view.Pods, err = cluster.PodsOn(ctx, c.conn.Client, slices.Collect(maps.Keys(record.InFlight()))); err != nil {
		return nil, explainReadError(err)
	}
	status := makeUpgradeStatus(name, record)
	status.Holder, status.Unread = lease.Holder, reason.Error()
	status.Status, status.Blocked = upgrade.WithoutCloud(&record, &view, c.conn.Now())
	status.Leftovers = (&recordedState{record: record, lease: lease, abandoned: abandoned}).findAbandoned(name)
	return status, nil
}
