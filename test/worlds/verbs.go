package worlds

import (
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodemark"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// addUserRequests adds users on other machines who request a pause, an abort or a rollback. In half of these worlds nothing else goes
// wrong, so that the strictest rules apply. It draws from its own generator.
func addUserRequests(p *Plan) {
	d := dice{rand.New(rand.NewPCG(p.Seed, 0x76657262))}
	if !d.chance(20) {
		return
	}
	if d.chance(50) {
		p.Faults, p.Actors, p.WatchLag, p.CloudLag = nil, nil, 0, 0
	}
	most := pick(d, 10*time.Second, time.Minute, 5*time.Minute, 15*time.Minute, time.Hour)
	for range 1 + d.IntN(2) {
		p.Actors = append(p.Actors, Actor{Kind: pick(d, verbActors()...), At: d.between(0, most), Pick: d.IntN(1000)})
	}
	for range min(d.IntN(4), d.IntN(4)) { // the process that carries out the verb may crash
		p.Actors = append(p.Actors, Actor{Kind: pick(d, Kill, KillMidStep), At: d.between(0, most+10*time.Minute), Pick: d.IntN(1000)})
	}
}

func verbActors() []ActorKind { return []ActorKind{Pauses, Aborts, RollsBack} }

// requestVerb stores a user's request for an upgrade that is running or resumable. It returns false if the command would refuse it.
func (u *user) requestVerb(verb record.Verb) (requested bool) {
	rec := &u.stored.record
	if (u.c.plan.isDelegated() || u.c.plan.keepsTarget()) && upgrade.Allows(rec, verb) != nil {
		return false // the command refuses it, too
	}
	if u.undoVerb == record.VerbAbort || !rec.IsResumable() || (verb == record.VerbRollback && u.undoVerb != "") {
		return false
	}
	if _, err := upgrade.RollbackTarget(rec); verb == record.VerbRollback && (err != nil || !u.c.plan.listsMachines()) {
		return false
	}
	u.storeRequest(record.Asked{Verb: verb, Run: rec.Run, By: "alice@host", At: u.c.now})
	return true
}

// storeRequest stores a request. A running process sees it after up to WatchLag.
func (u *user) storeRequest(asked record.Asked) {
	u.stored.asked = asked
	if process := u.process; !process.dead {
		u.c.after(u.c.drawUpTo(u.c.plan.WatchLag), func() {
			process.knownRequest = u.stored.asked
			process.scheduleTurn()
		})
	}
}

// requestPause requests a pause. A while later another user resumes the upgrade.
func (u *user) requestPause(minutes int) (acted bool) {
	if !u.requestVerb(record.VerbPause) {
		return false
	}
	u.pauseWaitingUpgrade()
	asked := u.stored.asked
	u.c.after(time.Duration(1+minutes%40)*time.Minute, func() {
		if u.stored.asked != asked || u.done {
			return // the upgrade was aborted or rolled back instead
		}
		u.rules.logf("a user resumes")
		u.storeRequest(record.Asked{})
		if u.awaitsResume {
			u.awaitsResume = false
			u.runCommand()
		}
	})
	return true
}

// requestUndo requests an abort or a rollback. The command of that user carries it out after the running process has stopped.
func (u *user) requestUndo(verb record.Verb) (requested bool) {
	if !u.requestVerb(verb) {
		return false
	}
	u.undoVerb = verb
	if u.awaitsResume || u.isWaitingForSoak() {
		u.awaitsResume = false
		u.runCommandAfter(time.Second)
	}
	return true
}

// recordToContinue returns the record with which the command continues, and its target revision. The command continues the same
// upgrade, or undoes it.
func (u *user) recordToContinue(rec record.Record) (continued record.Record, target string) {
	if u.undoVerb == record.VerbAbort {
		aborting := rec.AsAborting()
		if aborting.Rollback || u.c.plan.keepsTarget() {
			return aborting, aborting.Target.ID
		}
		return aborting, u.c.cloud.wanted
	}
	to, err := upgrade.RollbackTarget(&rec)
	if err != nil && rec.Phase == record.PhaseDeleteBlue {
		u.undoVerb = "" // the command refuses it in this phase
	}
	if u.undoVerb != record.VerbRollback {
		return u.reopenRecord(rec)
	}
	if err != nil {
		u.rules.fail("G28", "%v", err)
	}
	return upgrade.AsRollback(&rec, revisionOf(to), u.c.now), to
}

// readGroup returns the group with which the command begins. A command that undoes the upgrade may get a reading that is older than
// the last requests of the previous process.
func (u *user) readGroup() nodegroup.Group {
	if u.undoVerb != "" {
		if group, err := u.c.pollGroup(); err == nil {
			return group
		}
	}
	return u.c.readGroup()
}

// retarget returns the group's reading with another wanted revision.
func retarget(g nodegroup.Group, wanted string) nodegroup.Group {
	if !g.Can.ListInstances || g.Wanted.ID == wanted {
		return g
	}
	g.Wanted, g.WantedLabels = revisionOf(wanted), map[string]string{imageLabel: wanted}
	g.Instances = slices.Clone(g.Instances)
	for i := range g.Instances {
		g.Instances[i].Outdated = g.Instances[i].Revision.ID != wanted
	}
	return g
}

// checkPauseRequest checks a decision against the user's request: after a request to pause, no node is started (GKE G25).
func (r *rules) checkPauseRequest(w *upgrade.World, step *upgrade.Step) {
	asked := w.Asked
	if asked.Run == "" || asked.Run != step.Record.Run {
		return
	}
	r.tally.count("verb", string(asked.Verb))
	if asked.Verb != record.VerbPause || w.Record.Run == "" {
		return
	}
	for name, n := range step.Record.Nodes {
		if _, known := w.Record.Nodes[name]; !known && n.Batch > 0 && !isDeletingBlue(&step.Record) {
			r.fail("G25", "node %s is started, although a user requested a pause", name)
		}
	}
}

// checkPaused checks G25: an upgrade that a user paused finishes all started nodes before it stops.
func (r *rules) checkPaused(rec record.Record) {
	for name, n := range rec.Nodes {
		if n.Batch > 0 && n.State != record.NodeQuarantined && n.State != record.NodeDrained && n.State != record.NodeParked {
			r.fail("G25", "it is paused, but node %s is %q", name, n.State)
		}
	}
	if !strings.Contains(rec.Message, rec.PausedBy) || !strings.Contains(rec.Message, "resume workers") {
		r.fail("G25", "the message does not say who paused it, or how to resume it: %q", rec.Message)
	}
}

// checkAborted checks a group after an abort: no node has marks of the upgrade, and the group has its earlier revision and size.
func (r *rules) checkAborted(record record.Record) {
	for name, node := range r.c.nodes {
		if i := r.c.instanceOf(node); r.c.plan.listsMachines() && (i == nil || i.leaving) {
			continue
		}
		if node.Annotations[nodemark.AnnotationRun] != "" {
			r.fail("abort", "node %s still has annotations of the upgrade", name)
		}
	}
	if len(record.Nodes) > 0 || record.IsResumable() {
		r.fail("abort", "an aborted upgrade is resumable or has nodes: %+v", record.Nodes)
	}
	k := &r.c.cloud
	if first := r.ownerRevision; r.c.plan.listsMachines() && k.pointed != first {
		r.fail("abort", "the group's revision is %s, but was %s before", k.pointed, first)
	}
	if !r.c.plan.hasSize() || r.unclearTermination {
		return
	}
	r.checkAbortedSize(record)
}

func (r *rules) checkAbortedSize(record record.Record) {
	k, owed := &r.c.cloud, record.Ledger.Contribution()
	if want := r.desired + r.sizeChangeByOthers() + owed; k.desired != want {
		r.fail("I9", "the desired size is %d, want %d", k.desired, want)
	}
	most := max(r.max, k.desired) + r.removedByOthers
	if !r.maxChanged && (k.max < r.max || k.max > most) {
		r.fail("I9", "the maximum is %d, want %d", k.max, max(r.max, k.desired))
	}
	more := strings.Contains(record.Message, "more node")
	switch {
	case owed < 0 && !strings.Contains(record.Message, "fewer node"), owed > 0 && k.desired > r.desired && !more:
		r.fail("I9", "it is aborted with a contribution of %d nodes, and the message is %q", owed, record.Message)
	case more && r.undisturbed && k.desired <= r.desired: // other actors removed as many nodes as were added
		r.fail("I9", "it is aborted with %d nodes, of %d before, and the message is %q", k.desired, r.desired, record.Message)
	case !r.hasOnlyUserRequests() || record.Rollback: // an aborted rollback leaves nodes that the upgrade added, which the rollback does not count as added
	case owed < 0:
		r.fail("abort", "the group is smaller by %d nodes without a cause", -owed)
	case owed > 0:
		r.checkNoIdleNode("abort", record)
	}
}

// hasOnlyUserRequests reports whether the world's only disturbances are users' requests and crashes of processes.
func (r *rules) hasOnlyUserRequests() bool {
	return r.c.plan.Denial.Kind == "" && r.c.plan.hasOnlyUserRequests()
}

// hasOnlyUserRequests reports whether there are no faults and no lags, and the only actors make requests or end a process.
func (p *Plan) hasOnlyUserRequests() bool {
	return len(p.Faults) == 0 && p.WatchLag == 0 && p.CloudLag == 0 && !slices.ContainsFunc(p.Actors, func(a Actor) bool {
		return !slices.Contains([]ActorKind{Pauses, Aborts, RollsBack, EndsSoak, Kill, KillMidStep, Interrupt}, a.Kind)
	})
}
