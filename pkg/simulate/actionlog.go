package simulate

import (
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain/schedule"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodemark"
)

const (
	// answerLifetime is how long accepted actions are kept. After that time, their effect must have been seen.
	answerLifetime = 30 * time.Second
	// retryDelay is how long after any other answer the action may be tried again.
	retryDelay = 30 * time.Second
)

// actionLog holds the actions of the upgrade and their results, while steps still need them. It drops old actions
// because each step reads the whole log, and fences stay on nodes for most of an upgrade.
type actionLog struct {
	clock    *clock
	attempts map[string]nodegroup.Attempt
}

// record stores an action and its result.
func (l *actionLog) record(action nodegroup.Action, outcome nodegroup.Outcome, detail string) {
	key, now := action.Key(), l.clock.now
	attempt := nodegroup.Attempt{
		Action: action, Begun: now, Ended: now, Outcome: outcome, Detail: detail, Tries: l.attempts[key].Tries + 1, NotBefore: now,
	}
	if outcome != nodegroup.OutcomeDone {
		attempt.NotBefore = now.Add(retryDelay)
	}
	l.attempts[key] = attempt
}

// forgetAnswers drops accepted actions that no step needs any more. Evictions and terminations are dropped with their
// pods and machines.
func (l *actionLog) forgetAnswers() {
	maps.DeleteFunc(l.attempts, func(_ string, attempt nodegroup.Attempt) bool {
		switch attempt.Action.(type) {
		case nodemark.NodeAction, nodegroup.AddCapacity:
			return attempt.Outcome == nodegroup.OutcomeDone && l.clock.now.Sub(attempt.Ended) >= answerLifetime
		default:
			return false
		}
	})
}

// dropAnswersOfNode drops the actions on a node that was removed.
func (l *actionLog) dropAnswersOfNode(uid types.UID) {
	maps.DeleteFunc(l.attempts, func(_ string, attempt nodegroup.Attempt) bool {
		switch a := attempt.Action.(type) {
		case nodemark.NodeAction:
			return a.Target().UID == uid
		case nodemark.DeleteNode:
			return a.UID == uid
		default:
			return false
		}
	})
}

// dropAnswersOfPod drops the actions on a pod that was removed.
func (l *actionLog) dropAnswersOfPod(uid types.UID) {
	delete(l.attempts, schedule.Eviction{UID: uid}.Key())
	delete(l.attempts, schedule.Deletion{UID: uid}.Key())
}

// dropInstance drops the termination of an instance that was removed.
func (l *actionLog) dropInstance(id string) {
	delete(l.attempts, nodegroup.Terminate{Instance: id}.Key())
}
