package worlds

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain/schedule"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

const (
	// unhealthyLimit is how long the upgrade waits for a workload that does not recover before it stops.
	unhealthyLimit = 5 * time.Minute
	// lastReadyWait is how long the last ready pod of a workload behind a Service waits for another.
	lastReadyWait = 2 * time.Minute
	// lackLimit is the longest time for which an upgrade may wait for a workload, for any reason.
	lackLimit = 2 * time.Hour
	// uncreatedLimit is how long the upgrade may take to learn that the API server refuses a workload's missing pods. The upgrade
	// reads controllers every 5 s.
	uncreatedLimit = 15 * time.Second
	// steadyAfter is how long a restarted pod must have been ready before it counts as ready.
	steadyAfter = 30 * time.Second
)

// crashingPod is a pod that crashes, or that no current node can take, and since when.
type crashingPod struct {
	uid   types.UID
	since time.Time
}

// recoveryState is the state of the rules about workloads that do not recover.
type recoveryState struct {
	// run is the upgrade's name. began is when its process began.
	run   string
	began time.Time
	// lostPods contains, by name, the workloads whose pods had to leave a node and that have not recovered since.
	lostPods map[string]stateBefore
	// unreadyDaemons counts, by name, the pods of DaemonSets that were not ready before the upgrade.
	unreadyDaemons map[string]int
	// crashing contains, by workload, the pod because of which this process has seen the workload block the start of nodes.
	crashing map[string]crashingPod
	// lackingSince is, by workload, the time since when it has had fewer ready pods than before because its new pods do not come up.
	lackingSince map[string]time.Time
	// missingSince is, by workload, the time since when pods are missing because the API server refuses them.
	missingSince map[string]time.Time
	// readyAtFirst is, by workload, how many of its pods were ready when the process first saw the workload.
	readyAtFirst map[string]int
	// lastReadySince is, for each pod, the time since when the pod has been seen as the last ready pod of its workload.
	lastReadySince map[types.UID]time.Time
	// bareSince is, by DaemonSet and current node, the time since when the node has been seen without a pod of the DaemonSet.
	bareSince map[string]time.Time
	// roomless contains the workloads whose last ready pod was evicted while no other node took their pods, by name. This happens in
	// upgrades without a surge.
	roomless map[string]bool
	// leftNode contains the workloads with a pod that has left its node since the upgrade got its current goal.
	leftNode map[drain.Workload]bool
	goal     string
}

// stateBefore is the state of a workload when the first of its pods had to leave: the number of ready pods, and the time.
type stateBefore struct {
	ready int
	at    time.Time
}

func newRecoveryState() recoveryState {
	return recoveryState{lostPods: map[string]stateBefore{}, unreadyDaemons: map[string]int{}, crashing: map[string]crashingPod{}, missingSince: map[string]time.Time{}, lackingSince: map[string]time.Time{}, readyAtFirst: map[string]int{}, lastReadySince: map[types.UID]time.Time{}, roomless: map[string]bool{}, bareSince: map[string]time.Time{}, leftNode: map[drain.Workload]bool{}}
}

// prepareForProcess forgets what only the previous process knew. For another upgrade, it also forgets the workloads that lost pods.
func (y *recoveryState) prepareForProcess(run string, now time.Time) {
	if run == "" || run != y.run {
		clear(y.lostPods)
	}
	y.run, y.began = run, now
	clear(y.crashing)
	clear(y.missingSince)
	clear(y.lackingSince)
	clear(y.bareSince)
}

