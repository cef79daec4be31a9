package record

import (
	"cmp"
	"errors"
	"maps"
	"reflect"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/ledger"
)

// Version is the newest form of Record that this program reads; see Strategy.RecordVersion.
const Version = 6

// DelegationVersion is the oldest form of Record that knows what clouds can do beyond EKS: to cancel, and to take a width.
const DelegationVersion = 6

// Record is what must outlive this process. It is stored in the cluster, and written before the
// actions that rest on it.
type Record struct {
	Version int       `json:"version"`
	Run     string    `json:"run"`
	Request Request   `json:"request"`
	Started time.Time `json:"started"`
	// Phase and when it began.
	Phase      Phase     `json:"phase"`
	PhaseBegan time.Time `json:"phaseBegan"`
	// Previous is the revision that a rollback goes back to, whole; Target the one the group is
	// moved to. On the way back they have changed places.
	Previous nodegroup.Revision `json:"previous"`
	Target   nodegroup.Revision `json:"target"`
	// Pointed is what the group pointed at before us, where that is not Previous: what an abort
	// points it at again.
	Pointed nodegroup.Revision `json:"pointed,omitzero"`
	// SetTo are the IDs of the revisions that this upgrade asked the cloud to point the group at.
	SetTo []string `json:"setTo,omitempty"`
	// Back tells that this is the way back from an upgrade that was rolled back (GKE G28).
	Back bool `json:"back,omitempty"`
	// Provider names where the group's nodes come from, as Group.Provider does; empty in records of
	// older versions.
	Provider string `json:"provider,omitempty"`
	// Earlier are the runs of older upgrades of the group whose marks its nodes still had at the
	// start.
	Earlier []string `json:"earlier,omitempty"`
	// Taints are those that all outdated nodes had before the upgrade.
	Taints []corev1.Taint `json:"taints,omitempty"`
	// Daemons are the DaemonSets with pods on the group's nodes before the upgrade, by
	// NAMESPACE/KIND/NAME. The map is never changed.
	Daemons map[string]DaemonRecord `json:"daemons,omitempty"`
	// Vanished are outdated nodes that another process removed before their turn.
	Vanished []string `json:"vanished,omitempty"`
	// Unlabelled are the IDs of machines that were current when the upgrade began, and whose nodes
	// lacked a label of current ones; sorted.
	Unlabelled []string `json:"unlabelled,omitempty"`
	// Lost tells that the run's record was lost, and that its books are still to be made again.
	Lost bool `json:"lost,omitempty"`
	// Sizes of the group at the start.
	Sizes nodegroup.Sizes `json:"sizes"`
	// Total is how many nodes are to be replaced: those outdated at the start, and those that were
	// found outdated since.
	Total  int           `json:"total"`
	Ledger ledger.Ledger `json:"ledger"`
	// Suspended are the processes that we suspended, and no others.
	Suspended []string `json:"suspended,omitempty"`
	// Nodes in flight or quarantined, by name. Nodes that are gone leave it.
	Nodes map[string]NodeRecord `json:"nodes,omitempty"`
	// Gone are the nodes that were started and went, for the report of who looks later; in order of time, the last MostGone of them. The
	// slice is replaced, never changed.
	Gone []GoneNode `json:"gone,omitempty"`
	// Begun counts the nodes started; it numbers the batches.
	Begun int `json:"begun"`
	// Replaced counts the outdated nodes that are gone, or drained where no one but their owner
	// removes them.
	Replaced int `json:"replaced"`
	// Stopping is the result that it is being brought to an end with; nothing new is begun.
	Stopping Result `json:"stopping,omitempty"`
	// PausedBy is who asked for the pause that it stops or stopped with; empty when no one did.
	PausedBy string `json:"pausedBy,omitempty"`
	// Soak is the wait that is under way, and what was spent on such waits.
	Soak Soak `json:"soak,omitzero"`
	// Workloads are those whose pods left nodes, by NAMESPACE/KIND/NAME. The map is replaced, never
	// changed.
	Workloads map[string]WorkloadRecord `json:"workloads,omitempty"`
	// Unhealthy tells, by NAMESPACE/KIND/NAME, since when workloads have not recovered, of those that have
	// not for a minute: who looks from elsewhere knows it by that. The map is replaced, never changed.
	Unhealthy map[string]time.Time `json:"unhealthy,omitempty"`
	// Turn is the zone whose nodes are replaced now, where the others wait for their turn.
	Turn string `json:"turn,omitempty"`
	// Delegation is what is known of the cloud's own operation; nil where this tool replaces the
	// nodes.
	Delegation *Delegation `json:"delegation,omitempty"`
	// Result and Message say how it ended; an empty Result is an upgrade under way.
	Result  Result    `json:"result,omitempty"`
	Message string    `json:"message,omitempty"`
	Ended   time.Time `json:"ended,omitzero"`
}

// Clone copies the record so that the copy can be changed.
func (r *Record) Clone() Record {
	c := *r
	c.Nodes = maps.Clone(r.Nodes)
	if c.Nodes == nil {
		c.Nodes = map[string]NodeRecord{} // an empty one is not stored
	}
	c.Suspended = slices.Clone(r.Suspended)
	c.Delegation = r.Delegation.cloneDelegation()
	c.Ledger = r.Ledger.Clone()
	return c
}

// IsRunning reports whether an upgrade is under way.
func (r *Record) IsRunning() bool { return r.Run != "" && r.Result == "" }

