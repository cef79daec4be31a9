package plugin

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cluster"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodemark"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/report"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// findAbandonedRun returns a leftover if the upgrade is abandoned: its process ended without stopping it.
func (s *recordedState) findAbandonedRun(group string) []report.Leftover {
	if !s.abandoned {
		return nil
	}
	what := fmt.Sprintf("run %s of group %s stopped unexpectedly", s.record.Run, group)
	if s.lease.Holder != "" {
		what += fmt.Sprintf(" (%s was last seen at %s)", s.lease.Holder, s.lease.LastHeld.Format(time.RFC3339))
	}
	remedy := fmt.Sprintf("run %s to continue, or %s to undo it", nodegroup.Command("resume", group), nodegroup.Command("abort", group))
	if verb := s.record.UndoVerb(); verb != "" {
		remedy = fmt.Sprintf("run %s to continue", nodegroup.Command(string(verb), group))
	}
	return []report.Leftover{{What: what, Remedy: remedy}}
}

// readLease reads the lease of a group and reports whether the recorded upgrade is abandoned. It is abandoned if the
// record says that it is running, no process holds the lease, and a second reading of the record shows no change. The
// second reading is needed because a process acquires the lease before it writes its first record, and releases the
// lease after it wrote its last.
func (c *command) readLease(ctx context.Context, store *cluster.Store, group string, record *record.Record) (lease cluster.LeaseState, abandoned bool, err error) {
	lease, err = c.conn.ReadLease(ctx, c.line.stateNamespace, group)
	if err != nil || !looksAbandoned(record, lease) {
		return lease, false, err
	}
	after, err := store.LoadRecord(ctx)
	return lease, err == nil && reflect.DeepEqual(*record, after), err
}

// looksAbandoned reports whether the record says that the upgrade is running although no process holds the lease.
func looksAbandoned(record *record.Record, lease cluster.LeaseState) bool {
	return record.IsRunning() && lease.IsFree()
}

// findGroupLeftovers returns the leftovers of one group.
func findGroupLeftovers(ctx context.Context, s *session, g *groupContext, state recordedState) ([]report.Leftover, error) {
	records, unreadable, err := s.loadRecords(ctx)
	if err != nil {
		return nil, err
	}
	s.warnOfUnreadableRecords(unreadable)
	var own []*corev1.Node
	for i := range g.members {
		if node := g.members[i].Node; node != nil {
			own = append(own, node)
		}
	}
	return slices.Concat(state.findAbandonedRun(g.group.Name), report.FindSuspendedProcesses(&g.group, &state.record), report.FindOrphanedNodes(s.dropNodesOfUnreadableRecords(own, unreadable), records, s.line.stateNamespace), report.FindUnreadableMarks(own)), nil
}

// findAllLeftovers returns the leftovers of all groups with records, and of all nodes.
func findAllLeftovers(ctx context.Context, s *session, records map[string]record.Record, unreadable map[string]error) ([]report.Leftover, error) {
	s.warnOfUnreadableRecords(unreadable)
	groups, err := s.listGroups(ctx, s.cluster.view.Nodes)
	if err != nil {
		return nil, err
	}
	var found []report.Leftover
	for _, name := range slices.Sorted(maps.Keys(records)) {
		record := records[name]
		lease, abandoned, err := s.readLease(ctx, s.openStore(name), name, &record)
		if err != nil {
			return nil, err
		}
		found = append(found, (&recordedState{record: record, lease: lease, abandoned: abandoned}).findAbandonedRun(name)...)
		if i := slices.IndexFunc(groups, func(g nodegroup.Group) bool { return g.Name == name }); i >= 0 {
			found = append(found, report.FindSuspendedProcesses(&groups[i], &record)...)
		}
	}
	return slices.Concat(found, report.FindOrphanedNodes(s.dropNodesOfUnreadableRecords(s.cluster.view.Nodes, unreadable), records, s.line.stateNamespace), report.FindUnreadableMarks(s.cluster.view.Nodes)), nil
}

// dropNodesOfUnreadableRecords removes nodes that may belong to a running upgrade whose record cannot be read. Their
// marks would otherwise be reported as leftovers. Marks without a group name may belong to any upgrade.
func (s *session) dropNodesOfUnreadableRecords(nodes []*corev1.Node, unreadable map[string]error) []*corev1.Node {
	return slices.DeleteFunc(slices.Clone(nodes), func(node *corev1.Node) bool {
		owner, named := nodemark.ReadOwner(node)
		if !named {
			return len(unreadable) > 0
		}
		return owner.Namespace == s.line.stateNamespace && unreadable[owner.Group] != nil
	})
}
