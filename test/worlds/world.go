package worlds

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

const (
	// upgradeLimit is how long an upgrade may take after the last obstacle is removed, in virtual time.
	upgradeLimit = 48 * time.Hour
	// maxTurns limits the turns of a process, in addition to one turn per pollInterval, at which upgrades look again at what they wait
	// for. A process with more turns never ends.
	maxTurns     = 20_000
	pollInterval = 5 * time.Second
	// maxRuns is how often the user runs the command again after the last obstacle is removed.
	maxRuns = 12
	// maxRunsWithoutCalm is how often the user runs the command if the obstacles are never removed.
	maxRunsWithoutCalm = 4
)

// Verdict is the result of a world. Broken names the first broken rule and says how it was broken; "" if no rule was broken.
type Verdict struct {
	Seed   uint64
	Broken string
	Result record.Result
	Tally  Tally
	// Lasted is how long the world took in virtual time. Turns is the number of decisions.
	Lasted time.Duration
	Turns  int
}

// Run runs the planned world. If say is not nil, Run passes it one line for each event.
func Run(plan Plan, say func(string)) Verdict {
	c := newCluster(&plan)
	u := &user{c: c, rules: newRules(c, say), stored: &storedState{}, renewing: map[types.UID]bool{}}
	if plan.isAutoscaled() {
		c.onUnplacedPod = u.addNodesForPods
	}
	if plan.isPodScaled() {
		c.onUnplacedPod = u.launchForPods
	}
	for _, a := range plan.Actors {
		c.after(a.At, func() { u.runActor(a) })
	}
	if plan.Calm > 0 {
		c.after(plan.Calm, u.removeObstacles)
	}
	if plan.Elsewhere > 0 {
		c.after(plan.Elsewhere, u.checkForeignRun)
	}
	u.runCommand()
	if !plan.listsMachines() {
		c.after(time.Minute, u.replaceDrainedNodes)
	}
	u.runUntilDone()
	v := Verdict{
		Seed: plan.Seed, Broken: u.rules.broken, Result: u.stored.record.Result, Tally: u.rules.tally, Lasted: c.elapsed(), Turns: u.countTurns(),
	}
	return v
}

// user simulates the person who runs the command, stops it, and runs it again. It also carries out the actions of all other actors.
type user struct {
	c       *cluster
	rules   *rules
	process *process
	stored  *storedState
	// renewing contains the nodes whose renewal in place has begun or ended.
	renewing map[types.UID]bool
	// runs counts the runs of the command. calmRuns counts the runs since the world became calm.
	runs, calmRuns int
	// pastTurns counts the turns of earlier processes.
	pastTurns int
	// done is true when the upgrade has reached its goal or the user gives up.
	done bool
	// replan is true when the next run continues the upgrade to the current target instead of its first one.
	replan bool
	// upgrades counts the upgrades that were begun. The name of a run contains this number.
	upgrades int
	// undoVerb is the verb with which the command undoes the upgrade, after a user requested it. awaitsResume is true while the
	// upgrade is paused until a user resumes it.
	undoVerb     record.Verb
	awaitsResume bool
	// runNumber is the number of the last scheduled run of the command. Earlier scheduled runs are cancelled.
	runNumber int
	// tamperedNode is the node for which the actor RecordMachineChanged wrote another machine into the record; "" for none.
	tamperedNode string
	// realPrevious is the revision before the upgrade. It is set if the actor RecordRevisionChanged wrote another revision into the
	// record.
	realPrevious nodegroup.Revision
	// endsSoakNext is true when the next run ends the soak.
	endsSoakNext bool
}

func (u *user) countTurns() int { return u.pastTurns + u.process.turns }

// runUntilDone runs events until the user is done or a rule is broken.
func (u *user) runUntilDone() {
	for !u.done && u.rules.broken == "" && u.c.runNextEvent() {
		if u.process != nil && u.process.turns > maxTurns+int(u.c.elapsed()/pollInterval) {
			u.rules.fail("liveness", "it has taken too many turns, in phase %q", u.process.record.Phase)
		}
		if limit := u.c.plan.Calm + upgradeLimit + u.c.plan.extraTime(); u.c.elapsed() > limit {
			u.rules.fail("liveness", "no end within %s: in phase %q with %d of %d replaced", limit, u.process.record.Phase, u.process.record.Replaced, u.process.record.Total)
		}
	}
	if !u.done && u.rules.broken == "" {
		u.rules.fail("liveness", "no event is left, and the upgrade has not ended")
	}
}

