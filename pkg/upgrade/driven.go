package upgrade

import (
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/ledger"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// AsDriven is a group that its cloud upgrades, with the record and the request by which this tool
// would do it, in the cloud's own numbers: for a forecast of what the cloud does, from the start
// or, where it has made the group larger or drains nodes already, from there. Of what the cloud tells
// it keeps the order of things. A cloud looks at budgets, and not at what becomes of workloads.
func AsDriven(group nodegroup.Group, rec *record.Record, req record.Request) (nodegroup.Group, record.Record, record.Request) {
	group.Managed, group.Quiesce, group.Refusal = &nodegroup.Managed{TerminateFirst: group.Managed.TerminateFirst}, nil, ""
	req.Strategy, req.NoImplicitBudgets, req.IgnoreUnready = record.Surge, true, []string{record.AllWorkloads}
	if rec.Delegation == nil || rec.Sizes.Desired == 0 || !isUnderWay(&group, rec) {
		return group, record.Record{}, req
	}
	return group, record.Record{
		Version: record.Surge.RecordVersion(), Run: rec.Run, Request: req, Started: rec.Started, Phase: record.PhaseUpgrade, Previous: rec.Previous, Target: rec.Target,
		Provider: rec.Provider, Sizes: rec.Sizes, Total: rec.Total, Replaced: rec.Replaced, Ledger: bookAdded(&group, rec), Nodes: nodesInDrain(rec, req.DrainTimeout.Duration), Begun: len(rec.Delegation.Draining),
	}, req
}

// isUnderWay reports whether the cloud has begun with nodes, as far as the cluster shows.
func isUnderWay(group *nodegroup.Group, rec *record.Record) bool {
	return len(rec.Delegation.Draining) > 0 || group.Desired > rec.Sizes.Desired && !group.Managed.TerminateFirst
}

// nodesInDrain are the nodes that the cloud drains, each until the cloud gives up on it (EKS E41).
func nodesInDrain(rec *record.Record, timeout time.Duration) map[string]record.NodeRecord {
	nodes := map[string]record.NodeRecord{}
	for name, since := range rec.Delegation.Draining {
		nodes[name] = record.NodeRecord{State: record.NodeDraining, Batch: 1, Began: since, Deadline: since.Add(timeout)}
	}
	return nodes
}

// bookAdded has what the cloud has added to the zones of the group on the books as launched.
func bookAdded(group *nodegroup.Group, rec *record.Record) ledger.Ledger {
	size := map[string]int{}
	for _, i := range group.Instances {
		if i.State != nodegroup.InstanceLeaving {
			size[i.Zone]++
		}
	}
	books := rec.Ledger.Books()
	books.Zones = map[string]ledger.Zone{}
	for zone, n := range size {
		if added := n - rec.Sizes.Zones[zone]; added > 0 {
			books.Zones[zone] = ledger.Zone{Surge: added, Launched: added}
		}
	}
	return ledger.FromBooks(books)
}

// KnowsAdded reports whether the record tells what the group's cloud has added to it, which it is
// to give back: it adds nothing, or its operation began after the upgrade that is recorded.
func KnowsAdded(rec *record.Record, group *nodegroup.Group) bool {
	m := group.Managed
	return m != nil && (m.TerminateFirst || rec.Sizes.Desired > 0 && !m.Operation.Began.Before(rec.Started))
}
