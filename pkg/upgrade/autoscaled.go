package upgrade

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// PhaseWait is the phase of the autoscaled blue-green strategy between the fence and the drain.
const PhaseWait Phase = "wait"

const (
	// mostDrainedAtOnce is how many nodes are drained at once, mostBudgetTime how long budgets are
	// kept on one of them, and mostDrainGrace the longest grace of its pods (GKE G75).
	mostDrainedAtOnce = 20
	mostBudgetTime    = time.Hour
	mostDrainGrace    = 24 * time.Hour
	// defaultWait is how long outdated nodes are left before they are drained (GKE G71).
	defaultWait = 3 * 24 * time.Hour
)

// autoscaled carries out the phases of the strategy of that name.
type autoscaled struct{ *draft }

// autoscaledStrategy is GKE's autoscaled blue-green upgrade inside one group: no node is added, an
// autoscaler brings new ones up for pods that wait (GKE G70). It has no soak (GKE G76) and no way
// back (GKE G78).
func autoscaledStrategy() strategy {
	verbs := []Verb{VerbPause, VerbAbort}
	return strategy{
		begin: func(*draft) {},
		fits:  fitsAutoscaled,
		phases: []phase{
			{
				name: PhaseSetup, untouched: true, quiet: true, waitsFor: "room for new nodes", verbs: verbs,
				run: func(d *draft) bool { return surge{d}.setUpGroup() && autoscaled{d}.makeRoom() },
			},
			{
				name: PhaseCordonBlue, stays: true, quiet: true, watched: true, waitsFor: "the fence", verbs: verbs,
				run: func(d *draft) bool { return blueGreen{d}.cordonBlue() },
			},
			{
				name: PhaseWait, stays: true, quiet: true, watched: true, looksIn: true, waitsFor: "the wait before the drain", waitsUntil: "it waits with the drain", verbs: verbs,
				run: func(d *draft) bool { return autoscaled{d}.awaitDrain() }, emptied: terminateNode,
			},
			{
				name: PhaseDrainBlue, stays: true, quiet: true, watched: true, held: outdatedHeld, mostGrace: mostDrainGrace, capsLeaving: true, verbs: verbs, // GKE G81
				run: func(d *draft) bool { return autoscaled{d}.drainBlue() }, emptied: terminateNode, late: giveUpNode,
			},
			{
				name: PhaseDeleteBlue, stays: true, watched: true, held: outdatedHeld, mostGrace: mostDrainGrace, capsLeaving: true, verbs: []Verb{VerbAbort},
				run: func(d *draft) bool { return autoscaled{d}.deleteBlue() }, emptied: terminateNode, late: giveUpNode,
			},
			{
				name: PhaseScaleDown, givesBack: true, verbs: []Verb{VerbAbort},
				run: func(d *draft) bool { return surge{d}.scaleDownGroup() },
			},
		},
		stop: func(d *draft) { blueGreen{d}.bringToRest() },
		undo: func(d *draft) { stopping{d}.undoUpgrade() },
	}
}

// fitsAutoscaled returns an error where no autoscaler is known to serve the group (GKE G80), or has
// no room for new nodes.
func fitsAutoscaled(group *nodegroup.Group, r *Request, outdated int) error {
	room := group.Max - group.Desired
	switch {
	case !group.Sized:
		return fmt.Errorf("--strategy=%s: provider %s has no size that an autoscaler could change: use %s", AutoscaledBlueGreen, group.Provider, Surge)
	case !group.Autoscaler.Serves:
		return fmt.Errorf("--strategy=%s: nothing shows that an autoscaler serves group %q: %s: put that right, or use %s",
			AutoscaledBlueGreen, group.Name, cmp.Or(group.Autoscaler.Missing, "none is known"), BlueGreen)
	case r.KeepMax && room < outdated:
		return fmt.Errorf("--keep-max: group %q has room for %d new nodes and may need %d, one for each outdated one: leave --keep-max out", group.Name, max(0, room), outdated)
	}
	return nil
}

// makeRoom makes room for one new node for each outdated one, which the autoscaler may use (GKE
// G77).
func (d autoscaled) makeRoom() bool {
	return d.applyDecision(d.bookKeeper().MakeRoom(rebuild{d.draft}.countOutdated()))
}

