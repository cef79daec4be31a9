package simulate

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// podLifecycle simulates the kubelets, which start and stop pods, and the controllers, which replace pods that leave.
type podLifecycle struct {
	clock     *clock
	times     Times
	group     *simGroup
	index     *podIndex
	scheduler *scheduler
	budgets   *disruption
	outages   *outages
	actions   *actionLog
	sets      orderedSets
	workloads *drain.WorkloadIndex
	// daemons has one pod of each DaemonSet that has pods on the group's nodes.
	daemons []*simPod
	// faultsLast is true if faulty pods never become ready; see Spec.FaultsLast.
	faultsLast bool
	// refused is why pods of workloads could not be created.
	refused map[drain.Workload]string
	// findRefusal returns why the API server refuses the pod that would replace a pod; see Spec.Refused.
	findRefusal func(pod *corev1.Pod, beside bool) string
	webhooks    *webhooks
}

// addPods adds the pods of the Spec, and returns those that are bound or pending. It creates all scheduling keys
// before it counts the first pod.
func (l *podLifecycle) addPods(pods []*corev1.Pod) []*simPod {
	added := make([]*simPod, 0, len(pods))
	for _, pod := range pods {
		added = append(added, &simPod{pod: pod, key: l.index.schedulingKeyOf(pod), budgets: l.budgets.index.Covering(pod)})
	}
	return slices.DeleteFunc(added, func(u *simPod) bool { return !l.addPod(u) })
}

// addPod adds a pod that has a simulated node or waits for one. It reports whether the pod was added.
func (l *podLifecycle) addPod(u *simPod) (added bool) {
	pod := u.pod
	n, known := l.index.nodes.byName[pod.Spec.NodeName]
	switch {
	case known:
		l.bindPodToNode(u, n)
		if n.member != nil && u.key.kind == daemonSet {
			l.addDaemonSet(u)
		}
	case pod.Spec.NodeName == "" && !isFinished(pod):
		l.scheduler.addPending(u)
		l.workloads.Store(pod)
	default:
		return false
	}
	l.sets.addPodOfSet(u)
	return true
}

// resumeLifecycle schedules the end or the readiness of a pod that was already ending or starting when the simulation
// begins.
func (l *podLifecycle) resumeLifecycle(u *simPod) {
	pod, now := u.pod, l.clock.now
	switch {
	case isFinished(pod) || isMirrorPod(pod):
	case isKeptByFinalizers(pod, now):
	case pod.DeletionTimestamp != nil:
		l.schedulePodEnd(u, max(0, pod.DeletionTimestamp.Sub(now)))
	case l.faultsLast && pod.Spec.NodeName != "" && drain.DescribeFault(pod) != "":
		u.broken = true
	case !drain.Ready(pod) && !isLongUnready(pod, now):
		if since, started := startOf(pod); started {
			l.scheduleReadiness(u, since)
		}
	}
}

// startOf returns when the pod started. If the pod has not started, startOf returns when it was bound to its node.
// started is false if neither time is known.
func startOf(pod *corev1.Pod) (since time.Time, started bool) {
	if pod.Status.StartTime != nil {
		return pod.Status.StartTime.Time, true
	}
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue {
			return c.LastTransitionTime.Time, true
		}
	}
	return time.Time{}, false
}

// finalizerTimeout is how long after its expected end a deleted pod with finalizers counts as kept by them.
const finalizerTimeout = time.Minute

// isKeptByFinalizers reports whether finalizers keep a pod that should have ended, for example because the controller of its Job
// does not remove the finalizer. It is unknown when such a pod goes.
func isKeptByFinalizers(pod *corev1.Pod, now time.Time) bool {
	return pod.DeletionTimestamp != nil && len(pod.Finalizers) > 0 && now.Sub(pod.DeletionTimestamp.Time) > finalizerTimeout
}

// bindPodToNode binds the pod to a node and counts it there.
func (l *podLifecycle) bindPodToNode(u *simPod, n *simNode) {
	l.index.bindToNode(u, n)
	l.webhooks.addPod(u)
	l.workloads.Store(u.pod)
	l.changeUsage(u, 1)
	l.scheduler.lowest = min(l.scheduler.lowest, priorityOf(u.pod))
	l.scheduler.markFreed(n) // a pod with an affinity may wait for this pod
}

// changeUsage adds a pod to its node's list and sums, or removes it. Finished pods use no resources.
func (l *podLifecycle) changeUsage(u *simPod, change int64) {
	n := u.node
	l.index.nodes.removeFromRanking(n)
	if !isFinished(u.pod) {
		n.room.AddPods(&u.key.needs, int(change))
		n.scored = n.scored.plus(u.key.scoredRequests().times(change))
	}
	if change > 0 {
		n.placePodOnNode(u.pod)
	} else {
		n.removePodFromNode(u.pod.UID)
	}
	l.index.nodes.updateRanking(n)
	l.group.updatePodsInRoster(n)
}

// updatePod replaces the pod's object by a newer one.
func (l *podLifecycle) updatePod(u *simPod, pod *corev1.Pod) {
	u.pod = pod
	l.workloads.Store(pod)
	u.node.placePodOnNode(pod)
	l.group.updatePodsInRoster(u.node)
}

