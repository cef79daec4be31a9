package upgrade

import (
	"cmp"
	"time"
)

const (
	// mostSoak is how long all soaks of an upgrade may take together (GKE G50).
	mostSoak = 7 * 24 * time.Hour
	// longWait is how long a wait must still take for a process to leave instead of waiting.
	longWait = 15 * time.Minute
)

// soaking waits in an upgrade.
type soaking struct{ *draft }

// isOver begins a soak of the length, or continues with the one under way, and reports whether it
// is over. All soaks together last mostSoak at the most.
func (d soaking) isOver(length time.Duration) bool {
	s := &d.rec.Soak
	switch {
	case !s.Until.IsZero(): // it is under way, or was completed while it was paused
	case s.Left.Duration > 0:
		s.Until = d.w.Now.Add(s.Left.Duration)
	default:
		length = max(0, min(length, mostSoak-s.Spent.Duration))
		s.Until, s.Spent = d.w.Now.Add(length), Duration{s.Spent.Duration + length}
	}
	s.Left = Duration{}
	if !d.w.Now.Before(s.Until) {
		return true
	}
	d.waiting = cmp.Or(d.phase.waitsFor, "the soak") + " to end at " + s.Until.UTC().Format(time.RFC3339)
	d.requeueAt(s.Until)
	return false
}

// endSoak ends the soak under way.
func (d soaking) endSoak() { d.rec.Soak.Until = time.Time{} }

// isExhausted reports whether no time is left for a further soak.
func (d soaking) isExhausted() bool { return d.rec.Soak.Spent.Duration >= mostSoak }

// pauseSoak stops the upgrade in its soak.
func (d soaking) pauseSoak() {
	d.rec.Soak.pauseAt(d.w.Now)
	stopAsAsked(d.draft)
}

// leaveUpgrade ends the process where nothing is to be done for long: the same command continues
// when the soak is over. Nothing is undone for it. It stays while workloads have fewer ready pods than
// before, to stop the upgrade should they not recover.
func (d soaking) leaveUpgrade() {
	until := d.rec.Soak.Until
	if d.w.Stay || len(d.unhealthy) > 0 || len(d.awaited) > 0 || d.rec.Stopping != "" || until.Sub(d.w.Now) <= longWait || !d.hasNothingOpen() || !d.rec.noneInState(NodeDraining, NodeForcing, NodeEmpty, NodeRemoving) {
		return
	}
	if d.rec.Phase == PhaseDrainBlue && d.isExhausted() {
		d.requeueNow() // it is the last soak, whose phase frees the new nodes first
		return
	}
	d.endUpgradeWith(Waiting, cmp.Or(d.phase.waitsUntil, "it soaks")+" until "+until.UTC().Format(time.RFC3339))
}
