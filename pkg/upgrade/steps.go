package upgrade

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/shell"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/ledger"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// setUpGroup points the group at the wanted revision, and suspends processes that would work against the upgrade (EKS
// E02, E03; S4).
func (d *decision) setUpGroup() (done bool) {
	if !d.rebuildLedger() {
		return false
	}
	reclaimed := !d.rec.Rollback || d.unfenceCurrentNodes()
	if !d.setRevision() || !d.suspendProcesses() || !reclaimed {
		return false
	}
	return !d.rec.Rollback || d.carryOverSurge()
}

// setRevision points the group at the wanted revision and reports whether it is. If the group pointed elsewhere, every
// new node would be outdated and would be replaced too, without end. That happens after --replan to another target, or
// when another process changed the group.
func (d *decision) setRevision() (done bool) {
	wanted := d.w.Group.Wanted
	if wanted.ID == d.w.Group.Pointed.ID {
		return true
	}
	d.pollCloudSoon("the group to take revision " + wanted.Name)
	if !d.rec.HasSetRevision(d.w.Group.Pointed.ID) {
		d.rec.SetOriginalRevision(d.w.Group.Pointed) // a user may have pointed it there during the upgrade
	}
	if !slices.Contains(d.rec.SetTo, wanted.ID) {
		d.rec.SetTo = append(slices.Clone(d.rec.SetTo), wanted.ID)
	}
	d.addAction(nodegroup.SetRevision{To: wanted, Token: ledger.Token(d.rec.Run, "revision-"+wanted.ID, 1)})
	return false
}

// scaleUpGroup adds the surge, waits until all new nodes are usable, and then fences the outdated nodes (EKS E20–E31).
func (d *decision) scaleUpGroup() (done bool) {
	return d.addSurge() && d.fenceOutdatedNodes()
}

// addSurge adds the surge and reports whether all new nodes are usable.
func (d *decision) addSurge() (done bool) {
	d.assignTurn()
	if !d.setRevision() || !d.suspendProcesses() || !d.cancelSurgeReturn() || !d.applyDecision(d.bookKeeper().RaiseMaximum()) {
		return false
	}
	d.applyDecision(d.bookKeeper().KeepSurgeLaunched())
	surge := d.rec.Ledger.SurgeWanted(d.count.Left)
	if surge > 0 && !d.bookKeeper().IsSurgeUsable(surge) && !d.isSurgeLaunched(surge) {
		d.pollCloudSoon(describeNewNodes(surge, min(surge, d.count.Usable)) + d.describeUnusableNewNode())
		since := d.rec.LastChange()
		deadline := since.Add(d.rec.Request.BootTimeout.Duration)
		if d.rec.Ledger.OpenLaunches() > 0 && d.count.Usable >= surge {
			deadline = deadline.Add(d.rec.Request.BootTimeout.Duration) // all nodes are there; a process that took over repeats the launches whose answers are missing
		}
		if d.w.isDeadlinePassed(deadline) {
			d.stopUpgradeWith(record.NodeCreationFailure, d.describeBootFailure(surge, since))
		}
		d.requeueAt(deadline)
		return false
	}
	return true
}

// describeNewNodes returns how many new nodes the upgrade waits for, and how many of them are ready.
func describeNewNodes(surge, ready int) string {
	if surge == 1 {
		return fmt.Sprintf("1 new node, %d ready", ready)
	}
	return fmt.Sprintf("%d new nodes, %d ready", surge, ready)
}

// isSurgeLaunched reports whether all new nodes are launched and the upgrade need not wait until they are usable.
func (d *decision) isSurgeLaunched(surge int) bool {
	return d.skipsSurgeWait() && d.rec.Ledger.OpenLaunches() == 0 && d.count.Fresh >= surge
}

// continueDrains fences the outdated nodes, advances each node that was started, and plans which pods are evicted.
func (d *decision) continueDrains() {
	d.fencing = !d.fenceOutdatedNodes()
	for _, name := range d.rec.StartedNames() {
		if d.rec.Stopping == "" {
			d.advanceNode(name)
		}
	}
	d.plan = d.planEvictions("")
}

