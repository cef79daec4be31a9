package upgrade

import (
	"fmt"
	"slices"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
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
