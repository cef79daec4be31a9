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

// statusWithoutCloud returns the status and the record of an upgrade whose group cannot be read from its cloud. reason
// is the error of that reading. statusWithoutCloud returns the reason as its own error if the cloud is not its cause,
// or if no upgrade of the group is recorded.
func statusWithoutCloud(ctx context.Context, c *command, reason error) (*report.UpgradeStatus, record.Record, error) {
	var fromCloud *cloud.Error
	if !errors.As(reason, &fromCloud) {
		return nil, record.Record{}, reason
	}
	groups := c.line.groups.names
	if len(groups) == 0 { // the credentials failed before a group was chosen
		records, _, err := c.loadRecords(ctx)
		if err != nil {
			return nil, record.Record{}, err
		}
		groups = record.GroupsToReport(records)
	}
	if len(groups) != 1 {
		return nil, record.Record{}, reason
	}
	name := groups[0]
	store := c.openStore(name)
	rec, err := store.LoadRecord(ctx)
	if err != nil {
		return nil, record.Record{}, err
	}
	if rec.Run == "" {
		return nil, record.Record{}, reason
	}
	lease, abandoned, err := c.readLease(ctx, store, name, &rec)
	if err != nil {
		return nil, record.Record{}, err
	}
	view, err := c.conn.readView(ctx)
	if err != nil {
		return nil, record.Record{}, err
	}
	if view.Pods, err = cluster.ListPodsOfNodes(ctx, c.conn.Client, slices.Collect(maps.Keys(rec.InFlightUIDs()))); err != nil {
		return nil, record.Record{}, explainReadError(err)
	}
	status := makeUpgradeStatus(name, rec)
	status.Holder, status.Unread, status.OperationOf = lease.Holder, reason.Error(), rec.Provider
	status.Status, status.Blocked = upgrade.StatusWithoutCloud(&rec, &view, c.conn.Now())
	status.Leftovers = (&recordedState{record: rec, lease: lease, abandoned: abandoned}).findAbandonedRun(name)
	return status, rec, nil
}
