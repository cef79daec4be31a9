package worlds

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain/schedule"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// The words of the tally about restarts.
const (
	restarts   = "restarts a Deployment"
	repeated   = "is asked for again"
	changed    = "finds another Deployment"
	orphaned   = "is the last of its process"
	movedPod   = "has the pod leave"
	waitsFirst = "of one of several pods"
	instead    = "is given up for an eviction"
	crashedNew = "has the successor crash"
)

func moveWords() []string {
	return []string{restarts, repeated, changed, orphaned, movedPod, waitsFirst, instead, crashedNew}
}

// maxRestarts is how many times the upgrade may request the restart of one Deployment. A request fails if the Deployment has changed
// since the upgrade read it.
const maxRestarts = 3

// movingState is the state of the rules about restarts.
type movingState struct {
	// restarts counts the restarts that had an effect, by Deployment and pod.
	restarts map[[2]types.UID]int
	// lastMoved contains, for each workload with a single pod, the last pod that an eviction or a restart moved.
	lastMoved map[string]types.UID
	// mostTogether is the highest number of pods of each controller that this process saw together.
	mostTogether map[types.UID]int
}

func newMovingState() movingState {
	return movingState{restarts: map[[2]types.UID]int{}, lastMoved: map[string]types.UID{}, mostTogether: map[types.UID]int{}}
}

// deploymentReading contains the Deployments as a process read them when it began.
type deploymentReading map[string]deployment

func (c *cluster) readDeployments() deploymentReading {
	read := deploymentReading{}
	for name, m := range c.controllers {
		if m.deployment != nil {
			read[name] = *m.deployment
		}
	}
	return read
}

// hasGaplessMove reports whether a restart moves the workload's pods without a gap, according to the Deployments that were read.
func (d deploymentReading) hasGaplessMove(w *Workload) bool {
	o, known := d[w.Name]
	return known && o.rollout.createsPodFirst() && !w.Claims && w.Rollout != OneNode
}

// notePodsTogether records how many pods each controller has at the same time. It also counts crashing pods that a restart created.
func (r *rules) notePodsTogether(p *process) {
	if r.c.plan.Request.Move != record.MoveBySurge {
		return
	}
	now := map[types.UID]int{}
	for _, pod := range p.seen.pods {
		if pod.DeletionTimestamp == nil && pod.Labels[templateHash] != "" && pod.Status.Phase != corev1.PodSucceeded {
			now[drain.ControllerOf(pod)]++
		}
		if hash := pod.Labels[templateHash]; hash != "" && hash != replicaSetHash(0) && isCrashing(pod) {
			r.tally.count("move", crashedNew)
		}
	}
	for controller, n := range now {
		r.moving.mostTogether[controller] = max(r.moving.mostTogether[controller], n)
	}
}

// checkRestart checks L23: a Deployment is restarted only if its only ready pod is on a draining node. Its rollout must create a new
// pod before it deletes that pod.
func (r *rules) checkRestart(p *process, w *upgrade.World, step *upgrade.Step, a schedule.Restart) {
	stored := &p.stored.record
	pod := r.checkPodAction(w, stored, a.Node, string(a.Pod), a)
	if pod == nil {
		return
	}
	r.checkEvictionOrder(w, pod, a.Node, a)
	r.checkFencedFirst(w, stored, a)
	m := r.c.controllers[pod.Labels["app"]]
	switch read := p.read[m.Name]; {
	case stored.Request.Move != record.MoveBySurge:
		r.fail("L23", "%s, but the request asks for no restarts", a)
	case step.Record.Nodes[a.Node].State != record.NodeDraining:
		r.fail("L23", "%s, but the node is %q", a, step.Record.Nodes[a.Node].State)
	case a.Deployment != m.Name || a.UID != read.uid || !p.read.hasGaplessMove(m.Workload):
		r.fail("L23", "%s, but the restart leaves a gap or is for another Deployment: it %s", a, read.rollout)
	case hasComeBack(stored, a.Node, pod):
		r.fail("E51", "%s, but the pod was created on the node after the drain began", a)
	case !isPodReady(pod):
		r.fail("L23", "%s, but the pod is not ready", a)
	case !w.Now.Equal(r.c.now): // answers may have arrived while the record was stored
	case !p.open[a.Key()].Begun.IsZero():
		if before := p.open[a.Key()].Outcome; before == nodegroup.OutcomeDone || before == nodegroup.OutcomeFatal {
			r.fail("L23", "%s is repeated, but the last answer was %q", a, before)
		}
	default:
		r.checkOnlyReadyPod(w, m, pod, a)
	}
}

