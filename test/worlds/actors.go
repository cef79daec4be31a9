package worlds

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodemark"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/ledger"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// runActor carries out an actor's action, if the world has an object for the action.
func (u *user) runActor(a Actor) {
	if u.c.calm || u.done {
		return
	}
	act := u.actorActions()[a.Kind]
	if act(a.Pick) {
		u.rules.logf("%s", a.Kind)
		u.rules.tally.count("actor", string(a.Kind))
	}
}

// actorActions returns each actor's action. pick chooses the object. An action returns false if there is no object.
func (u *user) actorActions() map[ActorKind]func(pick int) bool {
	return map[ActorKind]func(int) bool{
		Kill:                  u.killProcess,
		KillMidStep:           u.killProcessMidStep,
		Interrupt:             func(int) bool { alive := !u.process.dead; u.interruptProcess(); return alive },
		Sleep:                 u.sleepProcess,
		SecondRun:             u.startSecondRun,
		Spot:                  u.terminateInstance,
		AdminTerminates:       u.terminateInstance,
		ScalerGrows:           u.growGroup,
		ScalerShrinks:         u.removeIdleNode,
		AdminCordons:          u.cordonNode,
		AdminUncordons:        u.uncordonNode,
		AdminTaints:           u.taintNode,
		AdminLabels:           u.labelNode,
		AdminDeletes:          u.deletePod,
		AdminStripsNode:       u.stripAnnotations,
		AdminRaisesMax:        u.raiseGroupMax,
		AdminResumes:          u.resumeSuspended,
		AdminProtects:         u.protectInstance,
		NodeSilent:            u.silenceNode,
		PodCrashes:            u.makePodUnready,
		OwnerFixes:            u.fixWorkload,
		OwnerDeploys:          u.changeDeployment,
		BudgetChanges:         u.changeBudget,
		TargetMoves:           u.changeTemplate,
		NamespaceEnds:         u.deleteNamespace,
		Pauses:                u.requestPause,
		Aborts:                func(int) bool { return u.requestUndo(record.VerbAbort) },
		OperationBegun:        u.beginOperation,
		RecordMachineChanged:  u.changeRecordedMachine,
		AnnotationOverwritten: u.overwriteBaseline,
		RecordRevisionChanged: u.changeRecordedRevision,
		EndsSoak:              u.requestSoakEnd,
		RollsBack:             func(int) bool { return u.requestUndo(record.VerbRollback) },
	}
}

func (u *user) killProcess(int) (acted bool) {
	if u.process.dead {
		return false
	}
	u.process.crash()
	return true
}

func (u *user) killProcessMidStep(pick int) (acted bool) {
	if u.process.dead {
		return false
	}
	u.process.killAfter = pick % 4
	return true
}

func (u *user) sleepProcess(pick int) (acted bool) {
	u.process.asleepUntil = u.c.now.Add(time.Duration(1+pick%90) * time.Minute)
	return !u.process.dead
}

// leaseDuration is how long the holder of the lease must be silent before another process may take it.
const leaseDuration = time.Minute

// The results of a second run.
const (
	secondRunRefused   = "is refused"
	secondRunTakesOver = "takes over"
	foreignRunRefused  = "under another name is refused"
)

// startSecondRun runs the same command on another machine with the same settings. The second run is refused while the first process
// renews its lease. After the lease has expired, the first process ends. Only its requests in flight still have an effect.
func (u *user) startSecondRun(int) (acted bool) {
	first := u.process
	if first.dead {
		return false
	}
	if first.asleepUntil.Sub(u.c.now) < leaseDuration {
		u.rules.tally.count("second run", secondRunRefused)
		return true
	}
	u.c.after(leaseDuration, func() {
		if first == u.process && !first.dead {
			u.rules.tally.count("second run", secondRunTakesOver)
			first.crash()
		}
	})
	return true
}

// terminateInstance terminates an instance, as a spot interruption or an admin does. The cloud replaces the instance, its kubelet
// stops reporting, and its pods end.
func (u *user) terminateInstance(pick int) (acted bool) {
	living := slices.DeleteFunc(u.c.cloud.liveInstances(), u.hasUnansweredTermination)
	if len(living) == 0 {
		return false
	}
	u.rules.noteLostNode()
	u.c.endInstance(living[pick%len(living)])
	u.c.reconcileSize()
	return true
}

