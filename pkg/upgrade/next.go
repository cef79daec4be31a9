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
	t := newDraft(&w)
	switch {
	case t.rec.Result != "":
		t.finished = true
	case t.rec.Run == "":
		decisionOf(t).beginUpgrade()
	case t.rec.PhaseBegan.IsZero():
		t.rec.Ledger.MaxSeen = 0 // what happened to it while nobody looked is known to who goes on
		t.enterPhase(t.rec.Phase)
	}
	if !t.finished {
		capacityOf(t).recordAnswers()
		decisionOf(t).applyRequest()
		if decisionOf(t).isStopping() {
			stoppingOf(t).bringToRest()
		} else {
			decisionOf(t).runPhases()
		}
	}
	step := decisionOf(t).finishStep()
	step.Persist = mustStore(&stored, &step.Record)
	return step
}
