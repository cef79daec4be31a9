package upgrade

import (
	"errors"
	"fmt"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// KeepsBoth reports whether an abort would leave the outdated and the new nodes, all of which take
// pods, where a rollback would take the new ones away.
func KeepsBoth(r *record.Record) bool {
	return r.Undoing() == "" && phaseOf(r).stays && Allows(r, record.VerbRollback) == nil
}

// WayBack is the revision that the group goes back to, as --to takes it: with it the group is to be
// observed, so that Outdated means having the newer revision. It returns an error when there is
// nothing to go back from, or nowhere to go to (GKE G28: a completed upgrade is not rolled back).
func WayBack(r *record.Record) (to string, err error) {
	switch {
	case r.Run == "":
		return "", errors.New("no upgrade is recorded")
	case !r.IsResumable():
		return "", fmt.Errorf("run %s is over (%s): only an upgrade that stopped half-way is rolled back: go to another revision with --to", r.Run, r.Result)
	case r.Back:
		return r.Request.To, nil
	case r.Stopping == record.Aborted:
		return "", fmt.Errorf("run %s is being aborted: run %s to continue", r.Run, nodegroup.Command("abort", r.Request.Group))
	}
	if err := Allows(r, record.VerbRollback); err != nil {
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
func RollingBack(r *record.Record, to nodegroup.Revision, now time.Time) record.Record {
	c := r.Reopened()
	if !c.Back {
		original := c.OriginalRevision()
		c.Previous, c.Pointed = c.Target, nodegroup.Revision{}
		c.Ledger.MarkMoved(false)
		if original != c.Previous {
			c.Pointed = original // of the same revision, too: it may name the version that Previous has no number of
		}
		c.Back, c.Started, c.Phase, c.PhaseBegan = true, now, record.PhaseSetup, time.Time{}
		c.Replaced, c.Total, c.Begun, c.Soak = 0, 0, 0, record.Soak{}
		c.Request.Current = nil // nodes of the older revision need not carry the newer one's labels
		c.Request.To, _ = WayBack(r)
		c.DropStarted(record.IsRemoving)
		c.ForgetProofs()
		c.Ledger.ForgetRefusals()
	}
	c.Target = to
	return c
}