// startPodOnNode binds the pod to the node. It becomes ready after its usual time.
func (l *podLifecycle) startPodOnNode(u *simPod, n *simNode) {
	if u.initiallyPending {
		pod := *u.pod // u.pod belongs to the Spec
		u.pod = &pod
	}
	u.pod.Spec.NodeName = n.node.Name
	u.pod.Status = corev1.PodStatus{Phase: corev1.PodPending, StartTime: &u.pod.CreationTimestamp}
	if waited := u.pod.CreationTimestamp.Time; waited.Before(l.clock.now) {
		u.pod.Status.StartTime = &metav1.Time{Time: l.clock.now}
	}
	l.bindPodToNode(u, n)
	if !u.broken {
		l.scheduleReadiness(u, l.clock.now)
	}
}

// scheduleReadiness schedules the pod's readiness for its usual time after its start.
func (l *podLifecycle) scheduleReadiness(u *simPod, started time.Time) {
	wait := l.times.Ready
	if l.times.ReadyOf != nil {
		wait = l.times.ReadyOf(u.pod)
	}
	if wait < 0 {
		return
	}
	uid := u.pod.UID
	l.clock.scheduleAfter(max(0, wait-l.clock.now.Sub(started)), func() { l.markPodReady(uid) })
}

func (l *podLifecycle) markPodReady(uid types.UID) {
	u, ok := l.index.bound[uid]
	if !ok || u.pod.DeletionTimestamp != nil {
		return
	}
	pod := *u.pod
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Time{Time: l.clock.now},
	}}
	l.updatePod(u, &pod)
	l.updateReadyCount(u, +1)
	l.webhooks.retryCreations(uid)
	if u.key.kind == statefulSet {
		l.createNextOrdinal(u.key.owner)
	}
	if old, still := l.index.bound[u.succeeds]; still {
		l.beginPodDeletion(old)
	}
}

// createSurgePod creates the successor of a pod. The pod is deleted when its successor is ready.
func (l *podLifecycle) createSurgePod(u *simPod) {
	if u.surged {
		return
	}
	next := l.newSuccessor(u)
	next.succeeds = u.pod.UID
	u.surged = l.createReplacement(next)
}

// beginPodDeletion begins a pod's deletion. The pod's controller creates a replacement at once, or after the pod's
// end if the replacement has the same name or node.
func (l *podLifecycle) beginPodDeletion(u *simPod) {
	if u.pod.DeletionTimestamp != nil {
		return
	}
	leaving := *u.pod
	leaving.DeletionTimestamp = &metav1.Time{Time: l.clock.now.Add(l.gracePeriod(u.pod))}
	leaving.ResourceVersion = l.clock.nextVersion()
	removeFromLiveCounts(u)
	l.updateReadyCount(u, -1)
	l.updatePod(u, &leaving)
	if !replacesAfterEnd(u) {
		l.replacePod(u)
	}
	l.schedulePodEnd(u, l.terminationTime(u.pod))
}

// updateReadyCount adds change to the ready pods of the pod's workload and budgets: 1 for a pod that is ready, -1 for one that
// begins to leave.
func (l *podLifecycle) updateReadyCount(u *simPod, change int32) {
	l.budgets.updateHealthyCount(u, change)
	l.budgets.wakeForWorkload(u)
	l.outages.updateReadyCount(u, int(change))
}

// schedulePodEnd ends the pod after a time. If its node's kubelet is unreachable, the pod stays until its machine is
// terminated.
func (l *podLifecycle) schedulePodEnd(u *simPod, wait time.Duration) {
	if u.node != nil && nodegroup.IsSilent(u.node.node) {
		return
	}
	uid := u.pod.UID
	l.clock.scheduleAfter(wait, func() {
		if u, still := l.index.bound[uid]; still {
			l.removePodObject(u)
			if replacesAfterEnd(u) {
				l.replacePod(u)
			}
		}
	})
}

// gracePeriod returns the time from the deletion to the deletion timestamp, at which the pod should be gone.
func (l *podLifecycle) gracePeriod(pod *corev1.Pod) time.Duration {
	if s := pod.Spec.TerminationGracePeriodSeconds; s != nil {
		return time.Duration(*s) * time.Second
	}
	return l.terminationTime(pod)
}

func (l *podLifecycle) terminationTime(pod *corev1.Pod) time.Duration {
	if l.times.Gone == nil {
		return 0
	}
	return l.times.Gone(pod)
}

// removePodObject removes a pod that has ended.
func (l *podLifecycle) removePodObject(u *simPod) {
	l.index.unbindFromNode(u)
	l.webhooks.removePod(u.pod.UID)
	l.workloads.Remove(u.pod)
	l.changeUsage(u, -1)
	l.scheduler.markFreed(u.node)
	l.sets.removePodOfSet(u)
	l.actions.dropAnswersOfPod(u.pod.UID)
	l.budgets.updateExpectedCount(u, -1)
}