// checkOnlyReadyPod checks the first restart for a pod: the pod is the only ready one. If the Deployment had more pods, the pod has
// waited for another one to become ready.
func (r *rules) checkOnlyReadyPod(w *upgrade.World, m *controller, pod *corev1.Pod, a schedule.Restart) {
	ready := countReady(livePodsOf(w, m.Workload))
	several := r.moving.mostTogether[drain.ControllerOf(pod)] > 1
	since, last := r.recovery.lastReadySince[pod.UID]
	switch {
	case ready != 1:
		r.fail("L23", "%s, but %d of its pods are ready", a, ready)
	case several && (!last || w.Now.Sub(since) < lastReadyWait):
		r.fail("L23", "%s, but the pod has not waited for the others", a)
	case several:
		r.tally.count("move", waitsFirst)
	}
}

// hasComeBack reports whether the pod was created on the node after its drain began. Such a pod tolerates the fence, so a restart
// would create the next pod there, too.
func hasComeBack(stored *record.Record, node string, pod *corev1.Pod) bool {
	return pod.CreationTimestamp.After(stored.Nodes[node].Began)
}

// checkNotMoving checks L23 for evictions. A pod that a restart is moving is not evicted. The only ready pod of a Deployment that can
// be restarted is evicted only if the restart was refused.
func (r *rules) checkNotMoving(p *process, w *upgrade.World, stored *record.Record, pod *corev1.Pod, a schedule.Eviction) {
	m := r.c.controllers[pod.Labels["app"]]
	if m.deployment == nil || stored.Request.Move != record.MoveBySurge || !p.read.hasGaplessMove(m.Workload) || !isPodReady(pod) || !w.Now.Equal(r.c.now) {
		return
	}
	attempt := p.open[schedule.Restart{Pod: pod.UID}.Key()]
	switch {
	case hasComeBack(stored, a.Node, pod):
		return
	case attempt.Outcome == nodegroup.OutcomeFatal || (attempt.Outcome == nodegroup.OutcomeMoved && attempt.Tries >= maxRestarts):
		r.tally.count("move", instead)
	case !attempt.Begun.IsZero():
		r.fail("L23", "%s, but a restart of its Deployment is moving the pod: %q", a, attempt.Outcome)
	case m.Replicas == 1 && countReady(livePodsOf(w, m.Workload)) == 1 && r.moving.mostTogether[drain.ControllerOf(pod)] == 1:
		r.fail("L23", "%s, but the pod is the only ready one of a Deployment that %s", a, p.read[m.Name].rollout)
	}
}

// checkRestartedOnce counts a request to restart a Deployment, and checks that a pod causes at most one restart.
func (r *rules) checkRestartedOnce(m *controller, a schedule.Restart, what string) {
	r.tally.count("move", what)
	if what != restarts {
		return
	}
	of := [2]types.UID{a.UID, a.Pod}
	if r.moving.restarts[of]++; r.moving.restarts[of] > 1 {
		r.fail("L23", "%s, for the second time", a)
	}
	if m.Replicas == 1 {
		r.noteOnlyPodMoved(m, a.Pod)
	}
}

