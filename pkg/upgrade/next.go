package upgrade

import (
	"time"
)

// lookAgain is the longest a running upgrade goes without a look, should no event arrive.
const lookAgain = 30 * time.Second

// pollInterval is how often the cloud is asked while something of ours is under way there.
const pollInterval = 5 * time.Second

// Next says what to do about the world now. The package comment has the caller's contract.
func Next(w World) Step {
	stored := w.Record
	d := newDraft(&w)
	switch {
	case d.rec.Result != "":
		d.finished = true
	case d.rec.Run == "":
		decisionOf(d).beginUpgrade()
	case d.rec.PhaseBegan.IsZero():
		d.rec.Ledger.ForgetMaximum()
		d.enterPhase(d.rec.Phase)
	}
	if !d.finished {
		decisionOf(d).recordAnswers()
		decisionOf(d).applyRequest()
		if decisionOf(d).isStopping() {
			stoppingOf(d).bringToRest()
		} else {
			decisionOf(d).runPhases()
		}
	}
	step := decisionOf(d).finishStep()
	step.Persist = mustStoreRecord(&stored, &step.Record)
	return step
}