// awaitDrain leaves the outdated nodes to their pods for a time that begins with the fence (GKE
// G71, G82). What carries nothing is removed meanwhile, and when none is left the wait is over (GKE
// G72, G74).
func (d autoscaled) awaitDrain() bool {
	d.countReplaced()
	d.fencing = !marks{d.draft}.fenceOutdatedNodes()
	if d.rec.Stopping != "" || !(surge{d.draft}).setRevision() || !d.suspendProcesses() || !d.makeRoom() {
		return false
	}
	soak := soaking{d.draft}
	over := soak.isOver(d.rec.Request.WaitForDrain.Duration)
	if !over {
		marks{d.draft}.releaseHeldNodes() // autoscalers may remove outdated nodes, too
		d.removeIdleNodes()
	}
	switch {
	case d.fencing:
	case over || d.isBlueGone():
		soak.endSoak()
		return true
	case d.pausing && d.noneRemoving():
		soak.pauseSoak()
	}
	return false
}

// removeIdleNodes removes outdated nodes that carry nothing, while the group may shrink: its
// minimum is kept, other than by GKE (G73). One that was begun with and is no longer idle is left.
func (d autoscaled) removeIdleNodes() {
	for _, name := range d.rec.startedNames() {
		n, m := d.rec.Nodes[name], d.count.byName[name]
		if isInDrain(n.State) && m != nil && (d.pausing || !d.isIdle(m)) {
			d.leaveNode(name, m)
			continue
		}
		lifecycle{d.draft}.advanceNode(name)
	}
	for _, m := range slices.Clone(d.count.pending) {
		if d.rec.Stopping == "" && !d.pausing && d.rec.countInFlight() < mostDrainedAtOnce && d.isIdle(m) {
			window{d.draft}.recordStart(m)
			lifecycle{d.draft}.advanceNode(m.Name())
		}
	}
}

// leaveNode forgets that a node was begun with. It is still to be replaced, unless another actor
// ends its machine.
func (d autoscaled) leaveNode(name string, m *nodegroup.Member) {
	delete(d.rec.Nodes, name)
	if m.Instance.State != nodegroup.InstanceLeaving {
		d.count.pending = append(d.count.pending, m)
	}
}

// isIdle reports whether an outdated node may be removed without a drain: nothing on it has to
// leave, no pod of it asks autoscalers to leave it (GKE G72), and the group is not at its minimum.
func (d autoscaled) isIdle(m *nodegroup.Member) bool {
	if m.Node == nil || m.Instance.State != nodegroup.InstanceInService || !d.isFencedByRun(m) || d.classifyPodsOf(m).countPodsLeft() > 0 {
		return false
	}
	return d.bookKeeper().CanShrinkGroup() && !slices.ContainsFunc(m.Pods, func(pod *corev1.Pod) bool { return drain.Protection(pod) != "" })
}

// drainBlue drains what is left of the outdated nodes, and removes each when it is empty. Pods that
// are left when its time is over are deleted (GKE G75).
func (d autoscaled) drainBlue() bool {
	d.countReplaced()
	if !(surge{d.draft}).setRevision() || !d.suspendProcesses() || !d.makeRoom() {
		return false
	}
	surge{d.draft}.continueDrains()
	switch {
	case d.rec.Stopping != "" || d.fencing:
		return false
	case d.pausing:
		surge{d.draft}.pauseWhenIdle()
	default:
		d.startDrains()
	}
	return d.rec.Stopping == "" && len(d.count.pending) == 0 && d.rec.noneInState(NodeDraining, NodeForcing, NodeEmpty)
}

// startDrains starts nodes while fewer than allowed are in flight.
func (d autoscaled) startDrains() {
	for d.rec.countInFlight() < d.rec.Request.Window {
		m := scheduling{d.draft}.chooseNextNode()
		if m == nil || d.awaitRoomFor(m) {
			return
		}
		window{d.draft}.startNode(m)
	}
}

// deleteBlue sees the outdated nodes through to their end, those that joined late too.
func (d autoscaled) deleteBlue() bool {
	if d.plan == nil && !d.drainBlue() { // else the drain was over in this step
		return false
	}
	return d.isBlueGone()
}

// isBlueGone reports whether no outdated node is left. New ones are the autoscaler's affair: pods
// may wait for them (GKE G79).
func (d autoscaled) isBlueGone() bool {
	return len(d.count.pending) == 0 && d.rec.noneInState(NodeDraining, NodeForcing, NodeEmpty) && d.noneRemoving() && (canary{d.draft}).areWorkloadsWhole()
}

// countReplaced counts the outdated nodes that autoscalers removed as replaced, too.
func (d autoscaled) countReplaced() {
	started := countNodes(&d.rec, func(n NodeRecord) bool { return n.State != NodeDrained })
	d.rec.Replaced = max(d.rec.Replaced, d.rec.Total-len(d.count.pending)-started)
}
