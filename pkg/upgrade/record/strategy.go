package record

import (
	"slices"
)

// Strategy names how a group is replaced.
type Strategy string

const (
	// Surge adds nodes first and replaces the outdated ones in a moving window (EKS E01, GKE G10).
	Surge Strategy = "surge"
	// BlueGreen adds a node for each outdated one, drains the outdated nodes in batches, and keeps them until a soak is
	// over (GKE G40).
	BlueGreen Strategy = "blue-green"
	// AutoscaledBlueGreen fences the outdated nodes, waits for pods to leave them, and drains the remaining nodes. An
	// autoscaler adds new nodes for Pending pods (GKE G70).
	AutoscaledBlueGreen Strategy = "autoscaled-blue-green"
	// ShortLived points the group at the wanted revision and waits for its nodes to end by themselves within a week
	// (GKE G90).
	ShortLived Strategy = "short-lived"
	// Delegated lets the group's own cloud replace the nodes. The upgrade begins or joins the cloud's operation,
	// follows it, and explains it. It writes nothing to nodes or pods.
	Delegated Strategy = "delegated"
)

// Traits are the properties of a strategy. No other code asks for a strategy's name, except to give advice or to
// compare.
type Traits struct {
	// Drains is true if this tool drains the outdated nodes, ByCloud if the group's own cloud replaces them, and
	// Expires if they end by themselves with their pods.
	Drains, ByCloud, Expires bool
	// ByAutoscaler is true if an autoscaler brings the new nodes, when pods need them (GKE G70).
	ByAutoscaler bool
	// TakesWidth is true if the user says how many nodes are added first, and how many are replaced at once.
	TakesWidth bool
	// DeletesRest is true if pods that are left when the drain timeout is over are finally deleted, whatever
	// --on-timeout says (GKE G53, G75).
	DeletesRest bool
	// KeepsNodes is true if nodes stay on record after their drain.
	KeepsNodes bool
}

// strategyRow contains what is known about a strategy, except its phases.
type strategyRow struct {
	name Strategy
	// version is the oldest record version that knows the strategy, so that older programs may continue the upgrade.
	version int
	traits  Traits
}

// strategyRows lists all strategies there are, Surge first.
func strategyRows() []strategyRow {
	return []strategyRow{
		{Surge, 1, Traits{Drains: true, TakesWidth: true}},
		{BlueGreen, 3, Traits{Drains: true, DeletesRest: true, KeepsNodes: true}},
		{AutoscaledBlueGreen, 5, Traits{Drains: true, ByAutoscaler: true, DeletesRest: true, KeepsNodes: true}},
		{ShortLived, 4, Traits{Expires: true}},
		{Delegated, 2, Traits{ByCloud: true}},
	}
}

// findRow returns the row of the strategy. It returns the row of Surge for "" and for unknown strategies.
func (s Strategy) findRow() strategyRow {
	rows := strategyRows()
	return rows[max(0, slices.IndexFunc(rows, func(r strategyRow) bool { return r.name == s }))]
}

// Known returns the strategy itself, or Surge for "" and for unknown strategies.
func (s Strategy) Known() Strategy { return s.findRow().name }

// RecordVersion returns the oldest record version that knows the strategy.
func (s Strategy) RecordVersion() int { return s.findRow().version }

// Traits returns the strategy's properties. It returns those of Surge for "" and for unknown strategies.
func (s Strategy) Traits() Traits { return s.findRow().traits }

// Strategies returns the names of all strategies, Surge first.
func Strategies() []Strategy {
	var names []Strategy
	for _, row := range strategyRows() {
		names = append(names, row.name)
	}
	return names
}
