package upgrade

import (
	"math"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// evictPods decides what to do about each pod that is in turn: the evictions that could be sent, and
// what is in the way of the others.
func (t *turn) evictPods(node string, view *drainView) ([]candidate, []Blocked) {
	first := len(t.blocked)
	for _, pod := range view.held {
		t.blockPod(node, pod, drain.Judge(pod, t.rec.Request.Policy(), false).Obstacle())
	}
	var found []candidate
	for _, pod := range t.inTurn(node, view) {
		found = append(found, t.evictPod(node, pod)...)
	}
	return found, t.blocked[first:]
}

// inTurn are the pods to evict whose turn it is; those that others need go last. After half of the
// node's limit all have their turn: what is left at its end may be deleted without their budgets
// being asked.
func (t *turn) inTurn(node string, view *drainView) []*corev1.Pod {
	due := drain.Due(drain.Leavers{Evict: view.toEvict, Held: view.held, Leaving: view.leaving}, t.w.Facts)
	if len(due) == len(view.toEvict) {
		return due
	}
	all := t.rec.Nodes[node].Deadline.Add(-t.rec.Request.DrainTimeout.Duration / 2)
	if t.w.Now.Before(all) {
		t.wakeAt(all)
		return due
	}
	return view.toEvict
}

func (t *turn) evictPod(node string, pod *corev1.Pod) []candidate {
	action := Evict{Namespace: pod.Namespace, Pod: pod.Name, UID: pod.UID, Node: node}
	attempt := t.attempt(action)
	if attempt.InFlight || t.settled(attempt) {
		return nil
	}
	prediction := drain.Predict(pod, t.w.Budgets, t.spent, t.w.EndingNamespaces[pod.Namespace])
	budget := prediction.Budget
	switch {
	case !prediction.Admitted():
		t.blockPod(node, pod, prediction.Obstacle)
	case t.returns(node, pod):
		t.blockPod(node, pod, drain.Obstacle{Kind: drain.Returns})
	case t.waits(attempt, prediction):
		t.blockPod(node, pod, denied(attempt, budget))
		t.wakeAt(attempt.NotBefore)
	case prediction.Spends && !t.mayFly(budget):
		// An answer is due within milliseconds and wakes us.
	default:
		action.BudgetVersion = prediction.Version
		if prediction.Spends {
			action.Budget = budget
			t.spent[budget]++
			t.flights[budget] = t.flights[budget].with(t.w.Now)
		}
		return []candidate{{Evict: action, pod: pod}}
	}
	return nil
}

// roomFor is how many pods like this one its budget lets be missing; all, if no budget has a say.
func (t *turn) roomFor(pod *corev1.Pod) int32 {
	if covering := t.w.Budgets.Covering(pod); len(covering) == 1 && drain.Ready(pod) {
		return t.roomOf(covering[0])
	}
	return math.MaxInt32
}

// roomOf is how many pods the budget lets be missing while all are well, as far as the others that
// leave are those of nodes in drain.
func (t *turn) roomOf(budget *drain.Budget) int32 {
	if t.leaving == nil {
		t.leaving = map[types.NamespacedName]int32{}
		for _, m := range t.inDrain() {
			for _, pod := range t.view(m).leaving {
				for _, covering := range t.w.Budgets.Covering(pod) {
					t.leaving[covering.Key()]++
				}
			}
		}
	}
	return budget.Room(t.leaving[budget.Key()])
}

// mayFly reports whether an eviction of the budget may be sent now.
func (t *turn) mayFly(budget types.NamespacedName) bool {
	next := t.flights[budget].next(t.w.Now, t.spacing)
	t.wakeAt(next)
	return !next.IsZero() && !next.After(t.w.Now)
}

// settled reports whether an eviction was answered so shortly ago that the pod's end may not be
// seen yet. A pod that was moved on is not asked for again either: each eviction that fails on its
// UID costs the budget one (Kubernetes K01).
func (t *turn) settled(attempt nodegroup.Attempt) bool {
	answered := attempt.Outcome == nodegroup.OutcomeDone || attempt.Outcome == nodegroup.OutcomeMoved
	return answered && t.w.Now.Before(attempt.Ended.Add(seen))
}

// denied is the obstacle that an answer which was not predicted names, with the budget if that is
// who refused.
func denied(attempt nodegroup.Attempt, budget types.NamespacedName) drain.Obstacle {
	obstacle := drain.Obstacle{Kind: drain.Denied, Detail: attempt.Detail}
	switch attempt.Outcome {
	case nodegroup.OutcomeRefused:
		obstacle.Budget = budget
	case nodegroup.OutcomeUnclear:
		obstacle.Kind = drain.Unanswered
	}
	return obstacle
}

// waits reports whether an eviction that was not accepted is not yet to be tried again. A refusal
// by a budget holds until the budget's object changes; everything else until its time has come.
func (t *turn) waits(attempt nodegroup.Attempt, prediction drain.Prediction) bool {
	if attempt.Begun.IsZero() || !t.w.Now.Before(attempt.NotBefore) {
		return false
	}
	sent, _ := attempt.Action.(Evict)
	return attempt.Outcome != nodegroup.OutcomeRefused || sent.BudgetVersion == prediction.Version
}

// returned reports whether the pod came up on the node after the node's drain began.
func (t *turn) returned(node string, pod *corev1.Pod) (Return, bool) {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil || !pod.CreationTimestamp.After(t.rec.Nodes[node].Began) {
		return Return{}, false
	}
	return Return{Node: node, Owner: owner.UID}, true
}

func (t *turn) returns(node string, pod *corev1.Pod) bool {
	r, ok := t.returned(node, pod)
	return ok && t.notes.Returned[r] >= returnsAllowed
}

func (t *turn) countReturn(node string, pod *corev1.Pod, attempt nodegroup.Attempt) {
	if r, ok := t.returned(node, pod); ok && attempt.Begun.IsZero() {
		t.notes.Returned[r]++
	}
}

func (t *turn) blockPod(node string, pod *corev1.Pod, obstacle drain.Obstacle) {
	name := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	t.block(Blocked{Node: node, Pod: name, Obstacle: obstacle}, string(pod.UID))
}