// deletePodOfDeadNode removes a pod whose node is gone. The pod's controller replaces it (podgc/gc_controller.go).
func (l *podLifecycle) deletePodOfDeadNode(u *simPod) {
	leaving := u.pod.DeletionTimestamp != nil
	if !leaving {
		l.updateReadyCount(u, -1)
	}
	l.removePodObject(u)
	if replacesAfterEnd(u) || !leaving {
		l.replacePod(u)
	}
}

// replacePod creates the replacement of a pod that leaves, if its controller creates one.
func (l *podLifecycle) replacePod(u *simPod) {
	if !isReplaced(u) || u.surged || l.isBeyondScale(u) {
		return
	}
	next := l.newSuccessor(u)
	switch {
	case u.key.kind == daemonSet:
		l.startDaemonPod(next, u.node)
	case l.sets.containsPod(u):
		l.sets.addMissing(next)
		l.createNextOrdinal(u.key.owner)
	default:
		l.createReplacement(next)
	}
}

// createReplacement creates a pod and reports whether that succeeded. The API server may refuse it.
func (l *podLifecycle) createReplacement(u *simPod) (created bool) {
	if why := l.refuseCreation(u); why != "" {
		l.refused[drain.WorkloadOf(u.pod)] = why
		return false
	}
	if named := l.sets.workloads[u.key.owner].NodeName; named != "" {
		l.createOnNamedNode(u, named)
		return true
	}
	l.budgets.updateExpectedCount(u, +1)
	l.sets.addPodOfSet(u)
	l.workloads.Store(u.pod)
	if n := l.scheduler.assignNode(u); n != nil {
		l.startPodOnNode(u, n)
	}
	return true
}

// refuseCreation returns why the API server refuses to create the pod; "" if it does not. If a webhook refuses it, the
// controller creates it when the webhook answers again.
func (l *podLifecycle) refuseCreation(u *simPod) string {
	if l.findRefusal != nil {
		if why := l.findRefusal(u.pod, u.succeeds != ""); why != "" {
			return why
		}
	}
	if u.succeeds != "" {
		return l.webhooks.refuseCreation(u.pod, nil) // the restart is tried again
	}
	return l.webhooks.refuseCreation(u.pod, func() { l.createLate(u) })
}

// createLate creates a pod that was refused before.
func (l *podLifecycle) createLate(u *simPod) {
	created := *u.pod
	created.CreationTimestamp = metav1.Time{Time: l.clock.now}
	u.pod = &created
	l.createReplacement(u)
}

// namedNodeDelay is how long a controller takes to create a pod whose template names its node. Without this time, a drain
// of that node would evict such pods again and again at the same moment.
const namedNodeDelay = time.Second

// createOnNamedNode creates a pod on the node that its template names, even if that is fenced. If the node is gone,
// the pod is not created.
func (l *podLifecycle) createOnNamedNode(u *simPod, name string) {
	l.clock.scheduleAfter(namedNodeDelay, func() {
		n := l.index.nodes.byName[name]
		if n == nil {
			l.refused[drain.WorkloadOf(u.pod)] = "its pod template names node " + name + ", which is gone"
			return
		}
		created := *u.pod
		created.CreationTimestamp = metav1.Time{Time: l.clock.now}
		u.pod = &created
		l.budgets.updateExpectedCount(u, +1)
		l.sets.addPodOfSet(u)
		l.startPodOnNode(u, n)
	})
}

// createNextOrdinal creates the missing pods of an ordered StatefulSet whose turn it is.
func (l *podLifecycle) createNextOrdinal(owner types.UID) {
	for next := l.sets.takeNextMissing(owner); next != nil; next = l.sets.takeNextMissing(owner) {
		if !l.createReplacement(next) {
			return // its next pods come after it
		}
	}
}

// addDaemonSet remembers the pod's DaemonSet, which runs on the group's nodes.
func (l *podLifecycle) addDaemonSet(u *simPod) {
	if !slices.ContainsFunc(l.daemons, func(d *simPod) bool { return d.key.owner == u.key.owner }) {
		l.daemons = append(l.daemons, u)
	}
}

// startMissingDaemons starts the DaemonSet pods that a new node lacks.
func (l *podLifecycle) startMissingDaemons(n *simNode) {
	for _, d := range l.findMissingDaemons(n) {
		serial := l.clock.nextSerial()
		next := newSuccessor(d, l.clock.now, serial)
		next.broken = false
		next.pod.Name = successorName(metav1.GetControllerOfNoCopy(d.pod).Name, serial)
		l.startDaemonPod(next, n)
	}
}

// startDaemonPod starts a DaemonSet pod on the node, if the node still exists and the pod may run on it. There is
// always room, because the scheduler evicts other pods for it.
func (l *podLifecycle) startDaemonPod(u *simPod, n *simNode) {
	if l.index.nodes.byName[n.node.Name] != n {
		return
	}
	l.index.readSchedulingKey(u.key)
	if !u.key.needs.Selects(n.node) || !u.key.toleratesTaints(n) {
		return
	}
	l.budgets.updateExpectedCount(u, +1)
	l.startPodOnNode(u, n)
}

// placePending starts the pending pods for which there is room now.
func (l *podLifecycle) placePending() { l.scheduler.placePending(l.startPodOnNode) }
