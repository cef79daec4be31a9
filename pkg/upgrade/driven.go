package upgrade

import (
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/ledger"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// DelegatedAsSurge describes the upgrade of a group by its own cloud as a surge of this tool, for a forecast: it returns the
// group, with the record and the request that have the cloud's own numbers. The forecast begins at the start or, if the cloud
// has added or drains nodes already, at that point. From Managed it keeps only whether the cloud terminates nodes first. A
// cloud respects budgets, but does not check whether workloads recover.
func DelegatedAsSurge(group nodegroup.Group, rec *record.Record, req record.Request) (nodegroup.Group, record.Record, record.Request) {
	group.Managed, group.Quiesce, group.Refusal = &nodegroup.Managed{TerminateFirst: group.Managed.TerminateFirst}, nil, ""
	req.Strategy, req.NoImplicitBudgets, req.IgnoreUnready = record.Surge, true, []string{record.AllWorkloads}
	if rec.Delegation == nil || rec.Sizes.Desired == 0 || !hasCloudBegun(&group, rec) {
		return group, record.Record{}, req
	}
	return group, record.Record{
		Version: record.Surge.RecordVersion(), Run: rec.Run, Request: req, Started: rec.Started, Phase: record.PhaseUpgrade, Previous: rec.Previous, Target: rec.Target,
		Provider: rec.Provider, Sizes: rec.Sizes, Total: rec.Total, Replaced: rec.Replaced, Ledger: ledgerWithAdded(&group, rec), Nodes: recordsOfDraining(rec, req.DrainTimeout.Duration), Begun: len(rec.Delegation.Draining),
	}, req
}

// hasCloudBegun reports whether the cluster shows that the cloud has begun to add or drain nodes.
func hasCloudBegun(group *nodegroup.Group, rec *record.Record) bool {
	return len(rec.Delegation.Draining) > 0 || group.Desired > rec.Sizes.Desired && !group.Managed.TerminateFirst
}

// recordsOfDraining returns the nodes that the cloud drains, each with the time when the cloud gives up on it (EKS E41).
func recordsOfDraining(rec *record.Record, timeout time.Duration) map[string]record.NodeRecord {
	nodes := map[string]record.NodeRecord{}
	for name, since := range rec.Delegation.Draining {
		nodes[name] = record.NodeRecord{State: record.NodeDraining, Batch: 1, Began: since, Deadline: since.Add(timeout)}
	}
	return nodes
}

// ledgerWithAdded returns a ledger in which the nodes that the cloud has added to each zone count as launched.
func ledgerWithAdded(group *nodegroup.Group, rec *record.Record) ledger.Ledger {
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

// KnowsCloudSurge reports whether the record shows how many nodes the group's cloud has added and will give back: the cloud
// adds none, has not begun, or its operation began after the recorded upgrade.
func KnowsCloudSurge(rec *record.Record, group *nodegroup.Group) bool {
	m := group.Managed
	switch {
	case m == nil:
		return false
	case rec.Delegation != nil && rec.Delegation.ID == "" && m.Operation.State != nodegroup.OperationRunning:
		return true // the cloud has not begun
	}
	return m.TerminateFirst || rec.Sizes.Desired > 0 && !m.Operation.Began.Before(rec.Started)
}
