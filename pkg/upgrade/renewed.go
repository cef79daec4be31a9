package upgrade

import (
	"slices"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodemark"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// unfenceRenewed removes our fence from nodes that became current in place, and counts them as replaced. It reports
// whether none of them has the fence. A node that is not Ready keeps it.
func (d *decision) unfenceRenewed() (done bool) {
	if d.rec.Rollback && d.phase.beforeDrains || d.rec.Lost {
		return true // the ledger must be complete first
	}
	released := true
	for i := range d.w.Members {
		if m := &d.w.Members[i]; !m.Outdated && m.IsReady() && m.Instance.State != nodegroup.InstanceLeaving {
			released = d.unfenceRenewedNode(m) && released
		}
	}
	return released
}

// unfenceRenewedNode removes our fence from one current node that is Ready, and reports whether the node no longer has the fence.
func (d *decision) unfenceRenewedNode(m *nodegroup.Member) (done bool) {
	name, started := d.rec.RecordNameOf(m)
	fenced := d.rec.OwnsFence(m)
	switch {
	case started && d.rec.Nodes[name].State == record.NodeRemoving:
		return true // its machine is terminated anyway
	case started:
		d.bookRenewedAsDrained(name)
	case fenced && d.rec.IsNewMember(m):
		d.rec.Ledger.BookPreexisting(m.Name())
		d.rec.Replaced++
		d.recount()
	}
	if fenced {
		action := nodemark.Unfence{NodeVersion: nodemark.VersionOf(m.Node)}
		if d.rec.Stopping == "" && d.isRefused(action) {
			return true // the final message names the refused action
		}
		d.addAction(action)
		return d.isRefused(action) // a stop skips the refused action and names it
	}
	// Without the fence the node is as it was before the upgrade, and may have its owner's cordon or taints. The
	// control plane's not-ready taint is neither: it disappears a moment after the node is Ready.
	if started && (m.FencedBy() == "" && !nodegroup.HasNotReadyTaint(m.Node) || d.w.isUsable(m, &d.rec)) {
		d.rec.Ledger.UnbookRemoval(d.rec.Nodes[name].Zone, d.rec.Nodes[name].Earlier)
		d.rec.Ledger.BookPreexisting(m.Name())
		d.rec.NoteGone(name, d.w.Now)
		d.forgetNode(name)
		d.recount()
	}
	return true
}

// bookRenewedAsDrained records the state Drained for a node that became current during its drain. Pods cannot run on the node
// until its fence is removed.
func (d *decision) bookRenewedAsDrained(name string) {
	n := d.rec.Nodes[name]
	if n.State == record.NodeDrained {
		return
	}
	n.State, n.Reason, n.Blocked = record.NodeDrained, "", nil
	d.rec.Replaced++
	d.rec.Ledger.BookRemoval(n.Zone, false, false, d.w.Now)
	d.rec.Nodes[name] = n
}

// ListFencedCurrent returns the names of the current nodes that are Ready and still have the fence of the recorded upgrade.
func ListFencedCurrent(r *record.Record, members []nodegroup.Member) []string {
	var names []string
	for i := range members {
		if m := &members[i]; !m.Outdated && m.IsReady() && r.OwnsFence(m) {
			names = append(names, m.Name())
		}
	}
	return names
}

// ListFencingRuns returns the runs whose fence nodes of the group still have: the recorded one, and those before it.
func ListFencingRuns(r *record.Record, members []nodegroup.Member) []string {
	var runs []string
	for i := range members {
		if m := &members[i]; r.OwnsFence(m) && !slices.Contains(runs, m.FencedBy()) {
			runs = append(runs, m.FencedBy())
		}
	}
	slices.Sort(runs)
	return runs
}
