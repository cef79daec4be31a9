package upgrade

import (
	"iter"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain/schedule"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodemark"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// World is everything that a decision may depend on, at one moment.
type World struct {
	// Now is the wall clock.
	Now time.Time
	// Request has the user's settings, with all defaults resolved.
	Request record.Request
	// Group is the node group as its cloud, or for the manual provider its labels, show it.
	Group nodegroup.Group
	// Members are the group's nodes joined with their instances, sorted by Name. See Join.
	Members []nodegroup.Member
	// Snapshot is the cluster around the group.
	drain.Snapshot
	// Targets are the targets of load balancers, where the cloud shows them.
	Targets nodegroup.Targets
	// Controllers are the controllers, as last read, of workloads that have fewer pods than before; see Step.Unscaled.
	Controllers map[drain.Workload]drain.Controller
	// Movable holds which workloads a rolling restart moves without a gap, as determined when this process took over
	// the upgrade.
	Movable drain.Movable
	// Open holds each action that was begun, by Action.Key: whether it is in flight, and how it last ended.
	Open map[string]nodegroup.Attempt
	// Record is the record that was stored last. The zero value starts a new upgrade.
	Record record.Record
	// Idle is how long, up to Now, no holder of the lease was at work: the process was stopped or suspended.
	Idle time.Duration
	// Notes are the last Step's.
	Notes Notes
	// Stop is true when the user asked to stop. Nothing new is started then.
	Stop bool
	// Asked is a user's pending request for this upgrade.
	Asked record.Asked
	// EvictionsAtOnce is how many evictions may be in flight at once, 0 for any number.
	EvictionsAtOnce int
	// OrderSeed is the seed of a random order in which nodes are started. 0 selects the order that loses the least time.
	// Only forecasts of a cloud's own upgrade set it.
	OrderSeed uint64
	// Stay is true if the process waits for the end of a long soak instead of exiting.
	Stay bool
	// Brief leaves Nodes out of Step.Status, for callers that take many steps and show no nodes.
	Brief bool
	// Memo caches what earlier steps of the process found out about pods; nil for no cache.
	Memo *Memo

	tolerances tolerances
	users      deviceUsers
}

// NewWorld returns the world of a group in a cluster as observed. The caller adds what only the process knows (Open,
// Notes, Stop, EvictionsAtOnce) and what users asked for.
func NewWorld(now time.Time, group nodegroup.Group, members []nodegroup.Member, cluster *drain.Snapshot, record record.Record) World {
	return World{Now: now, Request: record.Request, Group: group, Members: members, Record: record, Snapshot: *cluster}
}

// lastAttempt returns the last attempt of the action, or the zero Attempt.
func (w *World) lastAttempt(a nodegroup.Action) nodegroup.Attempt { return w.Open[a.Key()] }

// listRefused returns the actions that were permanently refused and that the upgrade cannot continue without, sorted by
// key.
func (w *World) listRefused() []nodegroup.Action {
	var refused []nodegroup.Action
	for _, attempt := range w.Open {
		if attempt.Outcome == nodegroup.OutcomeFatal && !attempt.InFlight && !isOptional(attempt.Action) {
			refused = append(refused, attempt.Action)
		}
	}
	slices.SortFunc(refused, func(a, b nodegroup.Action) int { return strings.Compare(a.Key(), b.Key()) })
	return refused
}

// listRefusedLaunches returns the launches that were permanently refused, sorted by key.
func (w *World) listRefusedLaunches() []nodegroup.Action {
	return slices.DeleteFunc(w.listRefused(), func(a nodegroup.Action) bool {
		_, launch := a.(nodegroup.AddCapacity)
		return !launch
	})
}

// isOptional reports whether an upgrade continues if the action is refused.
func isOptional(action nodegroup.Action) bool {
	switch action.(type) {
	case nodemark.HoldNode, schedule.Restart, nodegroup.CancelOperation, nodegroup.EndSoak:
		return true
	default:
		return false
	}
}

// eachBoundPod iterates over the pods on the group's members.
func (w *World) eachBoundPod() iter.Seq[*corev1.Pod] {
	return func(yield func(*corev1.Pod) bool) {
		for i := range w.Members {
			for _, pod := range w.Members[i].Pods {
				if !yield(pod) {
					return
				}
			}
		}
	}
}

// isPatchPending reports whether a NodeAction on the node is under way, or may have taken effect without being observed
// yet: it was sent for the node's version that is still the newest. If the action was sent more than once, an earlier
// try may have taken effect, whatever the last one returned.
func (w *World) isPatchPending(attempt nodegroup.Attempt, node *corev1.Node) bool {
	sent, asked := attempt.Action.(nodemark.NodeAction)
	mayHaveLanded := attempt.Outcome == nodegroup.OutcomeDone || attempt.Outcome == nodegroup.OutcomeUnclear || attempt.Tries > 1
	return attempt.InFlight || (mayHaveLanded && asked && sent.Target().Version == node.ResourceVersion && w.Now.Before(attempt.Ended.Add(seenWithin)))
}

// isDeadlinePassed reports whether a deadline for the cloud is over and the cloud was read after it. Otherwise this
// process may have slept, or the cloud may not have answered.
func (w *World) isDeadlinePassed(deadline time.Time) bool {
	return !w.Now.Before(deadline) && !w.Group.Observed.Before(deadline)
}
