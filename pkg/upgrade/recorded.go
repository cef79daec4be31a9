package upgrade

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// PausedByRequest tells a pause that was asked for from one that the upgrade met with.
func PausedByRequest(r *Record) bool { return r.Result == Paused && r.PausedBy != "" }

// MarkPaused is the record of an upgrade that no process carries out, as a user pauses it.
func MarkPaused(r *Record, group, by string, now time.Time) Record {
	c := r.Clone()
	c.Result, c.PausedBy, c.Message, c.Ended = Paused, by, "", now.UTC().Truncate(time.Second)
	c.Message = PauseMessage(&c, group)
	c.Soak.pauseAt(now)
	return c
}

// PauseMessage says who or what paused the upgrade, and how it is continued.
func PauseMessage(r *Record, group string) string {
	if r.Message != "" {
		return r.Message
	}
	return describePause(r.PausedBy, group)
}

func describePause(by, group string) string {
	return fmt.Sprintf("paused by %s: run %s to continue", by, nodegroup.Command("resume", group))
}

// GroupsToReport are the groups that a status without a name can be about: the only one with a
// record, or those with an upgrade under way; sorted.
func GroupsToReport(records map[string]Record) []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(records)) {
		if record := records[name]; len(records) == 1 || record.IsRunning() {
			names = append(names, name)
		}
	}
	return names
}

// HasFailedOperation reports whether the cloud's operation is over without having reached its goal:
// the next one may be another.
func (r *Record) HasFailedOperation() bool {
	return r.Delegation != nil && r.Result != "" && r.Result != Interrupted
}

// CheckReplan returns an error where an upgrade under way may not continue with the strategy, or to
// a target that moved: both colours of a blue-green upgrade are there already.
func (r *Record) CheckReplan(strategy Strategy, moved bool) error {
	switch {
	case strategy != r.Request.Strategy:
		return fmt.Errorf("it was begun with --strategy=%s, which it keeps: leave --strategy out, or run %s first", r.Request.Strategy, nodegroup.Command("abort", r.Request.Group))
	case moved && r.Request.Strategy == AutoscaledBlueGreen:
		return fmt.Errorf("its target has moved from %s, and an autoscaled blue-green upgrade keeps its target: run %s first", r.Target.Name, nodegroup.Command("abort", r.Request.Group))
	case moved && !r.Back && r.Request.BlueGreen != nil:
		return fmt.Errorf("its target has moved from %s, and a blue-green upgrade keeps its target: run %s first", r.Target.Name, nodegroup.Command("rollback", r.Request.Group))
	}
	return nil
}
