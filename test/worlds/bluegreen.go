package worlds

import (
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodemark"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

const (
	// mostSoak is how long all soaks of an upgrade may take (GKE G50). If a wait is longer than longWait, the process exits.
	mostSoak = 7 * 24 * time.Hour
	longWait = 15 * time.Minute
	// mostDeleted is how many outdated nodes are deleted at the same time.
	mostDeleted = 20
	// absence is how long after the end of a soak the command may run again, at most.
	absence = 3 * 24 * time.Hour
)

// blueGreen makes the upgrade a blue-green one in one of ten worlds with a cloud that this tool drives. It draws from its own
// generator, so that all other worlds stay the same.
func blueGreen(p *Plan) {
	d := dice{rand.New(rand.NewPCG(p.Seed, 0x626c7565))}
	if !p.sized() || p.delegated() || !d.chance(10) {
		return
	}
	if d.chance(5) { // more than are deleted at the same time
		for len(p.Nodes) < 24 {
			p.Nodes = append(p.Nodes, Node{Zone: d.IntN(p.Zones)})
		}
	}
	for i := range p.Workloads {
		if d.chance(15) {
			p.Workloads[i].Grace = 2 * time.Hour
		}
	}
	p.Stay = d.chance(50)
	d.colours(p)
	d.passers(p)
	losesFrees(p)
}

// losesFrees makes some processes of a blue-green upgrade crash when they give the new nodes back to autoscalers. Autoscalers are then
// still kept from some nodes when the last soak is over. It draws from its own generator, so that all other worlds stay the same.
func losesFrees(p *Plan) {
	d := dice{rand.New(rand.NewPCG(p.Seed, 0x66726565))}
	if !d.chance(10) {
		return
	}
	p.Request.BlueGreen.Soak = record.Duration{Duration: d.between(time.Second, 5*time.Minute)}
	p.Faults = append(p.Faults, Fault{Kind: FreeKills, To: mostSoak, Percent: pick(d, 30, 60)})
}

// colours makes the request a blue-green one. A process that stays during the soaks waits for hours at most.
func (d dice) colours(p *Plan) {
	r := &p.Request
	r.Strategy, r.Surge, r.MaxUnavailable, r.BatchBarrier = record.BlueGreen, p.outdated(), 0, false
	r.KeepMax = r.KeepMax && p.inZones() && r.Surge <= p.Room
	most := 6 * time.Hour
	if !p.Stay {
		most = 5 * 24 * time.Hour
	}
	batchSoak := record.Duration{Duration: pick(d, 0, d.between(time.Second, 20*time.Minute), d.between(0, most/6))}
	soak := record.Duration{Duration: pick(d, 0, d.between(time.Second, 20*time.Minute), time.Hour, d.between(0, most), d.between(0, most))}
	r.BlueGreen = &record.BlueGreenRequest{Batch: d.IntN(5), BatchSoak: batchSoak, Soak: soak}
	r.Window = max(1, r.BlueGreen.Batch)
}

// passers adds actors to a blue-green upgrade, which takes longer than others. In half of these worlds they are only users who request
// something, so that every promise made to them can be checked exactly.
func (d dice) passers(p *Plan) {
	if d.chance(40) {
		return
	}
	kinds := []ActorKind{EndsSoak, EndsSoak, Pauses, RollsBack, Aborts, Kill, KillMidStep, Interrupt}
	if d.chance(50) {
		p.Faults, p.Actors, p.WatchLag, p.CloudLag = nil, nil, 0, 0
	} else {
		kinds = append(kinds, ScalerGrows, ScalerGrows, ScalerShrinks, ScalerShrinks, ScalerShrinks, AdminUncordons, AdminProtects, AdminResumes, AdminTerminates, TargetMoves)
	}
	if len(p.Request.Current) > 0 { // the labels would belong to another target
		kinds = kinds[:min(len(kinds), 17)]
	}
	b := p.Request.BlueGreen
	most := min(mostSoak, b.Soak.Duration+b.BatchSoak.Duration*time.Duration(len(p.Nodes))) + time.Hour
	if p.Calm > 0 {
		p.Calm += most
	}
	for range 1 + d.IntN(4) {
		p.Actors = append(p.Actors, Actor{Kind: pick(d, kinds...), At: d.between(0, pick(d, 10*time.Minute, time.Hour, most)), Pick: d.IntN(1000)})
	}
}

func (p *Plan) blueGreen() bool { return p.Request.Strategy == record.BlueGreen }

// absences returns how much longer an upgrade may take because of its soaks, and because of the days after each soak in which nobody
// runs the command.
func (p *Plan) absences() time.Duration {
	switch {
	case p.shortLived():
		return week + 2*absence
	case p.autoscaled(): // and the grace of pods that take longer than a day
		return mostSoak + absence*8 + 3*mostGrace
	case !p.blueGreen():
		return 0
	}
	return mostSoak + absence*time.Duration(len(p.Nodes)+2)
}

// isBlueGreen reports whether both colours are kept. The way back is a surge upgrade.
func isBlueGreen(rec *record.Record) bool {
	return rec.Run != "" && rec.Request.Strategy == record.BlueGreen && !rec.Rollback
}

func isDeletingBlue(rec *record.Record) bool {
	return isBlueGreen(rec) && rec.Phase == record.PhaseDeleteBlue
}

// keptFromScaler reports whether the node has the annotation that tells autoscalers not to remove it.
func keptFromScaler(node *corev1.Node) bool {
	return node.Annotations[nodemark.AnnotationNoScaleDown] == "true"
}

// isWaiting reports whether no process runs until a soak is over.
func (u *user) isWaiting() bool {
	return u.process.dead && u.stored.record.Result == record.Waiting
}

// wait schedules the next run of the command: after the soak, perhaps days later, and sometimes before.
func (u *user) wait(record record.Record) {
	u.runs--
	u.late = max(0, u.late-1)
	if u.c.plan.shortLived() {
		u.again(u.c.draw(absence))
		return
	}
	left := record.Soak.Until.Sub(u.c.now)
	if u.c.chance(30) {
		u.again(u.c.draw(left))
		return
	}
	u.again(left + pick(dice{u.c.rng}, 0, u.c.draw(time.Hour), u.c.draw(absence)))
}

// endSoak ends the soak early. The process that runs the upgrade does it, or the next run of the command if there is no process.
func (u *user) endSoak(int) bool {
	rec := &u.stored.record
	if u.way != "" || !rec.IsResumable() || upgrade.Allows(rec, record.VerbComplete) != nil {
		return false
	}
	u.leave(record.Asked{Verb: record.VerbComplete, Run: rec.Run, By: "alice@host", At: u.c.now})
	if u.pausing || u.isWaiting() {
		u.pausing, u.completes = false, true
		u.again(0)
	}
	return true
}

// markPaused pauses an upgrade without a process, as the command of the user who asks for a pause does.
func (u *user) markPaused() {
	if u.isWaiting() {
		u.planned++
		u.stored.record, u.pausing = record.AsPaused(&u.stored.record, "workers", "alice@host", u.c.now), true
	}
}

// reopen returns the record and the revision with which the same command continues.
func (u *user) reopen(rec record.Record) (record.Record, string) {
	if u.completes {
		rec.Soak.Until, u.completes = u.c.now, false
		u.rules.soaks.completed = true
	}
	if u.c.plan.pins() && rec.Request.Strategy != record.Surge {
		return rec.Reopened(), rec.Target.ID
	}
	return rec.Reopened(), u.c.cloud.wanted
}
