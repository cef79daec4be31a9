package upgrade

import (
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

func listDurations(m map[types.UID]time.Duration) []time.Duration {
	all := make([]time.Duration, 0, len(m))
	for _, v := range m {
		all = append(all, v)
	}
	return all
}

// terminationTimeOf is how long after its deletion the pod will be gone.
func (p *pace) terminationTimeOf(pod *corev1.Pod) time.Duration {
	if took, known := p.gone[drain.ControllerOf(pod)]; known {
		return took
	}
	if p.usualGone > 0 {
		return p.usualGone
	}
	return min(drain.SoonestEnd(pod)+usualEnd, drain.LatestEnd(pod))
}

// refillTimeOf is how long after its eviction the pod is made up for. A StatefulSet waits for the
// end of the old one.
func (p *pace) refillTimeOf(pod *corev1.Pod) time.Duration {
	ready, known := p.ready[drain.ControllerOf(pod)]
	if !known {
		ready = p.usualReady
	}
	if drain.OwnerKind(pod) == "StatefulSet" {
		ready += p.terminationTimeOf(pod)
	}
	return ready + p.lag
}
