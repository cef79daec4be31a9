package upgrade

import (
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain/schedule"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// Next says what to do about the world now. The package comment has the caller's contract.
func Next(w World) Step {
	stored := w.Record
	d := decision{newDraft(&w)}
	switch {
	case d.rec.Result != "":
		d.finished = true
	case d.rec.Run == "":
		d.beginUpgrade()
	case d.rec.PhaseBegan.IsZero():
		d.rec.Ledger.ForgetMaximum()
		d.rec.PhaseBegan = w.Now
	}
	canary{d.draft}.examineWorkloads()
	impacts{d.draft}.addImpacts() // an upgrade may be stopped before its last evictions are answered
	if !d.finished {
		d.rejectForeign()
		d.noteVanished()
		d.recordAnswers()
		d.applyRequest()
		switch s := strategyOf(d.rec.Request.Strategy, d.rec.Back); {
		case d.rec.Stopping == Aborted:
			s.undo(d.draft)
		case d.isStopping():
			s.stop(d.draft)
		default:
			d.runPhases()
		}
	}
	step := d.finishStep()
	step.Persist = mustStoreRecord(&stored, &step.Record)
	return step
}

func newDraft(w *World) *draft {
	if w.Idle > 0 {
		w.Record = CreditIdleTime(&w.Record, w.Idle, w.Now)
		w.Notes.At = w.Now // a node that waits for others is not credited with the same time twice
	}
	w.tolerances = tolerances{}
	d := &draft{
		w:   w,
		rec: w.Record.Clone(), phase: w.Record.currentPhase(),
		fence:  nodegroup.FenceTaint(w.Group.Provider),
		notes:  w.Notes.cloneNotes(),
		drains: map[string]*nodePods{}, stages: map[string]schedule.Stage{},
		wake: w.Now.Add(lookAgain),
	}
	d.count = countMembers(w, &d.rec)
	return d
}
