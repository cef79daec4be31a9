package upgrade

import (
	"fmt"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// hasRoomInRecord reports whether the record stays small enough if the member is started as well.
func (d *decision) hasRoomInRecord(m *nodegroup.Member) bool {
	rest, busy := d.rec, []*nodegroup.Member{m}
	rest.Nodes, rest.Workloads = nil, nil
	size := record.EncodedBytes(rest) + d.rec.Request.MemberBytes(m) + record.DrainBytes(m)
	for name, n := range d.rec.Nodes {
		lists := n.ListBytes()
		if other := d.count.byName[name]; other != nil && record.IsInDrain(n.State) {
			lists = max(lists, record.DrainBytes(other))
			busy = append(busy, other)
		}
		size += n.FixedBytes(name, d.rec.Request.ReasonBytes()) + lists
	}
	workloads := record.SizeOfWorkloads(busy)
	for name, w := range d.rec.Workloads {
		workloads[name] = max(workloads[name], record.WorkloadBytes+record.TextBytes(name)+record.TextBytes(w.Canary))
	}
	for _, bytes := range workloads {
		size += bytes
	}
	return size <= record.MostRecordBytes
}

// deferForRecord reports whether the member must wait until nodes in drain have left the record. That happens if many
// nodes joined during the upgrade. It stops the upgrade if no node is in flight.
func (d *decision) deferForRecord(m *nodegroup.Member) (deferred bool) {
	if d.hasRoomInRecord(m) {
		return false
	}
	d.setWaiting("room in the record")
	if d.rec.CountInFlight() == 0 {
		abort := nodegroup.Command("abort", d.w.Group.Name)
		d.stopUpgradeWith(record.Failed, fmt.Sprintf("starting another node: the record has no room for more than %d nodes: run %s, and upgrade fewer nodes at a time", len(d.rec.Nodes), abort))
	}
	return true
}
