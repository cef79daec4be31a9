package upgrade

import (
	"fmt"
	"slices"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// lostAfter is how long a cloud must have left out an operation that was seen until that is taken
// to be gone: what a cloud lists may lag.
const lostAfter = 5 * time.Minute

// lostOperation judges an operation that the cloud tells of no more.
type lostOperation struct{ *draft }

// isCertain reports whether the cloud has left its newest operation out for so long that it is
// gone.
func (d lostOperation) isCertain() bool {
	since := d.w.Notes.OlderSince
	if since.IsZero() {
		since = d.w.Now
	}
	d.notes.OlderSince = since
	d.requeueAt(since.Add(lostAfter))
	return d.w.isDeadlinePassed(since.Add(lostAfter))
}

// isGroupReplaced reports whether no node is outdated, which is all that tells what became of the
// operation. Else the upgrade ends: the same command begins another operation, and those that are
// older are none of its own.
func (d lostOperation) isGroupReplaced(newest *nodegroup.Operation) bool {
	if isGroupCurrent(d.draft) {
		return true
	}
	known := d.rec.Delegation
	d.endUpgradeWith(Failed, fmt.Sprintf("%s has not told of update %s for %s, and %d of %d nodes are outdated still",
		d.managerName(), known.ID, lostAfter, len(d.count.pending), d.rec.Total))
	known.ID, known.Newest = newest.ID, newest.Began
	return false
}

// isGroupCurrent reports whether no machine is outdated; all nodes count as replaced then.
func isGroupCurrent(d *draft) bool {
	if slices.ContainsFunc(d.count.pending, hasMachine) {
		return false
	}
	d.rec.Replaced = d.rec.Total
	return true
}

// hasMachine reports whether the member is more than a Node that has outlived its machine, or is
// about to.
func hasMachine(m *nodegroup.Member) bool {
	return m.Instance.ID != "" && m.Instance.State != nodegroup.InstanceLeaving
}
