package worlds

import (
	"math/rand/v2"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// addBriefUnreadiness changes a workload in some worlds: its first pods become unready for a moment, one after the other. In half of
// these worlds, one new pod of the workload is not created. It draws from its own generator.
func addBriefUnreadiness(p *Plan) {
	d := dice{rand.New(rand.NewPCG(p.Seed, 0x66616c6c))}
	if p.isDelegated() || p.isShortLived() || !d.chance(12) {
		return
	}
	for i := range p.Workloads {
		w := &p.Workloads[i]
		if w.Replicas < 2 || !w.isPlain() || w.Down > 0 {
			continue
		}
		w.Falls, w.FallsFor = d.between(time.Second, pick(d, 30*time.Second, 6*time.Minute)), d.between(2*time.Second, 25*time.Second)
		w.FallsEach, w.Restarts = d.between(0, time.Minute), d.chance(70)
		if d.chance(50) {
			w.Refused, w.Spare = true, w.Replicas-1
		}
		p.Budgets = slices.DeleteFunc(p.Budgets, func(b Budget) bool { return b.Workload == w.Name && d.chance(70) })
		return
	}
}

// scheduleUnreadiness schedules the moments at which the workload's first pods become unready.
func (c *cluster) scheduleUnreadiness(m *controller) {
	if m.Falls == 0 {
		return
	}
	var first []types.UID
	for _, uid := range sortedKeys(c.pods) {
		if c.pods[uid].Labels["app"] == m.Name {
			first = append(first, uid)
		}
	}
	for i, uid := range first {
		c.after(m.Falls+time.Duration(i)*m.FallsEach, func() { c.makeBrieflyUnready(m, uid) })
	}
}

// makeBrieflyUnready makes a pod unready, and ready again later.
func (c *cluster) makeBrieflyUnready(m *controller, uid types.UID) {
	old, ok := c.pods[uid]
	if !ok || !isPodReady(old) || old.DeletionTimestamp != nil {
		return
	}
	ended := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		ExitCode: 1, StartedAt: old.CreationTimestamp, FinishedAt: metav1.Time{Time: c.now},
	}}
	waits := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: crashLoop}}
	turn := func(ready bool, status corev1.ContainerStatus) {
		pod, ok := c.pods[uid]
		if !ok || pod.DeletionTimestamp != nil {
			return
		}
		pod = pod.DeepCopy()
		pod.Status = c.podStatus(pod, ready)
		pod.Status.Conditions[0].LastTransitionTime = metav1.Time{Time: c.now}
		if m.Restarts {
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{status}
		}
		c.putPod(pod)
	}
	c.brieflyUnready[uid] = true
	turn(false, corev1.ContainerStatus{Name: "main", State: waits, LastTerminationState: ended})
	c.after(m.FallsFor, func() {
		delete(c.brieflyUnready, uid)
		turn(true, corev1.ContainerStatus{Name: "main", LastTerminationState: ended, RestartCount: 1})
	})
}
