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
		decisionOf(t).begin()
	case t.rec.PhaseBegan.IsZero():
		t.rec.Ledger.MaxSeen = 0 // what happened to it while nobody looked is known to who goes on
		t.enter(t.rec.Phase)
	}
	if !t.finished {
		capacityOf(t).settle()
		decisionOf(t).heed()
		if decisionOf(t).isStopping() {
			stoppingOf(t).stop()
		} else {
			decisionOf(t).advance()
		}
	}
	step := decisionOf(t).step()
	step.Persist = mustStore(&stored, &step.Record)
	return step
}
