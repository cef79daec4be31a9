package upgrade

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodemark"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// fenceOutdatedNodes fences every outdated node, so that a pod that leaves one outdated node does not land on another
// (EKS E30). Nodes of the wanted revision are never fenced (EKS E31). It reports whether all are fenced.
func (d *decision) fenceOutdatedNodes() (allFenced bool) {
	all, before := true, d.rec.BaselineText()
	for i := range d.w.Members {
		m := &d.w.Members[i]
		if !m.Outdated || m.Node == nil || m.Instance.State == nodegroup.InstanceLeaving || d.isFencedByRun(m) {
			continue
		}
		if d.needsNoFence(m) {
			continue
		}
		if d.rec.WasUncordoned(m.Node) {
			d.stopUpgradeWith(record.Paused, fmt.Sprintf("a user or another process uncordoned node %q during the upgrade: run the command again to fence it again", m.Name()))
			return false
		}
		all = false
		d.setWaiting("the outdated nodes to be fenced")
		d.addAction(nodemark.Fence{NodeVersion: nodemark.VersionOf(m.Node), Before: before})
	}
	return all
}

// needsNoFence reports whether the outdated node is being terminated already. In the forecast of a cloud that
// terminates first, it is also true for nodes that were not started: fencing all nodes is part of scale up, which such
// a cloud skips (EKS E50).
func (d *decision) needsNoFence(m *nodegroup.Member) bool {
	if n, started := d.rec.StartedRecord(m); started {
		return n.State == record.NodeRemoving
	}
	return d.w.Group.Managed != nil && d.w.Group.Managed.TerminateFirst
}

// holdNodes keeps autoscalers from removing nodes: new nodes, which look unneeded until pods have moved to them, and
// outdated nodes that are kept for a rollback (GKE G42). The upgrade does not wait for the holds, because an autoscaler
// that removes such a node first does no harm (E61).
func (d *decision) holdNodes() {
	if d.phase.held == noneHeld || d.w.Group.Can.Refill == nodegroup.RefillByUser {
		return
	}
	for m := range d.eachUnheld {
		action := nodemark.HoldNode{NodeVersion: nodemark.VersionOf(m.Node), Before: d.rec.BaselineText()}
		if d.lastAttempt(action).Outcome != nodegroup.OutcomeFatal { // without permission the upgrade continues without it
			d.addAction(action)
		}
	}
}

// eachUnheld yields the members that must be held, are not held yet and can be held now.
func (d *decision) eachUnheld(yield func(*nodegroup.Member) bool) {
	for i := range d.w.Members {
		m := &d.w.Members[i]
		if d.lacksHold(m) && !nodemark.HasTaint(m.Node, notReadyTaint()) && !yield(m) {
			return
		}
	}
}

// lacksHold reports whether the member must be held and is not held yet.
func (d *decision) lacksHold(m *nodegroup.Member) bool {
	return m.Node != nil && d.mustHold(m) && m.AllowsScaleDown()
}

// notReadyTaint is the taint that the control plane removes when a node becomes Ready. A hold waits for that, because a
// second write at the same time would conflict.
func notReadyTaint() corev1.Taint {
	return corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}
}

// willHold reports whether a node must be held and cannot be held yet, because it still has its not-ready taint.
func (d *decision) willHold() bool {
	if d.phase.held == noneHeld || d.w.Group.Can.Refill == nodegroup.RefillByUser {
		return false
	}
	return slices.ContainsFunc(d.w.Members, func(m nodegroup.Member) bool { return d.lacksHold(&m) && nodemark.HasTaint(m.Node, notReadyTaint()) })
}

// findUnheld returns a node that autoscalers may not remove but that is not held yet; "" for none. It prefers a node
// whose hold was refused permanently, and returns the reason.
func (d *decision) findUnheld() (node, refusal string) {
	for m := range d.eachUnheld {
		node = m.Name()
		if attempt := d.lastAttempt(nodemark.HoldNode{NodeVersion: nodemark.VersionOf(m.Node)}); attempt.Outcome == nodegroup.OutcomeFatal && !attempt.InFlight {
			return node, attempt.Detail
		}
	}
	return node, ""
}

// mustHold reports whether autoscalers must be kept from the member in this phase.
func (d *decision) mustHold(m *nodegroup.Member) bool {
	if m.Outdated {
		return d.phase.held >= outdatedHeld && !d.rec.IsTerminating(m)
	}
	return d.phase.held != outdatedHeld && d.w.Group.IsUsable(m) && d.rec.IsNewMember(m) && d.rec.HasNoNodeRecord(m)
}

