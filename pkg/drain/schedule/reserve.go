package schedule

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

const (
	// evictionsPerBudget limits how many evictions of one budget are in flight.
	evictionsPerBudget = 4
	// minSpacing and maxSpacing limit the time between two evictions of one budget. Within these
	// limits it is the time that answers take now. It ends early when the budget's status shows the
	// first eviction. The API server writes each eviction into that status. If two evictions write at
	// the same time, the API server retries one of them half a second later (eviction.go,
	// EvictionsRetry; Kubernetes K06). See docs/internals/eviction-order.md.
	minSpacing = 100 * time.Millisecond
	maxSpacing = 400 * time.Millisecond
	// present is the age up to which an answer is used to estimate how long the next one takes.
	present = 5 * time.Second
	// statusLag is how long a budget's status may take to show an accepted eviction, if the change itself was not seen.
	statusLag = 2 * time.Second
	// returnsAllowed is how many pods of one controller are evicted from the fenced node after they came back to it. Its later
	// pods stay, because they would come back too (EKS E51).
	returnsAllowed = 1
	// lastReadyLimit is the least time for which the last ready pod of a workload waits for another one.
	lastReadyLimit = 2 * time.Minute
)

// countSpending counts, for each budget, the evictions that its status may not show yet, and how many of these have
// no answer yet. It also sets the time that must pass between two evictions of one budget.
func (p *Plan) countSpending() {
	took, answers := time.Duration(0), time.Duration(0)
	for _, attempt := range p.in.Open {
		sent, ok := attempt.Action.(Eviction)
		if ok && attempt.InFlight {
			p.inFlight++
		}
		if p.in.isHiddenFromStatus(sent, attempt) {
			p.spent[sent.chargedBudget()]++
		}
		if sent.Budget.Name == "" {
			continue
		}
		switch {
		case attempt.InFlight && (attempt.Tries > 1 || !p.in.isShownInStatus(sent, attempt)): // the status may show an earlier try
			p.flights[sent.Budget] = p.flights[sent.Budget].withEviction(attempt.Begun)
		case !attempt.InFlight && p.in.Now.Sub(attempt.Ended) < present:
			took, answers = took+attempt.Ended.Sub(attempt.Begun), answers+1
		}
	}
	p.spacing = min(max(minSpacing, took/max(1, answers)), maxSpacing)
}

// isHiddenFromStatus reports whether an eviction may have used a budget whose status does not show it yet. The status
// shows it once its pod was seen in status.disruptedPods. A budget for a last ready pod has no status. Its evictions count
// for the same time, and only if the pod is ready. The guard of the workload counts them until the pod is seen leaving.
func (in *Input) isHiddenFromStatus(sent Eviction, a nodegroup.Attempt) bool {
	accepted := a.Outcome == nodegroup.OutcomeDone || a.Outcome == nodegroup.OutcomeUnclear
	ofLastReady := sent.Budget.Name == "" || drain.IsOfLastReady(sent.Budget)
	young := a.InFlight || (accepted && in.Now.Before(a.Ended.Add(statusLag)))
	if !young || (ofLastReady && !in.Budgets.CountsReady(sent.Workload, sent.UID)) {
		return false // usually the attempt ended long ago
	}
	return !in.isShownInStatus(sent, a)
}

// isShownInStatus reports whether the budget's status was seen to contain the pod after the eviction was sent. The
// API server does not write the status again for this eviction.
func (in *Input) isShownInStatus(sent Eviction, a nodegroup.Attempt) bool {
	shown, ok := in.Disrupted[types.NamespacedName{Namespace: sent.Namespace, Name: sent.Pod}]
	return ok && !shown.Before(a.Begun)
}

// chargedBudget returns the budget to which the eviction is charged: the pod's budget or, if it has none, the one for the
// last ready pod of its workload.
func (e Eviction) chargedBudget() types.NamespacedName {
	if e.Budget.Name != "" {
		return e.Budget
	}
	return e.Workload.LastReadyBudget()
}

// reserveForNode reserves the evictions of a node in drain that could be sent, and adds what blocks its other pods.
func (p *Plan) reserveForNode(place int) {
	node, first := &p.in.Draining[place], len(p.blocked)
	if node.Stage != Evicting {
		return
	}
	for _, pod := range node.Held {
		p.addBlocked(node, pod, drain.Judge(pod, p.in.Policy, false).Obstacle())
	}
	for _, pod := range p.selectPodsInTurn(node) {
		p.reserveEviction(place, pod)
	}
	blocked := p.blocked[first:]
	p.waits[place] = len(blocked) > 0
	if p.isBlockedByPeers(place, blocked) {
		p.yielding = append(p.yielding, node.Name)
	}
}

