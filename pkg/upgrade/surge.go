package upgrade

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// surgeStrategy is that of EKS managed node groups and of GKE's surge upgrades: add nodes, fence the
// outdated ones, replace them in a moving window, give the surplus back (EKS E01, GKE G10).
func surgeStrategy() strategy {
	verbs := []Verb{VerbPause, VerbRollback, VerbAbort}
	return strategy{
		name:  Surge,
		begin: func(t *turn) { t.beginSurge() },
		phases: []phase{
			{name: PhaseSetup, run: func(t *turn) bool { return t.setup() }, untouched: true, waitsFor: "the surge", verbs: verbs},
			{name: PhaseScaleUp, run: func(t *turn) bool { return t.scaleUp() }, untouched: true, watched: true, waitsFor: "the surge", verbs: verbs},
			{name: PhaseUpgrade, run: func(t *turn) bool { return t.replace() }, emptied: func(t *turn, name string, n NodeRecord, m *nodegroup.Member) { t.terminate(name, n, m) }, late: func(t *turn, name string, n NodeRecord) { t.giveUp(name, n) }, watched: true, verbs: verbs},
			{name: PhaseScaleDown, run: func(t *turn) bool { return t.scaleDown() }, givesBack: true, verbs: verbs},
		},
	}
}

// beginSurge deals the surge out to the zones.
func (t *turn) beginSurge() {
	for zone, surge := range SpreadSurge(t.w.Request.Surge, t.count.left) {
		t.rec.Ledger.change(zone, func(z *ZoneLedger) { z.Surge = surge })
	}
}

// setup points the group at the wanted revision and suspends what would fight the upgrade
// (EKS E02, E03; S4).
func (t *turn) setup() bool {
	if !t.recount() {
		return false
	}
	reclaimed := !t.rec.Back || t.reclaim()
	if !t.point() || !t.quiesce() || !reclaimed {
		return false
	}
	return !t.rec.Back || t.carry()
}

// point has the group launch the revision wanted. Until it does, every node that comes up would be
// outdated in its turn and be replaced without end: after --replan to another target, or when
// somebody pointed the group elsewhere.
func (t *turn) point() bool {
	wanted := t.w.Group.Wanted
	if wanted.ID == t.w.Group.Pointed.ID {
		return true
	}
	t.waitForCloud("the group to take revision " + wanted.Name)
	t.want(nodegroup.SetRevision{To: wanted, Token: token(t.rec.Run, "revision-"+wanted.ID, 1)})
	return false
}

// quiesce suspends the provider's processes that would fight the upgrade, and remembers which were
// ours to suspend.
func (t *turn) quiesce() bool {
	var missing []string
	for _, process := range t.w.Group.Quiesce {
		if !slices.Contains(t.w.Group.Suspended, process) {
			missing = append(missing, process)
			if !slices.Contains(t.rec.Suspended, process) {
				t.rec.Suspended = append(t.rec.Suspended, process)
			}
		}
	}
	if len(missing) == 0 {
		return true
	}
	t.waitForCloud("")
	t.want(nodegroup.Quiesce{Processes: missing})
	return false
}

// scaleUp adds the surge, waits until all of it is usable, and only then fences the outdated nodes
// (EKS E20–E31).
func (t *turn) scaleUp() bool {
	if !t.point() || !t.quiesce() || !t.keepSurge() || !t.raiseMax() {
		return false
	}
	t.launch()
	t.holdNew()
	surge := t.surgeWanted()
	if surge > 0 && !t.surgeUsable(surge) {
		t.waitForCloud(fmt.Sprintf("%d of %d new nodes to be ready", max(0, surge-t.count.usable), surge))
		since := t.lastChange()
		deadline := since.Add(t.rec.Request.BootTimeout.Duration)
		if t.openLaunches() > 0 && t.count.usable >= surge {
			deadline = deadline.Add(t.rec.Request.BootTimeout.Duration) // all is there but an answer, which who took over asks for again
		}
		if t.over(deadline) {
			t.fail(NodeCreationFailure, t.bootFailure(surge, since))
		}
		t.wakeAt(deadline)
		return false
	}
	return t.fenceAll()
}