// checkRecovery checks one decision against the rules about workloads that do not recover.
func (r *rules) checkRecovery(p *process, w *upgrade.World, step *upgrade.Step) {
	if step.Record.Run == "" {
		return
	}
	r.recovery.run = step.Record.Run
	var started []*nodegroup.Member
	for _, name := range sortedKeys(step.Record.Nodes) {
		n := step.Record.Nodes[name]
		if _, known := w.Record.Nodes[name]; known || n.Batch == 0 || step.Record.Phase == record.PhaseWait {
			continue // the node was started earlier, is a surge node that is removed, or is empty
		}
		if m := memberNamed(w, name); m != nil {
			started = append(started, m)
		}
	}
	for i := range r.c.plan.Workloads {
		if app := &r.c.plan.Workloads[i]; app.isReplicated() {
			pods := livePodsOf(w, app)
			if _, seen := r.recovery.readyAtFirst[app.id().String()]; !seen {
				r.recovery.readyAtFirst[app.id().String()] = countReady(pods)
			}
			r.checkWorkloadIndex(p, w, app, pods)
			r.checkFewAway(w, step, app, pods, started)
			r.checkWaitsForRecovery(w, step, app, pods, started)
			r.checkLastReady(w, step, app, pods)
		}
	}
	r.checkDaemonSets(w, step, started)
	r.checkUnhealthyReport(p, w, step)
}

// livePodsOf returns the workload's pods that the process saw, without pods that are terminating or have ended.
func livePodsOf(w *upgrade.World, app *Workload) []*corev1.Pod {
	replicas := w.Workloads.Named(app.id())
	if replicas == nil {
		return nil
	}
	return replicas.Pods
}

func countReady(pods []*corev1.Pod) (n int) {
	for _, pod := range pods {
		if isPodReady(pod) {
			n++
		}
	}
	return n
}

// countSteady counts the ready pods. It does not count shaky pods, which may crash again.
func countSteady(pods []*corev1.Pod, now time.Time) (n int) {
	for _, pod := range pods {
		if isPodReady(pod) && !isShaky(pod, now) {
			n++
		}
	}
	return n
}

// isShaky reports whether the pod was restarted and has been ready for less than steadyAfter.
func isShaky(pod *corev1.Pod, now time.Time) bool {
	restarted := slices.ContainsFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.RestartCount > 0 })
	return restarted && now.Sub(pod.Status.Conditions[0].LastTransitionTime.Time) < steadyAfter
}

// isLasting reports whether the pod has been ready for steadyAfter, as far as the process knows.
func isLasting(pod *corev1.Pod, now time.Time) bool {
	return isPodReady(pod) && now.Sub(pod.Status.Conditions[0].LastTransitionTime.Time) >= steadyAfter
}

// checkWorkloadIndex compares the workload index with the pods that the process has seen.
func (r *rules) checkWorkloadIndex(p *process, w *upgrade.World, app *Workload, pods []*corev1.Pod) {
	if !w.Now.Equal(r.c.now) {
		return // the process saw more pods while the record was stored
	}
	all, ready := 0, 0
	for _, pod := range p.seen.pods {
		if pod.Labels["app"] == app.Name && pod.DeletionTimestamp == nil && pod.Status.Phase != corev1.PodSucceeded {
			all++
			if isPodReady(pod) {
				ready++
			}
		}
	}
	if all != len(pods) || ready != countReady(pods) {
		r.fail("I11", "the index has %d pods of %s, %d of them ready, but the process saw %d, %d of them ready", len(pods), app.id(), countReady(pods), all, ready)
	}
}

// lacksPods reports whether a workload that lost pods has fewer ready pods than before.
func (r *rules) lacksPods(w *upgrade.World) bool {
	return slices.ContainsFunc(r.c.plan.Workloads, func(app Workload) bool {
		before, lost := r.recovery.lostPods[app.id().String()]
		return lost && countSteady(livePodsOf(w, &app), w.Now) < before.ready
	})
}

