package upgrade

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

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
	return r.Undoing() == "" && r.currentPhase().stays && r.Allows(VerbRollback) == nil
}

// WayBack is the revision that the group goes back to, as --to takes it: with it the group is to be
// observed, so that Outdated means having the newer revision. It returns an error when there is
// nothing to go back from, or nowhere to go to (GKE G28: a completed upgrade is not rolled back).
func (r *Record) WayBack() (to string, err error) {
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
	if err := r.Allows(VerbRollback); err != nil {
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
func (r *Record) RollingBack(to nodegroup.Revision, now time.Time) Record {
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
		c.Request.To, _ = r.WayBack()
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
