package record

import (
	"time"
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

// PauseAt stops a running soak and stores the remaining time in Left, so that the soak continues when the upgrade is resumed.
func (s *Soak) PauseAt(now time.Time) {
	if s.Until.After(now) {
		s.Left, s.Until = Duration{s.Until.Sub(now)}, time.Time{}
	}
}

// CompleteAt ends a soak under way (GKE G52).
func (s *Soak) CompleteAt(now time.Time) {
	if s.Until.After(now) {
		s.Until = now
	}
}
