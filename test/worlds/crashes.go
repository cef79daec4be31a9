package worlds

import (
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// addCrashingWorkloads puts some workloads behind Services. In some worlds, it makes a workload's pods crash or start slowly on nodes
// of the wanted revision. It draws from its own generator, so that all other draws stay the same.
func addCrashingWorkloads(p *Plan) {
	d := dice{rand.New(rand.NewPCG(p.Seed, 0x63726173))}
	var fit []int
	for i := range p.Workloads {
		w := &p.Workloads[i]
		if !w.isReplicated() || w.Replicas == 0 {
			continue
		}
		w.Served = d.chance(40)
		if !w.Broken && w.Role != Completes { // the pods of the others are never ready, or complete
			fit = append(fit, i)
		}
	}
	if p.isDelegated() || p.isShortLived() {
		return // nothing is evicted
	}
	p.Request.NoImplicitBudgets = d.chance(5)
	if len(fit) == 0 || !d.chance(18) {
		return
	}
	for range 1 + min(d.IntN(2), d.IntN(2)) {
		d.setCrashing(p, &p.Workloads[pick(d, fit...)])
	}
	d.addMendingActors(p)
}

// setCrashing makes the pods of a workload crash or start slowly on nodes of the wanted revision.
func (d dice) setCrashing(p *Plan, w *Workload) {
	if w.Crashes = d.chance(65); !w.Crashes {
		w.Slow = d.between(time.Minute, 20*time.Minute)
	}
	if d.chance(50) { // otherwise only budgets keep the workload up
		p.Budgets = slices.DeleteFunc(p.Budgets, func(b Budget) bool { return b.Workload == w.Name })
	}
	if d.chance(12) {
		p.Request.IgnoreUnready = []string{pick(d, record.AllWorkloads, w.id().String(), strings.ToLower(w.id().String()))}
	}
}

// addMendingActors adds an owner who fixes the workload, and a user who rolls the upgrade back.
func (d dice) addMendingActors(p *Plan) {
	if d.chance(40) {
		return
	}
	if d.chance(60) {
		p.Actors = append(p.Actors, Actor{Kind: OwnerFixes, At: d.between(time.Minute, time.Hour), Pick: d.IntN(1000)})
	}
	if p.listsMachines() && !p.isAutoscaled() && d.chance(50) {
		p.Actors = append(p.Actors, Actor{Kind: RollsBack, At: d.between(2*time.Minute, 30*time.Minute), Pick: d.IntN(1000)})
	}
}

// isReplicated reports whether the workload keeps a number of pods running wherever there is room.
func (w *Workload) isReplicated() bool { return w.Kind == Deployment || w.Kind == StatefulSet }

func (w *Workload) id() drain.Workload {
	kind := string(w.Kind)
	if w.Rollout != "" {
		kind = "Deployment"
	}
	return drain.Workload{Namespace: namespace, Kind: kind, Name: w.Name}
}

// isServed reports whether a Service sends traffic to the workload's pods.
func (w *Workload) isServed() bool { return w.Served || w.Role == Hook }

// isAiling reports whether the plan keeps new pods of the workload from becoming ready, or makes them slow.
func (w *Workload) isAiling() bool {
	return w.Crashes || w.Slow > 0 || w.Refused || w.Homeless || w.Stranded || w.Pinned || w.Rejected > 0 || w.Flaps > 0 || w.Shut
}

// isPlain reports whether the workload is replicated and has no oddity.
func (w *Workload) isPlain() bool {
	return w.isReplicated() && !w.Broken && !w.Undead && !w.Tolerant && !w.isAiling() && w.Role == "" && w.Rollout == "" && w.Ends == 0
}

// isOnNew reports whether the pod is on a node of the group with a newer revision than the first.
func (c *cluster) isOnNew(pod *corev1.Pod) bool {
	node := c.nodes[pod.Spec.NodeName]
	return node != nil && node.Labels[groupLabel] != "" && node.Labels[imageLabel] != "1"
}

func (c *cluster) crashesOn(m *controller, pod *corev1.Pod) bool {
	return m.crashes && c.isOnNew(pod) && (!m.Cured || c.nodes[pod.Spec.NodeName].Labels[imageLabel] == "2")
}

// podStartTime returns how long the pod takes on its node until it is ready or crashes.
func (c *cluster) podStartTime(m *controller, pod *corev1.Pod) time.Duration {
	if m.slow > 0 && c.isOnNew(pod) {
		return m.slow
	}
	return m.Ready
}

// podStatus returns the status of a running pod.
func (c *cluster) podStatus(pod *corev1.Pod, ready bool) corev1.PodStatus {
	crashes := c.crashesOn(c.controllers[pod.Labels["app"]], pod)
	status := corev1.PodStatus{Phase: corev1.PodRunning, Conditions: readyConditions(ready && !crashes), PodIP: c.targetAddress(pod)}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled {
			status.Conditions = append(status.Conditions, condition)
		}
	}
	if crashes {
		status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: "main", RestartCount: 3, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: crashLoop}},
		}}
	}
	return status
}

