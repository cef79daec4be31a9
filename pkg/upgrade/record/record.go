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

// Version is the newest record version that this program reads; see Strategy.RecordVersion.
const Version = 7

// DelegationVersion is the oldest record version that knows that a cloud can cancel operations and take a width. EKS
// can do neither. RolloutVersion is the oldest that knows that a cloud has several strategies.
const (
	DelegationVersion = 6
	RolloutVersion    = 7
)

// Record is the state of an upgrade that must outlive the process. It is stored in the cluster, before the actions that
// depend on it begin.
type Record struct {
	Version int       `json:"version"`
	Run     string    `json:"run"`
	Request Request   `json:"request"`
	Started time.Time `json:"started"`
	// Phase and when it began.
	Phase      Phase     `json:"phase"`
	PhaseBegan time.Time `json:"phaseBegan"`
	// Previous is the complete revision that a rollback goes back to. Target is the revision that the group is moved
	// to. A rollback exchanges them.
	Previous nodegroup.Revision `json:"previous"`
	Target   nodegroup.Revision `json:"target"`
	// Pointed is the revision that the group pointed at before the upgrade, if that is not Previous. An abort points
	// the group at it again.
	Pointed nodegroup.Revision `json:"pointed,omitzero"`
	// SetTo are the IDs of the revisions that this upgrade asked the cloud to point the group at.
	SetTo []string `json:"setTo,omitempty"`
	// Rollback is true if this is a rollback (GKE G28).
	Rollback bool `json:"back,omitempty"`
	// Provider names where the group's nodes come from, like Group.Provider. It is empty in records of older versions.
	Provider string `json:"provider,omitempty"`
	// Earlier are the runs of older upgrades of the group whose marks its nodes still had when this upgrade began.
	Earlier []string `json:"earlier,omitempty"`
	// Taints are the taints that all outdated nodes had before the upgrade.
	Taints []corev1.Taint `json:"taints,omitempty"`
	// Devices are the extended resources, such as nvidia.com/gpu, that all outdated nodes offered before the upgrade.
	Devices []corev1.ResourceName `json:"devices,omitempty"`
	// Daemons are the DaemonSets with pods on the group's nodes before the upgrade, by
	// NAMESPACE/KIND/NAME. The map is never changed.
	Daemons map[string]DaemonRecord `json:"daemons,omitempty"`
	// Vanished are outdated nodes that another process removed before their turn.
	Vanished []string `json:"vanished,omitempty"`
	// Unlabelled are the sorted IDs of machines that were current when the upgrade began, but whose nodes lacked a
	// label of current nodes.
	Unlabelled []string `json:"unlabelled,omitempty"`
	// Lost is true if the run's record was lost, and its ledger must still be rebuilt.
	Lost bool `json:"lost,omitempty"`
	// Sizes are the group's sizes at the start.
	Sizes nodegroup.Sizes `json:"sizes"`
	// Total is how many nodes the upgrade replaces: those outdated at the start, and those found outdated later.
	Total  int           `json:"total"`
	Ledger ledger.Ledger `json:"ledger"`
	// Suspended are the processes that the upgrade suspended, and no others.
	Suspended []string `json:"suspended,omitempty"`
	// Nodes are the nodes in flight or quarantined, by name. Nodes that are gone are removed.
	Nodes map[string]NodeRecord `json:"nodes,omitempty"`
	// Gone are the nodes that were started and are gone, for later reports. They are in order of time, and limited to
	// the last MostGone. The slice is replaced, never changed.
	Gone []GoneNode `json:"gone,omitempty"`
	// Begun counts the started nodes; it numbers the batches.
	Begun int `json:"begun"`
	// Replaced counts the outdated nodes that are gone, or are drained and left for their owner to remove.
	Replaced int `json:"replaced"`
	// Stopping is the result with which the upgrade is being stopped. Nothing new begins then.
	Stopping Result `json:"stopping,omitempty"`
	// PausedBy is the user who asked for the current pause; empty if no user did.
	PausedBy string `json:"pausedBy,omitempty"`
	// Soak is the running soak or other long wait, and the time spent on all of them.
	Soak Soak `json:"soak,omitzero"`
	// Workloads are the workloads whose pods left nodes, by NAMESPACE/KIND/NAME. The map is replaced, never changed.
	Workloads map[string]WorkloadRecord `json:"workloads,omitempty"`
	// Unhealthy holds the times since which workloads have not recovered, by NAMESPACE/KIND/NAME. It lists only those
	// that have not for a minute, for status commands on other machines. The map is replaced, never changed.
	Unhealthy map[string]time.Time `json:"unhealthy,omitempty"`
	// Turn is the zone whose nodes are replaced now, if zones take turns.
	Turn string `json:"turn,omitempty"`
	// Delegation is what is known about the cloud's own operation; nil if this tool replaces the nodes.
	Delegation *Delegation `json:"delegation,omitempty"`
	// Result and Message describe how the upgrade ended. Result is empty while it is running.
	Result  Result    `json:"result,omitempty"`
	Message string    `json:"message,omitempty"`
	Ended   time.Time `json:"ended,omitzero"`
}

// Clone returns a copy of the record that can be changed.
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

// CountUnstarted returns how many of the nodes that the upgrade replaces were not started, according to the record.
func (r *Record) CountUnstarted() int {
	n := r.Total - r.Replaced
	for _, node := range r.Nodes {
		if !node.Added && node.State != NodeDrained {
			n--
		}
	}
	return max(0, n)
}