// checkWaitsForRecovery checks I11 for a workload that lost pods. While the workload has fewer ready pods than before and a new
// pod that cannot come up, the upgrade starts no node and does not begin to delete blue nodes. It stops after unhealthyLimit.
func (r *rules) checkWaitsForRecovery(w *upgrade.World, step *upgrade.Step, app *Workload, pods []*corev1.Pod, started []*nodegroup.Member) {
	name, rec := app.id().String(), &step.Record
	crashed := r.failedSuccessor(w, app, pods)
	if first := r.recovery.crashing[name]; slices.ContainsFunc(pods, func(pod *corev1.Pod) bool { return pod.UID == first.uid && isLasting(pod, w.Now) }) {
		delete(r.recovery.crashing, name) // each pod that crashes after the first has come up has its own time
	}
	if crashed == nil || isIgnored(rec, name) {
		delete(r.recovery.crashing, name)
	} else {
		r.checkStopsInTime(w, rec, name, crashed)
		for _, m := range started {
			r.fail("I11", "node %s is started, but pod %s of %s does not come up: %d pods are ready, and %d were ready before", m.Name(), crashed.Name, name, countReady(pods), r.recovery.lostPods[name].ready)
		}
		if rec.Phase == record.PhaseDeleteBlue && w.Record.Phase == record.PhaseSoak {
			r.fail("I11", "blue nodes are deleted, but pod %s of %s does not come up: %d pods are ready, and %d were ready before", crashed.Name, name, countReady(pods), r.recovery.lostPods[name].ready)
		}
	}
	r.checkWaitsForCreation(w, rec, app, pods, started)
	r.checkLackLimit(w, rec, app, pods)
	before, lost := r.recovery.lostPods[name]
	if len(started) > 0 && lost && countReady(pods) >= before.ready && !hasLeavers(w, pods) {
		delete(r.recovery.lostPods, name)
		lost = false
	}
	loses := slices.ContainsFunc(started, func(m *nodegroup.Member) bool {
		return slices.ContainsFunc(m.Pods, func(pod *corev1.Pod) bool {
			return pod.Labels["app"] == app.Name && pod.DeletionTimestamp == nil && mustLeave(pod, false) && !isLeftToEnd(rec, pod)
		})
	})
	if loses && !lost {
		r.recovery.lostPods[name] = stateBefore{ready: countReady(pods), at: w.Now}
	}
}

// checkWaitsForCreation checks I11 for refused pods: the upgrade starts no node after a workload's pods were missing for
// uncreatedLimit. If the owner scaled the workload down during the upgrade, the rule holds only for nodes with pods of the
// workload, because the upgrade reads the workload's scale again only before it starts such a node, and at the end.
func (r *rules) checkWaitsForCreation(w *upgrade.World, record *record.Record, app *Workload, pods []*corev1.Pod, started []*nodegroup.Member) {
	name, maker := app.id().String(), r.c.controllers[app.Name]
	before, lost := r.recovery.lostPods[name]
	there := 0 // includes terminating pods of a StatefulSet, which creates new pods only after these have ended
	for _, pod := range r.c.pods {
		if pod.Labels["app"] == app.Name && (pod.DeletionTimestamp == nil || app.Kind == StatefulSet) {
			there++
		}
	}
	if !lost || !maker.refused || maker.spare > 0 || maker.away || maker.scale < app.Replicas || r.c.namespaceEnding || max(there, len(pods)) >= before.ready || isIgnored(record, name) {
		delete(r.recovery.missingSince, name)
		return
	}
	since, was := r.recovery.missingSince[name]
	if !was {
		since = w.Now
	}
	r.recovery.missingSince[name] = since
	for _, m := range started {
		if app.Down > 0 && !slices.ContainsFunc(m.Pods, func(pod *corev1.Pod) bool { return pod.Labels["app"] == app.Name }) {
			continue
		}
		if waited := w.Now.Sub(since); r.undisturbed && waited > uncreatedLimit {
			r.fail("I11", "node %s is started, but pods of %s have not been created for %s: %d exist, and %d were ready before", m.Name(), name, waited, len(pods), before.ready)
		}
	}
}

// checkLackLimit checks I11 for workloads whose new pods never stay ready: the upgrade stops within lackLimit.
func (r *rules) checkLackLimit(w *upgrade.World, rec *record.Record, app *Workload, pods []*corev1.Pod) {
	name := app.id().String()
	before, lost := r.recovery.lostPods[name]
	neverUp := app.Rejected > 0 || app.Flaps > 0 || app.Refused || app.Shut || app.Crashes
	if !lost || r.c.controllers[app.Name].scale < app.Replicas || !neverUp || countSteady(pods, w.Now) >= before.ready || isIgnored(rec, name) {
		delete(r.recovery.lackingSince, name)
		return
	}
	since, was := r.recovery.lackingSince[name]
	if !was {
		since = w.Now
	}
	if since = since.Add(w.Idle); since.After(w.Now) {
		since = w.Now
	}
	r.recovery.lackingSince[name] = since
	drains := rec.Phase == record.PhaseUpgrade && rec.Stopping == "" && rec.Result == ""
	if waited := w.Now.Sub(since); r.undisturbed && drains && waited > lackLimit {
		r.fail("I11", "%s has had too few pods for %s, but the upgrade does not stop", name, waited)
	}
}