// awaitReplaced waits until no outdated node is left except quarantined ones, and until the replacements of the
// terminated nodes are launched and usable. So an upgrade ends with as many nodes that take pods as after scale up (EKS
// E26, E27; GKE G16). It also waits until the workloads whose pods left nodes have their ready pods again. In a group
// without a cloud a user brings new nodes. The upgrade waits for them if the user asked for that.
func (d *decision) awaitReplaced() (over bool) {
	if len(d.count.pending) > 0 || !d.rec.NoneInState(record.NodeDraining, record.NodeForcing, record.NodeEmpty, record.NodeParked) || !d.awaitRemovals() {
		return false
	}
	if d.rec.Ledger.PendingLaunches() == 0 && d.countUnavailable() <= 0 {
		whole, ready := d.awaitWorkloads(), d.awaitDaemons()
		return whole && ready
	}
	d.awaitReplacement()
	return false
}

// scaleDownGroup lowers the maximum again, resumes suspended processes, and releases the holds on nodes (EKS E60, E61).
func (d *decision) scaleDownGroup() (done bool) {
	freed := d.releaseAllHolds()
	return d.lowerMaximum() && d.resumeProcesses() && freed && !d.renewing
}

// concludeUpgrade ends an upgrade that reached its goal, unless a workload lacks ready pods again.
func (d *decision) concludeUpgrade() {
	if !d.awaitWorkloads() {
		if d.w.Group.Can.Resize && (d.rec.Ledger.PendingLaunches() > 0 || d.countUnavailable() > 0) {
			d.awaitReplacement() // their pods may need a node that was lost during the upgrade
		}
		return
	}
	d.rec.Result = record.Succeeded
	if !d.rec.NoneInState(record.NodeQuarantined) {
		d.rec.Result = record.LeftBehind
	}
	d.rec.Message = joinNotes(describeRollback(&d.rec), d.rec.Ledger.DescribeSurplus(d.w.Group.Desired-d.rec.Sizes.Desired), d.rec.Ledger.DescribeMaximum(d.w.Group.Desired), d.describeSuspended(), d.describeOrphans(), d.describeReturnedPods(), d.describeVanished(), d.describeOverdue(), DescribeStandby(d.w.Members))
	d.rec.Ended, d.finished = d.w.Now, true
}

// describeOrphans returns which drained nodes have no machine that could be terminated: a person must delete them.
func (d *decision) describeOrphans() string {
	if !d.w.Group.Can.Terminate {
		return "" // no node of the group has such a machine: a user adds and removes them
	}
	var orphans []string
	for _, name := range slices.Sorted(maps.Keys(d.rec.Nodes)) {
		if m := d.count.byName[name]; d.rec.Nodes[name].State == record.NodeDrained && m != nil && m.Node != nil {
			orphans = append(orphans, name)
		}
	}
	if len(orphans) == 0 {
		return ""
	}
	return "Node objects of drained nodes whose instance is gone still exist: " + shell.Command("kubectl delete", append([]string{"node"}, orphans...)...)
}

// describeReturnedPods returns which pods are on drained nodes again; "" for none. They tolerate the fence, and will end
// with the machines.
func (d *decision) describeReturnedPods() string {
	var pods []*corev1.Pod
	for _, name := range d.rec.StartedNames() {
		if m := d.count.byName[name]; m != nil && d.rec.Nodes[name].State == record.NodeDrained {
			pods = append(pods, d.classifyPodsOf(m).Evict...)
		}
	}
	if len(pods) == 0 {
		return ""
	}
	return "pods that started on drained nodes again, because they tolerate the fence: " + abbreviateNames(listPodNames(pods))
}

// pauseWhenIdle pauses an upgrade when a pause was requested, the started nodes have finished, and their replacements
// were launched (GKE G25).
func (d *decision) pauseWhenIdle() {
	if !d.pausing {
		return
	}
	started := record.CountNodes(&d.rec, func(n record.NodeRecord) bool {
		return record.IsInDrain(n.State) || (n.State == record.NodeRemoving && !n.IsGivenBack() && !d.isOverdue(n))
	})
	switch {
	case started == 1:
		d.setWaiting("pausing: 1 node is finished first")
	case started > 1:
		d.setWaiting(fmt.Sprintf("pausing: %d nodes are finished first", started))
	case d.rec.Ledger.PendingLaunches() > 0:
		d.awaitReplacement()
		d.setWaiting("pausing: a replacement is launched first")
	default:
		d.pauseUpgrade()
	}
}

// cordonBlue fences all outdated nodes before any is drained (GKE G43).
func (d *decision) cordonBlue() (done bool) {
	return d.setRevision() && d.suspendProcesses() && d.fenceOutdatedNodes()
}
