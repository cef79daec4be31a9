package upgrade

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

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

// Undoing is the verb that continues where the record stopped: VerbAbort or VerbRollback where one
// is under way or was stopped, "" where the upgrade itself is.
func (r *Record) Undoing() Verb {
	switch {
	case !r.IsResumable():
		return ""
	case r.Stopping == Aborted:
		return VerbAbort
	case r.Back:
		return VerbRollback
	}
	return ""
}

// KeepsBoth reports whether an abort would leave the outdated and the new nodes, all of which take
// pods, where a rollback would take the new ones away.
func KeepsBoth(r *Record) bool {
	return r.Undoing() == "" && phaseOf(r).stays && Allows(r, VerbRollback) == nil
}

// WayBack is the revision that the group goes back to, as --to takes it: with it the group is to be
// observed, so that Outdated means having the newer revision. It returns an error when there is
// nothing to go back from, or nowhere to go to (GKE G28: a completed upgrade is not rolled back).
func WayBack(r *Record) (to string, err error) {
	switch {
	case r.Run == "":
		return "", errors.New("no upgrade is recorded")
	case !r.IsResumable():
		return "", fmt.Errorf("run %s is over (%s): only an upgrade that stopped half-way is rolled back: go to another revision with --to", r.Run, r.Result)
	case r.Back:
		return r.Request.To, nil
	case r.Stopping == Aborted:
		return "", fmt.Errorf("run %s is being aborted: run %s to continue", r.Run, nodegroup.Command("abort", r.Request.Group))
	}
	if err := Allows(r, VerbRollback); err != nil {
		return "", fmt.Errorf("run %s is not rolled back: %w", r.Run, err)
	}
	to = r.Previous.Target()
	if to == "" || r.Previous.ID == r.Target.ID {
		return "", fmt.Errorf("which revision the nodes of run %s had before is not known: pass it with --to", r.Run)
	}
	return to, nil
}

// RollingBack is the record of the way back to the revision, which is the one that WayBack named,
// as the group shows it (Group.Wanted): the same run, begun again, with what was added to the group
// still on the books (GKE G28). Of a way back that stopped it is the record that continues.
func RollingBack(r *Record, to nodegroup.Revision, now time.Time) Record {
	c := r.Reopened()
	if !c.Back {
		original := c.originalRevision()
		c.Previous, c.Pointed = c.Target, nodegroup.Revision{}
		c.Ledger.MarkMoved(false)
		if original != c.Previous {
			c.Pointed = original // of the same revision, too: it may name the version that Previous has no number of
		}
		c.Back, c.Started, c.Phase, c.PhaseBegan = true, now, PhaseSetup, time.Time{}
		c.Replaced, c.Total, c.Begun, c.Soak = 0, 0, 0, Soak{}
		c.Request.Current = nil // nodes of the older revision need not carry the newer one's labels
		c.Request.To, _ = WayBack(r)
		c.dropStarted(isRemoving)
		c.forgetProofs()
		c.Ledger.ForgetRefusals()
	}
	c.Target = to
	return c
}

// Retargeted is the record of an upgrade whose target moved, which continues to the target as it is
// by now.
func (r *Record) Retargeted(to nodegroup.Revision) Record {
	c := r.Clone()
	moved := to.ID != c.Target.ID
	c.Ledger.MarkMoved(c.Ledger.TargetMoved() || moved)
	if moved && c.Delegation != nil {
		c.Delegation, c.Phase = c.Delegation.nextAttempt(), PhaseSetup
	}
	if moved {
		c.forgetProofs()
	}
	c.Target = to
	return c
}

// forgetProofs forgets which workloads are known to come up on current nodes: other nodes are from
// now on.
func (r *Record) forgetProofs() {
	r.Workloads = maps.Clone(r.Workloads)
	for name, w := range r.Workloads {
		w.Proven, w.Canary = false, ""
		r.Workloads[name] = w
	}
}