// checkFewAway checks I15 for workloads that start slowly and have no budget. The upgrade starts nodes so that at most a quarter of
// the workload's pods, or one pod, is missing at the same time.
func (r *rules) checkFewAway(w *upgrade.World, step *upgrade.Step, app *Workload, pods []*corev1.Pod, started []*nodegroup.Member) {
	name := app.id().String()
	before := min(w.Record.Workloads[name].Ready, step.Record.Workloads[name].Ready)
	fast := app.Tells && app.Ready < slowStart
	if before == 0 || fast || step.Record.Request.NoImplicitBudgets || isIgnored(&step.Record, name) || len(w.EndingNamespaces) > 0 {
		return
	}
	here, leaving, coming, staying := map[string]int{}, 0, 0, 0
	for _, pod := range pods {
		if len(w.Budgets.Covering(pod)) > 0 {
			return
		}
		_, recorded := w.Record.Nodes[pod.Spec.NodeName]
		state := step.Record.Nodes[pod.Spec.NodeName].State
		switch {
		case isLeftToEnd(&step.Record, pod) && state != record.NodeForcing:
			staying++
		case recorded && (state == record.NodeDraining || state == record.NodeForcing):
			leaving++
		case recorded:
			staying++ // the upgrade has given the pod's node up
		case !isPodReady(pod) && pod.CreationTimestamp.After(w.Record.Started) && !isOnOutdated(w, pod):
			coming++
		case isPodReady(pod):
			here[pod.Spec.NodeName]++
			staying++
		}
	}
	away := min(before-staying, leaving+coming+max(0, before-len(pods)))
	more, most := 0, 0
	for _, m := range started {
		more, most = more+here[m.Name()], max(most, here[m.Name()])
	}
	limit := max(1, before/4)
	if away <= 0 {
		limit = max(limit, most)
	}
	if coming > 0 && more > 0 {
		r.tally.count("health", fewAway)
	}
	if more > 0 && away+more > limit && (away <= 0 || leaving+coming > 0) {
		r.fail("I15", "%d nodes are started with %d pods of %s, while %d of its %d pods are missing, %d are leaving and %d are starting", len(started), more, name, away, before, leaving, coming)
	}
}

// slowStart is the shortest time to become ready of a workload that starts slowly.
const slowStart = 10 * time.Second

// failedSuccessor returns a pod that crashes on a node that stays, or that no current node can take. The pod was created after the
// workload lost a pod. failedSuccessor returns nil if there is none, or if the workload has as many ready pods as before it lost one.
func (r *rules) failedSuccessor(w *upgrade.World, app *Workload, pods []*corev1.Pod) *corev1.Pod {
	before, lost := r.recovery.lostPods[app.id().String()]
	if !lost || countReady(pods) >= before.ready || len(w.EndingNamespaces) > 0 { // no pods are created in a namespace that is being deleted
		return nil
	}
	i := slices.IndexFunc(pods, func(pod *corev1.Pod) bool {
		return (isCrashing(pod) || r.isNeverPlaced(w, pod)) && pod.CreationTimestamp.After(before.at) && pod.CreationTimestamp.After(w.Record.Started) && !isOnOutdated(w, pod)
	})
	if i < 0 {
		return nil
	}
	return pods[i]
}

// isNeverPlaced reports whether a pod without a node selects nodes of the first revision, and a usable current node is of another one.
func (r *rules) isNeverPlaced(w *upgrade.World, pod *corev1.Pod) bool {
	return pod.Spec.NodeName == "" && isPinned(pod) && r.c.controllers[pod.Labels["app"]].pinned && slices.ContainsFunc(w.Members, func(m nodegroup.Member) bool {
		return !m.Outdated && m.Node != nil && !m.Node.Spec.Unschedulable && m.Node.Labels[imageLabel] != "1" && w.Group.IsUsable(&m)
	})
}

