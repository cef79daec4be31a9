package worlds

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// maker is a workload's controller in its current state: what it wants, and what is wrong with its pods.
type maker struct {
	*Workload
	broken, undead, tolerant, crashes bool
	refused, homeless, stranded       bool
	spare                             int
	slow, flaps, rejected             time.Duration
	role                              Role
	serial                            int
	// scale is the number of pods that its owner wants.
	scale int
	// away is true when nothing creates its pods any more.
	away bool
	// deployment is nil if the workload has no Deployment.
	deployment *deployment
}

// deal creates the workload's first pods, in turn on the group's nodes that take pods.
func (c *cluster) deal(w *Workload) {
	m := &maker{Workload: w, broken: w.Broken, undead: w.Undead, tolerant: w.Tolerant, crashes: w.Crashes, slow: w.Slow, homeless: w.Homeless, flaps: w.Flaps, stranded: w.Stranded, rejected: w.Rejected, role: w.Role, scale: w.Replicas, deployment: newDeployment(w)}
	c.makers[w.Name] = m
	var homes []string
	for _, name := range c.nodeNames() {
		if node := c.nodes[name]; isReady(node) && node.Labels[groupLabel] != "" {
			homes = append(homes, name)
		}
	}
	if len(homes) == 0 {
		return
	}
	replicas := w.Replicas
	if w.Kind == DaemonSet {
		replicas = len(homes)
	}
	for i := range replicas {
		pod := c.newPod(m, m.ordinal(i))
		if w.Stranded && i > 0 {
			strand(pod)
		} else {
			pod.Spec.NodeName = homes[i%len(homes)]
		}
		if i < w.Sick {
			if stay := slices.IndexFunc(homes, func(name string) bool { return c.nodes[name].Labels[imageLabel] != "1" }); stay >= 0 {
				pod.Spec.NodeName = homes[stay]
			}
		}
		c.settlePod(m, pod)
		if i < w.Sick {
			pod.Status = c.statusOf(pod, false)
		}
		c.putPod(pod)
	}
	m.refused, m.spare = w.Refused, w.Spare
	c.rescale(m)
	c.fallLater(m)
}

// settlePod makes a first pod look as if it had been running for a long time.
func (c *cluster) settlePod(m *maker, pod *corev1.Pod) {
	pod.CreationTimestamp = metav1.Time{Time: c.now.Add(-time.Hour)}
	if pod.Spec.NodeName == "" {
		return
	}
	pod.Status = c.statusOf(pod, !m.broken)
	c.complete(m, pod)
	if m.Tells {
		tellStart(m, pod)
	}
	switch m.Kind {
	case Finished:
		pod.Status = corev1.PodStatus{Phase: corev1.PodSucceeded, Conditions: podReady(false)}
	case Ending:
		pod.DeletionTimestamp = &metav1.Time{Time: c.now.Add(30 * time.Second)}
		c.after(m.Gone, func() { c.finish(pod.UID) })
	}
}

func podReady(ready bool) []corev1.PodCondition {
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	return []corev1.PodCondition{{Type: corev1.PodReady, Status: status}}
}

// ordinal returns the ordinal of the i-th of the first pods in its StatefulSet. For a Deployment it returns the number of the first
// ReplicaSet.
func (m *maker) ordinal(i int) int {
	if m.deployment != nil {
		return 0
	}
	return i
}

// newPod creates a pod without a node. ordinal is its ordinal in a StatefulSet, or the number of its ReplicaSet in a Deployment.
func (c *cluster) newPod(m *maker, ordinal int) *corev1.Pod {
	m.serial++
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: space, Name: fmt.Sprintf("%s-%d", m.Name, m.serial), UID: types.UID(fmt.Sprintf("%s-%04d", m.Name, m.serial)),
			Labels: map[string]string{"app": m.Name}, CreationTimestamp: metav1.Time{Time: c.now},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending, Conditions: podReady(false)},
	}
	grace := int64(max(30*time.Second, m.Grace).Seconds())
	pod.Spec.TerminationGracePeriodSeconds = &grace
	yes := true
	switch m.Kind {
	case Bare:
	case Mirror:
		pod.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "file"}
	default:
		kind := string(m.Kind)
		if m.Kind == Finished || m.Kind == Ending {
			kind = string(Job)
		}
		pod.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: m.Name, UID: types.UID("owner-" + m.Name), Controller: &yes}}
	}
	m.role.mark(pod)
	if m.Kind == StatefulSet {
		pod.Name = fmt.Sprintf("%s-%d", m.Name, ordinal)
	}
	switch {
	case m.Kind == DaemonSet && c.plan.TaintLag > 0 && !m.tolerant:
		pod.Spec.Tolerations = daemonTolerations()
	case m.tolerant || m.Kind == DaemonSet:
		pod.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	}
	if m.Claims {
		pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: pod.Name},
		}}}
	}
	if m.homeless {
		wantDevice(pod)
	}
	if m.deployment != nil {
		m.deployment.own(m, pod, ordinal)
	}
	return pod
}

