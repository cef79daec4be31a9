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

// controller is the current state of a workload: its scale, its controller, and what is wrong with its pods.
type controller struct {
	*Workload
	broken, undead, tolerant, crashes bool
	refused, homeless, stranded       bool
	pinned                            bool
	spare                             int
	slow, flaps, rejected             time.Duration
	role                              Role
	serial                            int
	// scale is the number of pods that its owner wants.
	scale int
	// away is true when no controller creates its pods any more.
	away bool
	// deployment is nil if the workload has no Deployment.
	deployment *deployment
}

// createFirstPods creates the workload's first pods, distributed over the group's Ready nodes.
func (c *cluster) createFirstPods(w *Workload) {
	m := &controller{Workload: w, broken: w.Broken, undead: w.Undead, tolerant: w.Tolerant, crashes: w.Crashes, slow: w.Slow, homeless: w.Homeless, flaps: w.Flaps, stranded: w.Stranded, pinned: w.Pinned, rejected: w.Rejected, role: w.Role, scale: w.Replicas, deployment: newDeployment(w)}
	c.controllers[w.Name] = m
	var homes []string
	for _, name := range c.nodeNames() {
		if node := c.nodes[name]; isNodeReady(node) && node.Labels[groupLabel] != "" {
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
		pod := c.newPod(m, m.firstOrdinal(i))
		if w.Stranded && i > 0 {
			makeUnschedulable(pod)
		} else {
			pod.Spec.NodeName = homes[i%len(homes)]
		}
		if i < w.Sick {
			if stay := slices.IndexFunc(homes, func(name string) bool { return c.nodes[name].Labels[imageLabel] != "1" }); stay >= 0 {
				pod.Spec.NodeName = homes[stay]
			}
		}
		c.ageFirstPod(m, pod)
		if i < w.Sick {
			pod.Status = c.podStatus(pod, false)
		}
		c.putPod(pod)
	}
	m.refused, m.spare = w.Refused, w.Spare
	c.scheduleScaling(m)
	c.scheduleUnreadiness(m)
}

// ageFirstPod makes a first pod an hour old and running.
func (c *cluster) ageFirstPod(m *controller, pod *corev1.Pod) {
	pod.CreationTimestamp = metav1.Time{Time: c.now.Add(-time.Hour)}
	if pod.Spec.NodeName == "" {
		return
	}
	pod.Status = c.podStatus(pod, !m.broken)
	c.scheduleCompletion(m, pod)
	if m.Tells {
		writeStartTimes(m, pod)
	}
	switch m.Kind {
	case Finished:
		pod.Status = corev1.PodStatus{Phase: corev1.PodSucceeded, Conditions: readyConditions(false)}
	case Ending:
		pod.DeletionTimestamp = &metav1.Time{Time: c.now.Add(30 * time.Second)}
		c.after(m.Gone, func() { c.endDeletedPod(pod.UID) })
	}
}

func readyConditions(ready bool) []corev1.PodCondition {
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	return []corev1.PodCondition{{Type: corev1.PodReady, Status: status}}
}

// firstOrdinal returns the ordinal of the i-th of the first pods in its StatefulSet. For a Deployment it returns the number of the
// first ReplicaSet.
func (m *controller) firstOrdinal(i int) int {
	if m.deployment != nil {
		return 0
	}
	return i
}

// newPod creates a pod without a node. ordinal is its ordinal in a StatefulSet, or the number of its ReplicaSet in a Deployment.
func (c *cluster) newPod(m *controller, ordinal int) *corev1.Pod {
	m.serial++
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: fmt.Sprintf("%s-%d", m.Name, m.serial), UID: types.UID(fmt.Sprintf("%s-%04d", m.Name, m.serial)),
			Labels: map[string]string{"app": m.Name}, CreationTimestamp: metav1.Time{Time: c.now},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending, Conditions: readyConditions(false)},
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
	m.role.markPod(pod)
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
		requestDevice(pod)
	}
	if m.pinned {
		pod.Spec.NodeSelector = map[string]string{imageLabel: "1"}
	}
	if m.deployment != nil {
		m.deployment.adoptPod(m, pod, ordinal)
	}
	return pod
}

