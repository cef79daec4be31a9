package upgrade

import (
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Notes are what one Step remembers for the next and a crash may lose: they only
// make messages exact and patience fair.
type Notes struct {
	// BlockedSince tells, by pod UID or node name, since when it has been blocked.
	BlockedSince map[string]time.Time
	// Returned counts, by node and controller, the pods that came up on the node after its drain
	// began and were evicted.
	Returned map[Return]int
	// Yielded is how long each node was blocked only by other nodes of this run; its limit does not
	// run meanwhile.
	Yielded map[string]time.Duration
	// Yielding are the nodes that were so blocked when the notes were taken.
	Yielding map[string]bool
	// Ready is how long pods took to become ready before, Gone how long after their deletion those
	// took that have left, by their controllers' UIDs. Both are replaced, never changed.
	Ready, Gone map[types.UID]time.Duration
	// Lag is how much longer budgets are closed than their pods take to become ready, 0 for not
	// known.
	Lag time.Duration
	// Leaving are the pods on their way from nodes in drain, by UID.
	Leaving map[types.UID]Departure
	// Pressing are the budgets that decide when the upgrade ends, as it was when a node was started
	// last. It is replaced, never changed.
	Pressing map[types.NamespacedName]bool
	// PodsLeft counts the pods that must leave a node which its cloud may be draining, by node name.
	PodsLeft map[string]int
	// At is when the notes were taken.
	At time.Time
}

// Return names a controller whose pods come back to a node.
type Return struct {
	Node  string
	Owner types.UID
}

func (n *Notes) cloneNotes() Notes {
	c := Notes{
		BlockedSince: map[string]time.Time{}, // only what is blocked still is carried over
		Returned:     maps.Clone(n.Returned),
		Yielded:      maps.Clone(n.Yielded),
		Yielding:     map[string]bool{},
		PodsLeft:     map[string]int{},
		Ready:        n.Ready,
		Gone:         n.Gone,
		Pressing:     n.Pressing,
		Lag:          n.Lag,
		At:           n.At,
	}
	if c.Returned == nil {
		c.Returned = map[Return]int{}
	}
	if c.Yielded == nil {
		c.Yielded = map[string]time.Duration{}
	}
	return c
}