// selectPodsInTurn returns the pods that may be evicted now: pods that others need go last. After half of the node's drain
// timeout all pods may be evicted, because pods that are left at the end may be deleted without regard to their budgets.
func (p *Plan) selectPodsInTurn(node *Node) []*corev1.Pod {
	due := drain.PodsInTurn(node.Leavers, p.in.Facts)
	if len(due) == len(node.Evict) {
		return due
	}
	all := node.Deadline.Add(-p.in.DrainTimeout / 2)
	if p.in.Now.Before(all) {
		p.decideAgainAt(all)
		return due
	}
	return node.Evict
}

func (p *Plan) reserveEviction(place int, pod *corev1.Pod) {
	node, attempt := &p.in.Draining[place], p.in.lastAttempt(pod)
	if p.in.isUnderWay(attempt) || p.moveByRestart(node, pod) {
		return
	}
	prediction, last := p.predictEviction(node, pod)
	budget := prediction.Budget
	switch {
	case !prediction.Admitted():
		p.addBlocked(node, pod, prediction.Obstacle)
	case p.memory.Returned[returnOf(node, pod)] >= returnsAllowed:
		p.addBlocked(node, pod, drain.Obstacle{Kind: drain.Returns})
	case p.in.mustWaitToRetry(attempt, prediction):
		p.addBlocked(node, pod, obstacleOfDenial(attempt, budget))
		p.decideAgainAt(attempt.NotBefore)
	case prediction.Spends && prediction.Version != "" && !p.awaitEvictionSpacing(budget): // a PodDisruptionBudget, not the one for a last ready pod
		// The answer comes within milliseconds and leads to the next decision.
	default:
		eviction := Eviction{Namespace: pod.Namespace, Pod: pod.Name, UID: pod.UID, Node: node.Name, BudgetVersion: prediction.Version, Workload: drain.WorkloadOf(pod), LastReady: last}
		if prediction.Spends {
			eviction.Budget = budget
		}
		p.addCandidate(candidate{Eviction: eviction, pod: pod, place: place})
	}
}

// predictEviction predicts the answer to an eviction. last is how long the last ready pod of a workload has waited for
// another one if it may leave now, or 0.
func (p *Plan) predictEviction(node *Node, pod *corev1.Pod) (prediction drain.Prediction, last time.Duration) {
	prediction = drain.Predict(pod, p.in.Budgets, p.spent, p.in.EndingNamespaces[pod.Namespace])
	if !prediction.Admitted() && prediction.Kind != drain.LastReady {
		return prediction, 0
	}
	obstacle := p.findGuardObstacle(node, pod)
	if obstacle.Kind == drain.NoObstacle && prediction.Spends {
		obstacle = p.findUnsettled(pod, prediction)
	}
	switch {
	case obstacle.Kind == drain.NoObstacle && prediction.Admitted():
		return prediction, 0
	case obstacle.Kind == drain.NoObstacle:
		obstacle = prediction.Obstacle
	}
	limit := p.lastReadyLimitOf(drain.WorkloadOf(pod))
	switch {
	case !obstacle.IsSeenLastReady() || !p.awaitSuccessor(pod, limit):
		return drain.Prediction{Obstacle: obstacle, Version: prediction.Version}, 0
	case prediction.Admitted():
		return prediction, limit
	default:
		return drain.Prediction{}, limit
	}
}

// addCandidate reserves the eviction and its place in its budget.
func (p *Plan) addCandidate(c candidate) {
	if budget := c.Budget; budget.Name != "" {
		p.spent[budget]++
		p.flights[budget] = p.flights[budget].withEviction(p.in.Now)
	}
	p.guardOf(c.Workload).reserve(c.pod)
	p.candidates = append(p.candidates, c)
}

// awaitSuccessor waits until another pod of the workload is ready. over is true when the pod may leave although no
// other pod is ready. The pod must have waited for the limit. Unready pods that have a node must be late, because
// they may have got their node only now. No other pod may lack a node: either a node with room is expected, or the
// upgrade stops because no node takes the pod. No StatefulSet pod may still be terminating, because its replacement
// is created only after that. The pod stays while any workload is unhealthy, because the upgrade may stop for that
// workload and the pods of this one may fail in the same way.
func (p *Plan) awaitSuccessor(pod *corev1.Pod, limit time.Duration) (over bool) {
	since, waited := p.in.LastReadySince[string(pod.UID)]
	if p.in.AnyUnhealthy {
		return false
	}
	if !waited {
		since = p.in.Now
	}
	until := since.Add(limit)
	w := drain.WorkloadOf(pod)
	if g := p.guardOf(w); g.Replicas != nil {
		if g.Expected > len(g.Pods) {
			return false // the end of that pod triggers the next decision
		}
		_, watched := p.in.recoveryOf(w)
		for _, other := range g.Unready() {
			switch late := drain.LateAt(other, g.usual); {
			case other.Spec.NodeName == "" && watched && !drain.IsGated(other):
				return false // decided again when it has a node, or is late
			case other.Spec.NodeName != "" && late.After(until):
				until = late
			}
		}
	}
	p.decideAgainAt(until)
	return !p.in.Now.Before(until)
}