// CountDrained counts the nodes that are drained, whose owner replaces them, and that are not known to be replaced. If
// an upgrade waited for the replacements and succeeded, all nodes are replaced.
func (r *Record) CountDrained() int {
	if r.Request.WaitReplacement && r.Result == Succeeded {
		return 0
	}
	return CountNodes(r, func(n NodeRecord) bool { return n.State == NodeDrained })
}

// InFlightUIDs returns the UIDs, by name, of the nodes that are being drained or removed.
func (r *Record) InFlightUIDs() map[string]types.UID {
	nodes := map[string]types.UID{}
	for name, n := range r.Nodes {
		if n.UID != "" && (IsInDrain(n.State) || n.State == NodeRemoving) {
			nodes[name] = n.UID
		}
	}
	return nodes
}

// IsResumable reports whether the same command would continue this upgrade.
func (r *Record) IsResumable() bool {
	switch r.Result {
	case Interrupted, Paused, Waiting, TargetMoved, PodEvictionFailure, NodeCreationFailure, WorkloadUnhealthy, Failed:
		return r.Run != ""
	default:
		return r.IsRunning()
	}
}

// IsCloudless reports whether the upgrade began without a cloud, so that only labels show which nodes are current.
// Records of older versions do not name the provider. Among those, it means records with labels and without a size.
func (r *Record) IsCloudless() bool {
	if r.Provider != "" {
		return nodegroup.InfoOf(r.Provider).Can.Refill == nodegroup.RefillByUser
	}
	return len(r.Request.Current) > 0 && r.Sizes.Desired == 0
}

// DrainDeadlines returns the times by which the nodes in drain must be empty, by name.
func (r *Record) DrainDeadlines() map[string]time.Time {
	limits := map[string]time.Time{}
	for name, n := range r.Nodes {
		if (n.State == NodeDraining || n.State == NodeEmpty) && !n.Deadline.IsZero() {
			limits[name] = n.Deadline
		}
	}
	return limits
}

// WithDeadlinesMoved returns the record with the deadlines of the nodes in drain moved by the duration.
func (r *Record) WithDeadlinesMoved(by time.Duration) Record {
	return moveDeadlines(r, func(NodeRecord) time.Duration { return by })
}

// CreditIdleTime returns the record with the deadlines of the nodes in drain moved by the time, up to now, in which no
// holder of the lease was at work: such time does not count. Idle time before a node's drain began does not move its
// deadline.
func CreditIdleTime(r *Record, idle time.Duration, now time.Time) Record {
	return moveDeadlines(r, func(n NodeRecord) time.Duration { return max(0, min(idle, now.Sub(n.Began))) })
}

func moveDeadlines(r *Record, by func(NodeRecord) time.Duration) Record {
	c := r.Clone()
	for name, limit := range r.DrainDeadlines() {
		n := c.Nodes[name]
		n.Deadline = limit.Add(by(n))
		c.Nodes[name] = n
	}
	return c
}

// Reopened returns the record with which the same command continues after a stop: running, and at the beginning of the
// phase it was in. A node whose drain timeout was over gets a new one only if that was why the upgrade stopped.
func (r *Record) Reopened() Record {
	c := r.Clone()
	if c.Result != "" || c.Stopping != "" {
		c.PhaseBegan = time.Time{} // the next step sets it, and the wait for new nodes begins then
	}
	if c.Result == PodEvictionFailure || c.Stopping == PodEvictionFailure {
		for name, n := range c.Nodes {
			if n.State == NodeDraining || n.State == NodeForcing {
				n.State, n.Deadline = NodeDraining, time.Time{}
				c.Nodes[name] = n
			}
		}
	}
	if over := cmp.Or(c.Result, c.Stopping); c.Delegation != nil && over != "" && over != Interrupted && over != Waiting {
		c.Delegation, c.Phase = c.Delegation.NextAttempt(), PhaseSetup
	}
	c.Result, c.Message, c.Ended = "", "", time.Time{}
	c.Stopping, c.PausedBy, c.Unhealthy = "", "", nil
	return c
}

// MustStoreRecord reports whether the record differs from the stored one in anything that must be stored before the
// actions of the step begin. Changes that later readings of the cluster and the cloud show again are stored together
// with the next other change.
func MustStoreRecord(stored, record *Record) bool {
	return record.Run != "" && (!maps.EqualFunc(stored.Nodes, record.Nodes, isSameNode) ||
		!reflect.DeepEqual(stored.withoutObserved(), record.withoutObserved()))
}

func isSameNode(stored, n NodeRecord) bool {
	return reflect.DeepEqual(stored.withoutObserved(), n.withoutObserved())
}

// withoutObserved returns the record without its nodes and without what later readings show again: how many nodes are
// outdated, and how old a reading of the group may be. It also leaves out how workloads are doing, which is stored with
// the start of a node and at the end.
func (r *Record) withoutObserved() Record {
	c := *r
	c.Total, c.Nodes = 0, nil
	if c.Result == "" {
		c.Workloads = nil
	}
	c.Ledger = r.Ledger.WithoutObserved()
	return c
}

// ErrChanged means that another process has changed the record since it was read, so that it was not stored.
var ErrChanged = errors.New("a user or another process changed or deleted its record")
