package upgrade

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// undo takes away what is ours of an upgrade that is aborted, and moves no pod for it: all fences,
// the new nodes that carry nothing, the raise of the maximum, the group's revision and suspended
// processes. Nodes that were replaced stay replaced. What is refused for good is left and named,
// and the same verb tries it again.
func (t *turn) undo() {
	if t.rec.Message == "" {
		t.rec.Message = "being aborted" // it is on record before the first thing is undone
	}
	t.waiting = "what the upgrade did to be undone"
	// What is given back comes first: a node that is kept after all is unfenced with the others.
	shrunk := !t.w.Stop && t.evenOut() && t.returnSurge() && t.lowerMax() && t.pointBack()
	freed := t.freeHeld()
	unfenced := t.unfence(t.stays) && freed
	rested := t.resume() && unfenced
	switch {
	case !t.w.Stop:
		t.concludeUndo(rested && shrunk)
	case rested:
		t.end(Interrupted, fmt.Sprintf("stopped while it was being aborted: run kubectl nodeupgrade abort %s to continue", t.w.Group.Name))
	}
}

// stays reports whether the member was not terminated by us.
func (t *turn) stays(m *nodegroup.Member) bool {
	_, ending := t.rec.started(m)
	return !ending
}

// concludeUndo ends an abort that is done, by a reading of the group that shows all that was done
// before it, or one of which only what was refused for good is left.
func (t *turn) concludeUndo(done bool) {
	if g := &t.w.Group; g.Sized && (!g.IsFreshAfter(t.rec.PhaseBegan) || !g.IsFreshAfter(t.rec.Ledger.Changed)) {
		t.waitForCloud("")
		return
	}
	refused := t.refused()
	switch {
	case refused != "" && (done || t.idle()):
		left := notes(refused, t.keptNote(), t.suspendedNote())
		t.end(Failed, fmt.Sprintf("%s: put that right, and run kubectl nodeupgrade abort %s to continue", left, t.w.Group.Name))
	case done:
		t.end(Aborted, notes(t.replacedNote(), t.keptNote(), t.maxNote(), t.suspendedNote()))
	}
}

func (t *turn) end(result Result, message string) {
	t.rec.Result, t.rec.Message, t.rec.Ended = result, message, t.w.Now
	t.finished = true
	t.actions, t.candidates = nil, nil
}

// idle reports whether there is nothing to do in this turn and no answer to wait for.
func (t *turn) idle() bool {
	for _, attempt := range t.w.Open {
		if attempt.InFlight {
			return false
		}
	}
	return len(t.actions)+len(t.candidates) == 0
}

// refused says what was refused for good, "" when nothing was.
func (t *turn) refused() string {
	var all []string
	for _, key := range slices.Sorted(maps.Keys(t.w.Open)) {
		if attempt := t.w.Open[key]; attempt.Outcome == nodegroup.OutcomeFatal && !attempt.InFlight {
			all = append(all, fmt.Sprintf("to %s: %s", attempt.Action, attempt.Detail))
		}
	}
	return strings.Join(all, "; ")
}

// evenOut has the zones be no smaller because of us: a node that was taken and not replaced yet is
// launched. It is not tried again where that is refused.
func (t *turn) evenOut() bool {
	if counted := t.recount(); !counted || !t.w.Group.Sized {
		return counted
	}
	even := t.settleOpen()
	if !t.rec.Ledger.Zonal {
		return even // such a group replaces by itself what is terminated
	}
	shrinking := t.shrinking()
	for _, zone := range slices.Sorted(maps.Keys(t.rec.Ledger.Zones)) {
		z := t.rec.Ledger.Zones[zone]
		if missing := -z.Contribution() - shrinking[zone]; missing > 0 && z.Refusal == "" {
			even = false
			t.book(zone, missing)
			t.ask(zone)
		}
	}
	return even
}

// pointBack points the group at the revision it had before us, if it is still where we pointed it.
func (t *turn) pointBack() bool {
	to := t.rec.original()
	if to.ID == t.rec.Target.ID || t.w.Group.Pointed.ID != t.rec.Target.ID {
		return true
	}
	t.waitForCloud("")
	t.want(nodegroup.SetRevision{To: to, Token: token(t.rec.Run, "revision-"+to.ID, 1)})
	return false
}

// replacedNote says what an abort does not undo, "" when no node was replaced.
func (t *turn) replacedNote() string {
	removed := t.rec.Ledger.total(func(z ZoneLedger) int { return z.Removed })
	if removed <= 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d nodes were replaced already and stay so", removed, t.rec.Total)
}

// keptNote says by how much the group's size is left changed, and why; "" when it is as it was.
func (t *turn) keptNote() string {
	owed := t.rec.Ledger.Contribution()
	if owed == 0 {
		return ""
	}
	if owed < 0 {
		return fmt.Sprintf("the group keeps %d fewer nodes than before: launching them was refused", -owed)
	}
	var loaded []string
	for _, m := range t.added() {
		if t.carriesPods(m) && t.rec.Ledger.Zones[t.rec.Ledger.zone(m)].Contribution() > 0 {
			loaded = append(loaded, m.Name())
		}
	}
	if len(loaded) == 0 {
		return fmt.Sprintf("the group keeps %d more nodes than before: which of them are ours cannot be told any more", owed)
	}
	return fmt.Sprintf("the group keeps %d more nodes than before: new nodes carry pods and are not taken (%s)", owed, shortList(loaded))
}

// shortList names the first few and counts the rest.
func shortList(names []string) string {
	const most = 3
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}
