package schedule

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// Recovery is the state of a workload whose pods left nodes.
type Recovery struct {
	// Ready is how many ready pods it should have.
	Ready int
	// Usual is how long its pods usually take to become ready; 0 if not known.
	Usual time.Duration
	// Unhealthy is true while its new pods are missing or do not become ready. Its last ready pod stays during that time.
	Unhealthy bool
	// Unproven is true until one of its pods became ready on a node that stays. Until then its pods leave only the node
	// Canary; "" if there is none yet.
	Unproven bool
	Canary   string
	// Missing is true while the workload has fewer pods than it should have.
	Missing bool
}

// recoveryOf calls RecoveryOf, if it is set.
func (in *Input) recoveryOf(w drain.Workload) (r Recovery, watched bool) {
	if in.RecoveryOf == nil {
		return Recovery{}, false
	}
	return in.RecoveryOf(w)
}

// usualOf returns how long pods of the workload usually take to become ready; 0 if that is not known.
func (in *Input) usualOf(w drain.Workload) time.Duration {
	r, _ := in.recoveryOf(w)
	return r.Usual
}

// guard counts the ready pods of a workload that are likely to stay ready; see drain.Replicas.IsUnsettled.
type guard struct {
	*drain.Replicas
	// seen counts the ready pods that are likely to stay ready. left counts those of them that have no eviction in flight and
	// no reserved one.
	seen, left int
	usual      time.Duration
	now        time.Time
}

// guardOf returns the workload's guard. If the workload is not known, the guard counts nothing.
func (p *Plan) guardOf(w drain.Workload) *guard {
	g := p.guards[w]
	if g != nil {
		return g
	}
	usual := p.in.usualOf(w)
	g = &guard{Replicas: p.in.Workloads.Named(w), usual: usual, now: p.in.Now}
	p.guards[w] = g
	if g.Replicas == nil {
		return g
	}
	g.seen = g.CountSettled(usual, p.in.Now)
	g.left = g.seen
	for _, attempt := range p.in.Open {
		sent, evicts := attempt.Action.(Eviction)
		accepted := attempt.Outcome == nodegroup.OutcomeDone || attempt.Outcome == nodegroup.OutcomeUnclear
		young := attempt.InFlight || (accepted && p.in.Now.Before(attempt.Ended.Add(nodegroup.SeenWithin)))
		if evicts && young && sent.Workload == w && g.countsPod(sent.UID) {
			g.left--
		}
	}
	return g
}

// countsPod reports whether the pod is ready and likely to stay ready.
func (g *guard) countsPod(uid types.UID) bool {
	for _, pod := range g.Pods[:g.Ready] {
		if pod.UID == uid {
			_, unsettled := g.IsUnsettled(pod, g.usual, g.now)
			return !unsettled
		}
	}
	return false
}

// reserve counts the pod as leaving.
func (g *guard) reserve(pod *corev1.Pod) {
	if g.Replicas != nil && g.countsPod(pod.UID) {
		g.left--
	}
}

// findGuardObstacle returns why a ready pod must stay although its budget allows its eviction. Either it is the last ready
// pod, or no new pod of its workload has become ready yet.
func (p *Plan) findGuardObstacle(node *Node, pod *corev1.Pod) drain.Obstacle {
	w := drain.WorkloadOf(pod)
	if !p.in.Guarded || w == (drain.Workload{}) || !drain.Ready(pod) {
		return drain.Obstacle{}
	}
	recovery, _ := p.in.recoveryOf(w)
	g := p.guardOf(w)
	if recovery.Unproven && recovery.Canary != node.Name {
		return drain.Obstacle{Kind: drain.Canary, Budget: w.LastReadyBudget(), Detail: w.Kind + "/" + w.Name}
	}
	if g.Replicas == nil || max(g.Most, recovery.Ready) < 2 || g.left > 1 || (g.left == 1 && !g.countsPod(pod.UID)) {
		return drain.Obstacle{}
	}
	if g.KeepsLastReady() || recovery.Unproven || recovery.Unhealthy || recovery.Missing {
		return drain.Obstacle{Kind: drain.LastReady, Budget: w.LastReadyBudget(), Need: 1, Have: int32(g.seen), Detail: w.Kind + "/" + w.Name}
	}
	return drain.Obstacle{}
}

// findUnsettled returns the pod's budget as an obstacle if the budget admits the eviction only because it
// counts other pods that may fail again. If they fail, fewer pods are ready than the budget requires.
func (p *Plan) findUnsettled(pod *corev1.Pod, prediction drain.Prediction) drain.Obstacle {
	if len(p.unsettled) == 0 || drain.IsOfLastReady(prediction.Budget) {
		return drain.Obstacle{}
	}
	healthy := prediction.Have
	for other, until := range p.unsettled {
		if other.UID != pod.UID && p.in.Budgets.Covers(prediction.Budget, other) {
			p.decideAgainAt(until)
			healthy--
		}
	}
	if healthy-p.spent[prediction.Budget] > prediction.Need {
		return drain.Obstacle{}
	}
	return drain.Obstacle{Kind: drain.BudgetUnhealthy, Budget: prediction.Budget, Need: prediction.Need, Have: healthy}
}

// lastReadyLimitOf returns how long the last ready pod of the workload waits for another: until the other would be
// late.
func (p *Plan) lastReadyLimitOf(w drain.Workload) time.Duration {
	return max(lastReadyLimit, drain.Patience(p.in.usualOf(w)))
}