// surgeWanted is how many new nodes scale up waits for: what was launched and, where launches were
// refused, what is still to be (GKE G17: without capacity nothing is begun).
func (t *turn) surgeWanted() int {
	wanted := 0
	for zone, z := range t.rec.Ledger.Zones {
		wanted += max(0, max(z.Contribution(), min(z.Surge, t.count.left[zone]))-z.Carried)
	}
	return wanted
}

// surgeUsable is the check at the end of scale up: every new node is usable, all that are wanted
// are there, and each zone that was given surge has one (EKS E24–E27). What an autoscaler took
// meanwhile does not come back: then those that are left must do.
func (t *turn) surgeUsable(wanted int) bool {
	taken := t.nothingComes()
	if (t.count.usable < wanted && !taken) || t.count.usable < t.count.fresh || t.openLaunches() > 0 {
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
func (t *turn) nothingComes() bool {
	g := &t.w.Group
	return g.Sized && g.IsFreshAfter(t.rec.Ledger.Changed) && t.count.instances >= g.Desired
}

// bootFailure names the likely cause among those EKS knows, and what to do (EKS E33, E34).
func (t *turn) bootFailure(wanted int, since time.Time) string {
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
	for _, m := range t.fresh() {
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

// replace drives the nodes that were started and starts more, until no outdated node is left but
// the quarantined.
func (t *turn) replace() bool {
	if !t.point() {
		return false
	}
	t.fencing = !t.fenceAll()
	for _, name := range t.startedNames() {
		if t.rec.Stopping == "" {
			t.drive(name)
		}
	}
	t.learnGone()
	if t.rec.Stopping == "" {
		t.launch()
		t.holdNew()
		t.startMore()
		t.hold()
	}
	if t.rec.Stopping != "" || (t.replaced() && !t.fencing) {
		return t.rec.Stopping == ""
	}
	t.quiesce() // they may have been resumed meanwhile, by a stop of ours or by somebody
	return false
}

// replaced reports whether no outdated node is left but the quarantined, whether what the
// terminations took from the group was launched again, and whether that is usable: an upgrade ends
// with as many nodes that take pods as it began with, as scale up does (EKS E26, E27; GKE G16).
// What a group without a cloud gets back is launched by another actor, who may take days.
func (t *turn) replaced() bool {
	if len(t.count.pending) > 0 || !t.rest(NodeDraining, NodeForcing, NodeEmpty, NodeRemoving) {
		return false
	}
	if t.openLaunches()+t.short() == 0 && (!t.w.Group.Sized || t.deficit() <= 0) {
		return true
	}
	t.waitForReplacement()
	return false
}

// short counts the nodes that terminations took from zones and that are still to be launched.
func (t *turn) short() int {
	return t.rec.Ledger.total(func(z ZoneLedger) int { return max(0, -z.Contribution()) })
}

// rest reports whether no node is in any of the states.
func (t *turn) rest(states ...NodeState) bool {
	for _, n := range t.rec.Nodes {
		if slices.Contains(states, n.State) {
			return false
		}
	}
	return true
}

// scaleDown takes back the raise of the maximum, last of all, lets suspended processes run again,
// and leaves the nodes to autoscalers (EKS E60, E61).
func (t *turn) scaleDown() bool {
	freed := t.freeHeld()
	return t.lowerMax() && t.resume() && freed
}

// conclude ends an upgrade that reached its goal.
func (t *turn) conclude() {
	t.rec.Result = Succeeded
	if !t.rest(NodeQuarantined) {
		t.rec.Result = LeftBehind
	}
	t.rec.Message = notes(t.backNote(), t.owedNote(), t.maxNote(), t.suspendedNote(), t.orphanNote())
	t.rec.Ended, t.finished = t.w.Now, true
}

// orphanNote names the nodes that were drained and have no machine that could be terminated:
// nothing but a person takes them away.
func (t *turn) orphanNote() string {
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

// notes joins what is to be said at the end, leaving out what is empty.
func notes(all ...string) string {
	return strings.Join(slices.DeleteFunc(all, func(note string) bool { return note == "" }), "; ")
}