// hasUnansweredTermination reports whether the upgrade's request to terminate the instance has no answer yet. Other actors do not terminate
// such an instance, because it would be unclear which request came first.
func (u *user) hasUnansweredTermination(i *instance) bool {
	for _, n := range u.stored.record.Nodes {
		if n.Instance == i.id && n.State == record.NodeRemoving && !n.Landed {
			return true
		}
	}
	return false
}

func (u *user) growGroup(int) (acted bool) {
	k := &u.c.cloud
	if !u.c.plan.hasSize() || k.desired >= k.max {
		return false
	}
	k.desired++
	u.rules.noteResize(+1)
	u.c.reconcileSize()
	return true
}

// removeIdleNode simulates cluster-autoscaler, which removes a node without pods. It removes only new nodes. If the upgrade keeps its
// target, it removes any node without the scale-down-disabled annotation.
func (u *user) removeIdleNode(pick int) (acted bool) {
	k := &u.c.cloud
	if p := u.stored.record.Phase; (p != record.PhaseUpgrade && p != record.PhaseScaleUp && p != record.PhaseSoak && p != record.PhaseDrainBlue && p != record.PhaseWait) || k.desired <= k.min {
		return false
	}
	var idle []*instance
	for _, i := range k.liveInstances() {
		name := u.c.nodeNameOf(i)
		fit := strings.HasPrefix(name, "new-")
		if u.c.plan.keepsTarget() {
			fit = name != "" && !hasScaleDownDisabled(u.c.nodes[name]) && !u.hasUnansweredTermination(i)
		}
		if fit && len(u.c.podsOn(name)) == 0 {
			idle = append(idle, i)
		}
	}
	if len(idle) == 0 {
		return false
	}
	k.desired--
	u.rules.noteResize(-1)
	u.rules.noteLostNode()
	u.c.endInstance(idle[pick%len(idle)])
	return true
}

// pickNode returns the name of one of the group's fit nodes, or "" if there is none.
func (u *user) pickNode(pick int, fit func(*corev1.Node) bool) string {
	names := slices.DeleteFunc(u.c.nodeNames(), func(name string) bool {
		node := u.c.nodes[name]
		return node.Labels[groupLabel] == "" || !fit(node)
	})
	if len(names) == 0 {
		return ""
	}
	return names[pick%len(names)]
}

func (u *user) changePickedNode(pick int, fit func(*corev1.Node) bool, by func(*corev1.Node)) bool {
	name := u.pickNode(pick, fit)
	if name != "" {
		u.rules.logf("it is done to node %s", name)
		u.c.changeNodeAsOther(name, by)
	}
	return name != ""
}

func (u *user) cordonNode(pick int) (acted bool) {
	cordoned := u.changePickedNode(pick, func(n *corev1.Node) bool {
		// On a fenced node, nothing distinguishes the user's cordon from the upgrade's own.
		return !n.Spec.Unschedulable && n.Annotations[nodemark.AnnotationRun] == ""
	}, func(n *corev1.Node) { n.Spec.Unschedulable = true })
	if cordoned {
		u.rules.noteLostNode()
	}
	return cordoned
}

func (u *user) uncordonNode(pick int) (acted bool) {
	return u.changePickedNode(pick, func(n *corev1.Node) bool { return n.Spec.Unschedulable }, func(n *corev1.Node) { n.Spec.Unschedulable = false })
}

func (u *user) taintNode(pick int) (acted bool) {
	return u.changePickedNode(pick, func(*corev1.Node) bool { return true }, func(n *corev1.Node) {
		n.Spec.Taints = append(slices.Clone(n.Spec.Taints), corev1.Taint{Key: "maintenance", Effect: corev1.TaintEffectNoSchedule})
	})
}

func (u *user) labelNode(pick int) (acted bool) {
	return u.changePickedNode(pick, func(*corev1.Node) bool { return true }, func(n *corev1.Node) { n.Labels["owner"] = "sre" })
}