func (c *cluster) putPod(pod *corev1.Pod) {
	pod.ResourceVersion = c.touch()
	if old := c.pods[pod.UID]; old != nil && podIsReady(old) && !podIsReady(pod) {
		c.fell[pod.UID] = true
	}
	c.pods[pod.UID] = pod
	c.watch(change{pod: pod})
	c.count(pod)
	m := c.makers[pod.Labels["app"]]
	c.rollSoon(m)
	if m.Ordered && podIsReady(pod) {
		c.after(10*time.Millisecond, func() { c.make(m) }) // the next pod may have waited for this
	}
}

// delete starts to delete a pod, as the API server does. Its controller creates another at once, or after the pod's end where names
// are kept.
func (c *cluster) delete(uid types.UID) { c.deleteWithin(uid, 0) }

// deleteWithin deletes a pod as delete does, with the given grace period in seconds; 0 means the pod's own.
func (c *cluster) deleteWithin(uid types.UID, grace int64) {
	old, ok := c.pods[uid]
	if !ok || old.DeletionTimestamp != nil {
		return
	}
	m := c.makers[old.Labels["app"]]
	if old.Spec.NodeName == "" {
		c.end(uid)
		return
	}
	pod := old.DeepCopy()
	if grace == 0 {
		grace = *pod.Spec.TerminationGracePeriodSeconds
	}
	pod.DeletionTimestamp = &metav1.Time{Time: c.now.Add(time.Duration(grace) * time.Second)}
	c.departs(old)
	c.deregister(pod.Status.PodIP)
	c.putPod(pod)
	if m.Kind == Deployment || m.Kind == Job {
		c.make(m)
	}
	c.after(m.Gone, func() { c.finish(uid) })
}

// finish acts as the kubelet that reports a deleted pod's end. Undead pods continue, and so do pods of silent kubelets.
func (c *cluster) finish(uid types.UID) {
	pod, ok := c.pods[uid]
	if !ok {
		return
	}
	node := c.nodes[pod.Spec.NodeName]
	if c.makers[pod.Labels["app"]].undead || (node != nil && !isReady(node)) {
		c.after(time.Minute, func() { c.finish(uid) })
		return
	}
	c.end(uid)
}

// end removes a pod and lets its controller replace it.
func (c *cluster) end(uid types.UID) {
	pod, ok := c.pods[uid]
	if !ok {
		return
	}
	delete(c.pods, uid)
	if pod.DeletionTimestamp == nil {
		c.departs(pod)
		c.deregister(pod.Status.PodIP)
	}
	if mustGo(pod, false) {
		c.emptied[pod.Spec.NodeName] = c.now
	}
	c.watch(change{pod: pod, gone: true})
	c.count(pod)
	c.detach(pod)
	c.make(c.makers[pod.Labels["app"]])
}

// detach keeps the pod's volume attached to its node for a while after the pod's end.
func (c *cluster) detach(pod *corev1.Pod) {
	node := pod.Spec.NodeName
	if len(pod.Spec.Volumes) == 0 || c.nodes[node] == nil {
		return
	}
	volume := corev1.UniqueVolumeName(pod.Name)
	c.changeNode(node, func(n *corev1.Node) {
		n.Status.VolumesAttached = append(n.Status.VolumesAttached, corev1.AttachedVolume{Name: volume})
	})
	c.after(c.draw(time.Minute), func() {
		c.changeNode(node, func(n *corev1.Node) {
			n.Status.VolumesAttached = slices.DeleteFunc(n.Status.VolumesAttached, func(v corev1.AttachedVolume) bool { return v.Name == volume })
		})
	})
}