// noteOnlyPodMoved records a move of the only pod of a Deployment. A restart and an eviction of the same pod are one move.
func (r *rules) noteOnlyPodMoved(m *controller, pod types.UID) {
	if r.moving.lastMoved[m.Name] != pod {
		r.moving.lastMoved[m.Name] = pod
		r.checkMoveCount(m, m.Name)
	}
}

// checkSuccessorNode checks E62: the pod that replaces a moved pod is not bound to an outdated node, from which it would have to move
// again.
func (r *rules) checkSuccessorNode(p *process, pod *corev1.Pod) {
	m := r.c.controllers[pod.Labels["app"]]
	stops := p.stored.record.Stopping != "" || p.stored.record.Result != "" // after a stop, outdated nodes take pods again
	if !r.undisturbed || stops || m.deployment == nil || m.Tolerant || pod.Labels[templateHash] == replicaSetHash(0) {
		return
	}
	node := r.c.nodes[pod.Spec.NodeName]
	if node.Labels[groupLabel] != "" && r.isOutdated(node, r.c.instanceOf(node), p.stored.record) {
		r.fail("E62", "pod %s, the successor of a moved pod, is on outdated node %s", pod.Name, node.Name)
	}
}

// checkDeparture checks I13: a Deployment whose pods restarts can move always keeps a ready pod. Only a forced deletion after the
// drain limit may end its last ready pod.
func (r *rules) checkDeparture(pod *corev1.Pod) {
	m := r.c.controllers[pod.Labels["app"]]
	if r.recovery.leftNode[drain.WorkloadOf(pod)] = true; m == nil || m.deployment == nil {
		return
	}
	if pod.UID == m.deployment.moved {
		r.tally.count("move", movedPod)
	}
	excused := !r.undisturbed || m.Tolerant || r.c.plan.Request.Move != record.MoveBySurge || m.Broken || m.Replicas != 1 || m.Role == Skipped || m.Role == Completes || r.c.deletedByUpgrade[pod.UID]
	if excused || !isPodReady(pod) || !m.isMovable() {
		return
	}
	for _, other := range r.c.pods {
		if other.Labels["app"] == m.Name && other.UID != pod.UID && other.DeletionTimestamp == nil && isPodReady(other) {
			return
		}
	}
	r.fail("I13", "pod %s ends, but its Deployment, which %s, has no other ready pod", pod.Name, m.Rollout)
}

// checkDenialReport checks E52: if the restart of a pod's Deployment was refused for now, the pod's entry in Blocked gives the reason.
func (r *rules) checkDenialReport(w *upgrade.World, step *upgrade.Step) {
	if !w.Now.Equal(r.c.now) {
		return // answers may have arrived while the record was stored
	}
	for _, attempt := range w.Open {
		a, restart := attempt.Action.(schedule.Restart)
		if !restart || attempt.InFlight || attempt.Outcome != nodegroup.OutcomeLater {
			continue
		}
		for _, b := range step.Blocked {
			if m := memberNamed(w, a.Node); b.Kind == drain.Moving && m != nil && hasPod(m.Pods, a.Pod, b.Pod.Name) && !strings.Contains(b.String(), attempt.Detail) {
				r.fail("E52", "pod %s waits for a refused restart, but the status says only %q: %s", b.Pod, b.String(), attempt.Detail)
			}
		}
	}
}

// hasPod reports whether one of the pods has the UID and the name.
func hasPod(pods []*corev1.Pod, uid types.UID, name string) bool {
	return slices.ContainsFunc(pods, func(pod *corev1.Pod) bool { return pod.UID == uid && pod.Name == name })
}

// isMoving reports whether the step reports that a restart is moving the pod. Such a pod does not wait for other nodes.
func isMoving(step *upgrade.Step, pod *corev1.Pod) bool {
	for _, b := range step.Blocked {
		if b.Kind == drain.Moving && b.Pod.Name == pod.Name {
			return true
		}
	}
	return false
}
