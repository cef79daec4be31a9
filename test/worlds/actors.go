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

// interfere carries out an actor's one action, if the world has an object for it.
func (u *user) interfere(a Actor) {
	if u.c.calm || u.done {
		return
	}
	act := u.actions()[a.Kind]
	if act(a.Pick) {
		u.rules.say("%s", a.Kind)
		u.rules.tally.met("actor", string(a.Kind))
	}
}

// actions returns each actor's action. pick chooses the object. An action returns false if there is no object.
func (u *user) actions() map[ActorKind]func(pick int) bool {
	return map[ActorKind]func(int) bool{
		Kill:            u.kill,
		KillMidStep:     u.killMidStep,
		Interrupt:       func(int) bool { alive := !u.process.dead; u.interrupt(); return alive },
		Sleep:           u.sleep,
		SecondRun:       u.takeOver,
		Spot:            u.spot,
		AdminTerminates: u.spot,
		ScalerGrows:     u.grow,
		ScalerShrinks:   u.shrink,
		AdminCordons:    u.cordon,
		AdminUncordons:  u.uncordon,
		AdminTaints:     u.taint,
		AdminLabels:     u.label,
		AdminDeletes:    u.deletePod,
		AdminStripsNode: u.strip,
		AdminRaisesMax:  u.raiseMax,
		AdminResumes:    u.resume,
		AdminProtects:   u.protect,
		NodeSilent:      u.silence,
		PodCrashes:      u.crash,
		OwnerMends:      u.mend,
		OwnerDeploys:    u.redeploy,
		BudgetChanges:   u.changeBudget,
		TargetMoves:     u.moveTarget,
		NamespaceEnds:   u.endNamespace,
		Pauses:          u.pause,
		Aborts:          func(int) bool { return u.undo(record.VerbAbort) },
		OperationBegun:  u.begins,
		RecordAimed:     u.aim,
		Scribbles:       u.scribble,
		RecordPointed:   u.pointRecord,
		EndsSoak:        u.endSoak,
		RollsBack:       func(int) bool { return u.undo(record.VerbRollback) },
	}
}

func (u *user) kill(int) bool {
	if u.process.dead {
		return false
	}
	u.process.die()
	return true
}

func (u *user) killMidStep(pick int) bool {
	if u.process.dead {
		return false
	}
	u.process.killAfter = pick % 4
	return true
}

func (u *user) sleep(pick int) bool {
	u.process.until = u.c.now.Add(time.Duration(1+pick%90) * time.Minute)
	return !u.process.dead
}

// lease is how long the holder of the lease must be silent before another process may take it.
const lease = time.Minute

// The results of a second run.
const (
	refused   = "is refused"
	takesOver = "takes over"
	foreign   = "under another name is refused"
)

// takeOver runs the same command on another machine with the same settings. It is refused while the first process renews its lease.
// Once the lease has expired the first process has lost it. Only its requests that were already under way then still have an effect.
func (u *user) takeOver(int) bool {
	first := u.process
	if first.dead {
		return false
	}
	if first.until.Sub(u.c.now) < lease {
		u.rules.tally.met("second run", refused)
		return true
	}
	u.c.after(lease, func() {
		if first == u.process && !first.dead {
			u.rules.tally.met("second run", takesOver)
			first.die()
		}
	})
	return true
}

// spot takes an instance away: the cloud replaces it, its node falls silent, and its pods are gone.
func (u *user) spot(pick int) bool {
	living := slices.DeleteFunc(u.c.cloud.living(), u.doomed)
	if len(living) == 0 {
		return false
	}
	u.rules.lost()
	u.c.leave(living[pick%len(living)])
	u.c.fill()
	return true
}

// doomed reports whether the upgrade asked to terminate the instance and has no answer yet. Nobody could tell which request was first
// then.
func (u *user) doomed(i *instance) bool {
	for _, n := range u.stored.record.Nodes {
		if n.Instance == i.id && n.State == record.NodeRemoving && !n.Landed {
			return true
		}
	}
	return false
}

func (u *user) grow(int) bool {
	k := &u.c.cloud
	if !u.c.plan.sized() || k.desired >= k.max {
		return false
	}
	k.desired++
	u.rules.grown(+1)
	u.c.fill()
	return true
}

