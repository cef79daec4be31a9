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
	// maxSoak is how long all soaks of an upgrade together may take (GKE G50). If a soak is longer than longWait, the process exits.
	maxSoak  = 7 * 24 * time.Hour
	longWait = 15 * time.Minute
	// maxDeletedAtOnce is how many outdated nodes are deleted at the same time.
	maxDeletedAtOnce = 20
	// maxAbsence is how long after the end of a soak the command may run again, at most.
	maxAbsence = 3 * 24 * time.Hour
)

// drawBlueGreen makes the upgrade a blue-green one in one of ten worlds with a cloud that this tool drives. It draws from its own
// generator, so that all other worlds stay the same.
func drawBlueGreen(p *Plan) {
	d := dice{rand.New(rand.NewPCG(p.Seed, 0x626c7565))}
	if !p.hasSize() || p.isDelegated() || !d.chance(10) {
		return
	}
	if d.chance(5) { // more nodes than the upgrade deletes at the same time
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
	d.setBlueGreenRequest(p)
	d.addBlueGreenActors(p)
	addCrashesWhileFreeing(p)
}

// addCrashesWhileFreeing makes some processes of a blue-green upgrade crash while they remove the scale-down-disabled annotation from
// new nodes. Some nodes then still have it after the last soak. It draws from its own generator, so that all other worlds stay the
// same.
func addCrashesWhileFreeing(p *Plan) {
	d := dice{rand.New(rand.NewPCG(p.Seed, 0x66726565))}
	if !d.chance(10) {
		return
	}
	p.Request.BlueGreen.Soak = record.Duration{Duration: d.between(time.Second, 5*time.Minute)}
	p.Faults = append(p.Faults, Fault{Kind: FreeKills, To: maxSoak, Percent: pick(d, 30, 60)})
}

// setBlueGreenRequest makes the request a blue-green one. If the process waits through the soaks, the soaks take at most hours.
func (d dice) setBlueGreenRequest(p *Plan) {
	r := &p.Request
	r.Strategy, r.Surge, r.MaxUnavailable, r.BatchBarrier = record.BlueGreen, p.countOutdated(), 0, false
	r.KeepMax = r.KeepMax && p.namesZones() && r.Surge <= p.Room
	most := 6 * time.Hour
	if !p.Stay {
		most = 5 * 24 * time.Hour
	}
	batchSoak := record.Duration{Duration: pick(d, 0, d.between(time.Second, 20*time.Minute), d.between(0, most/6))}
	soak := record.Duration{Duration: pick(d, 0, d.between(time.Second, 20*time.Minute), time.Hour, d.between(0, most), d.between(0, most))}
	r.BlueGreen = &record.BlueGreenRequest{Batch: d.IntN(5), BatchSoak: batchSoak, Soak: soak}
	r.Window = max(1, r.BlueGreen.Batch)
}

// addBlueGreenActors adds actors to a blue-green upgrade, spread over its longer duration. In half of these worlds, the only actors
// are users with requests, and processes that end. The strictest rules apply to these worlds.
func (d dice) addBlueGreenActors(p *Plan) {
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
	most := min(maxSoak, b.Soak.Duration+b.BatchSoak.Duration*time.Duration(len(p.Nodes))) + time.Hour
	if p.Calm > 0 {
		p.Calm += most
	}
	for range 1 + d.IntN(4) {
		p.Actors = append(p.Actors, Actor{Kind: pick(d, kinds...), At: d.between(0, pick(d, 10*time.Minute, time.Hour, most)), Pick: d.IntN(1000)})
	}
}

func (p *Plan) isBlueGreen() bool { return p.Request.Strategy == record.BlueGreen }

// extraTime returns the time that is added to upgradeLimit: for the soaks, and for the days after each soak until the command runs
// again.
func (p *Plan) extraTime() time.Duration {
	switch {
	case p.isShortLived():
		return week + 2*maxAbsence
	case p.isAutoscaled(): // 3*maxGrace is for pods whose grace period is longer than a day
		return maxSoak + maxAbsence*8 + 3*maxGrace
	case !p.isBlueGreen() && !p.isCloudBlueGreen():
		return 0
	}
	return maxSoak + maxAbsence*time.Duration(len(p.Nodes)+2)
}

// isBlueGreen reports whether the run is a blue-green upgrade. A rollback of one is a surge upgrade.
func isBlueGreen(rec *record.Record) bool {
	return rec.Run != "" && rec.Request.Strategy == record.BlueGreen && !rec.Rollback
}

func isDeletingBlue(rec *record.Record) bool {
	return isBlueGreen(rec) && rec.Phase == record.PhaseDeleteBlue
}

// hasScaleDownDisabled reports whether the node has the annotation that keeps autoscalers from removing it.
func hasScaleDownDisabled(node *corev1.Node) bool {
	return node.Annotations[nodemark.AnnotationNoScaleDown] == "true"
}

// isWaitingForSoak reports whether the process exited until the soak is over.
func (u *user) isWaitingForSoak() bool {
	return u.process.dead && u.stored.record.Result == record.Waiting
}

// scheduleRunAfterSoak schedules the next run of the command: at the end of the soak, up to days later, or before its end.
func (u *user) scheduleRunAfterSoak(record record.Record) {
	u.runs--
	u.calmRuns = max(0, u.calmRuns-1)
	if u.c.plan.isShortLived() {
		u.runCommandAfter(u.c.drawUpTo(maxAbsence))
		return
	}
	left := record.Soak.Until.Sub(u.c.now)
	if u.c.chance(30) {
		u.runCommandAfter(u.c.drawUpTo(left))
		return
	}
	u.runCommandAfter(left + pick(dice{u.c.rng}, 0, u.c.drawUpTo(time.Hour), u.c.drawUpTo(maxAbsence)))
}

// requestSoakEnd requests an early end of the soak. The running process ends the soak. If no process is running, the command runs
// again and ends it.
func (u *user) requestSoakEnd(int) (acted bool) {
	rec := &u.stored.record
	if u.undoVerb != "" || !rec.IsResumable() || upgrade.Allows(rec, record.VerbComplete) != nil {
		return false
	}
	u.storeRequest(record.Asked{Verb: record.VerbComplete, Run: rec.Run, By: "alice@host", At: u.c.now})
	if u.awaitsResume || u.isWaitingForSoak() {
		u.awaitsResume, u.endsSoakNext = false, true
		u.runCommandAfter(0)
	}
	return true
}

// pauseWaitingUpgrade marks an upgrade that waits for its soak as paused, as "pause" does if no process is running.
func (u *user) pauseWaitingUpgrade() {
	if u.isWaitingForSoak() && !u.c.plan.isDelegated() {
		u.runNumber++
		u.stored.record, u.awaitsResume = record.AsPaused(&u.stored.record, "workers", "alice@host", u.c.now), true
	}
}

// reopenRecord returns the record with which the same command continues, and its target revision.
func (u *user) reopenRecord(rec record.Record) (record.Record, string) {
	if u.endsSoakNext {
		rec, u.endsSoakNext = rec.AsCompleting(u.c.now), false
		u.rules.soaks.completed = true
	}
	if u.c.plan.keepsTarget() && rec.Request.Strategy != record.Surge {
		return rec.Reopened(), rec.Target.ID
	}
	return rec.Reopened(), u.c.cloud.wanted
}