// make creates the pods that the controller lacks.
func (c *cluster) make(m *maker) {
	if m.away || (m.refused && m.spare == 0 && m.Kind != DaemonSet) || c.ending {
		return
	}
	switch m.Kind {
	case Bare, Mirror, Finished, Ending:
		return
	case DaemonSet:
		c.makeDaemons(m)
		return
	}
	if m.deployment != nil {
		c.scale(m)
		c.rollSoon(m)
		return
	}
	create := func(ordinal int) {
		if m.refused && m.spare == 0 {
			return
		}
		if m.refused {
			m.spare--
		}
		c.putPod(c.newPod(m, ordinal))
	}
	have, names := 0, map[string]bool{}
	for _, pod := range c.pods {
		if pod.Labels["app"] == m.Name {
			names[pod.Name] = true
			if pod.DeletionTimestamp == nil {
				have++
			}
		}
	}
	for i := 0; i < m.scale; i++ {
		if m.Ordered && i > 0 && !c.isUp(m, i-1) {
			break
		}
		if m.Kind == StatefulSet && !names[fmt.Sprintf("%s-%d", m.Name, i)] {
			create(i)
		} else if m.Kind != StatefulSet && have < m.scale {
			have++
			create(i)
		}
	}
	c.place()
}

// isUp reports whether the StatefulSet's pod with the ordinal is ready and is not being deleted.
func (c *cluster) isUp(m *maker, ordinal int) bool {
	for _, pod := range c.pods {
		if pod.Labels["app"] == m.Name && pod.Name == fmt.Sprintf("%s-%d", m.Name, ordinal) {
			return podIsReady(pod) && pod.DeletionTimestamp == nil
		}
	}
	return false
}

// bound starts a pod on its node.
func (c *cluster) bound(m *maker, pod *corev1.Pod) {
	pod.Status.Conditions = append(pod.Status.Conditions, scheduledCondition(c.now))
	c.putPod(pod)
	uid := pod.UID
	if m.rejected > 0 && c.isOnNew(pod) {
		c.after(m.rejected, func() { c.end(uid) })
		return
	}
	c.complete(m, pod)
	c.after(c.startTime(m, pod), func() {
		c.turn(uid, !m.broken)
		c.flapSoon(m, pod)
	})
}

// turn changes whether a pod is ready, unless the pod is being deleted. A pod that crashes on its node stays unready.
func (c *cluster) turn(uid types.UID, ready bool) {
	old, ok := c.pods[uid]
	if !ok || old.DeletionTimestamp != nil || old.Status.Phase == corev1.PodSucceeded {
		return
	}
	pod := old.DeepCopy()
	pod.Status = c.statusOf(old, ready)
	pod.Status.Conditions[0].LastTransitionTime = metav1.Time{Time: c.now}
	c.putPod(pod)
}

// place schedules a run of the scheduler for the waiting pods, a moment later.
func (c *cluster) place() {
	if c.placing {
		return
	}
	c.placing = true
	c.after(10*time.Millisecond, func() {
		c.placing = false
		c.bind()
	})
}

// bind binds each waiting pod to the node with the fewest pods among those that take it.
func (c *cluster) bind() {
	load := map[string]int{}
	var waiting []*corev1.Pod
	for _, pod := range c.pods {
		load[pod.Spec.NodeName]++
		if pod.Spec.NodeName == "" {
			waiting = append(waiting, pod)
		}
	}
	slices.SortFunc(waiting, func(a, b *corev1.Pod) int { return strings.Compare(string(a.UID), string(b.UID)) })
	names := c.nodeNames()
	for _, old := range waiting {
		best := ""
		for _, name := range names {
			isFor := targetOf(old) == "" || targetOf(old) == name
			if isFor && takes(c.nodes[name], old) && c.suits(c.nodes[name], old) && (best == "" || load[name] < load[best]) {
				best = name
			}
		}
		if best == "" {
			if targetOf(old) == "" { // autoscalers ignore pods that are for one node
				c.unplaced()
			}
			continue
		}
		load[best]++
		pod := old.DeepCopy()
		pod.Spec.NodeName = best
		c.landed(pod)
		c.bound(c.makers[pod.Labels["app"]], pod)
	}
	for _, name := range sortedKeys(c.makers) {
		if m := c.makers[name]; m.Kind == DaemonSet && !m.away && !c.ending {
			c.makeDaemons(m)
		}
	}
}

// takes reports whether the node's cordon and taints admit the pod, as in the scheduler's filter. Here a pod tolerates all taints or
// none.
func takes(node *corev1.Node, pod *corev1.Pod) bool {
	switch {
	case !isReady(node):
		return false
	case slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool { return t.Key != "" }): // a DaemonSet's, see daemonTolerations
		return !slices.Contains(node.Spec.Taints, notReady())
	default:
		return len(pod.Spec.Tolerations) > 0 || !node.Spec.Unschedulable && len(node.Spec.Taints) == 0
	}
}