// shrink acts as cluster-autoscaler, which removes a node without pods. It removes only new nodes, or where the upgrade keeps its
// target, any node that it is not kept from.
func (u *user) shrink(pick int) bool {
	k := &u.c.cloud
	if p := u.stored.record.Phase; (p != record.PhaseUpgrade && p != record.PhaseScaleUp && p != record.PhaseSoak && p != record.PhaseDrainBlue && p != record.PhaseWait) || k.desired <= k.min {
		return false
	}
	var idle []*instance
	for _, i := range k.living() {
		name := u.c.nodeOf(i)
		fit := strings.HasPrefix(name, "new-")
		if u.c.plan.pins() {
			fit = name != "" && !keptFromScaler(u.c.nodes[name]) && !u.doomed(i)
		}
		if fit && len(u.c.on(name)) == 0 {
			idle = append(idle, i)
		}
	}
	if len(idle) == 0 {
		return false
	}
	k.desired--
	u.rules.grown(-1)
	u.rules.lost()
	u.c.leave(idle[pick%len(idle)])
	return true
}

// one returns the name of one of the group's nodes that are fit, or "".
func (u *user) one(pick int, fit func(*corev1.Node) bool) string {
	names := slices.DeleteFunc(u.c.nodeNames(), func(name string) bool {
		node := u.c.nodes[name]
		return node.Labels[groupLabel] == "" || !fit(node)
	})
	if len(names) == 0 {
		return ""
	}
	return names[pick%len(names)]
}

func (u *user) change(pick int, fit func(*corev1.Node) bool, by func(*corev1.Node)) bool {
	name := u.one(pick, fit)
	if name != "" {
		u.rules.say("it is done to node %s", name)
		u.c.othersChange(name, by)
	}
	return name != ""
}

func (u *user) cordon(pick int) bool {
	cordoned := u.change(pick, func(n *corev1.Node) bool {
		// A cordon by another actor on a fenced node cannot be told from the upgrade's own.
		return !n.Spec.Unschedulable && n.Annotations[nodemark.AnnotationRun] == ""
	}, func(n *corev1.Node) { n.Spec.Unschedulable = true })
	if cordoned {
		u.rules.lost()
	}
	return cordoned
}

func (u *user) uncordon(pick int) bool {
	return u.change(pick, func(n *corev1.Node) bool { return n.Spec.Unschedulable }, func(n *corev1.Node) { n.Spec.Unschedulable = false })
}

func (u *user) taint(pick int) bool {
	return u.change(pick, func(*corev1.Node) bool { return true }, func(n *corev1.Node) {
		n.Spec.Taints = append(slices.Clone(n.Spec.Taints), corev1.Taint{Key: "maintenance", Effect: corev1.TaintEffectNoSchedule})
	})
}

func (u *user) label(pick int) bool {
	return u.change(pick, func(*corev1.Node) bool { return true }, func(n *corev1.Node) { n.Labels["owner"] = "sre" })
}

