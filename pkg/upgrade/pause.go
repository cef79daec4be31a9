package upgrade

import "fmt"

// heed does what somebody else asks of this upgrade.
func (t *turn) heed() {
	asked := t.w.Asked
	if asked.Run == "" || asked.Run != t.rec.Run || t.rec.Allows(asked.Verb) != nil {
		asked.Verb = ""
	}
	if asked.Verb != VerbPause && !t.w.Stop {
		t.unpause()
	}
	switch asked.Verb {
	case VerbPause:
		t.pausing = t.rec.Stopping == ""
		if t.phase.untouched {
			t.pause() // no node was started
		}
	case VerbRollback:
		if !t.rec.Back { // else it is what was asked for
			t.giveWay("a rollback")
		}
	case VerbAbort:
		t.giveWay("an abort")
	}
}

// giveWay stops the upgrade as Ctrl-C does, for somebody who carries the verb out. It stops nothing
// that is being aborted.
func (t *turn) giveWay(to string) {
	t.fail(Interrupted, fmt.Sprintf("gave way to %s asked by %s", to, t.w.Asked.By))
}

// unpause goes on with an upgrade that somebody asked to pause and nobody does any more, before it
// came to rest.
func (t *turn) unpause() {
	if t.rec.Stopping == Paused && t.rec.PausedBy != "" {
		t.rec.Stopping, t.rec.PausedBy, t.rec.Message = "", "", ""
		t.enter(t.rec.Phase)
	}
}

// hold brings an upgrade that is to pause to rest when the nodes that were started have finished,
// and what was taken with them was launched again (GKE G25).
func (t *turn) hold() {
	if !t.pausing {
		return
	}
	started := 0
	for _, n := range t.rec.Nodes {
		if inDrain(n.State) || (n.State == NodeRemoving && !n.givenBack()) {
			started++
		}
	}
	switch {
	case started == 1:
		t.waiting = "pausing: 1 node finishes first"
	case started > 1:
		t.waiting = fmt.Sprintf("pausing: %d nodes finish first", started)
	case t.openLaunches()+t.short() > 0:
		t.waitForReplacement()
		t.waiting = "pausing: a replacement is launched first"
	default:
		t.pause()
	}
}

// pause stops the upgrade, unless no node is left that a pause could keep from being started.
func (t *turn) pause() {
	if t.rec.Stopping != "" || len(t.count.pending) == 0 {
		return
	}
	t.rec.PausedBy = t.w.Asked.By
	t.fail(Paused, fmt.Sprintf("paused by %s: run kubectl nodeupgrade resume %s to continue", t.w.Asked.By, t.w.Group.Name))
}
