package upgrade

import (
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/ledger"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// DelegatedAsOwn describes the upgrade of a group by its own cloud as an upgrade by this tool, for a forecast: it returns the
// group, with the record and the request that have the cloud's own numbers. The forecast begins at the start or, if the cloud
// has added or drains nodes already, at that point. From Managed it keeps only whether the cloud terminates nodes first. A
// cloud respects budgets, but does not check whether workloads recover.
func DelegatedAsOwn(group nodegroup.Group, members []nodegroup.Member, rec *record.Record, req record.Request, now time.Time) (nodegroup.Group, record.Record, record.Request) {
	// The other strategies add and remove nodes as this tool does. Karpenter launches a node for each one that it replaces.
	asThisTool := req.ReplacedBy() != record.Surge || group.Managed.ByItself != ""
	group.Managed, group.Quiesce, group.Refusal = &nodegroup.Managed{TerminateFirst: group.Managed.TerminateFirst}, nil, ""
	if asThisTool {
		group.Managed = nil
	}
	req.Strategy, req.NoImplicitBudgets, req.IgnoreUnready = req.ReplacedBy(), true, []string{record.AllWorkloads}
	if rec.Rollback && req.BlueGreen != nil {
		req.BlueGreen = &record.BlueGreenRequest{Batch: 1} // a rollback does not soak
	}
	own := record.Record{
		Version: req.Strategy.RecordVersion(), Run: rec.Run, Request: req, Started: rec.Started, Phase: record.PhaseUpgrade, Previous: rec.Previous, Target: rec.Target,
		Provider: rec.Provider, Sizes: rec.Sizes, Total: rec.Total, Replaced: rec.Replaced,
	}
	switch {
	case rec.Delegation == nil:
		return group, record.Record{}, req
	case req.Strategy == record.BlueGreen:
		return group, blueGreenUnderWay(&group, members, rec, own, now), req
	case rec.Sizes.Desired == 0 || !hasCloudBegun(&group, rec):
		return group, record.Record{}, req
	}
	own.Ledger, own.Nodes, own.Begun = ledgerWithAdded(&group, rec), recordsOfDraining(rec, req.DrainTimeout.Duration), len(rec.Delegation.Draining)
	return group, own, req
}

// blueGreenUnderWay completes the record of a cloud's blue-green upgrade. The nodes show what the cloud has done: it adds all
// new nodes, cordons all outdated ones, and then drains them batch by batch (GKE G40). It returns the zero Record if the cloud
// has added no node.
func blueGreenUnderWay(group *nodegroup.Group, members []nodegroup.Member, rec *record.Record, own record.Record, now time.Time) record.Record {
	policy := rec.Request.Policy()
	books := rec.Ledger.Books()
	if books.Zones = countNewNodes(group); len(books.Zones) == 0 {
		return record.Record{}
	}
	own.Ledger, own.Nodes, own.Phase = ledger.FromBooks(books), map[string]record.NodeRecord{}, record.PhaseCreateGreen
	for i := range members {
		m := &members[i]
		if !m.Outdated || m.Node == nil || !nodegroup.IsClosed(m.Node) {
			continue
		}
		own.Phase = record.PhaseDrainBlue
		since, begun := rec.Delegation.Draining[m.Name()]
		deadline := since.Add(own.Request.DrainTimeout.Duration)
		switch {
		case begun && now.Before(deadline):
			own.Nodes[m.Name()] = record.NodeRecord{State: record.NodeDraining, Batch: 1, Began: since, Deadline: deadline}
		case begun || classifyPods(m.Pods, policy, false).countPodsLeft() == 0 || rec.Phase != record.PhaseFollow:
			own.Nodes[m.Name()] = record.NodeRecord{State: record.NodeParked, Batch: 1, Began: own.Started, EmptyAt: own.Started}
			own.Soak.Batches++
		}
	}
	own.Begun = len(own.Nodes)
	if rec.Phase == record.PhaseSoak || rec.Phase == record.PhaseDeleteBlue {
		own.Phase, own.Soak = rec.Phase, rec.Soak
	}
	if rec.Delegation.Completing != "" {
		own.Soak.Until = now
	}
	return own
}

// countNewNodes returns the current machines of each zone as nodes that were added and launched. Zones without any are left out.
func countNewNodes(group *nodegroup.Group) map[string]ledger.Zone {
	zones := map[string]ledger.Zone{}
	for _, i := range group.Instances {
		if zone := zones[i.Zone]; !i.Outdated {
			zones[i.Zone] = ledger.Zone{Surge: zone.Surge + 1, Launched: zone.Launched + 1}
		}
	}
	return zones
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
	case m == nil || rec.Request.ReplacedBy().Traits().ByAutoscaler:
		return false
	case rec.Request.ReplacedBy() == record.BlueGreen || group.Can.Refill == nodegroup.RefillByPods:
		return true // it adds a node for each outdated one
	case rec.Delegation != nil && rec.Delegation.ID == "" && m.Operation.State != nodegroup.OperationRunning:
		return true // the cloud has not begun
	}
	return m.TerminateFirst || rec.Sizes.Desired > 0 && !m.Operation.Began.Before(rec.Started)
}
