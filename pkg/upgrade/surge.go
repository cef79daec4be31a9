package upgrade

import (
	"fmt"
	"strings"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// surgeStrategy returns the strategy of EKS managed node groups and of GKE's surge upgrades: add nodes, fence the
// outdated ones, replace them in a moving window, and give the surplus back (EKS E01, GKE G10).
func surgeStrategy() strategy {
	verbs := []record.Verb{record.VerbPause, record.VerbRollback, record.VerbAbort}
	return strategy{
		begin: (*decision).beginSurge,
		phases: []phase{
			{
				name: record.PhaseSetup, beforeDrains: true, waitsFor: "new nodes", verbs: verbs,
				run: (*decision).setUpGroup,
			},
			{
				name: record.PhaseScaleUp, beforeDrains: true, stopsOnGroupChange: true, held: newHeld, waitsFor: "new nodes", verbs: verbs,
				run: (*decision).scaleUpGroup,
			},
			{
				name: record.PhaseUpgrade, stopsOnGroupChange: true, held: newHeld, verbs: verbs,
				run: (*decision).replaceNodes, onEmpty: (*decision).terminateNode, onTimeout: (*decision).giveUpNode,
			},
			{
				name: record.PhaseScaleDown, givesBackSurge: true, verbs: verbs,
				run: (*decision).scaleDownGroup,
			},
		},
		stop: (*decision).bringToRest,
		undo: (*decision).undoUpgrade,
	}
}

// describeSurge returns the line of a plan.
func describeSurge(r *record.Request, _ string) string {
	width := "one node at a time"
	if r.Window > 1 {
		width = fmt.Sprintf("at most %d nodes at a time", r.Window)
	}
	if r.MaxUnavailable != r.Window {
		width += fmt.Sprintf(", %d unavailable", r.MaxUnavailable)
	}
	if r.TakesTurns() {
		width += ", one zone after the other"
	}
	numbers := ""
	if r.Like != "" {
		numbers = fmt.Sprintf(", with %s's numbers", strings.ToUpper(r.Like))
	}
	text := fmt.Sprintf("%s%s: %s; %s to drain each, %s", r.Strategy, numbers, width, formatLimit(r.DrainTimeout.Duration), describeTimeout(r.OnTimeout))
	if r.Settle.Duration > 0 {
		text += fmt.Sprintf("; %s from empty to terminated", formatLimit(r.Settle.Duration))
	}
	return text
}

// describeTimeout returns what happens to a node that is not empty in time.
func describeTimeout(then record.OnTimeout) string {
	switch then {
	case record.Force:
		return "then its pods are deleted"
	case record.Skip:
		return "else the node is skipped"
	default:
		return "else the upgrade stops"
	}
}

// formatLimit writes a time without zero units: 15m, not 15m0s.
func formatLimit(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// beginSurge assigns the surge to the zones.
func (d *decision) beginSurge() {
	d.rec.Ledger.AssignSurge(d.w.Request.Surge, d.count.Left)
}

// replaceNodes continues the started nodes and starts more, until only quarantined outdated nodes are left.
func (d *decision) replaceNodes() (done bool) {
	if !d.setRevision() {
		return false
	}
	d.continueDrains()
	if d.rec.Stopping == "" {
		d.assignTurn()
		d.applyDecision(d.bookKeeper().KeepSurgeLaunched())
		d.startMoreNodes()
		d.pauseWhenIdle()
	}
	if d.rec.Stopping != "" || (!d.fencing && d.awaitReplaced()) {
		return d.rec.Stopping == ""
	}
	d.suspendProcesses() // an earlier stop or another process may have resumed them
	return false
}
