package upgrade

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/shell"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/ledger"
)

// surge carries out the phases of the strategy of the same name.
type surge struct{ *draft }

// surgeStrategy is that of EKS managed node groups and of GKE's surge upgrades: add nodes, fence
// the outdated ones, replace them in a moving window, give the surplus back (EKS E01, GKE G10).
func surgeStrategy() strategy {
	verbs := []Verb{VerbPause, VerbRollback, VerbAbort}
	return strategy{
		begin: func(d *draft) { surge{d}.beginSurge() },
		phases: []phase{
			{
				name: PhaseSetup, untouched: true, waitsFor: "the surge", verbs: verbs,
				run: func(d *draft) bool { return surge{d}.setUpGroup() },
			},
			{
				name: PhaseScaleUp, untouched: true, watched: true, held: newHeld, waitsFor: "the surge", verbs: verbs,
				run: func(d *draft) bool { return surge{d}.scaleUpGroup() },
			},
			{
				name: PhaseUpgrade, watched: true, held: newHeld, verbs: verbs,
				run: func(d *draft) bool { return surge{d}.replaceNodes() }, emptied: terminateNode, late: giveUpNode,
			},
			{
				name: PhaseScaleDown, givesBack: true, verbs: verbs,
				run: func(d *draft) bool { return surge{d}.scaleDownGroup() },
			},
		},
		stop: func(d *draft) { stopping{d}.bringToRest() },
		undo: func(d *draft) { stopping{d}.undoUpgrade() },
	}
}

// beginSurge deals the surge out to the zones.
func (d surge) beginSurge() {
	d.rec.Ledger.DealSurge(d.w.Request.Surge, d.count.Left)
}

// setUpGroup points the group at the wanted revision and suspends what would fight the upgrade
// (EKS E02, E03; S4).
func (d surge) setUpGroup() bool {
	if !(rebuild{d.draft}).rebuildLedger() {
		return false
	}
	reclaimed := !d.rec.Back || rollback{d.draft}.keepCurrentNodes()
	if !d.setRevision() || !d.suspendProcesses() || !reclaimed {
		return false
	}
	return !d.rec.Back || rollback{d.draft}.carryOverSurge()
}

// setRevision has the group launch the revision wanted. Until it does, every node that comes up
// would be outdated in its turn and be replaced without end: after --replan to another target, or
// when another actor pointed the group elsewhere.
func (d surge) setRevision() bool {
	wanted := d.w.Group.Wanted
	if wanted.ID == d.w.Group.Pointed.ID {
		return true
	}
	d.waitForCloud("the group to take revision " + wanted.Name)
	if !d.rec.hasSet(d.w.Group.Pointed.ID) {
		d.rec.originallyPointed(d.w.Group.Pointed) // its owner may have pointed it there meanwhile
	}
	if !slices.Contains(d.rec.SetTo, wanted.ID) {
		d.rec.SetTo = append(slices.Clone(d.rec.SetTo), wanted.ID)
	}
	d.addAction(nodegroup.SetRevision{To: wanted, Token: ledger.Token(d.rec.Run, "revision-"+wanted.ID, 1)})
	return false
}

// scaleUpGroup adds the surge, waits until all of it is usable, and only then fences the outdated
// nodes (EKS E20–E31).
func (d surge) scaleUpGroup() bool {
	return d.addSurge() && marks{d.draft}.fenceOutdatedNodes()
}

// addSurge adds the surge, and reports whether all of it is usable.
func (d surge) addSurge() bool {
	turns{d.draft}.passTurn()
	if !d.setRevision() || !d.suspendProcesses() || !(surplus{d.draft}).keepSurvivingSurge() || !d.applyDecision(d.bookKeeper().RaiseMaximum()) {
		return false
	}
	d.applyDecision(d.bookKeeper().KeepSurgeLaunched())
	surge := d.rec.Ledger.SurgeWanted(d.count.Left)
	if surge > 0 && !d.bookKeeper().IsSurgeUsable(surge) && !d.isSurgeLaunched(surge) {
		d.waitForCloud(fmt.Sprintf("%d of %d new nodes to be ready", max(0, surge-d.count.Usable), surge) + d.describeShortage())
		since := d.rec.lastChange()
		deadline := since.Add(d.rec.Request.BootTimeout.Duration)
		if d.rec.Ledger.OpenLaunches() > 0 && d.count.Usable >= surge {
			deadline = deadline.Add(d.rec.Request.BootTimeout.Duration) // all is there but an answer, which who took over asks for again
		}
		if d.w.isDeadlinePassed(deadline) {
			d.stopUpgradeWith(NodeCreationFailure, window{d.draft}.describeBootFailure(surge, since))
		}
		d.requeueAt(deadline)
		return false
	}
	return true
}

// isSurgeLaunched reports whether all new nodes are there and need not be waited for until they are
// usable.
func (d surge) isSurgeLaunched(surge int) bool {
	return turns{d.draft}.launchesAhead() && d.rec.Ledger.OpenLaunches() == 0 && d.count.Fresh >= surge
}

