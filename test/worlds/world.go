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
	// patience is how long an upgrade may take once nothing is in its way, in virtual time.
	patience = 48 * time.Hour
	// mostTurns limits the turns of a process, in addition to the two per minute in which it polls. A process with more turns acts
	// forever.
	mostTurns  = 20_000
	looksAgain = 30 * time.Second
	// mostRuns is how often the user runs the command again once nothing is in its way.
	mostRuns = 12
	// stubbornRuns is how often the user runs the command where the obstacles stay.
	stubbornRuns = 4
)

// Verdict is the result of a world. Broken is the first rule that was broken, and how; it is empty if none was.
type Verdict struct {
	Seed   uint64
	Broken string
	Result record.Result
	Tally  Tally
	// Lasted is how long the world took in virtual time. Turns is the number of decisions.
	Lasted time.Duration
	Turns  int
}

// Run plays the planned world. If say is not nil, Run passes it one line for each thing that happens.
func Run(plan Plan, say func(string)) Verdict {
	c := newCluster(&plan)
	u := &user{c: c, rules: newRules(c, say), stored: &stored{}, renewing: map[types.UID]bool{}}
	if plan.autoscaled() {
		c.unplaced = u.scaleUp
	}
	if plan.podScaled() {
		c.unplaced = u.launchForPods
	}
	for _, a := range plan.Actors {
		c.after(a.At, func() { u.interfere(a) })
	}
	if plan.Calm > 0 {
		c.after(plan.Calm, u.calm)
	}
	if plan.Elsewhere > 0 {
		c.after(plan.Elsewhere, u.runElsewhere)
	}
	u.begin()
	if !plan.listed() {
		c.after(time.Minute, u.replaceDrained)
	}
	u.live()
	v := Verdict{
		Seed: plan.Seed, Broken: u.rules.broken, Result: u.stored.record.Result, Tally: u.rules.tally, Lasted: c.since(), Turns: u.turns(),
	}
	return v
}

// user is the person at the command line, who runs the command, stops it, and runs it again.
type user struct {
	c       *cluster
	rules   *rules
	process *process
	stored  *stored
	// renewing contains the nodes that are being renewed in place, or were.
	renewing map[types.UID]bool
	// runs counts the runs of the command. late counts the runs since the world became calm.
	runs, late int
	// past counts the turns of earlier processes.
	past int
	// done is true when the user is content or gives up.
	done bool
	// replan is true when the next run continues to the current target.
	replan bool
	// names is the number of upgrades that were begun, which names the runs.
	names int
	// way is the verb with which the command undoes the upgrade, once another actor asked for it. pausing is true while the upgrade
	// waits to be resumed.
	way     record.Verb
	pausing bool
	// planned is the number of the last time at which the command will run again. Only the last one counts.
	planned int
	// aimed is the node for which another actor wrote another machine into the record; "" for none.
	aimed string
	// before is the revision before the upgrade, where another actor wrote another one into the record.
	before nodegroup.Revision
	// completes is true when the next run ends the soak.
	completes bool
}

func (u *user) turns() int { return u.past + u.process.turns }

// live passes the time until the user is done or a rule is broken.
func (u *user) live() {
	for !u.done && u.rules.broken == "" && u.c.tick() {
		if u.process != nil && u.process.turns > mostTurns+int(u.c.since()/looksAgain) {
			u.rules.fail("liveness", "it acts without end, in phase %q", u.process.record.Phase)
		}
		if limit := u.c.plan.Calm + patience + u.c.plan.absences(); u.c.since() > limit {
			u.rules.fail("liveness", "no end within %s: in phase %q with %d of %d replaced", limit, u.process.record.Phase, u.process.record.Replaced, u.process.record.Total)
		}
	}
	if !u.done && u.rules.broken == "" {
		u.rules.fail("liveness", "nothing happens any more")
	}
}