// strip removes annotations of this program from a node, and with them the record of what the node was like before.
func (u *user) strip(pick int) bool {
	name := u.one(pick, func(n *corev1.Node) bool { return n.Annotations[nodemark.AnnotationRun] != "" })
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

func (u *user) deletePod(pick int) bool {
	pods := u.livePods()
	if len(pods) == 0 {
		return false
	}
	u.c.delete(pods[pick%len(pods)])
	return true
}

func (u *user) livePods() []types.UID {
	var uids []types.UID
	for uid, pod := range u.c.pods {
		if pod.DeletionTimestamp == nil && pod.Status.Phase == corev1.PodRunning {
			uids = append(uids, uid)
		}
	}
	slices.Sort(uids)
	return uids
}

// crash makes a pod unready for some minutes.
func (u *user) crash(pick int) bool {
	pods := u.livePods()
	if len(pods) == 0 {
		return false
	}
	uid := pods[pick%len(pods)]
	u.c.turn(uid, false)
	u.c.after(time.Duration(1+pick%30)*time.Minute, func() { u.c.turn(uid, true) })
	return true
}

func (u *user) raiseMax(pick int) bool {
	if !u.c.plan.sized() || u.raising() {
		return false
	}
	u.c.cloud.max += 1 + pick%3
	u.rules.remaxed()
	return true
}

// raising reports whether a launch is under way whose effect the maximum will prove. A raise by another actor would be false proof.
func (u *user) raising() bool {
	for _, z := range u.stored.record.Ledger.Books().Zones {
		if slices.ContainsFunc(z.Open, func(l ledger.Launch) bool { return l.Max > 0 }) {
			return true
		}
	}
	return false
}

func (u *user) resume(int) bool {
	if len(u.c.cloud.suspended) == 0 {
		return false
	}
	u.c.cloud.suspended, u.rules.resumed = nil, true
	return true
}

// protect protects an outdated instance against removal for some minutes.
func (u *user) protect(pick int) bool {
	outdated := slices.DeleteFunc(u.c.cloud.living(), func(i *instance) bool { return i.revision == u.c.cloud.wanted || i.protected })
	if len(outdated) == 0 {
		return false
	}
	i := outdated[pick%len(outdated)]
	u.rules.say("instance %s is protected", i.id)
	i.protected = true
	u.c.after(time.Duration(1+pick%30)*time.Minute, func() { i.protected = false })
	return true
}

func (u *user) silence(pick int) bool {
	name := u.one(pick, isReady)
	if name == "" {
		return false
	}
	u.rules.rearranged = true
	u.c.setReady(name, false)
	uid := u.c.nodes[name].UID
	u.c.fellSilent[uid] = true
	u.c.after(drain.LostAfter, func() {
		if node := u.c.nodes[name]; node != nil && node.UID == uid && silent(node, u.c.now) {
			u.rules.lost() // until then the node may return at any time
		}
	})
	u.c.after(time.Duration(1+pick%20)*time.Minute, func() {
		if node := u.c.nodes[name]; node != nil {
			if i := u.c.instanceOf(node); !u.c.plan.listed() || i != nil {
				u.c.setReady(name, true)
			}
		}
	})
	return true
}

// changeBudget edits a budget; the disruption controller sees it a while later.
func (u *user) changeBudget(pick int) bool {
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
	u.c.after(u.c.draw(time.Minute), func() { u.c.sync(name) })
	return true
}

// moveTarget changes the group's template, to a newer revision each time. A manual group has no template: the labels of its current
// nodes are the user's own.
func (u *user) moveTarget(int) bool {
	if !u.c.plan.listed() {
		return false
	}
	u.c.cloud.moves++
	u.c.cloud.wanted = strconv.Itoa(2 + u.c.cloud.moves)
	if !u.c.plan.Repoint && !u.c.plan.pins() { // otherwise the upgrade points the group
		u.c.cloud.pointed, u.rules.pointed = u.c.cloud.wanted, u.c.cloud.wanted
	}
	return true
}

// moveAgain moves the target once more in some worlds in which it moves. It draws from its own generator.
func moveAgain(p *Plan) {
	d := dice{rand.New(rand.NewPCG(p.Seed, 0x6d6f7665))}
	i := slices.IndexFunc(p.Actors, func(a Actor) bool { return a.Kind == TargetMoves })
	if i < 0 || p.delegated() || !d.chance(70) {
		return
	}
	p.Actors = append(p.Actors, Actor{Kind: TargetMoves, At: p.Actors[i].At + d.between(5*time.Second, pick(d, 10*time.Minute, 45*time.Minute, 45*time.Minute))})
}

// endNamespace deletes the namespace of all pods, which takes a while.
func (u *user) endNamespace(int) bool {
	u.c.ending = true
	for _, uid := range sortedKeys(u.c.pods) {
		u.c.after(u.c.draw(10*time.Minute), func() { u.c.delete(uid) })
	}
	u.process.look()
	return true
}

// calm removes every obstacle, as patient owners would.
func (u *user) calm() {
	c := u.c
	c.calm, c.ending = true, false
	u.rules.say("the world is calm")
	c.addOutside("relief")
	c.openNodes(c.plan.wantedBy(&u.stored.record, c.cloud.wanted))
	for _, name := range sortedKeys(c.makers) {
		m := c.makers[name]
		tolerant := m.tolerant
		m.broken, m.undead, m.tolerant, m.crashes, m.slow = false, false, false, false, 0
		m.refused, m.homeless, m.stranded, m.flaps, m.rejected = false, false, false, 0, 0
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
				c.delete(uid)
			case awaited(pod), protected(pod):
				c.unmark(pod)
				fallthrough
			case pod.Spec.NodeName != "":
				c.turn(uid, true)
			}
		}
		c.make(m)
	}
	for _, name := range sortedKeys(c.budgets) {
		c.dropBudget(name)
	}
	for _, i := range c.cloud.living() {
		i.protected = false
		if i.unhealthy {
			c.leave(i)
			u.rules.lost()
		}
	}
	request := &c.plan.Request
	if room := request.Surge + request.MaxUnavailable; request.KeepMax && c.cloud.max < c.cloud.desired+room {
		c.cloud.max = c.cloud.desired + room // an autoscaler took the room for the surge and the replacements
		u.rules.remaxed()
	}
	for _, name := range sortedKeys(c.nodes) {
		if node := c.nodes[name]; c.plan.listed() && node.Labels[groupLabel] != "" && c.instanceOf(node) == nil {
			c.dropNode(name) // a stuck controller catches up
		} else {
			c.excludeNode(node)
		}
	}
	c.fill()
	u.process.look()
}
