package plugin

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cluster"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/report"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
)

// statusUnread is the status of an upgrade whose group cannot be read from its cloud, for the
// reason given: what the cluster keeps of it. It returns the reason where it is none of the
// cloud's, or where no upgrade of the group is recorded.
func statusUnread(ctx context.Context, conn *connection, namespace string, groups []string, reason error) (*report.UpgradeStatus, error) {
	var fromCloud *cloud.Error
	if !errors.As(reason, &fromCloud) {
		return nil, reason
	}
	if len(groups) == 0 { // the credentials were missing before a group was chosen
		records, err := cluster.Records(ctx, conn.client, namespace)
		if err != nil {
			return nil, err
		}
		groups = spokenOf(records)
	}
	if len(groups) != 1 {
		return nil, reason
	}
	name := strings.TrimPrefix(groups[0], groupPrefix)
	store := cluster.NewStore(conn.client, namespace, name)
	record, err := store.Load(ctx)
	if err != nil {
		return nil, err
	}
	if record.Run == "" {
		return nil, reason
	}
	held, err := tenureOf(ctx, conn, namespace, name)
	if err != nil {
		return nil, err
	}
	view, err := conn.read(ctx)
	if err != nil {
		return nil, err
	}
	if view.Pods, err = cluster.PodsOn(ctx, conn.client, slices.Collect(maps.Keys(record.InFlight()))); err != nil {
		return nil, unreadable(err)
	}
	status := statusOf(name, record)
	status.Holder, status.Unread = held.holder, reason.Error()
	status.Status, status.Blocked = upgrade.WithoutCloud(&record, &view, time.Now())
	status.Leftovers = abandoned(name, &record, held)
	return status, nil
}