func isOnOutdated(w *upgrade.World, pod *corev1.Pod) bool {
	m := memberNamed(w, pod.Spec.NodeName)
	return m != nil && m.Outdated
}

// hasLeavers reports whether one of the pods is on a started node.
func hasLeavers(w *upgrade.World, pods []*corev1.Pod) bool {
	return slices.ContainsFunc(pods, func(pod *corev1.Pod) bool {
		_, started := w.Record.Nodes[pod.Spec.NodeName]
		return started
	})
}

func isIgnored(rec *record.Record, name string) bool {
	return slices.ContainsFunc(rec.Request.IgnoreUnready, func(pattern string) bool {
		return pattern == record.AllWorkloads || strings.EqualFold(pattern, name)
	})
}

// checkStopsInTime checks the time limit of I11: the upgrade stops if it has waited for a workload for unhealthyLimit. The limit does
// not apply after the last drain.
func (r *rules) checkStopsInTime(w *upgrade.World, rec *record.Record, name string, pod *corev1.Pod) {
	r.tally.count("health", holdsNodes)
	first, was := r.recovery.crashing[name]
	if !was {
		first = crashingPod{uid: pod.UID, since: w.Now}
	}
	if first.since = first.since.Add(w.Idle); first.since.After(w.Now) {
		first.since = w.Now
	}
	r.recovery.crashing[name] = first
	drains := rec.Phase != record.PhaseScaleDown && rec.Phase != record.PhaseDone
	if waited := w.Now.Sub(first.since); waited >= unhealthyLimit && drains && rec.Stopping == "" && rec.Result == "" {
		r.fail("I11", "pod %s of %s has not come up for %s, but the upgrade does not stop", pod.Name, name, waited)
	}
}

// checkLastReady checks I12: the last ready pod of a workload behind a Service is evicted only after it has waited for another ready
// pod, and not while the other pods crash.
func (r *rules) checkLastReady(w *upgrade.World, step *upgrade.Step, app *Workload, pods []*corev1.Pod) {
	stays := map[types.UID]bool{}
	for _, pod := range pods {
		if isPodReady(pod) && !isEvicted(w, pod) {
			stays[pod.UID] = true
		}
	}
	for _, pod := range pods {
		if _, was := r.recovery.lastReadySince[pod.UID]; !isPodReady(pod) || countSteady(pods, w.Now) > 1 {
			delete(r.recovery.lastReadySince, pod.UID)
		} else if !was {
			r.recovery.lastReadySince[pod.UID] = w.Now
		}
	}
	if evicted := countEvictions(step, stays); len(stays) > 0 && evicted == len(stays) && !r.c.hasRoomFor(pods[0]) {
		r.recovery.roomless[app.id().String()] = true
	}
	if app.Role == Completes {
		return // no controller of a world replaces completed pods, so one pod may be left
	}
	if !app.isServed() || r.c.controllers[app.Name].scale < 2 || step.Record.Request.NoImplicitBudgets || !w.Now.Equal(r.c.now) {
		return
	}
	r.checkLastReadyWaited(w, step, app, stays)
}

// countEvictions counts the evictions of the given pods in the step.
func countEvictions(step *upgrade.Step, pods map[types.UID]bool) (n int) {
	for _, action := range step.Actions {
		if a, evicts := action.(schedule.Eviction); evicts && pods[a.UID] {
			n++
		}
	}
	return n
}

// hasRoomFor reports whether a node of another group takes the pod, or the group has a schedulable node.
func (c *cluster) hasRoomFor(pod *corev1.Pod) bool {
	return slices.ContainsFunc(c.nodeNames(), func(name string) bool {
		node := c.nodes[name]
		return isNodeReady(node) && !node.Spec.Unschedulable && (node.Labels[groupLabel] != "" || c.hasDeviceFor(node, pod))
	})
}

// isEvicted reports whether an eviction of the pod is in flight, or was accepted so recently that its effect may not be visible yet.
func isEvicted(w *upgrade.World, pod *corev1.Pod) bool {
	a := w.Open[schedule.Eviction{UID: pod.UID}.Key()]
	accepted := a.Outcome == nodegroup.OutcomeDone || a.Outcome == nodegroup.OutcomeUnclear
	return a.InFlight || accepted && w.Now.Sub(a.Ended) < visibleWithin
}

