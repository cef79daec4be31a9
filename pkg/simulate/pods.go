package simulate

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
)

// unit is a pod and what the cluster knows of it.
type unit struct {
	// pod is replaced when it changes, never changed: a World may show it.
	pod   *corev1.Pod
	shape *shape
	// on is nil while no node takes it; waits is since when.
	on      *machine
	waits   time.Time
	budgets []*drain.Budget
	// broken is a pod that takes the place of one that was not ready for long: it does not become
	// ready either.
	broken bool
	// stranger waited before the simulation began.
	stranger bool
}

// addPods takes the pods of the Spec in. All shapes are known before the first pod is counted.
func (c *Cluster) addPods(pods []*corev1.Pod) {
	units := make([]*unit, 0, len(pods))
	for _, pod := range pods {
		units = append(units, &unit{pod: pod, shape: c.shapeOf(pod), budgets: c.index.Covering(pod)})
	}
	for _, u := range units {
		c.addUnit(u)
	}
}

func (c *Cluster) addUnit(u *unit) {
	pod := u.pod
	if m, ok := c.machines[pod.Spec.NodeName]; ok {
		c.bind(u, m)
		if m.member != nil && u.shape.kind == daemonSet {
			c.addDaemon(u)
		}
		return
	}
	if pod.Spec.NodeName == "" && !finished(pod) {
		u.waits, u.stranger = c.now, true
		c.waiting[pod.UID] = u
		c.order(u)
		c.lines = append(c.lines, &line{shape: u.shape, units: []*unit{u}})
	}
}

// goOn has a pod of the Spec end or become ready that was about to when the simulation begins.
func (c *Cluster) goOn(u *unit) {
	pod := u.pod
	switch {
	case finished(pod) || pod.Annotations[corev1.MirrorPodAnnotationKey] != "":
	case pod.DeletionTimestamp != nil:
		c.endAfter(u, max(0, pod.DeletionTimestamp.Sub(c.now)))
	case !drain.Ready(pod) && pod.Status.StartTime != nil && !c.longUnready(pod):
		if wait := c.startTime(pod); wait >= 0 {
			c.after(max(0, wait-c.now.Sub(pod.Status.StartTime.Time)), func() { c.ready(pod.UID) })
		}
	}
}

func finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// bind puts the pod on a node, and into the sums.
func (c *Cluster) bind(u *unit, m *machine) {
	if a := u.pod.Spec.Affinity; a != nil && a.PodAntiAffinity != nil {
		c.parse(u.shape) // it keeps others away from now on
	}
	c.units[u.pod.UID] = u
	c.order(u)
	u.on = m
	count(u, 1, u.pod.DeletionTimestamp == nil)
	c.fill(u, 1)
	c.roomOn(m) // it may be what a pod with an affinity waits for
}

// fill adds a pod to its node's list and sums, or takes it away. Finished pods hold nothing.
func (c *Cluster) fill(u *unit, n int64) {
	m := u.on
	c.unrank(m)
	if !finished(u.pod) {
		scored := u.shape.scored()
		m.used = m.used.plus(amount{n * u.shape.needs.cpu, n * u.shape.needs.memory})
		m.scored = m.scored.plus(amount{n * scored.cpu, n * scored.memory})
	}
	if n > 0 {
		m.show(u.pod)
	} else {
		m.hide(u.pod.UID)
	}
	c.rerank(m)
	c.showPods(m)
}

// put replaces the pod's object by a newer one.
func (c *Cluster) put(u *unit, pod *corev1.Pod) {
	u.pod = pod
	u.on.show(pod)
	c.showPods(u.on)
}

// showPods brings the roster up to date with a node's pods; only those of outdated nodes concern an
// upgrade.
func (c *Cluster) showPods(m *machine) {
	if m.member == nil {
		return
	}
	if i, ok := c.seat(m.member.shown); ok {
		c.roster[i].Pods = m.pods
		c.news = c.news || c.roster[i].Outdated
	}
}

// remove begins a pod's deletion; its controller brings another up at once, or after the end where
// names are kept.
func (c *Cluster) remove(u *unit) {
	if u.pod.DeletionTimestamp != nil {
		return
	}
	leaving := *u.pod
	leaving.DeletionTimestamp = &metav1.Time{Time: c.now.Add(c.grace(u.pod))}
	leaving.ResourceVersion = c.touch()
	countLeaving(u)
	c.recount(u, -1)
	c.put(u, &leaving)
	if !keepsPlace(u.shape.kind) {
		c.replace(u)
	}
	c.endAfter(u, c.gone(u.pod))
}

func (c *Cluster) endAfter(u *unit, wait time.Duration) {
	uid := u.pod.UID
	c.after(wait, func() {
		if u, still := c.units[uid]; still {
			c.end(u)
			if keepsPlace(u.shape.kind) {
				c.replace(u)
			}
		}
	})
}

// grace is the time until a deletion's timestamp, which is when the pod should be gone.
func (c *Cluster) grace(pod *corev1.Pod) time.Duration {
	if s := pod.Spec.TerminationGracePeriodSeconds; s != nil {
		return time.Duration(*s) * time.Second
	}
	return c.gone(pod)
}

func (c *Cluster) gone(pod *corev1.Pod) time.Duration {
	if c.times.Gone == nil {
		return 0
	}
	return c.times.Gone(pod)
}

// end takes a pod away that has ended.
func (c *Cluster) end(u *unit) {
	count(u, -1, u.pod.DeletionTimestamp == nil)
	c.fill(u, -1)
	c.roomOn(u.on)
	delete(c.units, u.pod.UID)
	delete(c.sets[u.shape.owner], u.pod.UID)
	delete(c.attempts, "evict/"+string(u.pod.UID))
	delete(c.attempts, "delete/"+string(u.pod.UID))
	c.expect(u, -1)
}

// lose ends a pod whose node is gone, and has its controller replace it (podgc/gc_controller.go).
func (c *Cluster) lose(u *unit) {
	leaving := u.pod.DeletionTimestamp != nil
	if !leaving {
		c.recount(u, -1)
	}
	c.end(u)
	if keepsPlace(u.shape.kind) || !leaving {
		c.replace(u)
	}
}

func (c *Cluster) ready(uid types.UID) {
	u, ok := c.units[uid]
	if !ok || u.pod.DeletionTimestamp != nil {
		return
	}
	pod := *u.pod
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Time{Time: c.now},
	}}
	c.put(u, &pod)
	c.recount(u, +1)
	if u.shape.kind == statefulSet {
		c.succeed(u)
	}
}

// evict answers as the eviction API does, and begins the pod's deletion when it accepts.
func (c *Cluster) evict(a upgrade.Evict) (nodegroup.Outcome, string) {
	u, ok := c.units[a.UID]
	if !ok || u.pod.Spec.NodeName != a.Node {
		return nodegroup.OutcomeMoved, "the pod is gone"
	}
	if outcome, detail := c.admit(u); outcome != nodegroup.OutcomeDone {
		return outcome, detail
	}
	if u.pod.DeletionTimestamp == nil {
		c.evicted++
	}
	c.remove(u)
	return nodegroup.OutcomeDone, ""
}

func (c *Cluster) delete(a upgrade.Delete) (nodegroup.Outcome, string) {
	u, ok := c.units[a.UID]
	if !ok {
		return nodegroup.OutcomeMoved, "the pod is gone"
	}
	c.remove(u)
	return nodegroup.OutcomeDone, ""
}