// releaseAllHolds gives the group's nodes back to autoscalers, including nodes that an earlier run held and nodes
// whose termination was refused. It reports whether all are given back.
func (d *decision) releaseAllHolds() (done bool) {
	return d.releaseHolds(func(m *nodegroup.Member) bool {
		return d.rec.HasNoNodeRecord(m) || d.isRefused(nodegroup.Terminate{Instance: m.Instance.ID})
	})
}

// releaseHolds gives the nodes that fit selects back to autoscalers, and reports whether all are given back.
func (d *decision) releaseHolds(fit func(*nodegroup.Member) bool) bool {
	return d.removeMarks(fit, mark{
		on:   (*nodegroup.Member).IsHeld,
		put:  func(v nodemark.NodeVersion) nodemark.NodeAction { return nodemark.HoldNode{NodeVersion: v} },
		take: func(v nodemark.NodeVersion) nodemark.NodeAction { return nodemark.UnholdNode{NodeVersion: v} },
	})
}

// removeFences removes the fence from the nodes that fit selects, and reports whether none of them has it any more.
func (d *decision) removeFences(fit func(*nodegroup.Member) bool) bool {
	return d.removeMarks(fit, mark{
		on:   d.rec.OwnsFence,
		put:  func(v nodemark.NodeVersion) nodemark.NodeAction { return nodemark.Fence{NodeVersion: v} },
		take: func(v nodemark.NodeVersion) nodemark.NodeAction { return nodemark.Unfence{NodeVersion: v} },
	})
}

// removeMarks removes a mark from the nodes that fit selects, and reports whether none of them has it any more. A stop
// or an abort skips nodes for which that is refused permanently.
func (d *decision) removeMarks(fit func(*nodegroup.Member) bool, ours mark) bool {
	done := true
	for i := range d.w.Members {
		m := &d.w.Members[i]
		if m.Node == nil || m.Instance.State == nodegroup.InstanceLeaving || !fit(m) {
			continue
		}
		if !ours.on(m) {
			done = done && !d.w.isPatchPending(d.lastAttempt(ours.put(nodemark.VersionOf(m.Node))), m.Node)
			continue
		}
		action := ours.take(nodemark.VersionOf(m.Node))
		d.addAction(action)
		done = done && d.rec.Stopping != "" && d.isRefused(action)
	}
	return done
}

// isFencedByRun reports whether the member's node has the complete fence of this run.
func (d *decision) isFencedByRun(m *nodegroup.Member) bool {
	return m.IsFenced(d.rec.Run, d.fence)
}

// mark is a mark of the upgrade on nodes. on reports whether a node has it, put adds it, and take removes it.
type mark struct {
	on        func(*nodegroup.Member) bool
	put, take func(nodemark.NodeVersion) nodemark.NodeAction
}

// ForeignRun is a run of another upgrade that marked a node of the group.
type ForeignRun struct {
	Node, Run string
	// Owner names the other upgrade.
	Owner nodemark.Owner
}

// FindForeignRun returns the first run of another upgrade that has marked one of the members, in their order. Another
// upgrade is one of a group with another name, or with this name in another namespace. own is the group's name and
// namespace. run is its recorded run, "" for none. Marks of older versions name no owner. They belong to the group
// whose record can be continued with their run. records are the records of own's namespace under other names. It
// returns false if no mark is foreign.
func FindForeignRun(members []nodegroup.Member, own nodemark.Owner, run string, records map[string]record.Record) (ForeignRun, bool) {
	for i := range members {
		node := members[i].Node
		if node == nil {
			continue
		}
		marked := nodemark.RunOf(node)
		if marked == "" || marked == run {
			continue
		}
		owner, named := nodemark.ReadOwner(node)
		if !named {
			owner = nodemark.Owner{Namespace: own.Namespace, Group: groupOfRun(marked, own.Group, records)}
		}
		if owner.Namespace != own.Namespace || owner.Group != own.Group {
			return ForeignRun{Node: node.Name, Run: marked, Owner: owner}, true
		}
	}
	return ForeignRun{}, false
}

// groupOfRun returns the group whose record can be continued with the run, or otherwise if there is none.
func groupOfRun(run, otherwise string, records map[string]record.Record) string {
	for _, group := range slices.Sorted(maps.Keys(records)) {
		if record := records[group]; record.Run == run && record.IsResumable() {
			return group
		}
	}
	return otherwise
}