// checkLastReadyWaited checks the evictions of one step against I12. stays contains the workload's ready pods before these evictions.
func (r *rules) checkLastReadyWaited(w *upgrade.World, step *upgrade.Step, app *Workload, stays map[types.UID]bool) {
	waited, sent, left := false, "", len(stays)
	for _, action := range step.Actions {
		a, evicts := action.(schedule.Eviction)
		if !evicts || !stays[a.UID] {
			continue
		}
		sent, left = a.Pod, left-1
		since, last := r.recovery.lastReadySince[a.UID]
		waited = waited || last && w.Now.Sub(since) >= lastReadyWait
	}
	if sent == "" || left > 0 {
		return
	}
	name := app.id().String()
	if !isIgnored(&step.Record, name) {
		r.checkLastReadyStays(w, step, app, sent)
	}
	crashed := r.failedSuccessor(w, app, livePodsOf(w, app))
	switch {
	case !waited:
		r.fail("I12", "pod %s, the last ready pod of %s, is evicted without waiting for another", sent, name)
	case crashed != nil && !isIgnored(&step.Record, name):
		r.fail("I12", "pod %s, the last ready pod of %s, is evicted, but pod %s does not come up", sent, name, crashed.Name)
	case isLastReadyLeaving(w, livePodsOf(w, app), isFaulty) && !isIgnored(&step.Record, name):
		r.fail("I12", "pod %s, the last ready pod of %s, is evicted, but all others crash or fit no node", sent, name)
	}
}

// cannotComeUp reports whether the pod crashes or has no node.
func cannotComeUp(pod *corev1.Pod) bool { return isCrashing(pod) || pod.Spec.NodeName == "" }

// isFaulty reports whether the pod crashes, or selects a zone that has no nodes.
func isFaulty(pod *corev1.Pod) bool {
	return isCrashing(pod) || (pod.Spec.NodeName == "" && isStranded(pod))
}

// isLastReadyLeaving reports whether the only steady one of several pods is on a started node, and all others are faulty or shaky.
func isLastReadyLeaving(w *upgrade.World, pods []*corev1.Pod, faulty func(*corev1.Pod) bool) bool {
	others := 0
	for _, pod := range pods {
		_, started := w.Record.Nodes[pod.Spec.NodeName]
		switch steady := isPodReady(pod) && !isShaky(pod, w.Now); {
		case steady && !started:
			return false
		case steady:
		case isPodReady(pod) || faulty(pod):
			others++
		default:
			return false
		}
	}
	return others > 0 && countSteady(pods, w.Now) == 1
}

// checkUnhealthyReport checks the status about workloads that do not recover. It also checks that an upgrade that stops because of
// a workload has waited for unhealthyLimit before.
func (r *rules) checkUnhealthyReport(p *process, w *upgrade.World, step *upgrade.Step) {
	for _, u := range step.Status.Unhealthy {
		i := slices.IndexFunc(r.c.plan.Workloads, func(app Workload) bool { return app.id().String() == u.Name })
		if i < 0 {
			r.fail("I11", "%s is reported as unhealthy, but the plan has no such workload", u.Name)
			continue
		}
		if app := &r.c.plan.Workloads[i]; app.Kind == DaemonSet {
			r.checkDaemonSetReport(w, step, app, u)
			continue
		}
		pods := livePodsOf(w, &r.c.plan.Workloads[i])
		at := slices.IndexFunc(pods, func(pod *corev1.Pod) bool { return pod.Name == u.Pod })
		if u.Pod == "" && strings.Contains(u.Why, "not created") {
			r.checkMissingReport(&r.c.plan.Workloads[i], u, pods)
			r.checkOrderedReport(p, w, &r.c.plan.Workloads[i], u)
			continue
		}
		if u.Pod == "" {
			continue
		}
		if at >= 0 && isLastReadyLeaving(w, pods, cannotComeUp) {
			continue
		}
		switch {
		case at < 0 || (isPodReady(pods[at]) && !hasRestarted(pods[at]) && !r.c.becameUnready[pods[at].UID]) || u.Ready > countReady(pods) || u.Ready >= u.Before:
			r.fail("I11", "%s is reported as unhealthy, but %d of its pods are ready", u, countReady(pods))
		case isOnOutdated(w, pods[at]) && !isNodeKept(step.Record.Nodes[pods[at].Spec.NodeName].State):
			r.fail("I11", "%s is reported as unhealthy, but the pod must leave its node", u)
		case isIgnored(&step.Record, u.Name):
			r.fail("I11", "%s is reported as unhealthy, but the request ignores it", u)
		}
	}
	if stops := w.Record.Stopping == "" && step.Record.Stopping == record.WorkloadUnhealthy; !stops {
		return
	}
	if ran := w.Now.Sub(r.recovery.began); ran < unhealthyLimit {
		r.fail("I11", "it stops because of a workload only %s after its process began", ran)
	}
	r.checkTimeToRecover(w, step)
	if len(step.Status.Unhealthy) == 0 {
		r.fail("I11", "it stops because of a workload, but reports none: %s", step.Record.Message)
	}
}

