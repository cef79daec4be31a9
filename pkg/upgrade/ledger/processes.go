package ledger

import (
	"slices"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// staleReading is an age that a reading of the cloud only reaches after several failed readings.
const staleReading = 3 * time.Minute

// SuspendProcesses suspends the provider's processes that would work against the upgrade. It returns those that the
// upgrade must resume.
func SuspendProcesses(v View) (ours []string, d Decision) {
	ours = slices.Clip(v.Suspended)
	var missing []string
	for _, process := range v.Quiesce {
		if !slices.Contains(v.Group.Suspended, process) {
			missing = append(missing, process)
			if !slices.Contains(ours, process) {
				ours = append(ours, process)
			}
		}
	}
	if len(missing) == 0 {
		return ours, Decision{Done: true}
	}
	return ours, Decision{Poll: true, Actions: []nodegroup.Action{nodegroup.Quiesce{Processes: missing}}}
}

// ResumeProcesses resumes the processes that the upgrade suspended. While the zones are out of balance, processes that
// would terminate nodes without a drain stay suspended. It waits for a suspension of ours that is in flight or not
// visible yet.
func ResumeProcesses(v View) Decision {
	quiesced := v.lastAttempt(nodegroup.Quiesce{})
	ours := v.StillSuspended()
	switch {
	case len(v.Suspended) > 0 && (quiesced.InFlight || isSuspensionUnseen(&v, quiesced)):
		return Decision{Poll: true}
	case len(ours) == 0:
		return Decision{Done: true}
	}
	held := v.HeldSuspended()
	if harmless := slices.DeleteFunc(ours, func(process string) bool { return slices.Contains(held, process) }); len(harmless) > 0 {
		return Decision{Poll: true, Actions: []nodegroup.Action{nodegroup.Resume{Processes: harmless}}}
	}
	coming := isResuming(&v, quiesced)
	return Decision{Poll: coming, Done: !coming} // later readings show what is still suspended
}

// terminatesWithoutDrain reports whether the process could terminate nodes without a drain.
func (v *View) terminatesWithoutDrain(process string) bool {
	return slices.Contains(v.Group.Quiesce, process)
}

// StillSuspended returns the processes that the upgrade suspended and that are still suspended.
func (v *View) StillSuspended() []string {
	var ours []string
	for _, process := range v.Suspended {
		if slices.Contains(v.Group.Suspended, process) {
			ours = append(ours, process)
		}
	}
	return ours
}

// HeldSuspended returns the processes of StillSuspended that must stay suspended because the zones are out of balance.
func (v *View) HeldSuspended() []string {
	if areZonesBalanced(v) {
		return nil
	}
	return slices.DeleteFunc(v.StillSuspended(), func(process string) bool { return !v.terminatesWithoutDrain(process) })
}

// isSuspensionUnseen reports whether the group's reading is too old to show a suspension of ours. It is older than the
// answer, or so old that the answer may be forgotten.
func isSuspensionUnseen(v *View, quiesced nodegroup.Attempt) bool {
	if len(v.StillSuspended()) == len(v.Suspended) {
		return false
	}
	if v.Now.After(v.Group.Observed.Add(staleReading)) {
		return true
	}
	resumed := v.lastAttempt(nodegroup.Resume{})
	undone := resumed.Outcome == nodegroup.OutcomeDone && !resumed.Ended.Before(quiesced.Ended)
	return quiesced.Outcome != "" && !undone && !v.Group.IsFreshAfter(quiesced.Ended)
}

// isResuming reports whether the processes may be about to run again: a request to resume them is in flight, or its
// effect is not visible yet.
func isResuming(v *View, quiesced nodegroup.Attempt) bool {
	resumed := v.lastAttempt(nodegroup.Resume{})
	landed := resumed.Outcome == nodegroup.OutcomeDone || resumed.Outcome == nodegroup.OutcomeUnclear
	if sent, ok := resumed.Action.(nodegroup.Resume); ok && !slices.ContainsFunc(sent.Processes, v.terminatesWithoutDrain) {
		return false // the request was for other processes
	}
	return resumed.InFlight || (landed && resumed.Ended.After(quiesced.Ended) && !v.Group.IsFreshAfter(resumed.Ended))
}

// areZonesBalanced reports whether the zones differ by at most one node, or by no more than before the upgrade.
func areZonesBalanced(v *View) bool {
	return zoneSpread(v.Group.Zones, v.Counts.Zones) <= max(1, zoneSpread(v.Group.Zones, v.Before.Zones))
}

// zoneSpread returns how many more nodes the largest zone has than the smallest.
func zoneSpread(zones []string, sizes map[string]int) int {
	if len(zones) == 0 {
		return 0
	}
	smallest, largest := sizes[zones[0]], sizes[zones[0]]
	for _, zone := range zones {
		smallest, largest = min(smallest, sizes[zone]), max(largest, sizes[zone])
	}
	return largest - smallest
}