// replaceNodes drives the nodes that were started and starts more, until no outdated node is left
// but the quarantined.
func (d surge) replaceNodes() bool {
	if !d.setRevision() {
		return false
	}
	d.continueDrains()
	if d.rec.Stopping == "" {
		turns{d.draft}.passTurn()
		d.applyDecision(d.bookKeeper().KeepSurgeLaunched())
		window{d.draft}.startMoreNodes()
		d.pauseWhenIdle()
	}
	if d.rec.Stopping != "" || (!d.fencing && d.isReplaced()) {
		return d.rec.Stopping == ""
	}
	d.suspendProcesses() // they may have been resumed meanwhile, by a stop of ours or by another actor
	return false
}

// continueDrains fences the outdated nodes, makes the next step with each that was started and
// plans which pods are evicted.
func (d surge) continueDrains() {
	d.fencing = !marks{d.draft}.fenceOutdatedNodes()
	for _, name := range d.rec.startedNames() {
		if d.rec.Stopping == "" {
			lifecycle{d.draft}.advanceNode(name)
		}
	}
	d.plan = scheduling{d.draft}.makePlan("")
}

// isReplaced reports whether no outdated node is left but the quarantined, whether what the
// terminations took from the group was launched again, and whether that is usable: an upgrade ends
// with as many nodes that take pods as it began with, as scale up does (EKS E26, E27; GKE G16). The
// workloads whose pods left nodes must have their ready pods again, too. A group without a cloud gets
// nodes from its owner, who is waited for where that was asked for.
func (d surge) isReplaced() bool {
	if len(d.count.pending) > 0 || !d.rec.noneInState(NodeDraining, NodeForcing, NodeEmpty, NodeParked) || !d.noneRemoving() {
		return false
	}
	if d.rec.Ledger.PendingLaunches() == 0 && d.countUnavailable() <= 0 {
		whole, ready := canary{d.draft}.areWorkloadsWhole(), daemons{d.draft}.areReady()
		return whole && ready
	}
	window{d.draft}.waitForReplacement()
	return false
}

// scaleDownGroup takes back the raise of the maximum, last of all, lets suspended processes run
// again, and leaves the nodes to autoscalers (EKS E60, E61).
func (d surge) scaleDownGroup() bool {
	freed := marks{d.draft}.releaseHeldNodes()
	return d.lowerMaximum() && d.resumeProcesses() && freed && !d.renewing
}

// concludeUpgrade ends an upgrade that reached its goal, unless a workload lacks pods again.
func (d surge) concludeUpgrade() {
	if !(canary{d.draft}).areWorkloadsWhole() {
		if d.w.Group.Sized && (d.rec.Ledger.PendingLaunches() > 0 || d.countUnavailable() > 0) {
			window{d.draft}.waitForReplacement() // a node that was lost meanwhile may be what they need
		}
		return
	}
	d.rec.Result = Succeeded
	if !d.rec.noneInState(NodeQuarantined) {
		d.rec.Result = LeftBehind
	}
	d.rec.Message = joinNotes(describeRollback(&d.rec), d.rec.Ledger.DescribeSurplus(d.w.Group.Desired-d.rec.Sizes.Desired), d.rec.Ledger.DescribeMaximum(d.w.Group.Desired), d.describeSuspended(), d.describeOrphans(), d.describeReturned(), d.describeVanished(), d.describeOverdue(), DescribeStandby(d.w.Members))
	d.rec.Ended, d.finished = d.w.Now, true
}

// describeOrphans names the nodes that were drained and have no machine that could be terminated:
// nothing but a person takes them away.
func (d surge) describeOrphans() string {
	if !d.w.Group.Sized {
		return "" // all of its nodes are such nodes, and somebody brings the machines
	}
	var orphans []string
	for _, name := range slices.Sorted(maps.Keys(d.rec.Nodes)) {
		if m := d.count.byName[name]; d.rec.Nodes[name].State == NodeDrained && m != nil && m.Node != nil {
			orphans = append(orphans, name)
		}
	}
	if len(orphans) == 0 {
		return ""
	}
	return "drained nodes that have no machine any more are still there: " + shell.Command("kubectl delete", append([]string{"node"}, orphans...)...)
}

// describeReturned names the pods that are on drained nodes again, "" for none: they tolerate the fence, and
// go with the machines.
func (d surge) describeReturned() string {
	var pods []*corev1.Pod
	for _, name := range d.rec.startedNames() {
		if m := d.count.byName[name]; m != nil && d.rec.Nodes[name].State == NodeDrained {
			pods = append(pods, d.classifyPodsOf(m).Evict...)
		}
	}
	if len(pods) == 0 {
		return ""
	}
	return "on drained nodes again, because they tolerate the fence: " + abbreviateNames(listPodNames(pods))
}

// pauseWhenIdle brings an upgrade that is to pause to rest when the nodes that were started have
// finished, and what was taken with them was launched again (GKE G25).
func (d surge) pauseWhenIdle() {
	if !d.pausing {
		return
	}
	started := countNodes(&d.rec, func(n NodeRecord) bool {
		return isInDrain(n.State) || (n.State == NodeRemoving && !n.isGivenBack() && !d.isOverdue(n))
	})
	switch {
	case started == 1:
		d.waiting = "pausing: 1 node finishes first"
	case started > 1:
		d.waiting = fmt.Sprintf("pausing: %d nodes finish first", started)
	case d.rec.Ledger.PendingLaunches() > 0:
		window{d.draft}.waitForReplacement()
		d.waiting = "pausing: a replacement is launched first"
	default:
		d.pauseUpgrade()
	}
}