// checkMissingReport checks the status about missing pods.
func (r *rules) checkMissingReport(app *Workload, u record.Unhealthy, pods []*corev1.Pod) {
	if len(pods) >= max(u.Before, app.Replicas) || u.Ready > countReady(pods) {
		r.fail("I11", "%s is reported with missing pods, but %d exist, %d of them ready", u, len(pods), countReady(pods))
	}
	if app.Sick == 0 || !r.undisturbed {
		return // some pods may have left before the upgrade counted them
	}
	there := 0 // includes terminating pods, because a StatefulSet creates no others before these have ended
	for _, pod := range r.c.pods {
		if pod.Labels["app"] == app.Name {
			there++
		}
	}
	said := 0
	if _, _ = fmt.Sscanf(u.Why, "%d pod", &said); said < app.Replicas-there || said > app.Replicas-len(pods) {
		r.fail("I11", "%s is reported with the wrong number of missing pods: of %d pods, %d exist", u, app.Replicas, there)
	}
}

// hasRestarted reports whether a container of the pod ended before.
func hasRestarted(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.RestartCount > 0 })
}

// checkUnhealthyMessage checks the message of WorkloadUnhealthy. The message names each workload with a pod. Its remedy begins with
// the workload because of which the upgrade stops. The plan must contain a cause that keeps the pods of that workload from being
// ready.
func (r *rules) checkUnhealthyMessage(record record.Record) {
	_, last, _ := strings.Cut(record.Message, "--ignore-unready=")
	i := slices.IndexFunc(r.c.plan.Workloads, func(app Workload) bool {
		rest, named := strings.CutPrefix(last, app.id().String())
		return named && (rest == "" || rest[0] == ';' || rest[0] == ',')
	})
	if i < 0 || !strings.Contains(record.Message, fmt.Sprintf("%s (", r.c.plan.Workloads[i].id())) ||
		!containsAny(record.Message, "pod "+r.c.plan.Workloads[i].Name+"-", "not created", "must end before", "has not ended", "on a node that stays", "ready again for less than", "exit before they are ready") {
		r.fail("I11", "the message does not name the workload and its pod: %q", record.Message)
		return
	}
	unplaced := containsAny(record.Message, "no node takes it", "must end before", "has not ended", "has terminated")
	if app := &r.c.plan.Workloads[i]; !app.isAiling() && (app.Kind != DaemonSet || !app.Broken) && !unplaced && !r.c.plan.hasActor(PodCrashes) {
		r.fail("liveness", "%s is reported as unhealthy without a cause: %s", app.id(), record.Message)
	}
	if repaired := worldStart().Add(r.c.plan.Calm + 2*time.Minute); r.c.calm && record.Ended.After(repaired) {
		r.fail("liveness", "workloads are reported as unhealthy after all obstacles were removed: %s", record.Message)
	}
}

// isNodeKept reports whether the upgrade no longer drains a started node: the node was given up, or its owner will replace it. New
// pods on such a node must become ready.
func isNodeKept(state record.NodeState) bool {
	return state == record.NodeQuarantined || state == record.NodeDrained
}

func containsAny(text string, parts ...string) bool {
	return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(text, part) })
}
