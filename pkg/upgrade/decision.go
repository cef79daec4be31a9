package upgrade

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// decision is one call of Next.
type decision struct{ *draft }

func decisionOf(d *draft) decision { return decision{d} }

// beginUpgrade starts the record of a new upgrade, or finishes at once when there is nothing to do.
func (t decision) beginUpgrade() {
	if len(t.count.pending) == 0 || t.w.Stop {
		t.rec.Result, t.finished = Succeeded, true
		if t.w.Stop {
			t.rec.Result = Interrupted
		}
		return
	}
	w := t.w
	t.rec = Record{
		Version: RecordVersion, Run: w.Request.Run, Request: w.Request,
		Started: w.Now, Phase: PhaseSetup, PhaseBegan: w.Now,
		Previous: rollbackOf(t.draft).previousRevision(), Target: w.Group.Wanted, Provider: w.Group.Provider, Unlabelled: withoutLabels(t.count.pending),
		Sizes:  Sizes{Desired: w.Group.Desired, Min: w.Group.Min, Max: w.Group.Max, Zones: t.count.zones},
		Total:  len(t.count.pending),
		Ledger: Ledger{Zonal: w.Group.Zonal, Changed: w.Now, Known: t.count.currentNames()},
		Nodes:  map[string]NodeRecord{},
	}
	if w.Group.Pointed.ID != t.rec.Previous.ID {
		t.rec.Pointed = w.Group.Pointed
	}
	t.count = countMembers(w, &t.rec)
	strategyOf(w.Request.Strategy, false).begin(t.draft)
	t.enterPhase(t.rec.Phase)
}

// isStopping reports whether the upgrade is being brought to an end before its goal.
func (t decision) isStopping() bool {
	if t.rec.Stopping == "" && t.w.Stop {
		t.rec.Stopping = Interrupted
	}
	return t.rec.Stopping != ""
}

func (t decision) finishStep() Step {
	t.notes.At = t.w.Now
	if t.rec.Run != "" {
		t.rec.Total = max(t.rec.Total, rebuildOf(t.draft).countTotal()) // outdated nodes may join late
	}
	t.actions = append(t.actions, evictionsOf(t.draft).selectEvictions()...)
	if t.finished {
		t.wake, t.due = time.Time{}, time.Time{}
	}
	return Step{
		Record: t.rec, Notes: t.notes, Actions: t.actions, Blocked: t.blocked,
		Wake: t.wake, Due: t.due, Poll: t.poll, Status: t.summarizeStatus(), Finished: t.finished,
	}
}

// applyRequest does what somebody else asks of this upgrade.
func (t decision) applyRequest() {
	asked := t.w.Asked
	if asked.Run == "" || asked.Run != t.rec.Run || t.rec.Allows(asked.Verb) != nil {
		asked.Verb = ""
	}
	if asked.Verb != VerbPause && !t.w.Stop {
		t.cancelPause()
	}
	switch asked.Verb {
	case VerbPause:
		t.pausing = t.rec.Stopping == ""
		if t.phase.untouched {
			t.pauseNow() // no node was started
		}
	case VerbRollback:
		if !t.rec.Back { // else it is what was asked for
			t.yieldToRequest("a rollback")
		}
	case VerbAbort:
		t.yieldToRequest("an abort")
	}
}

// yieldToRequest stops the upgrade as Ctrl-C does, for somebody who carries the verb out. It stops nothing
// that is being aborted.
func (t decision) yieldToRequest(to string) {
	t.stopWith(Interrupted, fmt.Sprintf("gave way to %s asked by %s", to, t.w.Asked.By))
}

// cancelPause goes on with an upgrade that somebody asked to pause and nobody does any more, before it
// came to rest.
func (t decision) cancelPause() {
	if t.rec.Stopping == Paused && t.rec.PausedBy != "" {
		t.rec.Stopping, t.rec.PausedBy, t.rec.Message = "", "", ""
		t.enterPhase(t.rec.Phase)
	}
}

// pauseNow stops the upgrade, unless no node is left that a pause could keep from being started.
func (t decision) pauseNow() {
	if t.rec.Stopping != "" || len(t.count.pending) == 0 {
		return
	}
	t.rec.PausedBy = t.w.Asked.By
	t.stopWith(Paused, fmt.Sprintf("paused by %s: run kubectl nodeupgrade resume %s to continue", t.w.Asked.By, t.w.Group.Name))
}

