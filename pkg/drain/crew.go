package drain

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// podCounter counts the pods of one workload as they come and go, so that no pod is counted twice.
type podCounter struct {
	members map[types.UID]countedPod
	// ready and unready are the living pods, in no order.
	ready, unready []*corev1.Pod
	// counted counts, by controller, the pods that the workload should have. most is the largest such count: a workload
	// that has lost all but one of its pods is not a workload with a single pod.
	counted, most map[types.UID]int
	// shaky has the ready pods that have been unready since they first were ready, or whose containers ended before.
	shaky map[types.UID]bool
	// lasted has, for each pod that was ready and then was not, how long it had been ready.
	lasted map[types.UID]time.Duration
}

// countedPod is the counted state of a pod. fell is true once the pod was ready and then was not. since is when a ready
// pod became ready.
type countedPod struct {
	controller                   types.UID
	living, ready, counted, fell bool
	since                        time.Time
}

func newPodCounter() *podCounter {
	return &podCounter{
		members: map[types.UID]countedPod{}, counted: map[types.UID]int{}, most: map[types.UID]int{},
		shaky: map[types.UID]bool{}, lasted: map[types.UID]time.Duration{},
	}
}

// storePod adds a pod or its newer state.
func (c *podCounter) storePod(pod *corev1.Pod) {
	before, lasted := c.members[pod.UID], c.lasted[pod.UID]
	c.removePod(pod.UID)
	m := countedPod{controller: ControllerOf(pod), living: IsLiving(pod)}
	if m.ready = m.living && Ready(pod); m.ready {
		m.since = conditionOf(pod, corev1.PodReady).LastTransitionTime.Time
	}
	if before.ready && !m.ready {
		lasted = UnreadySince(pod).Sub(before.since)
	}
	if m.fell = before.fell || (before.ready && !m.ready); m.fell {
		c.lasted[pod.UID] = lasted
	}
	if m.ready && (m.fell || countRestarts(pod) > 0) {
		c.shaky[pod.UID] = true
	}
	m.counted = m.living || isReplacedLater(pod)
	c.members[pod.UID] = m
	if all := c.listFor(m); all != nil {
		*all = append(*all, pod)
	}
	if m.counted {
		c.counted[m.controller]++
	}
	c.most[m.controller] = max(c.most[m.controller], c.counted[m.controller])
}

// listFor returns the list of replicas that the pod belongs to, or nil.
func (c *podCounter) listFor(m countedPod) *[]*corev1.Pod {
	switch {
	case m.ready:
		return &c.ready
	case m.living:
		return &c.unready
	default:
		return nil
	}
}

func (c *podCounter) removePod(uid types.UID) {
	m, known := c.members[uid]
	if !known {
		return
	}
	delete(c.members, uid)
	delete(c.shaky, uid)
	delete(c.lasted, uid)
	if all := c.listFor(m); all != nil {
		*all = slices.DeleteFunc(*all, func(pod *corev1.Pod) bool { return pod.UID == uid })
	}
	if m.counted {
		c.counted[m.controller]--
	}
}
