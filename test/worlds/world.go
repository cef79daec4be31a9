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
	// mostTurns bounds the turns of a process beside those in which it looks again, twice a minute: one that takes more acts without end.
	mostTurns  = 20_000
	looksAgain = 30 * time.Second
	// mostRuns is how often the command is run again once nothing is in its way.
	mostRuns = 12
	// stubbornRuns is how often it is run where the obstacles stay.
	stubbornRuns = 4
)

// Verdict is how a world ended. Broken is empty, or the first rule that was broken and how.
type Verdict struct {
	Seed   uint64
	Broken string
	Result record.Result
	Tally  Tally
	// Lasted is the virtual time the world went on for; Turns are the decisions that were taken.
	Lasted time.Duration
	Turns  int
}

// Run lets the planned world happen. say, if not nil, is told what happens, line by line.
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
	// renewing are the nodes that are being renewed in place, or were.
	renewing map[types.UID]bool
	// runs counts runs of the command, late those since the world is calm.
	runs, late int
	// past counts the turns of processes that are no more.
	past int
	// done is true when the user is content, or gives up.
	done bool
	// replan is true when the next run continues to the target as it is by then.
	replan bool
	// names numbers the runs of upgrades.
	names int
	// way is what the command undoes the upgrade with, once another actor asked for that; pausing is true while it waits to be resumed.
	way     record.Verb
	pausing bool
	// planned numbers the times at which the command is to be run again: the last one counts.
	planned int
	// aimed is the node for which another actor had the record name another machine, "" for none.
	aimed string
	// before is the revision before the upgrade, where another actor had the record name another.
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
		u.reached(rec) // who asked for it died when all was done
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
			rec, u.replan = rec.Retargeted(group.Wanted), false
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

// over is the end of a process: with a result, or without a word.
func (u *user) over(p *process, rec record.Record) {
	if p != u.process || u.done {
		return
	}
	if rec.Result == "" {
		u.rules.say("the process is dead")
		u.again(time.Minute + u.c.draw(10*time.Minute)) // its lease must be over
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
	case u.way != "" && strings.HasPrefix(rec.Message, "gave way to"):
		u.again(time.Second + u.c.draw(20*time.Second)) // who asked waits for that
	case rec.Result == record.Waiting:
		u.wait(rec)
	case rec.Result == record.TargetMoved:
		u.replan = true
		u.again(time.Second + u.c.draw(30*time.Minute))
	case u.late > mostRuns && strings.HasSuffix(rec.Message, "leave --keep-max out") && u.c.plan.hasActor(ScalerGrows):
		u.done = true // the room that was left is an autoscaler's by now, and more was ruled out
	case u.late > mostRuns:
		u.rules.fail("liveness", "run %d times with nothing in the way, it ends with %q: %s", u.late, rec.Result, rec.Message)
	case u.c.plan.Calm == 0 && u.runs >= stubbornRuns && rec.Result != record.Interrupted:
		u.done = true
	default:
		u.again(time.Second + u.c.draw(30*time.Minute))
	}
}

// reached is the end of an upgrade that was carried out, or undone.
func (u *user) reached(rec record.Record) {
	u.done = true
	if u.c.plan.delegated() {
		return // at rest all is said
	}
	if rec.Result == record.Aborted {
		u.rules.aborted(rec)
		return
	}
	u.rules.end(rec)
}

// again runs the command after the time, and not when it was to be run before.
func (u *user) again(after time.Duration) {
	u.planned++
	planned := u.planned
	u.c.after(after, func() {
		if u.planned == planned {
			u.begin()
		}
	})
}

// interrupt is Ctrl-C. A process that does not come to rest in its time is over all the same.
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

// replaceDrained is the person who replaces the drained nodes of a group without a cloud.
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