// begin runs the command: for the first time, or to continue.
func (u *user) begin() {
	u.wipe()
	rec, err := reread(u.stored.record)
	if err != nil {
		u.rules.fail("record", "%v", err)
		return
	}
	if u.way != "" && rec.Run != "" && !rec.IsResumable() {
		u.reached(rec) // the user who asked for it crashed when all was done
		return
	}
	u.rules.soaks.early = upgrade.IsWaiting(&rec, u.c.now) && rec.Soak.Until.Sub(u.c.now) > longWait
	group := u.found()
	request := u.c.plan.Request
	u.replan = u.replans(&rec)
	if rec.IsResumable() {
		var wanted string
		rec, wanted = u.adopt(rec)
		group = retarget(group, wanted)
		request = rec.Request
		if u.replan && u.way == "" {
			rec, u.replan = rec.WithTarget(group.Wanted), false
		}
	} else {
		rec = record.Record{}
		u.names++
		request.Run = fmt.Sprintf("r%d", u.names)
	}
	if u.process != nil {
		u.past += u.process.turns
	}
	u.runs++
	if u.c.calm {
		u.late++
	}
	u.rules.say("the command is run, run %s", request.Run)
	u.stored.record = rec
	if rec.Run == "" {
		u.stored.record = record.Record{}
	}
	u.process = newProcess(u.c, u.rules, u.stored, found{request, rec, group})
	u.rules.begun(u.process)
	process := u.process
	u.process.ended = func(record record.Record) { u.over(process, record) }
}

// over handles the end of a process: with a result, or without one if it crashed.
func (u *user) over(p *process, rec record.Record) {
	if p != u.process || u.done {
		return
	}
	if rec.Result == "" {
		u.rules.say("the process is dead")
		u.again(time.Minute + u.c.draw(10*time.Minute)) // its lease must expire first
		return
	}
	u.rules.say("result %q %s", rec.Result, rec.Message)
	u.rules.rest(rec)
	u.repair(rec)
	u.loosen(rec)
	switch {
	case rec.Result == record.Succeeded || rec.Result == record.LeftBehind || rec.Result == record.Aborted:
		u.reached(rec)
	case rec.PausedBy != "" && u.stored.asked.Verb == record.VerbPause:
		u.pausing = true
	case u.way != "" && strings.HasPrefix(rec.Message, "stopped for "):
		u.again(time.Second + u.c.draw(20*time.Second)) // the user who asked waits for that
	case rec.Result == record.Waiting:
		u.wait(rec)
	case rec.Result == record.TargetMoved:
		u.replan = true
		u.again(time.Second + u.c.draw(30*time.Minute))
	case u.late > mostRuns && strings.HasSuffix(rec.Message, "remove --keep-max") && u.c.plan.hasActor(ScalerGrows):
		u.done = true // an autoscaler has taken the remaining room, and --keep-max forbids more
	case u.late > mostRuns:
		u.rules.fail("liveness", "run %d times with nothing in the way, it ends with %q: %s", u.late, rec.Result, rec.Message)
	case u.c.plan.Calm == 0 && u.runs >= stubbornRuns && rec.Result != record.Interrupted:
		u.done = true
	default:
		u.again(time.Second + u.c.draw(30*time.Minute))
	}
}

// reached handles the end of an upgrade that was carried out or undone.
func (u *user) reached(rec record.Record) {
	u.done = true
	if u.c.plan.delegated() {
		return // restDelegated has checked everything
	}
	if rec.Result == record.Aborted {
		u.rules.aborted(rec)
		return
	}
	u.rules.end(rec)
}

// again runs the command after the given time. It cancels the time that was planned before.
func (u *user) again(after time.Duration) {
	u.planned++
	planned := u.planned
	u.c.after(after, func() {
		if u.planned == planned {
			u.begin()
		}
	})
}

// interrupt acts as Ctrl-C. A process that does not come to rest within stopLimit is killed.
func (u *user) interrupt() {
	p := u.process
	if p.dead || p.stop {
		return
	}
	p.stop = true
	p.look()
	u.c.after(stopLimit, func() {
		if !p.dead {
			p.die()
		}
	})
}

// replaceDrained acts as the user, who replaces the drained nodes of a group without a cloud.
func (u *user) replaceDrained() {
	for _, name := range sortedKeys(u.stored.record.Nodes) {
		n := u.stored.record.Nodes[name]
		if node := u.c.nodes[name]; n.State == record.NodeDrained && node != nil && node.UID == n.UID && u.c.chance(70) {
			if u.c.plan.InPlace {
				u.renew(name)
				continue
			}
			u.c.dropNode(name)
			zone := node.Labels["topology.kubernetes.io/zone"]
			u.c.cloud.serial++
			fresh := fmt.Sprintf("new-%s-%02d", zone, u.c.cloud.serial)
			u.c.after(u.c.plan.Boot, func() {
				made := newNode(fresh, zone, u.c.cloud.wanted, u.c.now)
				u.c.closeNode(made)
				u.c.putNode(made)
				u.c.shadow[fresh] = made
				u.c.place()
			})
		}
	}
	u.c.after(time.Minute+u.c.draw(4*time.Minute), u.replaceDrained)
}
