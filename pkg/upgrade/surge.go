package upgrade

import (
	"fmt"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// surgeStrategy is that of EKS managed node groups and of GKE's surge upgrades: add nodes, fence
// the outdated ones, replace them in a moving window, give the surplus back (EKS E01, GKE G10).
func surgeStrategy() strategy {
	verbs := []record.Verb{record.VerbPause, record.VerbRollback, record.VerbAbort}
	return strategy{
		begin: (*decision).beginSurge,
		phases: []phase{
			{
				name: record.PhaseSetup, untouched: true, waitsFor: "the surge", verbs: verbs,
				run: (*decision).setUpGroup,
			},
			{
				name: record.PhaseScaleUp, untouched: true, watched: true, held: newHeld, waitsFor: "the surge", verbs: verbs,
				run: (*decision).scaleUpGroup,
			},
			{
				name: record.PhaseUpgrade, watched: true, held: newHeld, verbs: verbs,
				run: (*decision).replaceNodes, emptied: (*decision).terminateNode, late: (*decision).giveUpNode,
			},
			{
				name: record.PhaseScaleDown, givesBack: true, verbs: verbs,
				run: (*decision).scaleDownGroup,
			},
		},
		stop: (*decision).bringToRest,
		undo: (*decision).undoUpgrade,
	}
}

// describeSurge is the line of a plan.
func describeSurge(r *record.Request, _ string) string {
	turns := ""
	if r.TakesTurns() {
		turns = ", one zone at a time"
	}
	return fmt.Sprintf("%s like %s: at most %d in flight, %d unavailable%s; %s to drain a node, then %s; settle %s",
		r.Strategy, r.Like, r.Window, r.MaxUnavailable, turns, r.DrainTimeout, r.OnTimeout, r.Settle)
}

// beginSurge deals the surge out to the zones.
func (d *decision) beginSurge() {
	d.rec.Ledger.DealSurge(d.w.Request.Surge, d.count.Left)
}

// replaceNodes drives the nodes that were started and starts more, until no outdated node is left
// but the quarantined.
func (d *decision) replaceNodes() bool {
	if !d.setRevision() {
		return false
	}
	d.continueDrains()
	if d.rec.Stopping == "" {
		d.passTurn()
		d.applyDecision(d.bookKeeper().KeepSurgeLaunched())
		d.startMoreNodes()
		d.pauseWhenIdle()
	}
	if d.rec.Stopping != "" || (!d.fencing && d.awaitReplaced()) {
		return d.rec.Stopping == ""
	}
	d.suspendProcesses() // they may have been resumed meanwhile, by a stop of ours or by another actor
	return false
}