// isUnderWay reports whether an eviction is in flight, or was answered so recently that the pod's end may not be visible
// yet. An eviction that failed on the pod's UID is not repeated either, because each one costs the budget a disruption
// (Kubernetes K01).
func (in *Input) isUnderWay(attempt nodegroup.Attempt) bool {
	answered := attempt.Outcome == nodegroup.OutcomeDone || attempt.Outcome == nodegroup.OutcomeMoved
	return attempt.InFlight || (answered && in.Now.Before(attempt.Ended.Add(nodegroup.SeenWithin)))
}

// mustWaitToRetry reports whether an eviction that was not accepted must not be tried again yet. After a refusal by a
// budget it waits until the budget's object changes, otherwise until NotBefore.
func (in *Input) mustWaitToRetry(attempt nodegroup.Attempt, prediction drain.Prediction) bool {
	if attempt.Begun.IsZero() || !in.Now.Before(attempt.NotBefore) {
		return false
	}
	sent, _ := attempt.Action.(Eviction)
	return attempt.Outcome != nodegroup.OutcomeRefused || sent.BudgetVersion == prediction.Version
}

// flight counts the evictions of one budget that have no answer yet and that the budget's status does not
// show yet.
type flight struct {
	count int
	// last is when the most recent of them was sent.
	last time.Time
}

func (f flight) withEviction(sent time.Time) flight {
	f.count++
	if sent.After(f.last) {
		f.last = sent
	}
	return f
}

// awaitEvictionSpacing reports whether the next eviction of the budget may be sent, and schedules a decision for when it may.
func (p *Plan) awaitEvictionSpacing(budget types.NamespacedName) (maySend bool) {
	f := p.flights[budget]
	if f.count == 0 || f.count >= evictionsPerBudget {
		return f.count == 0
	}
	next := f.last.Add(p.spacing)
	p.decideAgainAt(next)
	return !next.After(p.in.Now)
}

// obstacleOfDenial returns the obstacle for an answer that was not predicted, with the budget if a budget refused.
func obstacleOfDenial(attempt nodegroup.Attempt, budget types.NamespacedName) drain.Obstacle {
	obstacle := drain.Obstacle{Kind: drain.Denied, Detail: attempt.Detail}
	switch attempt.Outcome {
	case nodegroup.OutcomeRefused:
		obstacle.Budget = budget
	case nodegroup.OutcomeUnclear:
		obstacle.Kind = drain.Unanswered
	}
	return obstacle
}

// isBlockedByPeers reports whether the node waits only for nodes that were started before it: for budgets that their
// pods have used, and for the first new pods of workloads.
func (p *Plan) isBlockedByPeers(place int, blocked []drain.Blocked) bool {
	if len(blocked) == 0 || len(p.in.Draining[place].Leaving) > 0 {
		return false
	}
	for i := range blocked {
		if blocked[i].Kind == drain.Canary {
			continue
		}
		spent := blocked[i].Kind == drain.BudgetSpent || blocked[i].Kind == drain.LastReady
		if !spent || !p.budgetsOfPeers(place)[blocked[i].Budget] {
			return false
		}
	}
	return true
}

// budgetsOfPeers returns the budgets that cover pods of the nodes that were started before. It must be called for the
// nodes in order, so that it reads each node once.
func (p *Plan) budgetsOfPeers(place int) map[types.NamespacedName]bool {
	for ; p.peers < place; p.peers++ {
		peer := &p.in.Draining[p.peers]
		if peer.Stage == Apart {
			continue
		}
		for _, pod := range slices.Concat(peer.Leaving, peer.Evict) {
			for _, b := range p.in.Budgets.Covering(pod) {
				p.ofPeers[b.Key()] = true
			}
		}
	}
	return p.ofPeers
}

func (p *Plan) addBlocked(node *Node, pod *corev1.Pod, obstacle drain.Obstacle) {
	p.blocked = append(p.blocked, drain.Blocked{
		Node: node.Name, Pod: types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}, UID: pod.UID, Workload: drain.WorkloadOf(pod), Obstacle: obstacle,
	})
}

// decideAgainAt schedules the next decision for the time, unless it is past.
func (p *Plan) decideAgainAt(at time.Time) {
	if at.After(p.in.Now) && (p.again.IsZero() || at.Before(p.again)) {
		p.again = at
	}
}