// crashLoop is the reason that a kubelet reports when a container exits repeatedly.
const crashLoop = "CrashLoopBackOff"

func isCrashing(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool {
		return s.State.Waiting != nil && s.State.Waiting.Reason == crashLoop
	})
}

func scheduledCondition(at time.Time) corev1.PodCondition {
	return corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Time{Time: at}}
}

// fixWorkload simulates the owner of an ailing workload, who fixes it.
func (u *user) fixWorkload(pick int) (acted bool) {
	var ailing []*controller
	for _, name := range sortedKeys(u.c.controllers) {
		if m := u.c.controllers[name]; m.crashes || m.slow > 0 || m.refused || m.homeless || m.stranded || m.pinned || m.rejected > 0 || m.flaps > 0 {
			ailing = append(ailing, m)
		}
	}
	if len(ailing) == 0 {
		return false
	}
	m := ailing[pick%len(ailing)]
	if m.homeless {
		u.c.repairDevices()
	}
	m.crashes, m.slow, m.refused, m.homeless, m.stranded, m.pinned, m.flaps, m.rejected = false, 0, false, false, false, false, 0, 0
	u.c.createMissingPods(m)
	for _, uid := range sortedKeys(u.c.pods) {
		if pod := u.c.pods[uid]; pod.Labels["app"] == m.Name && u.c.isOnNew(pod) && !isPodReady(pod) {
			u.c.after(m.Ready, func() { u.c.setPodReady(uid, !m.broken) })
		}
	}
	return true
}

// The words of the tally about the health of workloads.
const (
	behindService = "behind a Service"
	crashesThere  = "crashes on new nodes"
	slowThere     = "slow on new nodes"
	ignoresOne    = "unready pods ignored"
	noImplicit    = "no implicit budgets"
	holdsNodes    = "holds further nodes"
	fewAway       = "has pods that come up while others leave"
	notCreated    = "is not created"
	notTaken      = "no new node takes it"
	flapsThere    = "ready between crashes"
	partlyCreated = "is created in part"
	sickPods      = "is not created, and some pods were not ready before"
	fallingPods   = "pods are not ready for a moment"
	strandedPods  = "no node takes all but one"
	scaledDown    = "is scaled down and up again"
	refusedLater  = "is scaled up again, and is not created"
	pinnedPods    = "selects nodes of the first revision"
	rejectedPods  = "ends before it is ready"
	inOrder       = "is created in order"
	curedLater    = "crashes on nodes of one revision only"
	standsBy      = "is not ready on one node, like a standby"
	slowToEnd     = "takes minutes to end"
	crowdedRecord = "is one of many on record"
)

func healthWords() []string {
	return []string{behindService, crashesThere, slowThere, ignoresOne, noImplicit, holdsNodes, fewAway, notCreated, notTaken, flapsThere, partlyCreated, sickPods, fallingPods, strandedPods, pinnedPods, rejectedPods, scaledDown, refusedLater, inOrder, curedLater, standsBy, slowToEnd, crowdedRecord}
}

// countHealth counts the plan's workloads that are behind Services or do not come up.
func (t Tally) countHealth(p *Plan) {
	for name, has := range map[string]bool{
		behindService: p.hasWorkload((*Workload).isServed),
		crashesThere:  p.hasWorkload(func(w *Workload) bool { return w.Crashes }),
		slowThere:     p.hasWorkload(func(w *Workload) bool { return w.Slow > 0 }),
		notCreated:    p.hasWorkload(func(w *Workload) bool { return w.Refused }),
		notTaken:      p.hasWorkload(func(w *Workload) bool { return w.Homeless }),
		flapsThere:    p.hasWorkload(func(w *Workload) bool { return w.Flaps > 0 }),
		partlyCreated: p.hasWorkload(func(w *Workload) bool { return w.Spare > 0 }),
		sickPods:      p.hasWorkload(func(w *Workload) bool { return w.Sick > 0 && w.Refused }),
		curedLater:    p.hasWorkload(func(w *Workload) bool { return w.Cured }),
		standsBy:      p.hasWorkload(func(w *Workload) bool { return w.Sick > 0 && !w.Refused }),
		slowToEnd:     p.hasWorkload(func(w *Workload) bool { return w.Gone > 2*time.Minute }),
		fallingPods:   p.hasWorkload(func(w *Workload) bool { return w.Falls > 0 }),
		strandedPods:  p.hasWorkload(func(w *Workload) bool { return w.Stranded }),
		scaledDown:    p.hasWorkload(func(w *Workload) bool { return w.Up > 0 && !w.Shut }),
		refusedLater:  p.hasWorkload(func(w *Workload) bool { return w.Shut }),
		pinnedPods:    p.hasWorkload(func(w *Workload) bool { return w.Pinned }),
		rejectedPods:  p.hasWorkload(func(w *Workload) bool { return w.Rejected > 0 }),
		inOrder:       p.hasWorkload(func(w *Workload) bool { return w.Ordered }),
		ignoresOne:    len(p.Request.IgnoreUnready) > 0,
		noImplicit:    p.Request.NoImplicitBudgets,
	} {
		if has {
			t.count("health", name)
		}
	}
}