// watchProtection stops the upgrade when somebody protects one of its outdated instances against
// removal: AWS would not keep us from terminating it, since its protection is against scale-in
// alone. What is on its way out already goes.
func (t decision) watchProtection() {
	for i := range t.w.Members {
		m := &t.w.Members[i]
		if !m.Outdated || !m.Instance.Protected || m.Instance.State == nodegroup.InstanceLeaving {
			continue
		}
		if n, started := t.rec.findStarted(m); started && n.State == NodeRemoving {
			continue
		}
		t.stopWith(Paused, fmt.Sprintf("instance %s (node %s) was protected against scale-in by another actor during the upgrade: take that away and run "+
			"kubectl nodeupgrade resume %s to continue, or kubectl nodeupgrade abort %s", m.Instance.ID, m.Name(), t.w.Group.Name, t.w.Group.Name))
		return
	}
}

// summarizeStatus sums the turn up for people.
func (t decision) summarizeStatus() Status {
	g := &t.w.Group
	s := Status{
		Group: g.Name, Back: t.rec.Back, Phase: t.rec.Phase, Since: t.rec.PhaseBegan,
		Total: t.rec.Total, Replaced: t.rec.Replaced, Outdated: len(t.count.pending), Ready: t.count.ready,
		New: t.count.fresh, NewReady: t.count.usable,
		Owed: t.rec.Ledger.Contribution(), Desired: g.Desired, Max: g.Max,
		Zones: zoneSizes(t.count.zones), Waiting: t.waiting,
	}
	if why := t.w.zoneLaunchRefusal(); why != "" && !t.rec.Ledger.Zonal {
		s.Note = "the group is made larger as a whole, because launches in a zone are refused: " + why
	}
	if t.w.Brief {
		return s
	}
	s.Nodes = make([]NodeStatus, 0, len(t.count.pending)+len(t.rec.Nodes))
	// Both are in order of name already; a large group would take longer to sort than all else
	// does.
	started := slices.Sorted(maps.Keys(t.rec.Nodes))
	for _, m := range t.count.pending {
		for len(started) > 0 && started[0] < m.Name() {
			s.Nodes, started = append(s.Nodes, t.startedStatus(started[0])), started[1:]
		}
		s.Nodes = append(s.Nodes, t.pendingStatus(m))
	}
	for _, name := range started {
		s.Nodes = append(s.Nodes, t.startedStatus(name))
	}
	return s
}

func (t decision) pendingStatus(m *nodegroup.Member) NodeStatus {
	state := NodePending
	if t.rec.Run != "" && t.isFenced(m) {
		state = NodeFenced
	}
	return NodeStatus{Name: m.Name(), Zone: m.Zone(), State: state}
}

func (t decision) startedStatus(name string) NodeStatus {
	n := t.rec.Nodes[name]
	status := NodeStatus{Name: name, Zone: n.Zone, State: n.State, Batch: n.Batch}
	if m := t.count.byName[name]; m != nil {
		view := t.podsOf(m)
		status.Zone, status.Pods, status.Staying = m.Zone(), view.podsLeft(), view.staying
	}
	return status
}

// runPhases goes through the phases from the one that the record is in, as far as they are complete:
// one turn may pass through several.
func (t decision) runPhases() {
	if wanted := t.w.Group.Wanted; wanted.ID != t.rec.Target.ID {
		// Which instances are outdated is judged against the group's revision, so a moved target
		// would retarget this run.
		t.stopWith(TargetMoved, fmt.Sprintf("the group's target moved from %s to %s during the upgrade: %s", t.rec.Target.Name, wanted.Name, rollbackOf(t.draft).howToContinue(wanted)))
		return
	}
	if t.rec.Ledger.Moved {
		rebuildOf(t.draft).adoptTarget()
	}
	if t.phase.watched {
		maximumOf(t.draft).watchMax()
		t.watchProtection()
	}
	phases := strategyOf(t.rec.Request.Strategy, t.rec.Back).phases
	for i, p := range phases {
		if t.rec.Phase != p.name || t.rec.Stopping != "" || !p.run(t.draft) || t.rec.Stopping != "" {
			continue
		}
		next := phase{name: PhaseDone}
		if i+1 < len(phases) {
			next = phases[i+1]
		}
		t.enterPhase(next.name)
	}
	if t.rec.Phase == PhaseDone {
		surgeOf(t.draft).concludeUpgrade()
	}
}

// zoneSizes writes counts by zone as "a:4 b:2", zones in order.
func zoneSizes(zones map[string]int) string {
	parts := make([]string, 0, len(zones))
	for _, zone := range slices.Sorted(maps.Keys(zones)) {
		parts = append(parts, fmt.Sprintf("%s:%d", zone, zones[zone]))
	}
	return strings.Join(parts, " ")
}
