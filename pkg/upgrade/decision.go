package upgrade

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/ledger"
)

// decision is one call of Next.
type decision struct{ *draft }

// beginUpgrade starts the record of a new upgrade, or finishes at once when there is nothing to do.
func (d decision) beginUpgrade() {
	if len(d.count.pending) == 0 || d.w.Stop {
		d.rec.Result, d.finished = Succeeded, true
		if d.w.Stop {
			d.rec.Result = Interrupted
		}
		return
	}
	w := d.w
	d.rec = Record{
		Version: w.Request.Strategy.recordVersion(), Run: w.Request.Run, Request: w.Request,
		Started: w.Now, Phase: PhaseSetup, PhaseBegan: w.Now,
		Previous: d.count.previousRevision(&w.Group), Target: w.Group.Wanted, Provider: w.Group.Provider, Unlabelled: withoutLabels(d.count.pending),
		Earlier: w.Record.Earlier, Taints: commonTaints(d.count.pending), Daemons: recordDaemons(w),
		Sizes:  nodegroup.Sizes{Desired: w.Group.Desired, Min: w.Group.Min, Max: w.Group.Max, Zones: d.count.Zones},
		Total:  len(d.count.pending),
		Ledger: ledger.FromBooks(ledger.Books{Zonal: w.Group.Zonal, Changed: w.Now, Known: d.count.known}),
		Nodes:  map[string]NodeRecord{},
	}
	d.rec.originallyPointed(w.Group.Pointed)
	d.count = countMembers(w, &d.rec)
	chosen := strategyOf(w.Request.Strategy, false)
	chosen.begin(d.draft)
	d.enterPhase(chosen.phases[0])
}

// isStopping reports whether the upgrade is being brought to an end before its goal.
func (d decision) isStopping() bool {
	if d.rec.Stopping == "" && d.w.Stop {
		d.rec.Stopping = Interrupted
	}
	return d.rec.Stopping != ""
}

// recordLongBlocked notes on the nodes that were started which of their pods have been blocked for
// long, and since when.
func (d decision) recordLongBlocked() {
	long, more := listLongBlocked(d.draft, mostBlocked, func(b Blocked) string { return b.Node })
	for name, n := range d.rec.Nodes {
		if n.Blocked != nil || long[name] != nil {
			n.Blocked, n.BlockedMore = long[name], more[name]
			d.rec.Nodes[name] = n
		}
	}
}

// recordLongUnhealthy notes which workloads have not recovered for long, and since when.
func (d decision) recordLongUnhealthy() {
	d.rec.Unhealthy = nil
	for _, u := range d.unhealthy {
		switch {
		case d.w.Now.Sub(u.Since) < longBlocked:
			d.requeueAt(u.Since.Add(longBlocked))
			continue
		case d.rec.Unhealthy == nil:
			d.rec.Unhealthy = map[string]time.Time{}
		case len(d.rec.Unhealthy) == mostUnhealthy:
			return
		}
		d.rec.Unhealthy[u.Name] = u.Since
	}
}

// finishStep is the step as it is by now.
func (d decision) finishStep() Step {
	scheduling{d.draft}.decideEvictions()
	if !d.finished {
		retries{d.draft}.watchRetries()
	}
	d.recordLongBlocked()
	d.recordLongUnhealthy()
	d.notes.At = d.w.Now
	if d.rec.Run != "" {
		d.rec.Total = max(d.rec.Total, rebuild{d.draft}.countTotal()) // outdated nodes may join late
	}
	if d.finished {
		d.wake, d.due = time.Time{}, time.Time{}
	}
	return Step{
		Record: d.rec, Notes: d.notes, Actions: d.actions, Blocked: d.blocked,
		Wake: d.wake, Due: d.due, Poll: d.poll, Targets: d.targets, Awaited: d.awaited, Unscaled: d.unscaled, Status: d.summarizeStatus(), Finished: d.finished,
	}
}

// recordAnswers books the answers of the cloud, and stops the upgrade where one is final.
func (d decision) recordAnswers() {
	d.bookKeeper().RecordAnswers()
	d.growAsAWhole()
	if refused := d.w.listRefused(); len(refused) > 0 {
		d.stopUpgradeWith(Failed, fmt.Sprintf("to %s: %s", refused[0], d.w.lastAttempt(refused[0]).Detail))
	}
}

