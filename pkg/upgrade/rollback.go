package upgrade

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// keepCurrentNodes gives the nodes of the revision that is wanted again back to the cluster: their
// fence is taken away, and those whose termination was decided but did not happen are kept (I6: a
// wanted node is neither fenced nor drained).
func (d *decision) keepCurrentNodes() bool {
	d.rec.Total = len(d.count.pending)
	d.waitFor("the nodes not replaced yet to be unfenced")
	kept := d.keepSurvivingSurge()
	return d.removeFences(func(m *nodegroup.Member) bool { return !m.Outdated && d.rec.IsNotEnding(m) }) && kept
}

// carryOverSurge begins the books of the way back, when all that was added before is known.
func (d *decision) carryOverSurge() bool {
	l := &d.rec.Ledger
	if !d.applyDecision(d.bookKeeper().ResolveOpenLaunches()) || !d.w.Group.IsFreshAfter(l.Changed()) {
		d.askCloudOften("what was added to the group to be seen")
		return false
	}
	arriving := map[string]int{}
	known := d.preexistingOnRollback(arriving)
	d.bookKeeper().CarryOver(known, arriving)
	return true
}

// preexistingOnRollback are the names of the members that have the revision wanted as the way back
// begins, and are none that the group has yet to bring up: those it counts by ledger zone, and with
// them instances that are yet to be launched. An instance that was there before the upgrade and
// never became a node is listed, too: nothing else tells it from one that the upgrade added.
func (d *decision) preexistingOnRollback(arriving map[string]int) []string {
	unseen := d.countNotYetVisible()
	d.bookKeeper().SpreadMissing(unseen, arriving)
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
	return names // sorted, as the members are
}

// countNotYetVisible counts, by ledger zone, the instances that the upgrade has brought about and
// that are not among those that have to be replaced on the way back: replacements of nodes that
// were removed, and launches that came once the group pointed back.
func (d *decision) countNotYetVisible() map[string]int {
	unseen := d.rec.Ledger.CountBroughtIn()
	for i := range d.w.Members {
		m := &d.w.Members[i]
		before := d.rec.Ledger.IsPreexisting(m) || slices.Contains(d.rec.Unlabelled, m.Instance.ID)
		if m.Outdated && m.Instance.State != nodegroup.InstanceLeaving && !before {
			unseen[d.rec.Ledger.ZoneOf(m.Zone())]--
		}
	}
	return unseen
}

// howToContinue says how an upgrade whose target moved is continued.
func (d *decision) howToContinue(wanted nodegroup.Revision) string {
	if d.rec.Back {
		return fmt.Sprintf("run %s to continue to %s", nodegroup.Command("rollback", d.w.Group.Name), wanted.Name)
	}
	return "pass --replan to continue to " + wanted.Name
}

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
		c.Replaced, c.Total, c.Begun, c.Soak, c.Gone = 0, 0, 0, record.Soak{}, nil
		c.Request.Current = nil // nodes of the older revision need not carry the newer one's labels
		c.Request.To, _ = WayBack(r)
		c.DropStarted(record.IsRemoving)
		c.ForgetProofs()
		c.Ledger.ForgetRefusals()
	}
	c.Target = to
	return c
}

// mayBeBooting reports whether a member has no node yet, or one that joined since the upgrade began
// or so shortly before that it may still have been booting then.
func mayBeBooting(r *record.Record, m *nodegroup.Member) bool {
	return m.Node == nil || m.Node.CreationTimestamp.After(r.Started.Add(-r.Request.BootTimeout.Duration))
}

// describeRollback says that the way back is at its end.
func describeRollback(r *record.Record) string {
	if !r.Back {
		return ""
	}
	return "rolled back to " + r.Target.Name
}
