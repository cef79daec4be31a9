package upgrade

import (
	"cmp"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

const (
	// maxSoak limits how long all soaks of an upgrade take together (GKE G50).
	maxSoak = 7 * 24 * time.Hour
	// defaultSoak is how long a blue-green upgrade keeps the drained nodes (GKE G49).
	defaultSoak = time.Hour
	// longWait is the remaining wait above which a process exits instead of waiting.
	longWait = 15 * time.Minute
)

// soakFor begins a soak of the length, or continues with the running one, and reports whether it is over. All soaks
// together last at most maxSoak.
func (d *decision) soakFor(length time.Duration) (over bool) {
	s := &d.rec.Soak
	switch {
	case !s.Until.IsZero(): // the soak is running, or was completed while it was paused
	case s.Left.Duration > 0:
		s.Until = d.w.Now.Add(s.Left.Duration)
	default:
		length = max(0, min(length, maxSoak-s.Spent.Duration))
		s.Until, s.Spent = d.w.Now.Add(length), record.Duration{Duration: s.Spent.Duration + length}
	}
	s.Left = record.Duration{}
	if !d.w.Now.Before(s.Until) {
		return true
	}
	d.setWaiting(cmp.Or(d.phase.waitsFor, "the soak") + " to end at " + s.Until.UTC().Format(time.RFC3339))
	d.requeueAt(s.Until)
	return false
}

// completeSoak ends a running soak before its time. If the group's cloud keeps the outdated nodes, the cloud must end it. Requests stay
// stored after they are obeyed, so one from before the cloud's operation was for the soak of an earlier operation.
func (d *decision) completeSoak() {
	known, op := d.rec.Delegation, d.newestOperation()
	switch {
	case known == nil:
		d.rec.Soak.CompleteAt(d.w.Now)
	case op.ID == known.ID && d.w.Asked.At.After(op.Began):
		known.Completing = known.ID
	}
}

// endSoak ends the current soak.
func (d *decision) endSoak() { d.rec.Soak.Until = time.Time{} }

// isSoakExhausted reports whether no time is left for a further soak.
func (d *decision) isSoakExhausted() bool { return d.rec.Soak.Spent.Duration >= maxSoak }

// pauseSoak pauses the upgrade during its soak.
func (d *decision) pauseSoak() {
	d.rec.Soak.PauseAt(d.w.Now)
	d.stopForPauseRequest()
}

// exitDuringLongSoak ends the process if there is nothing to do for long. The same command continues when the soak is over,
// and nothing is undone. The process stays while workloads have fewer ready pods than before, to stop the upgrade if
// they do not recover. It also stays until autoscalers are kept from new nodes that have just become Ready.
func (d *decision) exitDuringLongSoak() {
	until := d.rec.Soak.Until
	if d.finished || d.w.Stay || d.willHold() || len(d.unhealthy)+len(d.lacking)+len(d.awaited) > 0 || d.rec.Stopping != "" || until.Sub(d.w.Now) <= longWait || !d.hasNothingOpen() || !d.rec.NoneInState(record.NodeDraining, record.NodeForcing, record.NodeEmpty, record.NodeRemoving) {
		return
	}
	if d.rec.Phase == record.PhaseDrainBlue && d.isSoakExhausted() {
		d.requeueNow() // the last soak follows; its phase gives the new nodes back to autoscalers first
		return
	}
	d.endUpgradeWith(record.Waiting, cmp.Or(d.phase.waitsUntil, "it soaks")+" until "+until.UTC().Format(time.RFC3339))
}
