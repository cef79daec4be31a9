package schedule

import (
	"cmp"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

const (
	// usualReady is how long a pod takes to become ready, and usualEnd how long it takes to end, if no time was measured.
	usualReady = 10 * time.Second
	usualEnd   = 2 * time.Second
	// usualLag is how much longer a budget is closed than its pods take to become ready, because evictions, controllers,
	// the scheduler and watches take time. These numbers are in docs/internals/eviction-order.md.
	usualLag = 200 * time.Millisecond
	// longestLag limits the lag that is learned from one budget, because other causes may have kept the budget closed.
	longestLag = 5 * time.Second
	// goneSteps is the smallest relative change of a termination time that is learned: a 64th.
	goneSteps = 64
	// justLeft is the largest age of a deletion that counts as begun when it was first seen, because objects store whole
	// seconds.
	justLeft = 2 * time.Second
)

// Memory is what one decision remembers for the next. Its maps are replaced, never changed. A crash may lose it.
type Memory struct {
	// Ready is how long pods took to become ready, and Gone how long they took to end after their deletion, by their
	// controllers' UIDs.
	Ready, Gone map[types.UID]time.Duration
	// Lag is how much longer budgets are closed than their pods take to become ready, 0 if not known.
	Lag time.Duration
	// Leaving has the pods that are leaving nodes in drain, by UID.
	Leaving map[types.UID]Departure
	// Critical has the budgets that decide when the upgrade ends, as found when the last node was started; nil if not
	// known.
	Critical map[types.NamespacedName]bool
	// Returned counts the evicted pods that had come up on a node after its drain began.
	Returned map[Return]int
}

// Departure is a pod that is leaving its node.
type Departure struct {
	Owner types.UID
	// Since is when its eviction or deletion began.
	Since time.Time
}

// Return identifies a controller whose pods come back to a node.
type Return struct {
	Node  string
	Owner types.UID
}

// returnOf returns the controller of a pod that came up on the node after its drain began, or the zero Return.
func returnOf(node *Node, pod *corev1.Pod) Return {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil || !pod.CreationTimestamp.After(node.Began) {
		return Return{}
	}
	return Return{Node: node.Name, Owner: owner.UID}
}

// copyWith returns a copy of the map with one more entry.
func copyWith[K comparable, V any](m map[K]V, key K, value V) map[K]V {
	c := maps.Clone(m)
	if c == nil {
		c = map[K]V{}
	}
	c[key] = value
	return c
}

// learnTerminationTimes learns how long the pods took to end that have left since the last decision.
func (m *Memory) learnTerminationTimes(in *Input) {
	before := m.Leaving
	m.Leaving = map[types.UID]Departure{}
	for i := range in.Draining {
		for _, pod := range in.Draining[i].Leaving {
			departure, seen := before[pod.UID]
			if !seen {
				departure = Departure{Owner: drain.ControllerOf(pod), Since: in.deletionTimeOf(pod)}
				if begun := in.lastAttempt(pod).Begun; !begun.IsZero() {
					departure.Since = begun // from the eviction request on, the pod keeps its node in the window
				}
			}
			m.Leaving[pod.UID] = departure
		}
	}
	var gone []types.UID
	for uid := range before {
		if _, still := m.Leaving[uid]; !still {
			gone = append(gone, uid)
		}
	}
	slices.Sort(gone)
	for _, uid := range gone {
		m.learnTerminationTime(before[uid].Owner, in.Now.Sub(before[uid].Since))
	}
}

// learnTerminationTime learns from one pod that has left. The first pods end together with many others and take longer,
// so the mean with the time learned so far is stored.
func (m *Memory) learnTerminationTime(owner types.UID, took time.Duration) {
	if before, known := m.Gone[owner]; known {
		if (took - before).Abs() < before/goneSteps {
			return
		}
		took = (took + before) / 2
	}
	m.Gone = copyWith(m.Gone, owner, took)
}

// deletionTimeOf returns when the pod's deletion began, or now if it began less than justLeft ago.
func (in *Input) deletionTimeOf(pod *corev1.Pod) time.Time {
	began := pod.DeletionTimestamp.Time // when its grace period ends
	if s := pod.DeletionGracePeriodSeconds; s != nil {
		began = began.Add(-time.Duration(*s) * time.Second)
	}
	if in.Now.Sub(began) < justLeft {
		return in.Now
	}
	return began
}

// learnStatusLag learns how much longer a budget was closed than its pods took to become ready. It only uses budgets that
// allow a single missing pod, because only their reopening can be assigned to one eviction.
func (p *Plan) learnStatusLag(pod *corev1.Pod) {
	covering := p.in.Budgets.Covering(pod)
	_, waited := p.in.Waited[string(pod.UID)]
	if !waited || len(covering) != 1 || p.roomOfBudget(covering[0]) != 1 {
		return
	}
	accepted := p.in.acceptedTimes()[covering[0].Key()]
	if len(accepted) == 0 {
		return
	}
	pace := p.learnedTimes()
	_, refill := pace.timesOf(pod)
	lag := p.in.Now.Sub(accepted[len(accepted)-1]) - (refill - pace.lag)
	p.memory.Lag = (3*pace.lag + min(max(lag, time.Millisecond), longestLag)) / 4
}

// acceptedTimes returns when the accepted evictions began, by budget and in order.
func (in *Input) acceptedTimes() map[types.NamespacedName][]time.Time {
	begun := map[types.NamespacedName][]time.Time{}
	for _, attempt := range in.Open {
		if sent, ok := attempt.Action.(Eviction); ok && sent.Budget.Name != "" && attempt.Outcome == nodegroup.OutcomeDone {
			begun[sent.Budget] = append(begun[sent.Budget], attempt.Begun)
		}
	}
	for _, at := range begun {
		slices.SortFunc(at, time.Time.Compare)
	}
	return begun
}

// learned is how long pods take to become ready and to end, by their controllers.
type learned struct {
	ready, gone           map[types.UID]time.Duration
	usualReady, usualGone time.Duration
	lag                   time.Duration
	// known caches, by controller, the times that are the same for all of the controller's pods.
	known map[types.UID]podTimes
}

// podTimes is how long after its deletion a pod is gone, and how long after its eviction a new pod is ready.
type podTimes struct{ gone, refill time.Duration }

func (p *Plan) learnedTimes() *learned {
	if p.memory.Ready == nil {
		p.memory.Ready = drain.ReadyTimes(p.in.Bound)
	}
	typical := func(times map[types.UID]time.Duration, otherwise time.Duration) time.Duration {
		return drain.TypicalDuration(slices.Collect(maps.Values(times)), otherwise)
	}
	return &learned{
		ready: p.memory.Ready, usualReady: typical(p.memory.Ready, usualReady),
		gone: p.memory.Gone, usualGone: typical(p.memory.Gone, 0),
		lag: cmp.Or(p.memory.Lag, usualLag), known: map[types.UID]podTimes{},
	}
}

// timesOf returns how long after its deletion the pod is gone, and how long after its eviction a new pod is ready. A
// StatefulSet creates the new pod only after the old one is gone.
func (p *learned) timesOf(pod *corev1.Pod) (gone, refill time.Duration) {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil {
		owner = &metav1.OwnerReference{}
	}
	if times, known := p.known[owner.UID]; known {
		return times.gone, times.refill
	}
	gone, known := p.gone[owner.UID]
	switch {
	case known:
	case p.usualGone > 0:
		gone = p.usualGone
	default:
		gone = min(drain.SoonestEnd(pod)+usualEnd, drain.LatestEnd(pod))
	}
	refill, ready := p.ready[owner.UID]
	if !ready {
		refill = p.usualReady
	}
	if owner.Kind == "StatefulSet" {
		refill += gone
	}
	refill += p.lag
	if owner.UID != "" && (known || p.usualGone > 0) { // otherwise the times depend on the pod
		p.known[owner.UID] = podTimes{gone, refill}
	}
	return gone, refill
}
