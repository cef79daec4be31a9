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

// World is everything a decision may rest on, at one moment.
type World struct {
	// Now is the wall clock.
	Now time.Time
	// Request is what the user asked for, with all defaults resolved.
	Request record.Request
	// Group is the node group as its cloud, or for the manual provider its labels, show it.
	Group nodegroup.Group
	// Members are the group's nodes joined with their instances, sorted by Name. See Join.
	Members []nodegroup.Member
	// Snapshot is the cluster around the group.
	drain.Snapshot
	// Targets are what load balancers send to, where the cloud tells.
	Targets nodegroup.Targets
	// Controllers are the controllers of workloads that have fewer pods than before, as they were
	// read; see Step.Unscaled.
	Controllers map[drain.Workload]drain.Controller
	// Movable tells which of them a rolling restart moves without a gap, as it was when this
	// process took the upgrade up.
	Movable drain.Movable
	// Open holds, by Action.Key, each action that was begun: whether it is in flight, and how it
	// last ended.
	Open map[string]nodegroup.Attempt
	// Record is what was stored last; its zero value starts a new upgrade.
	Record record.Record
	// Idle is for how long, up to Now, no holder of the lease was at work: the process was stopped,
	// or asleep.
	Idle time.Duration
	// Notes are the last Step's.
	Notes Notes
	// Stop is set when the user asked to stop; nothing new is begun.
	Stop bool
	// Asked is what another actor asked of this upgrade.
	Asked record.Asked
	// EvictionsAtOnce is how many evictions may be in flight at once, 0 for any number.
	EvictionsAtOnce int
	// Drawn is the seed of a drawn order in which nodes are started, 0 for the one that loses least
	// time. Only forecasts of what a cloud does set it.
	Drawn uint64
	// Stay is set for a process that waits for a long soak to end instead of leaving.
	Stay bool
	// Brief has Step.Status leave out its Nodes, for those who take many steps and show none.
	Brief bool
	// Memo spares a process of many steps most looks at pods; nil for none.
	Memo *Memo

	tolerances tolerances
}

// NewWorld is the world of a group in a cluster as it is seen. What a process knows of its own
// requests (Open, Notes, Stop, EvictionsAtOnce) and what others asked is for who carries it out.
func NewWorld(now time.Time, group nodegroup.Group, members []nodegroup.Member, cluster *drain.Snapshot, record record.Record) World {
	return World{Now: now, Request: record.Request, Group: group, Members: members, Record: record, Snapshot: *cluster}
}

// lastAttempt is the last try of the action; the zero Attempt if there was none.
func (w *World) lastAttempt(a nodegroup.Action) nodegroup.Attempt { return w.Open[a.Key()] }

// listRefused lists the actions that a server refused permanently and without which the upgrade cannot
// continue, sorted by key.
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

// listRefusedLaunches lists the launches that a server refused permanently, sorted by key.
func (w *World) listRefusedLaunches() []nodegroup.Action {
	return slices.DeleteFunc(w.listRefused(), func(a nodegroup.Action) bool {
		_, launch := a.(nodegroup.AddCapacity)
		return !launch
	})
}

// isOptional reports whether an upgrade continues without the action.
func isOptional(action nodegroup.Action) bool {
	switch action.(type) {
	case nodemark.HoldNode, schedule.Restart, nodegroup.CancelOperation:
		return true
	default:
		return false
	}
}

// eachBoundPod are those of the group's members.
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

// isPatchPending reports whether a NodeAction on the node is under way, or was asked for at the
// version that is still the newest and may not be seen yet. Of one that was asked for more than
// once an earlier try may have had its effect, whatever became of the last.
func (w *World) isPatchPending(attempt nodegroup.Attempt, node *corev1.Node) bool {
	sent, asked := attempt.Action.(nodemark.NodeAction)
	mayHaveLanded := attempt.Outcome == nodegroup.OutcomeDone || attempt.Outcome == nodegroup.OutcomeUnclear || attempt.Tries > 1
	return attempt.InFlight || (mayHaveLanded && asked && sent.Target().Version == node.ResourceVersion && w.Now.Before(attempt.Ended.Add(seen)))
}

// isDeadlinePassed reports whether a limit on what the cloud does is over, as far as the cloud was
// read since: no one knows what it did while this process slept or the cloud did not answer.
func (w *World) isDeadlinePassed(deadline time.Time) bool {
	return !w.Now.Before(deadline) && !w.Group.Observed.Before(deadline)
}