// CountUnstarted returns how many of the nodes that the upgrade replaces it has not started to drain, by what it has recorded.
func (r *Record) CountUnstarted() int {
	n := r.Total - r.Replaced
	for _, node := range r.Nodes {
		if !node.Added && node.State != NodeDrained {
			n--
		}
	}
	return max(0, n)
}

// CountDrained counts the nodes that are drained, whose owner replaces them, and that are not known to be replaced. An upgrade that
// waited for the replacements has them when it succeeds.
func (r *Record) CountDrained() int {
	if r.Request.WaitReplacement && r.Result == Succeeded {
		return 0
	}
	return CountNodes(r, func(n NodeRecord) bool { return n.State == NodeDrained })
}

// InFlight are the UIDs of the nodes that were started and have not come to rest, by name.
func (r *Record) InFlight() map[string]types.UID {
	nodes := map[string]types.UID{}
	for name, n := range r.Nodes {
		if n.UID != "" && (IsInDrain(n.State) || n.State == NodeRemoving) {
			nodes[name] = n.UID
		}
	}
	return nodes
}

// IsResumable reports whether the same command would continue where this record stopped.
func (r *Record) IsResumable() bool {
	switch r.Result {
	case Interrupted, Paused, Waiting, TargetMoved, PodEvictionFailure, NodeCreationFailure, WorkloadUnhealthy, Failed:
		return r.Run != ""
	default:
		return r.IsRunning()
	}
}

// IsCloudless reports whether the upgrade was begun without a cloud: the labels of current nodes
// tell all. Records of older versions do not name the provider; of theirs those with labels and no
// size are meant.
func (r *Record) IsCloudless() bool {
	if r.Provider != "" {
		return nodegroup.InfoOf(r.Provider).Can.Refill == nodegroup.RefillByUser
	}
	return len(r.Request.Current) > 0 && r.Sizes.Desired == 0
}

// DrainDeadlines are the times by which the nodes in drain have to be empty, by name.
func (r *Record) DrainDeadlines() map[string]time.Time {
	limits := map[string]time.Time{}
	for name, n := range r.Nodes {
		if (n.State == NodeDraining || n.State == NodeEmpty) && !n.Deadline.IsZero() {
			limits[name] = n.Deadline
		}
	}
	return limits
}

// WithMoreTime is the record with the limits of the nodes in drain moved by a time.
func (r *Record) WithMoreTime(by time.Duration) Record {
	return moveLimits(r, func(NodeRecord) time.Duration { return by })
}

// CreditIdleTime is the record with the limits of the nodes in drain moved by the time, up to now,
// in which no holder of the lease was at work: it does not count for them. Idle time from before a
// node's drain began moves nothing.
func CreditIdleTime(r *Record, idle time.Duration, now time.Time) Record {
	return moveLimits(r, func(n NodeRecord) time.Duration { return max(0, min(idle, now.Sub(n.Began))) })
}

func moveLimits(r *Record, by func(NodeRecord) time.Duration) Record {
	c := r.Clone()
	for name, limit := range r.DrainDeadlines() {
		n := c.Nodes[name]
		n.Deadline = limit.Add(by(n))
		c.Nodes[name] = n
	}
	return c
}

// Reopened is the record as the same command finds it again after a stop: under way, in the phase
// it was in, which begins again. A node that had used up its time gets it again only if that was
// why the upgrade stopped.
func (r *Record) Reopened() Record {
	c := r.Clone()
	if c.Result != "" || c.Stopping != "" {
		c.PhaseBegan = time.Time{} // the next step sets it: new nodes are waited for from then on
	}
	if c.Result == PodEvictionFailure || c.Stopping == PodEvictionFailure {
		for name, n := range c.Nodes {
			if n.State == NodeDraining || n.State == NodeForcing {
				n.State, n.Deadline = NodeDraining, time.Time{}
				c.Nodes[name] = n
			}
		}
	}
	if over := cmp.Or(c.Result, c.Stopping); c.Delegation != nil && over != "" && over != Interrupted {
		c.Delegation, c.Phase = c.Delegation.NextAttempt(), PhaseSetup
	}
	c.Result, c.Message, c.Ended = "", "", time.Time{}
	c.Stopping, c.PausedBy, c.Unhealthy = "", "", nil
	return c
}

// MustStoreRecord reports whether the record departs from the stored one in anything that must be
// on record before the actions of the step are begun. What a later look at the cluster and the
// cloud shows again by itself is written with the next change that does.
func MustStoreRecord(stored, record *Record) bool {
	return record.Run != "" && (!maps.EqualFunc(stored.Nodes, record.Nodes, isStoredNode) ||
		!reflect.DeepEqual(stored.withoutObserved(), record.withoutObserved()))
}

func isStoredNode(stored, n NodeRecord) bool {
	return reflect.DeepEqual(stored.withoutObserved(), n.withoutObserved())
}

// withoutObserved is the record without its nodes and without what a later look shows again: how
// many nodes are outdated, and how old a reading of the group may be; and without how workloads
// fare, which is stored with the start of a node and at the end.
func (r *Record) withoutObserved() Record {
	c := *r
	c.Total, c.Nodes = 0, nil
	if c.Result == "" {
		c.Workloads = nil
	}
	c.Ledger = r.Ledger.WithoutObserved()
	return c
}

// ErrChanged is the error of storing a record that another actor has written since it was
// read.
var ErrChanged = errors.New("its record was changed or deleted by another actor")
