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
	// usualReady and usualEnd are how long a pod takes to become ready, and to obey, where none was
	// seen to.
	usualReady = 10 * time.Second
	usualEnd   = 2 * time.Second
	// usualLag is how much longer than its pods take to become ready a budget is closed: evictions,
	// controllers, the scheduler and watches take their time, too. These numbers are in docs/internals/eviction-order.md.
	usualLag = 200 * time.Millisecond
	// longestLag is what is believed of one budget: others may have kept it closed.
	longestLag = 5 * time.Second
	// goneSteps is how much another pod has to differ for its controller's pods to be taken to
	// leave sooner or later: by a 64th.
	goneSteps = 64
	// justLeft is how long ago a deletion that is first seen may have been for its sight to be its
	// time: objects hold whole seconds.
	justLeft = 2 * time.Second
)

// Memory is what one decision remembers for the next. Its maps are replaced, never changed, and a
// crash may lose it.
type Memory struct {
	// Ready is how long pods took to become ready before, Gone how long after their deletion those
	// took that have left, by their controllers' UIDs.
	Ready, Gone map[types.UID]time.Duration
	// Lag is how much longer budgets are closed than their pods take to become ready, 0 for not
	// known.
	Lag time.Duration
	// Leaving are the pods on their way from nodes in drain, by UID.
	Leaving map[types.UID]Departure
	// Pressing are the budgets that decide when the upgrade ends, as it was when a node was started
	// last; nil for not known.
	Pressing map[types.NamespacedName]bool
	// Returned counts the pods that came up on a node after its drain began and were evicted.
	Returned map[Return]int
}

// Departure is a pod on its way.
type Departure struct {
	Owner types.UID
	// Since is when its eviction began, or its deletion.
	Since time.Time
}

// Return names a controller whose pods come back to a node.
type Return struct {
	Node  string
	Owner types.UID
}

// returnOf is the controller whose pod came up on the node after the node's drain began; the zero
// Return where the pod did not.
func returnOf(node *Node, pod *corev1.Pod) Return {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil || !pod.CreationTimestamp.After(node.Began) {
		return Return{}
	}
	return Return{Node: node.Name, Owner: owner.UID}
}

// copyWith is a copy of the map with one more entry.
func copyWith[K comparable, V any](m map[K]V, key K, value V) map[K]V {
	c := maps.Clone(m)
	if c == nil {
		c = map[K]V{}
	}
	c[key] = value
	return c
}

// learnTerminationTimes notes how long pods took to leave that have left since the decision before.
func (m *Memory) learnTerminationTimes(in *Input) {
	before := m.Leaving
	m.Leaving = map[types.UID]Departure{}
	for i := range in.Draining {
		for _, pod := range in.Draining[i].Leaving {
			departure, seen := before[pod.UID]
			if !seen {
				departure = Departure{Owner: drain.ControllerOf(pod), Since: in.deletionTimeOf(pod)}
				if begun := in.lastAttempt(pod).Begun; !begun.IsZero() {
					departure.Since = begun // a place in the window is taken from then on
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

// learnTerminationTime learns from a pod that has left. The first ones leave beside many others,
// and take longer for it.
func (m *Memory) learnTerminationTime(owner types.UID, took time.Duration) {
	if before, known := m.Gone[owner]; known {
		if (took - before).Abs() < before/goneSteps {
			return
		}
		took = (took + before) / 2
	}
	m.Gone = copyWith(m.Gone, owner, took)
}

// deletionTimeOf is when the pod's deletion began: now, if it is seen in time.
func (in *Input) deletionTimeOf(pod *corev1.Pod) time.Time {
	began := pod.DeletionTimestamp.Time // which is when its grace ends
	if s := pod.DeletionGracePeriodSeconds; s != nil {
		began = began.Add(-time.Duration(*s) * time.Second)
	}
	if in.Now.Sub(began) < justLeft {
		return in.Now
	}
	return began
}

// learnStatusLag notes how much longer than its pods take to become ready a budget was closed that
// a pod has waited for. Only one that lets a single pod be missing tells which eviction it is that
// was made up for.
func (p *Plan) learnStatusLag(pod *corev1.Pod) {
	covering := p.in.Budgets.Covering(pod)
	_, waited := p.in.Waited[string(pod.UID)]
	if !waited || len(covering) != 1 || p.roomOf(covering[0]) != 1 {
		return
	}
	accepted := p.in.acceptedTimes()[covering[0].Key()]
	if len(accepted) == 0 {
		return
	}
	pace := p.paceOfPods()
	_, refill := pace.timesOf(pod)
	lag := p.in.Now.Sub(accepted[len(accepted)-1]) - (refill - pace.lag)
	p.memory.Lag = (3*pace.lag + min(max(lag, time.Millisecond), longestLag)) / 4
}

// acceptedTimes are when the evictions that were accepted began, by the budget they took from, in
// order.
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

// pace is how long pods take, by their controllers.
type pace struct {
	ready, gone           map[types.UID]time.Duration
	usualReady, usualGone time.Duration
	lag                   time.Duration
	// known has, by controller, the times that are the same for all of its pods.
	known map[types.UID]podTimes
}

// podTimes are what timesOf returns.
type podTimes struct{ gone, refill time.Duration }

func (p *Plan) paceOfPods() *pace {
	if p.memory.Ready == nil {
		p.memory.Ready = drain.ReadyTimes(p.in.Bound)
	}
	typical := func(times map[types.UID]time.Duration, otherwise time.Duration) time.Duration {
		return drain.TypicalDuration(slices.Collect(maps.Values(times)), otherwise)
	}
	return &pace{
		ready: p.memory.Ready, usualReady: typical(p.memory.Ready, usualReady),
		gone: p.memory.Gone, usualGone: typical(p.memory.Gone, 0),
		lag: cmp.Or(p.memory.Lag, usualLag), known: map[types.UID]podTimes{},
	}
}

// timesOf is how long after its deletion the pod will be gone, and how long after its eviction it
// is made up for. A StatefulSet waits for the end of the old one.
func (p *pace) timesOf(pod *corev1.Pod) (gone, refill time.Duration) {
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
	if owner.UID != "" && (known || p.usualGone > 0) { // else the pod has a say
		p.known[owner.UID] = podTimes{gone, refill}
	}
	return gone, refill
}