// runCommand starts a process that begins an upgrade, or continues the stored one.
func (u *user) runCommand() {
	u.removeUnreadable()
	rec, err := storeAndReadBack(u.stored.record)
	if err != nil {
		u.rules.fail("record", "%v", err)
		return
	}
	if u.undoVerb != "" && rec.Run != "" && !rec.IsResumable() {
		u.handleGoalReached(rec) // the process that undid the upgrade crashed after its last step
		return
	}
	u.rules.soaks.exitsEarly = upgrade.IsWaiting(&rec, u.c.now) && rec.Soak.Until.Sub(u.c.now) > longWait
	group := u.readGroup()
	request := u.c.plan.Request
	u.replan = u.drawReplan(&rec)
	if rec.IsResumable() {
		var wanted string
		rec, wanted = u.recordToContinue(rec)
		group = retarget(group, wanted)
		request = rec.Request
		if u.replan && u.undoVerb == "" {
			rec, u.replan = rec.WithTarget(group.Wanted), false
		}
	} else {
		rec = record.Record{}
		u.upgrades++
		request.Run = fmt.Sprintf("r%d", u.upgrades)
	}
	if u.process != nil {
		u.pastTurns += u.process.turns
	}
	u.runs++
	if u.c.calm {
		u.calmRuns++
	}
	u.rules.logf("the command is run, run %s", request.Run)
	u.stored.record = rec
	if rec.Run == "" {
		u.stored.record = record.Record{}
	}
	u.process = newProcess(u.c, u.rules, u.stored, initialState{request, rec, group})
	u.rules.prepareForProcess(u.process)
	process := u.process
	u.process.ended = func(record record.Record) { u.handleProcessEnd(process, record) }
}

// handleProcessEnd decides what the user does after a process has ended. The record has no result if the process crashed.
func (u *user) handleProcessEnd(p *process, rec record.Record) {
	if p != u.process || u.done {
		return
	}
	if rec.Result == "" {
		u.rules.logf("the process is dead")
		u.runCommandAfter(time.Minute + u.c.drawUpTo(10*time.Minute)) // the lease of the crashed process must expire first
		return
	}
	u.rules.logf("result %q %s", rec.Result, rec.Message)
	u.rules.checkStopped(rec)
	u.repairRecord(rec)
	u.deleteBlockingBudgets(rec)
	switch {
	case rec.Result == record.Succeeded || rec.Result == record.LeftBehind || rec.Result == record.Aborted:
		u.handleGoalReached(rec)
	case rec.PausedBy != "" && u.stored.asked.Verb == record.VerbPause:
		u.awaitsResume = true
	case u.undoVerb != "" && strings.HasPrefix(rec.Message, "stopped for "):
		u.runCommandAfter(time.Second + u.c.drawUpTo(20*time.Second)) // the command that undoes the upgrade waits for this stop
	case rec.Result == record.Waiting:
		u.scheduleRunAfterSoak(rec)
	case rec.Result == record.TargetMoved:
		u.replan = true
		u.runCommandAfter(time.Second + u.c.drawUpTo(30*time.Minute))
	case u.calmRuns > maxRuns && strings.HasSuffix(rec.Message, "remove --keep-max") && u.c.plan.hasActor(ScalerGrows):
		u.done = true // an autoscaler has taken the remaining room, and --keep-max forbids more
	case u.calmRuns > maxRuns:
		u.rules.fail("liveness", "after %d runs without obstacles, it ends with %q: %s", u.calmRuns, rec.Result, rec.Message)
	case u.c.plan.Calm == 0 && u.runs >= maxRunsWithoutCalm && rec.Result != record.Interrupted:
		u.done = true
	default:
		u.runCommandAfter(time.Second + u.c.drawUpTo(30*time.Minute))
	}
}

// handleGoalReached checks the group after an upgrade was carried out or undone.
func (u *user) handleGoalReached(rec record.Record) {
	u.done = true
	if u.c.plan.isDelegated() {
		return // checkDelegatedStop has already checked the group
	}
	if rec.Result == record.Aborted {
		u.rules.checkAborted(rec)
		return
	}
	u.rules.checkGoalReached(rec)
}

// runCommandAfter schedules a run of the command after the given time. It cancels the run that was scheduled before.
func (u *user) runCommandAfter(after time.Duration) {
	u.runNumber++
	planned := u.runNumber
	u.c.after(after, func() {
		if u.runNumber == planned {
			u.runCommand()
		}
	})
}

// interruptProcess simulates Ctrl-C. A process that does not end within stopLimit is killed.
func (u *user) interruptProcess() {
	p := u.process
	if p.dead || p.stopRequested {
		return
	}
	p.stopRequested = true
	p.scheduleTurn()
	u.c.after(stopLimit, func() {
		if !p.dead {
			p.crash()
		}
	})
}

// replaceDrainedNodes simulates the user of a group without a cloud, who replaces its drained nodes.
func (u *user) replaceDrainedNodes() {
	for _, name := range sortedKeys(u.stored.record.Nodes) {
		n := u.stored.record.Nodes[name]
		if node := u.c.nodes[name]; n.State == record.NodeDrained && node != nil && node.UID == n.UID && u.c.chance(70) {
			if u.c.plan.InPlace {
				u.renewNode(name)
				continue
			}
			u.c.deleteNode(name)
			zone := node.Labels["topology.kubernetes.io/zone"]
			u.c.cloud.serial++
			fresh := fmt.Sprintf("new-%s-%02d", zone, u.c.cloud.serial)
			u.c.after(u.c.plan.Boot, func() {
				made := newNode(fresh, zone, u.c.cloud.wanted, u.c.now)
				u.c.closeNode(made)
				u.c.putNode(made)
				u.c.shadow[fresh] = made
				u.c.scheduleBinding()
			})
		}
	}
	u.c.after(time.Minute+u.c.drawUpTo(4*time.Minute), u.replaceDrainedNodes)
}