// rejectForeign stops the upgrade where the record names another machine for a node than the group
// shows: whoever may write the record could aim terminations with it. New nodes that are given back
// are forgotten instead, see driveReturn.
func (d decision) rejectForeign() {
	for _, name := range d.rec.startedNames() {
		n, m := d.rec.Nodes[name], d.count.byName[name]
		if m == nil || n.isGivenBack() || n.isMachineOf(m) {
			continue
		}
		d.stopUpgradeWith(Failed, fmt.Sprintf("the record says that node %q is instance %s, and the cloud says that it is %s: another actor has changed the record, and neither is terminated: "+
			"find out who may write it, and run %s to forget it", name, n.Instance, m.Instance.ID, nodegroup.Command("abort", d.w.Group.Name)))
		return
	}
}

// growAsAWhole gives up launches that name a zone where they are not to be had: what was added is
// one zone's from then on. Such a launch raises the group's maximum, which shows that it landed;
// who keeps the maximum cannot have it.
func (d decision) growAsAWhole() {
	switch refusal := ledger.ZoneLaunchRefusal(d.w.Open); {
	case refusal == "" || !d.rec.Ledger.Zonal() || d.rec.Ledger.OpenLaunches() > 0:
	case d.rec.Request.KeepMax:
		d.stopUpgradeWith(Failed, "launching in a zone: "+refusal+": that may help, or to leave --keep-max out, so that the group can be made larger as a whole")
	default:
		d.rec.Ledger.MergeZones()
		for name, n := range d.rec.Nodes {
			n.Zone = ""
			d.rec.Nodes[name] = n
		}
		d.count = countMembers(d.w, &d.rec)
	}
}

// applyRequest does what another actor asks of this upgrade.
func (d decision) applyRequest() {
	asked := findAllowed(&d.rec, d.w.Asked)
	if asked != VerbPause && !d.w.Stop {
		d.cancelPause()
	}
	switch asked {
	case VerbPause:
		d.pausing = d.rec.Stopping == ""
		if d.phase.untouched {
			d.pauseUpgrade() // no node was started
		}
	case VerbComplete:
		d.rec.Soak.completeAt(d.w.Now)
	case VerbRollback:
		if !d.rec.Back { // else it is what was asked for
			d.yieldToRequest("a rollback")
		}
	case VerbAbort:
		d.yieldToRequest("an abort")
	}
}

// yieldToRequest stops the upgrade as Ctrl-C does, for another actor who carries the verb out. It
// stops nothing that is being aborted.
func (d decision) yieldToRequest(to string) {
	d.stopUpgradeWith(Interrupted, fmt.Sprintf("gave way to %s asked by %s", to, d.w.Asked.By))
}

// cancelPause continues with an upgrade that another actor asked to pause and no one does any more,
// before it came to rest.
func (d decision) cancelPause() {
	if d.rec.Stopping == Paused && d.rec.PausedBy != "" {
		d.rec.Stopping, d.rec.PausedBy, d.rec.Message = "", "", ""
		d.rec.PhaseBegan = d.w.Now
	}
}

// watchMaximum stops the upgrade when another actor lowered the group's maximum: whether its surge
// and its replacements may still have the room that they need is for a person to say. It is not
// raised again by itself.
func (d decision) watchMaximum() {
	g := &d.w.Group
	before, decided := d.bookKeeper().WatchMaximum()
	if d.applyDecision(decided); before > 0 {
		d.stopUpgradeWith(Paused, fmt.Sprintf("the group's max was lowered from %d to %d by another actor during the upgrade: run %s to continue, "+
			"which raises it again as far as it has to, or %s", before, g.Max, nodegroup.Command("resume", g.Name), nodegroup.Command("abort", g.Name)))
	}
}

// watchProtection stops the upgrade when another actor protects one of its outdated instances
// against removal: AWS would not keep us from terminating it, since its protection is against
// scale-in alone. What is on its way out already goes.
func (d decision) watchProtection() {
	for i := range d.w.Members {
		m := &d.w.Members[i]
		if !m.Outdated || !m.Instance.Protected || m.Instance.State == nodegroup.InstanceLeaving {
			continue
		}
		if n, started := d.rec.findStarted(m); started && n.State == NodeRemoving {
			continue
		}
		d.stopUpgradeWith(Paused, fmt.Sprintf("instance %s (node %s) was protected against scale-in by another actor during the upgrade: take that away and run "+
			"%s to continue, or %s", m.Instance.ID, m.Name(), nodegroup.Command("resume", d.w.Group.Name), nodegroup.Command("abort", d.w.Group.Name)))
		return
	}
}

