package upgrade

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// surge carries out the phases of the strategy of the same name.
type surge struct{ *draft }

func surgeOf(d *draft) surge { return surge{d} }

// surgeStrategy is that of EKS managed node groups and of GKE's surge upgrades: add nodes, fence
// the outdated ones, replace them in a moving window, give the surplus back (EKS E01, GKE G10).
func surgeStrategy() strategy {
	verbs := []Verb{VerbPause, VerbRollback, VerbAbort}
	return strategy{
		name:  Surge,
		begin: func(t *draft) { surgeOf(t).beginSurge() },
		phases: []phase{
			{name: PhaseSetup, run: func(t *draft) bool { return surgeOf(t).setUp() }, untouched: true, waitsFor: "the surge", verbs: verbs},
			{name: PhaseScaleUp, run: func(t *draft) bool { return surgeOf(t).scaleUp() }, untouched: true, watched: true, waitsFor: "the surge", verbs: verbs},
			{name: PhaseUpgrade, run: func(t *draft) bool { return surgeOf(t).replaceNodes() }, emptied: func(t *draft, name string, n NodeRecord, m *nodegroup.Member) { removalOf(t).terminateNode(name, n, m) }, late: func(t *draft, name string, n NodeRecord) { timeoutOf(t).giveUp(name, n) }, watched: true, verbs: verbs},
			{name: PhaseScaleDown, run: func(t *draft) bool { return surgeOf(t).scaleDown() }, givesBack: true, verbs: verbs},
		},
	}
}

// beginSurge deals the surge out to the zones.
func (t surge) beginSurge() {
	for zone, surge := range SpreadSurge(t.w.Request.Surge, t.count.left) {
		t.rec.Ledger.updateZone(zone, func(z *ZoneLedger) { z.Surge = surge })
	}
}

// setUp points the group at the wanted revision and suspends what would fight the upgrade
// (EKS E02, E03; S4).
func (t surge) setUp() bool {
	if !rebuildOf(t.draft).rebuildLedger() {
		return false
	}
	reclaimed := !t.rec.Back || rollbackOf(t.draft).keepCurrentNodes()
	if !t.setRevision() || !processesOf(t.draft).suspendProcesses() || !reclaimed {
		return false
	}
	return !t.rec.Back || rollbackOf(t.draft).carryOverSurge()
}

// setRevision has the group launch the revision wanted. Until it does, every node that comes up would be
// outdated in its turn and be replaced without end: after --replan to another target, or when
// somebody pointed the group elsewhere.
func (t surge) setRevision() bool {
	wanted := t.w.Group.Wanted
	if wanted.ID == t.w.Group.Pointed.ID {
		return true
	}
	t.waitForCloud("the group to take revision " + wanted.Name)
	t.addAction(nodegroup.SetRevision{To: wanted, Token: launchToken(t.rec.Run, "revision-"+wanted.ID, 1)})
	return false
}

// scaleUp adds the surge, waits until all of it is usable, and only then fences the outdated nodes
// (EKS E20–E31).
func (t surge) scaleUp() bool {
	if !t.setRevision() || !processesOf(t.draft).suspendProcesses() || !surplusOf(t.draft).keepSurge() || !maximumOf(t.draft).raiseMax() {
		return false
	}
	capacityOf(t.draft).keepSurgeLaunched()
	marksOf(t.draft).holdNew()
	surge := t.surgeWanted()
	if surge > 0 && !t.surgeUsable(surge) {
		t.waitForCloud(fmt.Sprintf("%d of %d new nodes to be ready", max(0, surge-t.count.usable), surge))
		since := t.rec.lastChange()
		deadline := since.Add(t.rec.Request.BootTimeout.Duration)
		if t.rec.Ledger.openLaunches() > 0 && t.count.usable >= surge {
			deadline = deadline.Add(t.rec.Request.BootTimeout.Duration) // all is there but an answer, which who took over asks for again
		}
		if t.w.isDeadlinePassed(deadline) {
			t.stopWith(NodeCreationFailure, t.bootFailure(surge, since))
		}
		t.requeueAt(deadline)
		return false
	}
	return marksOf(t.draft).fenceAll()
}