func (c *cluster) putPod(pod *corev1.Pod) {
	pod.ResourceVersion = c.nextVersion()
	if old := c.pods[pod.UID]; old != nil && isPodReady(old) && !isPodReady(pod) {
		c.becameUnready[pod.UID] = true
	}
	c.pods[pod.UID] = pod
	c.onChange(change{pod: pod})
	c.scheduleBudgetSync(pod)
	m := c.controllers[pod.Labels["app"]]
	c.scheduleRoll(m)
	if m.Ordered && isPodReady(pod) {
		c.after(10*time.Millisecond, func() { c.createMissingPods(m) }) // the next pod may have waited for this
	}
}

// deletePod begins the deletion of a pod, as the API server does. The controller of a Deployment or Job creates another pod at once.
// The controller of a StatefulSet creates it after the pod has ended.
func (c *cluster) deletePod(uid types.UID) { c.deletePodWithGrace(uid, 0) }

// deletePodWithGrace begins the deletion of a pod with the grace period in seconds; 0 means the pod's own.
func (c *cluster) deletePodWithGrace(uid types.UID, grace int64) {
	old, ok := c.pods[uid]
	if !ok || old.DeletionTimestamp != nil {
		return
	}
	m := c.controllers[old.Labels["app"]]
	if old.Spec.NodeName == "" {
		c.removePod(uid)
		return
	}
	pod := old.DeepCopy()
	if grace == 0 {
		grace = *pod.Spec.TerminationGracePeriodSeconds
	}
	pod.DeletionTimestamp = &metav1.Time{Time: c.now.Add(time.Duration(grace) * time.Second)}
	c.onPodGone(old)
	c.deregisterTarget(pod.Status.PodIP)
	c.putPod(pod)
	if m.Kind == Deployment || m.Kind == Job {
		c.createMissingPods(m)
	}
	c.after(m.Gone, func() { c.endDeletedPod(uid) })
}

// endDeletedPod simulates the kubelet, which reports the end of a deleted pod. Undead pods do not end, nor do pods on nodes that are
// not Ready.
func (c *cluster) endDeletedPod(uid types.UID) {
	pod, ok := c.pods[uid]
	if !ok {
		return
	}
	node := c.nodes[pod.Spec.NodeName]
	if c.controllers[pod.Labels["app"]].undead || (node != nil && !isNodeReady(node)) {
		c.after(time.Minute, func() { c.endDeletedPod(uid) })
		return
	}
	c.removePod(uid)
}

// removePod removes a pod and lets its controller replace it.
func (c *cluster) removePod(uid types.UID) {
	pod, ok := c.pods[uid]
	if !ok {
		return
	}
	delete(c.pods, uid)
	if pod.DeletionTimestamp == nil {
		c.onPodGone(pod)
		c.deregisterTarget(pod.Status.PodIP)
	}
	if mustLeave(pod, false) {
		c.emptied[pod.Spec.NodeName] = c.now
	}
	c.onChange(change{pod: pod, gone: true})
	c.scheduleBudgetSync(pod)
	c.scheduleDetach(pod)
	c.createMissingPods(c.controllers[pod.Labels["app"]])
}

// scheduleDetach keeps the pod's volume attached to its node for a while after the pod's end.
func (c *cluster) scheduleDetach(pod *corev1.Pod) {
	node := pod.Spec.NodeName
	if len(pod.Spec.Volumes) == 0 || c.nodes[node] == nil {
		return
	}
	volume := corev1.UniqueVolumeName(pod.Name)
	c.changeNode(node, func(n *corev1.Node) {
		n.Status.VolumesAttached = append(n.Status.VolumesAttached, corev1.AttachedVolume{Name: volume})
	})
	c.after(c.drawUpTo(time.Minute), func() {
		c.changeNode(node, func(n *corev1.Node) {
			n.Status.VolumesAttached = slices.DeleteFunc(n.Status.VolumesAttached, func(v corev1.AttachedVolume) bool { return v.Name == volume })
		})
	})
}

