package upgrade

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// processes suspends what would fight the upgrade, and resumes it.
type processes struct{ *draft }

func processesOf(d *draft) processes { return processes{d} }

// resumeProcesses lets the processes run again that we suspended, unless they would terminate nodes without
// a drain at once, because the zones are out of balance: then they stay suspended, and the record
// says so. A suspension of ours that is on its way, or that the group's reading is too old to show,
// is waited for.
func (t processes) resumeProcesses() bool {
	quiesced := t.lastAttempt(nodegroup.Quiesce{})
	if len(t.rec.Suspended) > 0 && (quiesced.InFlight || t.isUnseen(quiesced)) {
		t.waitForCloud("")
		return false
	}
	ours := t.stillSuspended()
	if len(ours) == 0 {
		return true
	}
	if !t.areZonesBalanced() {
		coming := t.w.isResuming(quiesced)
		if coming {
			t.waitForCloud("")
		}
		return !coming // what is suspended still will show
	}
	t.waitForCloud("")
	t.addAction(nodegroup.Resume{Processes: ours})
	return false
}

// isUnseen reports whether the group's reading is too old to show a suspension of ours: older than
// its answer, or so old that nobody remembers whether there was one.
func (t processes) isUnseen(quiesced nodegroup.Attempt) bool {
	if len(t.stillSuspended()) == len(t.rec.Suspended) {
		return false
	}
	if t.w.Now.After(t.w.Group.Observed.Add(staleReading)) {
		return true
	}
	resumed := t.lastAttempt(nodegroup.Resume{})
	undone := resumed.Outcome == nodegroup.OutcomeDone && !resumed.Ended.Before(quiesced.Ended)
	return quiesced.Outcome != "" && !undone && !t.w.Group.IsFreshAfter(quiesced.Ended)
}

// stillSuspended are the processes that we suspended and that nobody has resumed.
func (t processes) stillSuspended() []string {
	var ours []string
	for _, process := range t.rec.Suspended {
		if slices.Contains(t.w.Group.Suspended, process) {
			ours = append(ours, process)
		}
	}
	return ours
}

// areZonesBalanced reports whether the zones differ by at most one node, or by no more than at the start.
func (t processes) areZonesBalanced() bool {
	return zoneSpread(t.w.Group.Zones, t.count.zones) <= max(1, zoneSpread(t.w.Group.Zones, t.rec.Sizes.Zones))
}

// suspendedNote says which processes are left suspended, "" when none is.
func (t processes) suspendedNote() string {
	ours := t.stillSuspended()
	if len(ours) == 0 {
		return ""
	}
	note := fmt.Sprintf("%s stays suspended, because the zones are out of balance (%s) and nodes would be terminated without a drain",
		strings.Join(ours, ", "), zoneSizes(t.count.zones))
	if t.rec.Resumable() && t.rec.Stopping != Aborted {
		return note // whoever continues resumes it
	}
	return note + fmt.Sprintf(": when they are even, aws autoscaling resume-processes --auto-scaling-group-name %s --scaling-processes %s",
		t.w.Group.Name, strings.Join(ours, " "))
}

// suspendProcesses suspends the provider's processes that would fight the upgrade, and remembers which were
// ours to suspend.
func (t processes) suspendProcesses() bool {
	var missing []string
	for _, process := range t.w.Group.Quiesce {
		if !slices.Contains(t.w.Group.Suspended, process) {
			missing = append(missing, process)
			if !slices.Contains(t.rec.Suspended, process) {
				t.rec.Suspended = append(t.rec.Suspended, process)
			}
		}
	}
	if len(missing) == 0 {
		return true
	}
	t.waitForCloud("")
	t.addAction(nodegroup.Quiesce{Processes: missing})
	return false
}