// surgeWanted is how many new nodes scale up waits for: what was launched and, where launches were
// refused, what is still to be (GKE G17: without capacity nothing is begun).
func (t surge) surgeWanted() int {
	wanted := 0
	for zone, z := range t.rec.Ledger.Zones {
		wanted += max(0, max(z.Contribution(), min(z.Surge, t.count.left[zone]))-z.Carried)
	}
	return wanted
}

// surgeUsable is the check at the end of scale up: every new node is usable, all that are wanted
// are there, and each zone that was given surge has one (EKS E24–E27). What an autoscaler took
// meanwhile does not come back: then those that are left must do.
func (t surge) surgeUsable(wanted int) bool {
	taken := t.nothingComes()
	if (t.count.usable < wanted && !taken) || t.count.usable < t.count.fresh || t.rec.Ledger.openLaunches() > 0 {
		return false
	}
	for zone, z := range t.rec.Ledger.Zones {
		if z.Contribution() < min(z.Surge, t.count.left[zone]) || (z.Contribution() > z.Carried && t.count.usableIn[zone] == 0 && !taken) {
			return false
		}
	}
	return true
}

// nothingComes reports whether the group has as many instances as it is meant to have, by a reading
// that is younger than what we did last: no further node will come up by itself.
func (t surge) nothingComes() bool {
	g := &t.w.Group
	return g.Sized && g.IsFreshAfter(t.rec.Ledger.Changed) && t.count.instances >= g.Desired
}

// bootFailure names the likely cause among those EKS knows, and what to do (EKS E33, E34).
func (t surge) bootFailure(wanted int, since time.Time) string {
	waited := t.w.Now.Sub(since).Round(time.Second)
	head := fmt.Sprintf("after %s %d of %d new nodes are ready", waited, t.count.usable, wanted)
	for _, zone := range slices.Sorted(maps.Keys(t.rec.Ledger.Zones)) {
		z := t.rec.Ledger.Zones[zone]
		switch {
		case z.Refusal == "":
		case t.rec.Request.KeepMax && t.w.Group.Desired >= t.w.Group.Max:
			return head + ": " + z.Refusal + ": raise the group's max or leave --keep-max out"
		default:
			return head + ": " + z.Refusal + ": allow more instance types or zones, or ask for a higher quota"
		}
	}
	if f := t.w.Group.LaunchFailure; f.Message != "" && f.At.After(t.rec.Started) {
		return head + ": " + f.Message + ": allow more instance types or zones, or ask for a higher quota"
	}
	for _, m := range t.newMembers() {
		switch {
		case m.Usable(t.w.Group.WantedLabels):
		case m.Node == nil:
			return head + fmt.Sprintf(": instance %s has not joined the cluster: see its user data and its kubelet's log", m.Instance.ID)
		case nodegroup.IsNodeReady(m.Node):
			return head + fmt.Sprintf(": node %s is Ready but lacks the labels of a current node or keeps a start-up taint: see its user data", m.Name())
		default:
			return head + fmt.Sprintf(": node %s is not Ready: see kubectl describe node %s", m.Name(), m.Name())
		}
	}
	return head + ": see the group's scaling activities"
}

// replaceNodes drives the nodes that were started and starts more, until no outdated node is left but
// the quarantined.
func (t surge) replaceNodes() bool {
	if !t.setRevision() {
		return false
	}
	t.fencing = !marksOf(t.draft).fenceAll()
	for _, name := range t.rec.startedNames() {
		if t.rec.Stopping == "" {
			lifecycleOf(t.draft).advanceNode(name)
		}
	}
	orderingOf(t.draft).learnGone()
	if t.rec.Stopping == "" {
		capacityOf(t.draft).keepSurgeLaunched()
		marksOf(t.draft).holdNew()
		windowOf(t.draft).startMore()
		t.pauseWhenIdle()
	}
	if t.rec.Stopping != "" || (t.isReplaced() && !t.fencing) {
		return t.rec.Stopping == ""
	}
	processesOf(t.draft).suspendProcesses() // they may have been resumed meanwhile, by a stop of ours or by somebody
	return false
}

