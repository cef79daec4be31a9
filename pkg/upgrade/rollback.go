package upgrade

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// unfenceCurrentNodes makes the nodes of the revision that is wanted again available to pods: it removes their fence, and
// keeps nodes whose termination was decided but did not happen (I6: a wanted node is neither fenced nor drained).
func (d *decision) unfenceCurrentNodes() (done bool) {
	d.rec.Total = len(d.count.pending)
	d.setWaiting("the nodes that are not replaced yet to be unfenced")
	kept := d.cancelSurgeReturn()
	return d.removeFences(func(m *nodegroup.Member) bool { return !m.Outdated && d.rec.HasNoNodeRecord(m) }) && kept
}

// carryOverSurge begins the ledger of the rollback, once it is known which nodes the upgrade had added. It reports
// whether the ledger is complete.
func (d *decision) carryOverSurge() (done bool) {
	l := &d.rec.Ledger
	if !d.applyDecision(d.bookKeeper().ResolveOpenLaunches()) || !d.w.Group.IsFreshAfter(l.Changed()) {
		d.pollCloudSoon("the added nodes to be seen")
		return false
	}
	arriving := map[string]int{}
	known := d.preexistingOnRollback(arriving)
	d.bookKeeper().CarryOver(known, arriving)
	return true
}

// preexistingOnRollback returns the names of the members that have the wanted revision at the start of the rollback, without
// nodes that are still starting. It counts the starting nodes, and the instances that are not launched yet, by ledger zone in
// arriving. The names include instances from before the upgrade that never had a node, because they look like added ones.
func (d *decision) preexistingOnRollback(arriving map[string]int) []string {
	unseen := d.countNotYetVisible()
	d.bookKeeper().MoveMissingToArriving(unseen, arriving)
	var names []string
	for i := range d.w.Members {
		m := &d.w.Members[i]
		zone := d.rec.Ledger.ZoneOf(m.Zone())
		switch {
		case m.Outdated && m.Node == nil && d.rec.Ledger.IsPreexisting(m):
			names = append(names, m.Name())
		case m.Outdated || m.Instance.State == nodegroup.InstanceLeaving:
		case unseen[zone] > 0 && !d.w.isUsable(m, &d.rec) && mayBeBooting(&d.rec, m):
			arriving[zone]++
			unseen[zone]--
		default:
			names = append(names, m.Name())
		}
	}
	return names // in the members' order, which is sorted
}

// countNotYetVisible counts, by ledger zone, the instances that the upgrade added and that the rollback need not replace:
// replacements of removed nodes, and launches after the group pointed back.
func (d *decision) countNotYetVisible() map[string]int {
	unseen := d.rec.Ledger.CountAddedInstances()
	for i := range d.w.Members {
		m := &d.w.Members[i]
		before := d.rec.Ledger.IsPreexisting(m) || slices.Contains(d.rec.Unlabelled, m.Instance.ID)
		if m.Outdated && m.Instance.State != nodegroup.InstanceLeaving && !before {
			unseen[d.rec.Ledger.ZoneOf(m.Zone())]--
		}
	}
	return unseen
}

// howToContinue returns how to continue an upgrade whose target moved.
func (d *decision) howToContinue(wanted nodegroup.Revision) string {
	if d.rec.Rollback {
		return fmt.Sprintf("run %s to continue to %s", nodegroup.Command("rollback", d.w.Group.Name), wanted.Name)
	}
	return "pass --replan to continue to " + wanted.Name
}

// AbortKeepsBoth reports whether an abort would leave both the outdated and the new nodes, all of which take pods, while a
// rollback would remove the new ones.
func AbortKeepsBoth(r *record.Record) bool {
	return r.UndoVerb() == "" && phaseOf(r).keepsAllOnStop && Allows(r, record.VerbRollback) == nil
}

// RollbackTarget returns the revision that a rollback goes to, in the form that --to takes. A caller that reads the group
// with this target gets the nodes of the newer revision as outdated. It returns an error if there is no upgrade to roll back,
// or no known revision to go to (GKE G28: a completed upgrade is not rolled back).
func RollbackTarget(r *record.Record) (to string, err error) {
	switch {
	case r.Run == "":
		return "", errors.New("no upgrade is recorded")
	case !r.IsResumable():
		return "", fmt.Errorf("run %s is complete (%s): rollback needs an upgrade that stopped half-way: start a new upgrade to the older revision with --to", r.Run, r.Result)
	case r.Rollback:
		return r.Request.To, nil
	case r.Stopping == record.Aborted:
		return "", fmt.Errorf("run %s is being aborted: run %s to continue", r.Run, nodegroup.Command("abort", r.Request.Group))
	}
	if err := Allows(r, record.VerbRollback); err != nil {
		return "", fmt.Errorf("run %s is not rolled back: %w", r.Run, err)
	}
	to = r.Previous.Target()
	if to == "" || r.Previous.ID == r.Target.ID {
		return "", fmt.Errorf("the earlier revision of the nodes of run %s is unknown: pass it with --to", r.Run)
	}
	return to, nil
}

// AsRollback returns the record of the rollback to the revision, which must be the one that RollbackTarget returned, as the
// group shows it (Group.Wanted). It is the same run, begun again, and the added nodes stay in the ledger (GKE G28). For
// a rollback that stopped, it returns the record that continues.
func AsRollback(r *record.Record, to nodegroup.Revision, now time.Time) record.Record {
	c := r.Reopened()
	if !c.Rollback {
		original := c.OriginalRevision()
		c.Previous, c.Pointed = c.Target, nodegroup.Revision{}
		c.Ledger.MarkMoved(false)
		if original != c.Previous {
			c.Pointed = original // also if the revision is the same: it may name a version number that Previous lacks
		}
		if c.Delegation != nil {
			c.Delegation = c.Delegation.NextAttempt()
		}
		c.Rollback, c.Started, c.Phase, c.PhaseBegan = true, now, record.PhaseSetup, time.Time{}
		c.Replaced, c.Total, c.Begun, c.Soak, c.Gone = 0, 0, 0, record.Soak{}, nil
		c.Request.Current = nil // nodes of the older revision need not have the labels of the newer
		c.Request.To, _ = RollbackTarget(r)
		c.DropNodesExcept(record.IsRemoving)
		c.ForgetProven()
		c.Ledger.ForgetRefusals()
	}
	c.Target = to
	return c
}

// mayBeBooting reports whether a member has no node yet, or has one that joined after the upgrade began or at most the
// boot timeout before it.
func mayBeBooting(r *record.Record, m *nodegroup.Member) bool {
	return m.Node == nil || m.Node.CreationTimestamp.After(r.Started.Add(-r.Request.BootTimeout.Duration))
}

// describeRollback returns the message of a completed rollback; "" for other upgrades.
func describeRollback(r *record.Record) string {
	if !r.Rollback {
		return ""
	}
	return "rolled back to " + r.Target.Name
}