// stripAnnotations removes annotations of this program from a node, also the annotation about the node's state before the upgrade.
func (u *user) stripAnnotations(pick int) (acted bool) {
	name := u.pickNode(pick, func(n *corev1.Node) bool { return n.Annotations[nodemark.AnnotationRun] != "" })
	if name == "" {
		return false
	}
	u.rules.stripped[name] = true
	u.c.changeNode(name, func(n *corev1.Node) {
		delete(n.Annotations, nodemark.AnnotationNodeBaseline)
		if pick%2 == 0 {
			delete(n.Annotations, nodemark.AnnotationRun)
		}
	})
	return true
}

func (u *user) deletePod(pick int) (acted bool) {
	pods := u.runningPods()
	if len(pods) == 0 {
		return false
	}
	u.c.deletePod(pods[pick%len(pods)])
	return true
}

func (u *user) runningPods() []types.UID {
	var uids []types.UID
	for uid, pod := range u.c.pods {
		if pod.DeletionTimestamp == nil && pod.Status.Phase == corev1.PodRunning {
			uids = append(uids, uid)
		}
	}
	slices.Sort(uids)
	return uids
}

// makePodUnready makes a pod unready for some minutes.
func (u *user) makePodUnready(pick int) (acted bool) {
	pods := u.runningPods()
	if len(pods) == 0 {
		return false
	}
	uid := pods[pick%len(pods)]
	u.c.setPodReady(uid, false)
	u.c.after(time.Duration(1+pick%30)*time.Minute, func() { u.c.setPodReady(uid, true) })
	return true
}

func (u *user) raiseGroupMax(pick int) (acted bool) {
	if !u.c.plan.hasSize() || u.isMaxRaisePending() {
		return false
	}
	u.c.cloud.max += 1 + pick%3
	u.rules.noteMaxChanged()
	return true
}

// isMaxRaisePending reports whether the upgrade has an open launch that also raises the maximum. The upgrade recognizes such a launch
// by the new maximum. Until it is answered, no other actor may raise the maximum.
func (u *user) isMaxRaisePending() bool {
	for _, z := range u.stored.record.Ledger.Books().Zones {
		if slices.ContainsFunc(z.Open, func(l ledger.Launch) bool { return l.Max > 0 }) {
			return true
		}
	}
	return false
}

func (u *user) resumeSuspended(int) (acted bool) {
	if len(u.c.cloud.suspended) == 0 {
		return false
	}
	u.c.cloud.suspended, u.rules.resumedByOthers = nil, true
	return true
}

// protectInstance protects an outdated instance against removal for some minutes.
func (u *user) protectInstance(pick int) (acted bool) {
	outdated := slices.DeleteFunc(u.c.cloud.liveInstances(), func(i *instance) bool { return i.revision == u.c.cloud.wanted || i.protected })
	if len(outdated) == 0 {
		return false
	}
	i := outdated[pick%len(outdated)]
	u.rules.logf("instance %s is protected", i.id)
	i.protected = true
	u.c.after(time.Duration(1+pick%30)*time.Minute, func() { i.protected = false })
	return true
}

func (u *user) silenceNode(pick int) (acted bool) {
	name := u.pickNode(pick, isNodeReady)
	if name == "" {
		return false
	}
	u.rules.zonesChanged = true
	u.c.setNodeReady(name, false)
	uid := u.c.nodes[name].UID
	u.c.fellSilent[uid] = true
	u.c.after(drain.LostAfter, func() {
		if node := u.c.nodes[name]; node != nil && node.UID == uid && isSilent(node, u.c.now) {
			u.rules.noteLostNode() // before this moment, the node may return at any time
		}
	})
	u.c.after(time.Duration(1+pick%20)*time.Minute, func() {
		if node := u.c.nodes[name]; node != nil {
			if i := u.c.instanceOf(node); !u.c.plan.listsMachines() || i != nil {
				u.c.setNodeReady(name, true)
			}
		}
	})
	return true
}

// changeBudget edits a budget; the disruption controller sees the change a while later.
func (u *user) changeBudget(pick int) (acted bool) {
	names := sortedKeys(u.c.budgets)
	if len(names) == 0 {
		return false
	}
	name := names[pick%len(names)]
	pdb := u.c.budgets[name].DeepCopy()
	value := intstr.FromInt(pick % 4)
	pdb.Spec.MinAvailable, pdb.Spec.MaxUnavailable = nil, &value
	pdb.Generation++
	u.c.putBudget(pdb)
	u.c.after(u.c.drawUpTo(time.Minute), func() { u.c.syncBudget(name) })
	return true
}