// isReplaced reports whether no outdated node is left but the quarantined, whether what the
// terminations took from the group was launched again, and whether that is usable: an upgrade ends
// with as many nodes that take pods as it began with, as scale up does (EKS E26, E27; GKE G16).
// What a group without a cloud gets back is launched by another actor, who may take days.
func (t surge) isReplaced() bool {
	if len(t.count.pending) > 0 || !t.rec.noneInState(NodeDraining, NodeForcing, NodeEmpty, NodeRemoving) {
		return false
	}
	if t.rec.Ledger.openLaunches()+t.rec.Ledger.countMissing() == 0 && (!t.w.Group.Sized || windowOf(t.draft).countUnavailable() <= 0) {
		return true
	}
	windowOf(t.draft).waitForReplacement()
	return false
}

// scaleDown takes back the raise of the maximum, last of all, lets suspended processes run again,
// and leaves the nodes to autoscalers (EKS E60, E61).
func (t surge) scaleDown() bool {
	freed := marksOf(t.draft).freeHeld()
	return maximumOf(t.draft).lowerMax() && processesOf(t.draft).resumeProcesses() && freed
}

// concludeUpgrade ends an upgrade that reached its goal.
func (t surge) concludeUpgrade() {
	t.rec.Result = Succeeded
	if !t.rec.noneInState(NodeQuarantined) {
		t.rec.Result = LeftBehind
	}
	t.rec.Message = joinNotes(t.rec.backNote(), t.rec.Ledger.owedNote(), maximumOf(t.draft).maxNote(), processesOf(t.draft).suspendedNote(), t.orphanNote())
	t.rec.Ended, t.finished = t.w.Now, true
}

// orphanNote names the nodes that were drained and have no machine that could be terminated:
// nothing but a person takes them away.
func (t surge) orphanNote() string {
	if !t.w.Group.Sized {
		return "" // all of its nodes are such nodes, and somebody brings the machines
	}
	var orphans []string
	for _, name := range slices.Sorted(maps.Keys(t.rec.Nodes)) {
		if m := t.count.byName[name]; t.rec.Nodes[name].State == NodeDrained && m != nil && m.Node != nil {
			orphans = append(orphans, name)
		}
	}
	if len(orphans) == 0 {
		return ""
	}
	return "drained nodes that have no machine any more are still there: kubectl delete node " + strings.Join(orphans, " ")
}

// joinNotes joins what is to be said at the end, leaving out what is empty.
func joinNotes(all ...string) string {
	return strings.Join(slices.DeleteFunc(all, func(note string) bool { return note == "" }), "; ")
}

// pauseWhenIdle brings an upgrade that is to pause to rest when the nodes that were started have finished,
// and what was taken with them was launched again (GKE G25).
func (t surge) pauseWhenIdle() {
	if !t.pausing {
		return
	}
	started := 0
	for _, n := range t.rec.Nodes {
		if isInDrain(n.State) || (n.State == NodeRemoving && !n.isGivenBack()) {
			started++
		}
	}
	switch {
	case started == 1:
		t.waiting = "pausing: 1 node finishes first"
	case started > 1:
		t.waiting = fmt.Sprintf("pausing: %d nodes finish first", started)
	case t.rec.Ledger.openLaunches()+t.rec.Ledger.countMissing() > 0:
		windowOf(t.draft).waitForReplacement()
		t.waiting = "pausing: a replacement is launched first"
	default:
		decisionOf(t.draft).pauseNow()
	}
}
