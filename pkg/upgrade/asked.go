package upgrade

import "time"

// Verb is what a person asks of an upgrade, from whichever machine (GKE G25, G28).
type Verb string

const (
	// VerbPause lets the nodes that were started finish and begins no other.
	VerbPause Verb = "pause"
	// VerbRollback takes a partially upgraded group back to the revision it had before.
	VerbRollback Verb = "rollback"
	// VerbComplete ends a soak before its time.
	VerbComplete Verb = "complete"
	// VerbAbort undoes what is ours and forgets the upgrade.
	VerbAbort Verb = "abort"
)

// Asked is a verb that another actor left for the holder of the upgrade; its zero value asks
// nothing.
type Asked struct {
	Verb Verb `json:"verb"`
	// Run is the upgrade that is meant: a verb for another one is not obeyed.
	Run string `json:"run"`
	// By and At say who asked and when, for people.
	By string    `json:"by"`
	At time.Time `json:"at"`
}

// describeObject is what the verb is about, as in "the strategy has no ...".
func (v Verb) describeObject() string {
	if v == VerbComplete {
		return "soak to end"
	}
	return string(v)
}