// changeTemplate gives the group's template a newer revision. A manual group has no template.
func (u *user) changeTemplate(int) (acted bool) {
	if !u.c.plan.listsMachines() {
		return false
	}
	u.c.cloud.moves++
	u.c.cloud.wanted = strconv.Itoa(2 + u.c.cloud.moves)
	if !u.c.plan.Repoint && !u.c.plan.keepsTarget() { // an upgrade that does not keep its target points the group at the new revision
		u.c.cloud.pointed, u.rules.ownerRevision = u.c.cloud.wanted, u.c.cloud.wanted
	}
	return true
}

// addSecondTargetMove changes the target a second time, in some worlds in which it changes. It draws from its own generator.
func addSecondTargetMove(p *Plan) {
	d := dice{rand.New(rand.NewPCG(p.Seed, 0x6d6f7665))}
	i := slices.IndexFunc(p.Actors, func(a Actor) bool { return a.Kind == TargetMoves })
	if i < 0 || p.isDelegated() || !d.chance(70) {
		return
	}
	p.Actors = append(p.Actors, Actor{Kind: TargetMoves, At: p.Actors[i].At + d.between(5*time.Second, pick(d, 10*time.Minute, 45*time.Minute, 45*time.Minute))})
}

// deleteNamespace deletes the namespace of all pods, which takes a while.
func (u *user) deleteNamespace(int) (acted bool) {
	u.c.namespaceEnding = true
	for _, uid := range sortedKeys(u.c.pods) {
		u.c.after(u.c.drawUpTo(10*time.Minute), func() { u.c.deletePod(uid) })
	}
	u.process.scheduleTurn()
	return true
}

// removeObstacles removes every obstacle of the world. After that, the upgrade must be able to finish.
func (u *user) removeObstacles() {
	c := u.c
	c.calm, c.namespaceEnding = true, false
	u.rules.logf("the world is calm")
	c.addOutsideNode("relief")
	c.openNodesOf(c.plan.wantedRevision(&u.stored.record, c.cloud.wanted))
	c.repairDevices()
	for _, name := range sortedKeys(c.controllers) {
		m := c.controllers[name]
		tolerant := m.tolerant
		m.broken, m.undead, m.tolerant, m.crashes, m.slow = false, false, false, false, 0
		m.refused, m.homeless, m.stranded, m.pinned, m.flaps, m.rejected = false, false, false, false, 0, 0
		if m.role == Completes || m.role == Protected {
			m.role = ""
		}
		if m.deployment != nil && m.deployment.rollout == Halted {
			m.deployment.rollout = Surges
		}
		for _, uid := range sortedKeys(c.pods) {
			pod := c.pods[uid]
			switch {
			case pod.Labels["app"] != name:
			case tolerant && m.Kind != DaemonSet, m.Kind == Bare:
				c.deletePod(uid)
			case isAwaited(pod), isProtected(pod):
				c.removePodMarks(pod)
				fallthrough
			case pod.Spec.NodeName != "":
				c.setPodReady(uid, true)
			}
		}
		c.createMissingPods(m)
	}
	for _, name := range sortedKeys(c.budgets) {
		c.deleteBudget(name)
	}
	for _, i := range c.cloud.liveInstances() {
		i.protected = false
		if i.unhealthy {
			c.endInstance(i)
			u.rules.noteLostNode()
		}
	}
	request := &c.plan.Request
	if room := request.Surge + request.MaxUnavailable; request.KeepMax && c.cloud.max < c.cloud.desired+room {
		c.cloud.max = c.cloud.desired + room // an autoscaler took the room for the surge and the replacements
		u.rules.noteMaxChanged()
	}
	for _, name := range sortedKeys(c.nodes) {
		if node := c.nodes[name]; c.plan.listsMachines() && node.Labels[groupLabel] != "" && c.instanceOf(node) == nil {
			c.deleteNode(name) // the machine is gone, and its Node object was left
		} else {
			c.followExclusion(node)
		}
	}
	c.reconcileSize()
	u.process.scheduleTurn()
}
