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

// resumeProcesses lets the processes run again that we suspended, unless they would terminate nodes
// without a drain at once, because the zones are out of balance: then they stay suspended, and the
// record says so. A suspension of ours that is on its way, or that the group's reading is too old
// to show, is waited for.
func (d processes) resumeProcesses() bool {
	quiesced := d.lastAttempt(nodegroup.Quiesce{})
	if len(d.rec.Suspended) > 0 && (quiesced.InFlight || d.isNotYetVisible(quiesced)) {
		d.waitForCloud("")
		return false
	}
	ours := d.stillSuspended()
	if len(ours) == 0 {
		return true
	}
	if !d.areZonesBalanced() {
		coming := d.w.isResuming(quiesced)
		if coming {
			d.waitForCloud("")
		}
		return !coming // what is suspended still will show
	}
	d.waitForCloud("")
	d.addAction(nodegroup.Resume{Processes: ours})
	return false
}

// isNotYetVisible reports whether the group's reading is too old to show a suspension of ours:
// older than its answer, or so old that no one remembers whether there was one.
func (d processes) isNotYetVisible(quiesced nodegroup.Attempt) bool {
	if len(d.stillSuspended()) == len(d.rec.Suspended) {
		return false
	}
	if d.w.Now.After(d.w.Group.Observed.Add(staleReading)) {
		return true
	}
	resumed := d.lastAttempt(nodegroup.Resume{})
	undone := resumed.Outcome == nodegroup.OutcomeDone && !resumed.Ended.Before(quiesced.Ended)
	return quiesced.Outcome != "" && !undone && !d.w.Group.IsFreshAfter(quiesced.Ended)
}

// stillSuspended are the processes that we suspended and that no one has resumed.
func (d processes) stillSuspended() []string {
	var ours []string
	for _, process := range d.rec.Suspended {
		if slices.Contains(d.w.Group.Suspended, process) {
			ours = append(ours, process)
		}
	}
	return ours
}

// areZonesBalanced reports whether the zones differ by at most one node, or by no more than at the
// start.
func (d processes) areZonesBalanced() bool {
	return zoneSpread(d.w.Group.Zones, d.count.zones) <= max(1, zoneSpread(d.w.Group.Zones, d.rec.Sizes.Zones))
}

// describeSuspended says which processes are left suspended, "" when none is.
func (d processes) describeSuspended() string {
	ours := d.stillSuspended()
	if len(ours) == 0 {
		return ""
	}
	note := fmt.Sprintf("%s stays suspended, because the zones are out of balance (%s) and nodes would be terminated without a drain",
		strings.Join(ours, ", "), formatZoneSizes(d.count.zones))
	if d.rec.IsResumable() && d.rec.Stopping != Aborted {
		return note // whoever continues resumes it
	}
	return note + ": when they are even, " + nodegroup.InfoOf(d.w.Group.Provider).ResumeCommand(d.w.Group.Name, ours)
}

// suspendProcesses suspends the provider's processes that would fight the upgrade, and remembers
// which were ours to suspend.
func (d processes) suspendProcesses() bool {
	var missing []string
	for _, process := range d.w.Group.Quiesce {
		if !slices.Contains(d.w.Group.Suspended, process) {
			missing = append(missing, process)
			if !slices.Contains(d.rec.Suspended, process) {
				d.rec.Suspended = append(d.rec.Suspended, process)
			}
		}
	}
	if len(missing) == 0 {
		return true
	}
	d.waitForCloud("")
	d.addAction(nodegroup.Quiesce{Processes: missing})
	return false
}
