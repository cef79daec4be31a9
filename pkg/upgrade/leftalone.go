package upgrade

import (
	"fmt"
	"slices"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// maxVanishedNodes limits how many nodes the record names that another process removed before their turn.
const maxVanishedNodes = 50

// DescribeStandby returns the instances on Standby, which an upgrade leaves alone; "" for none.
func DescribeStandby(members []nodegroup.Member) string {
	var names []string
	for i := range members {
		m := &members[i]
		if m.Instance.State != nodegroup.InstanceStandby {
			continue
		}
		name := m.Instance.ID
		if m.Node != nil {
			name += " (node " + m.Node.Name + ")"
		}
		names = append(names, name)
	}
	if len(names) == 0 {
		return ""
	}
	return "kept, because they are on Standby: " + abbreviateNames(names)
}

// isOverdue reports whether the node's machine has been terminating for so long that the upgrade no longer waits for
// it: a lifecycle hook may keep it for days. Node objects that outlive their machine do not count, because they are
// deleted.
func (d *decision) isOverdue(n record.NodeRecord) bool {
	return n.State == record.NodeRemoving && n.Landed && d.w.isDeadlinePassed(d.removalDeadline(n)) &&
		slices.ContainsFunc(d.w.Members, func(m nodegroup.Member) bool { return m.Instance.ID == n.Instance })
}

// removalDeadline returns until when the upgrade waits for a node's machine to end: the boot timeout, counted from the last
// request that landed.
func (d *decision) removalDeadline(n record.NodeRecord) time.Time {
	since := n.Terminated
	if changed := d.rec.Ledger.Changed(); changed.After(since) {
		since = changed
	}
	return since.Add(d.rec.Request.BootTimeout.Duration)
}

// awaitRemovals waits for terminating machines. none is true if there are none. A stop does not wait for a termination
// that was refused permanently: it stays on record for the process that continues.
func (d *decision) awaitRemovals() (none bool) {
	none = true
	for _, n := range d.rec.Nodes {
		givenUp := d.rec.Stopping != "" && d.isRefused(nodegroup.Terminate{Instance: n.Instance})
		if n.State == record.NodeRemoving && !givenUp && !d.isOverdue(n) {
			none = false
			d.requeueAt(d.removalDeadline(n))
		}
	}
	return none
}

// describeOverdue returns the machines that are still terminating when the upgrade ends; "" for none.
func (d *decision) describeOverdue() string {
	var names []string
	for name, n := range d.rec.Nodes {
		if d.isOverdue(n) {
			names = append(names, fmt.Sprintf("%s (node %s)", n.Instance, name))
		}
	}
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	return fmt.Sprintf("%s: still terminating after %s, and no longer waited for: check the lifecycle hooks of group %q",
		abbreviateNames(names), d.rec.Request.BootTimeout.Duration, d.w.Group.Name)
}

// noteVanished records the outdated nodes that existed one step ago, were not started and are gone: another process
// removed them before their turn.
func (d *decision) noteVanished() {
	if d.rec.Run == "" || d.rec.Request.Strategy != record.Surge && d.rec.Request.Strategy != record.BlueGreen {
		return // other processes are expected to remove nodes
	}
	for _, name := range d.w.Notes.Pending {
		_, started := d.rec.Nodes[name]
		if _, there := nodegroup.IndexOfMember(d.w.Members, name); there || started || len(d.rec.Vanished) == maxVanishedNodes || slices.Contains(d.rec.Vanished, name) {
			continue
		}
		d.rec.Vanished = append(slices.Clone(d.rec.Vanished), name)
	}
	d.notes.Pending = d.listPending()
}

// listPending returns the sorted names of the outdated nodes that were not started, including nodes whose machine is
// terminating.
func (d *decision) listPending() []string {
	names := make([]string, 0, len(d.count.pending)+len(d.count.leaving))
	for _, members := range [][]*nodegroup.Member{d.count.pending, d.count.leaving} {
		for _, m := range members {
			if m.Node != nil {
				names = append(names, m.Node.Name)
			}
		}
	}
	return names
}

// describeVanished returns the nodes that another process removed before their turn; "" for none.
func (d *decision) describeVanished() string {
	if len(d.rec.Vanished) == 0 {
		return ""
	}
	return "removed by a user or another process before the upgrade reached them: " + abbreviateNames(d.rec.Vanished)
}
