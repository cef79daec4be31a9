package upgrade

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// World is everything a decision may rest on, at one moment.
type World struct {
	// Now is the wall clock.
	Now time.Time
	// Request is what the user asked for, with all defaults resolved.
	Request Request
	// Group is the node group as its cloud, or for the manual provider its labels, show it.
	Group nodegroup.Group
	// Members are the group's nodes joined with their instances, sorted by Name. See Join.
	Members []nodegroup.Member
	// Budgets are the PodDisruptionBudgets of the cluster.
	Budgets drain.Budgets
	// Disrupted tells when a pod (namespace/name) was last seen in the status.disruptedPods of a
	// budget: from then on that budget's status shows its eviction.
	Disrupted map[types.NamespacedName]time.Time
	// EndingNamespaces are the namespaces that are being deleted.
	EndingNamespaces map[string]bool
	// Facts tell which pods others need, as it was when this process took the upgrade up.
	Facts drain.Facts
	// Open holds, by Action.Key, each action that was begun: whether it is in flight, and how it
	// last ended.
	Open map[string]nodegroup.Attempt
	// Record is what was stored last; its zero value starts a new upgrade.
	Record Record
	// Idle is for how long, up to Now, no holder of the lease was at work: the process was stopped,
	// or asleep.
	Idle time.Duration
	// Notes are the last Step's.
	Notes Notes
	// Stop is set when the user asked to stop; nothing new is begun.
	Stop bool
	// Asked is what somebody else asked of this upgrade.
	Asked Asked
	// EvictionsAtOnce is how many evictions may be in flight at once, 0 for any number.
	EvictionsAtOnce int
	// Brief has Step.Status leave out its Nodes, for those who take many steps and show none.
	Brief bool
}

// attempt is the last try of the action; the zero Attempt if there was none.
func (w *World) attempt(a nodegroup.Action) nodegroup.Attempt { return w.Open[a.Key()] }
