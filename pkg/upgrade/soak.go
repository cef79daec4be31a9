package upgrade

import (
	"fmt"
	"time"
)

const (
	// mostSoak is how long all soaks of an upgrade may take together (GKE G50).
	mostSoak = 7 * 24 * time.Hour
	// longWait is how long a wait must still take for a process to leave instead of waiting.
	longWait = 15 * time.Minute
)

// Soak is a wait in which users may see how the new nodes serve. It outlives processes: its end is
// a time of day, on record before it begins.
type Soak struct {
	// Until is when the soak under way ends; zero when none is. Left is what was left of it when
	// the upgrade was paused.
	Until time.Time `json:"until,omitzero"`
	Left  Duration  `json:"left,omitzero"`
	// Spent is how long all soaks take, with the one under way.
	Spent Duration `json:"spent,omitzero"`
	// Batches are the nodes, in number, whose batch has soaked.
	Batches int `json:"batches,omitempty"`
}

// IsWaiting reports whether nothing is to be done for the upgrade before the end of its soak.
func (r *Record) IsWaiting(now time.Time) bool {
	return r.Result == Waiting && now.Before(r.Soak.Until)
}

// CheckReplan returns an error where an upgrade under way may not continue with the strategy, or to
// a target that moved: both colours of a blue-green upgrade are there already.
func (r *Record) CheckReplan(strategy Strategy, moved bool) error {
	switch {
	case strategy != r.Request.Strategy:
		return fmt.Errorf("it was begun with --strategy=%s, which it keeps: leave --strategy out, or run kubectl nodeupgrade abort %s first", r.Request.Strategy, r.Request.Group)
	case moved && !r.Back && r.Request.BlueGreen != nil:
		return fmt.Errorf("its target has moved from %s, and a blue-green upgrade keeps its target: run kubectl nodeupgrade rollback %s first", r.Target.Name, r.Request.Group)
	}
	return nil
}

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
	d.waiting = "the soak to end at " + s.Until.UTC().Format(time.RFC3339)
	d.requeueAt(s.Until)
	return false
}

// endSoak ends the soak under way.
func (d soaking) endSoak() { d.rec.Soak.Until = time.Time{} }

// isExhausted reports whether no time is left for a further soak.
func (d soaking) isExhausted() bool { return d.rec.Soak.Spent.Duration >= mostSoak }

// pauseAt keeps what is left of a soak under way for whoever resumes the upgrade.
func (s *Soak) pauseAt(now time.Time) {
	if s.Until.After(now) {
		s.Left, s.Until = Duration{s.Until.Sub(now)}, time.Time{}
	}
}

// pauseSoak stops the upgrade in its soak.
func (d soaking) pauseSoak() {
	d.rec.Soak.pauseAt(d.w.Now)
	d.rec.PausedBy = d.w.Asked.By
	d.stopUpgradeWith(Paused, fmt.Sprintf("paused by %s: run kubectl nodeupgrade resume %s to continue", d.w.Asked.By, d.w.Group.Name))
}

// leaveUpgrade ends the process where nothing is to be done for long: the same command continues
// when the soak is over. Nothing is undone for it.
func (d soaking) leaveUpgrade() {
	until := d.rec.Soak.Until
	if d.w.Stay || d.rec.Stopping != "" || until.Sub(d.w.Now) <= longWait || !d.hasNothingOpen() || !d.rec.noneInState(NodeDraining, NodeForcing, NodeEmpty, NodeRemoving) {
		return
	}
	d.endUpgradeWith(Waiting, "it soaks until "+until.UTC().Format(time.RFC3339))
}
