package record

import (
	"time"
)

// Soak is a wait during which users may check how the new nodes serve. It outlives processes: its end is a time of day
// that is stored before it begins.
type Soak struct {
	// Until is when the running soak ends; zero if none is running. Left is the time that was left when the upgrade was
	// paused.
	Until time.Time `json:"until,omitzero"`
	Left  Duration  `json:"left,omitzero"`
	// Spent is how long all soaks take together, including the running one.
	Spent Duration `json:"spent,omitzero"`
	// Batches counts nodes, not batches: the started nodes whose batch has soaked.
	Batches int `json:"batches,omitempty"`
}

// PauseAt stops a running soak and stores the remaining time in Left, so that the soak continues when the upgrade is resumed.
func (s *Soak) PauseAt(now time.Time) {
	if s.Until.After(now) {
		s.Left, s.Until = Duration{s.Until.Sub(now)}, time.Time{}
	}
}

// CompleteAt ends a running soak (GKE G52).
func (s *Soak) CompleteAt(now time.Time) {
	if s.Until.After(now) {
		s.Until = now
	}
}