// createMissingPods creates pods until the controller has as many as its scale.
func (c *cluster) createMissingPods(m *controller) {
	if m.away || (m.refused && m.spare == 0 && m.Kind != DaemonSet) || c.namespaceEnding {
		return
	}
	switch m.Kind {
	case Bare, Mirror, Finished, Ending:
		return
	case DaemonSet:
		c.createDaemonPods(m)
		return
	}
	if m.deployment != nil {
		c.scaleReplicaSets(m)
		c.scheduleRoll(m)
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
		if m.Ordered && i > 0 && !c.isOrdinalUp(m, i-1) {
			break
		}
		if m.Kind == StatefulSet && !names[fmt.Sprintf("%s-%d", m.Name, i)] {
			create(i)
		} else if m.Kind != StatefulSet && have < m.scale {
			have++
			create(i)
		}
	}
	c.scheduleBinding()
}

// isOrdinalUp reports whether the StatefulSet's pod with the ordinal is ready and is not being deleted.
func (c *cluster) isOrdinalUp(m *controller, ordinal int) bool {
	for _, pod := range c.pods {
		if pod.Labels["app"] == m.Name && pod.Name == fmt.Sprintf("%s-%d", m.Name, ordinal) {
			return isPodReady(pod) && pod.DeletionTimestamp == nil
		}
	}
	return false
}

// startPod starts a pod on the node to which it is bound.
func (c *cluster) startPod(m *controller, pod *corev1.Pod) {
	pod.Status.Conditions = append(pod.Status.Conditions, scheduledCondition(c.now))
	c.putPod(pod)
	uid := pod.UID
	if m.rejected > 0 && c.isOnNew(pod) {
		c.after(m.rejected, func() { c.removePod(uid) })
		return
	}
	c.scheduleCompletion(m, pod)
	c.after(c.podStartTime(m, pod), func() {
		c.setPodReady(uid, !m.broken)
		c.scheduleFlap(m, pod)
	})
}

// setPodReady changes whether a pod is ready, unless the pod is being deleted. A pod that crashes on its node stays unready.
func (c *cluster) setPodReady(uid types.UID, ready bool) {
	old, ok := c.pods[uid]
	if !ok || old.DeletionTimestamp != nil || old.Status.Phase == corev1.PodSucceeded {
		return
	}
	pod := old.DeepCopy()
	pod.Status = c.podStatus(old, ready)
	pod.Status.Conditions[0].LastTransitionTime = metav1.Time{Time: c.now}
	c.putPod(pod)
}

// scheduleBinding schedules a run of the scheduler for the waiting pods, a moment later.
func (c *cluster) scheduleBinding() {
	if c.binding {
		return
	}
	c.binding = true
	c.after(10*time.Millisecond, func() {
		c.binding = false
		c.bindPods()
	})
}

// bindPods binds each waiting pod to the node with the fewest pods among those that take it.
func (c *cluster) bindPods() {
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
			isFor := daemonNodeOf(old) == "" || daemonNodeOf(old) == name
			if isFor && isAdmitted(c.nodes[name], old) && c.hasDeviceFor(c.nodes[name], old) && (best == "" || load[name] < load[best]) {
				best = name
			}
		}
		if best == "" {
			if daemonNodeOf(old) == "" { // autoscalers add no node for a pod of a DaemonSet
				c.onUnplacedPod()
			}
			continue
		}
		load[best]++
		pod := old.DeepCopy()
		pod.Spec.NodeName = best
		c.onPodBound(pod)
		c.startPod(c.controllers[pod.Labels["app"]], pod)
	}
	for _, name := range sortedKeys(c.controllers) {
		if m := c.controllers[name]; m.Kind == DaemonSet && !m.away && !c.namespaceEnding {
			c.createDaemonPods(m)
		}
	}
}

// isAdmitted reports whether the node is Ready, and its cordon and taints admit the pod. Here a pod tolerates all taints or none,
// except pods with daemonTolerations.
func isAdmitted(node *corev1.Node, pod *corev1.Pod) bool {
	switch {
	case !isNodeReady(node):
		return false
	case slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool { return t.Key != "" }): // a DaemonSet's, see daemonTolerations
		return !slices.Contains(node.Spec.Taints, notReadyTaint())
	default:
		return len(pod.Spec.Tolerations) > 0 || !node.Spec.Unschedulable && len(node.Spec.Taints) == 0
	}
}
