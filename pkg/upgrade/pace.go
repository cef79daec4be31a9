package upgrade

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
)

const (
	// usualReady and usualEnd are how long a pod takes to become ready, and to obey, where none was
	// seen to.
	usualReady = 10 * time.Second
	usualEnd   = 2 * time.Second
	// usualLag is how much longer than its pods take to become ready a budget is closed: evictions,
	// controllers, the scheduler and watches take their time, too.
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

// Departure is a pod on its way.
type Departure struct {
	Owner types.UID
	// Since is when its eviction began, or its deletion.
	Since time.Time
}

// pace is how long pods take, by their controllers.
type pace struct {
	ready, gone           map[types.UID]time.Duration
	usualReady, usualGone time.Duration
	lag                   time.Duration
}

func (t *turn) pace() *pace {
	if t.notes.Ready == nil {
		t.notes.Ready = drain.ReadyTimes(t.pods())
	}
	return &pace{
		ready: t.notes.Ready, usualReady: drain.Typical(values(t.notes.Ready), usualReady),
		gone: t.notes.Gone, usualGone: drain.Typical(values(t.notes.Gone), 0),
		lag: cmp.Or(t.notes.Lag, usualLag),
	}
}

func values(m map[types.UID]time.Duration) []time.Duration {
	all := make([]time.Duration, 0, len(m))
	for _, v := range m {
		all = append(all, v)
	}
	return all
}

// pods are those of the group's members.
func (t *turn) pods() iter.Seq[*corev1.Pod] {
	return func(yield func(*corev1.Pod) bool) {
		for i := range t.w.Members {
			for _, pod := range t.w.Members[i].Pods {
				if !yield(pod) {
					return
				}
			}
		}
	}
}

// learnGone notes how long pods took to leave that have left since the last step.
func (t *turn) learnGone() {
	leaving := map[types.UID]Departure{}
	for _, m := range t.inDrain() {
		for _, pod := range t.view(m).leaving {
			departure, seen := t.w.Notes.Leaving[pod.UID]
			if !seen {
				departure = Departure{Owner: drain.Owner(pod), Since: t.deleted(pod)}
				if attempt := t.attempt(Evict{UID: pod.UID}); !attempt.Begun.IsZero() {
					departure.Since = attempt.Begun // a place in the window is taken from then on
				}
			}
			leaving[pod.UID] = departure
		}
	}
	t.notes.Leaving = leaving
	for _, uid := range slices.Sorted(maps.Keys(t.w.Notes.Leaving)) {
		if _, still := leaving[uid]; !still {
			t.noteGone(t.w.Notes.Leaving[uid])
		}
	}
}

// noteGone learns from a pod that has left. The first ones leave beside many others, and take
// longer for it.
func (t *turn) noteGone(d Departure) {
	took := t.w.Now.Sub(d.Since)
	if before, known := t.notes.Gone[d.Owner]; known {
		if (took - before).Abs() < before/goneSteps {
			return
		}
		took = (took + before) / 2
	}
	gone := maps.Clone(t.notes.Gone) // the last step's notes keep theirs
	if gone == nil {
		gone = map[types.UID]time.Duration{}
	}
	gone[d.Owner] = took
	t.notes.Gone = gone
}

// learnLag notes how much longer than its pods take to become ready a budget was closed that a pod
// has waited for. Only one that lets a single pod be missing tells which eviction it is that was
// made up for.
func (t *turn) learnLag(pod *corev1.Pod) {
	covering := t.w.Budgets.Covering(pod)
	_, waited := t.w.Notes.BlockedSince[string(pod.UID)]
	if !waited || len(covering) != 1 || t.roomOf(covering[0]) != 1 {
		return
	}
	begun := evictions(t.w)[covering[0].Key()]
	if len(begun) == 0 {
		return
	}
	p := t.pace()
	lag := t.w.Now.Sub(begun[len(begun)-1]) - (p.turnOf(pod) - p.lag)
	t.notes.Lag = (3*p.lag + min(max(lag, time.Millisecond), longestLag)) / 4
}

// deleted is when the pod's deletion began: now, if it is seen in time.
func (t *turn) deleted(pod *corev1.Pod) time.Time {
	began := pod.DeletionTimestamp.Time // which is when its grace ends
	if s := pod.DeletionGracePeriodSeconds; s != nil {
		began = began.Add(-time.Duration(*s) * time.Second)
	}
	if t.w.Now.Sub(began) < justLeft {
		return t.w.Now
	}
	return began
}

// goneOf is how long after its deletion the pod will be gone.
func (p *pace) goneOf(pod *corev1.Pod) time.Duration {
	if took, known := p.gone[drain.Owner(pod)]; known {
		return took
	}
	if p.usualGone > 0 {
		return p.usualGone
	}
	return min(drain.SoonestEnd(pod)+usualEnd, drain.LatestEnd(pod))
}

// turnOf is how long after its eviction the pod is made up for. A StatefulSet waits for the end of
// the old one.
func (p *pace) turnOf(pod *corev1.Pod) time.Duration {
	ready, known := p.ready[drain.Owner(pod)]
	if !known {
		ready = p.usualReady
	}
	if drain.OwnerKind(pod) == "StatefulSet" {
		ready += p.goneOf(pod)
	}
	return ready + p.lag
}