// Aborting is the record of an upgrade that is being undone: what is ours is taken away, and
// nothing of it is continued.
func (r *Record) Aborting() Record {
	c := r.Reopened()
	c.Stopping, c.PhaseBegan, c.Soak = Aborted, r.Ended, Soak{}
	c.dropStarted(func(n NodeRecord) bool { return isRemoving(n) || n.State == NodeDrained }) // see giveDrainedBack
	c.Ledger.ForgetRefusals()
	return c
}

// originalRevision is the revision the group pointed at before us.
func (r *Record) originalRevision() nodegroup.Revision {
	if r.Pointed.ID != "" {
		return r.Pointed
	}
	return r.Previous
}

// hasSet reports whether this upgrade asked the cloud to point the group at the revision. Records of older versions do
// not name the revisions: they asked for the target of the request.
func (r *Record) hasSet(revision string) bool {
	return slices.Contains(r.SetTo, revision) || (r.Request.To != "" && revision == r.Target.ID)
}

// originallyPointed notes that another actor pointed the group at the revision. Pointed is empty where Previous is that one.
func (r *Record) originallyPointed(at nodegroup.Revision) {
	if r.Pointed = at; at.ID == r.Previous.ID {
		r.Pointed = nodegroup.Revision{}
	}
}

// isRemoving reports whether the node is being terminated.
func isRemoving(n NodeRecord) bool { return n.State == NodeRemoving }

// dropStarted removes the nodes that were started from the record, except those that keep selects. A
// node that is being terminated stays on record until it is gone, or its termination has failed.
func (r *Record) dropStarted(keep func(NodeRecord) bool) {
	maps.DeleteFunc(r.Nodes, func(_ string, n NodeRecord) bool { return !keep(n) })
	for name, n := range r.Nodes {
		n.Batch = 0
		r.Nodes[name] = n
	}
}

// PausedByRequest tells a pause that was asked for from one that the upgrade met with.
func PausedByRequest(r *Record) bool { return r.Result == Paused && r.PausedBy != "" }

// MarkPaused is the record of an upgrade that no process carries out, as a user pauses it.
func MarkPaused(r *Record, group, by string, now time.Time) Record {
	c := r.Clone()
	c.Result, c.PausedBy, c.Message, c.Ended = Paused, by, "", now.UTC().Truncate(time.Second)
	c.Message = PauseMessage(&c, group)
	c.Soak.pauseAt(now)
	return c
}

// PauseMessage says who or what paused the upgrade, and how it is continued.
func PauseMessage(r *Record, group string) string {
	if r.Message != "" {
		return r.Message
	}
	return describePause(r.PausedBy, group)
}

func describePause(by, group string) string {
	return fmt.Sprintf("paused by %s: run %s to continue", by, nodegroup.Command("resume", group))
}

// GroupsToReport are the groups that a status without a name can be about: the only one with a
// record, or those with an upgrade under way; sorted.
func GroupsToReport(records map[string]Record) []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(records)) {
		if record := records[name]; len(records) == 1 || record.IsRunning() {
			names = append(names, name)
		}
	}
	return names
}

// HasFailedOperation reports whether the cloud's operation is over without having reached its goal:
// the next one may be another.
func (r *Record) HasFailedOperation() bool {
	return r.Delegation != nil && r.Result != "" && r.Result != Interrupted
}

// CheckReplan returns an error where an upgrade under way may not continue with the strategy, or to
// a target that moved: both colours of a blue-green upgrade are there already.
func (r *Record) CheckReplan(strategy Strategy, moved bool) error {
	switch {
	case strategy != r.Request.Strategy:
		return fmt.Errorf("it was begun with --strategy=%s, which it keeps: leave --strategy out, or run %s first", r.Request.Strategy, nodegroup.Command("abort", r.Request.Group))
	case moved && r.Request.Strategy.Traits().ByAutoscaler:
		return fmt.Errorf("its target has moved from %s, and an autoscaled blue-green upgrade keeps its target: run %s first", r.Target.Name, nodegroup.Command("abort", r.Request.Group))
	case moved && !r.Back && r.Request.BlueGreen != nil:
		return fmt.Errorf("its target has moved from %s, and a blue-green upgrade keeps its target: run %s first", r.Target.Name, nodegroup.Command("rollback", r.Request.Group))
	}
	return nil
}