// summarizeStatus sums the step up for people.
func (d decision) summarizeStatus() Status {
	g := &d.w.Group
	s := Status{
		Group: g.Name, Back: d.rec.Back, Phase: d.rec.Phase, Since: d.rec.PhaseBegan,
		Total: d.rec.Total, Replaced: d.rec.Replaced, Outdated: len(d.count.pending), Ready: d.count.ready,
		New: d.count.Fresh, NewReady: d.count.Usable,
		Owed: d.rec.Ledger.Contribution(), Desired: g.Desired, Max: g.Max,
		Zones: formatZoneSizes(d.count.Zones), Waiting: d.waiting, Retried: d.retried,
	}
	if why := ledger.ZoneLaunchRefusal(d.w.Open); why != "" && !d.rec.Ledger.Zonal() {
		s.Note = "the group is made larger as a whole, because launches in a zone are refused: " + why
	}
	s.Unhealthy = d.unhealthy
	if d.rec.Delegation != nil {
		s.Manager = d.managerName()
	}
	if d.w.Brief {
		return s
	}
	s.Nodes = make([]NodeStatus, 0, len(d.count.pending)+len(d.rec.Nodes))
	// Both are in order of name already; a large group would take longer to sort than all else
	// does.
	started := slices.Sorted(maps.Keys(d.rec.Nodes))
	for _, m := range d.count.pending {
		for len(started) > 0 && started[0] < m.Name() {
			s.Nodes, started = append(s.Nodes, d.startedStatus(started[0])), started[1:]
		}
		s.Nodes = append(s.Nodes, d.pendingStatus(m))
	}
	for _, name := range started {
		s.Nodes = append(s.Nodes, d.startedStatus(name))
	}
	if d.rec.Delegation != nil {
		for _, m := range d.count.leaving {
			s.Nodes = append(s.Nodes, d.pendingStatus(m))
		}
		// One may have kept the name of a Node that is gone.
		slices.SortFunc(s.Nodes, func(a, b NodeStatus) int { return strings.Compare(a.Name, b.Name) })
	}
	return s
}

func (d decision) pendingStatus(m *nodegroup.Member) NodeStatus {
	state := NodePending
	switch {
	case d.rec.Run == "":
	case d.rec.Delegation != nil:
		return delegated{d.draft}.nodeStatus(m)
	case d.isFencedByRun(m):
		state = NodeFenced
	}
	return NodeStatus{Name: m.Name(), Zone: m.Zone(), State: state}
}

func (d decision) startedStatus(name string) NodeStatus {
	n := d.rec.Nodes[name]
	status := NodeStatus{Name: name, Zone: n.Zone, State: n.State, Batch: n.Batch}
	if m := d.count.byName[name]; m != nil {
		view := d.classifyPodsOf(m)
		status.Zone, status.Pods, status.Staying = m.Zone(), view.countPodsLeft(), view.staying
		if m.Node != nil && nodegroup.IsSilent(m.Node) && status.Pods > 0 {
			status.Silent = describeSilent(m.Node)
		}
	}
	return status
}

// runPhases goes through the phases from the one that the record is in, as far as they are
// complete: one step may pass through several.
func (d decision) runPhases() {
	if wanted := d.w.Group.Wanted; wanted.ID != d.rec.Target.ID {
		// Which instances are outdated is judged against the group's revision, so a moved target
		// would retarget this run.
		d.stopUpgradeWith(TargetMoved, fmt.Sprintf("the group's target moved from %s to %s during the upgrade: %s", d.rec.Target.Name, wanted.Name, rollback{d.draft}.howToContinue(wanted)))
		return
	}
	phases := strategyOf(d.rec.Request.Strategy, d.rec.Back).phases
	if d.rec.Ledger.TargetMoved() {
		// The upgrade divides the surge among the zones again. A node whose termination was refused still
		// exists, so it must be counted before that.
		if !(surplus{d.draft}).keepSurvivingSurge() {
			return
		}
		removal{d.draft}.keepUndrained()
		rebuild{d.draft}.adoptTarget()
		if d.phase.givesBack || d.rec.Phase == PhaseDone {
			d.enterPhase(phases[0]) // the surge was given back
		}
	}
	if d.phase.watched {
		d.watchMaximum()
		d.watchProtection()
	}
	d.renewing = !renewal{d.draft}.releaseNodes()
	canary{d.draft}.watchWorkloads()
	passPhases(d.draft, phases)
	if d.rec.Stopping == "" {
		marks{d.draft}.holdNodes()
	}
	switch {
	case d.rec.Phase == PhaseDone:
		surge{d.draft}.concludeUpgrade()
	case d.rec.Soak.Until.After(d.w.Now):
		soaking{d.draft}.leaveUpgrade()
	}
}

// passPhases runs the phase that the record is in and, as far as each is complete, those after it.
func passPhases(d *draft, phases []phase) {
	for i, p := range phases {
		if d.rec.Phase != p.name || d.rec.Stopping != "" || !p.run(d) || d.rec.Stopping != "" {
			continue
		}
		next := phase{name: PhaseDone}
		if i+1 < len(phases) {
			next = phases[i+1]
		}
		d.enterPhase(next)
	}
}
