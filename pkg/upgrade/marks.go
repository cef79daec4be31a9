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

// fenceOutdatedNodes fences every outdated node, so that a pod that leaves one does not land on
// another (EKS E30). Nodes of the wanted revision are never fenced (EKS E31). It reports whether
// all are.
func (d *decision) fenceOutdatedNodes() bool {
	all, before := true, d.rec.GroupBaseline()
	for i := range d.w.Members {
		m := &d.w.Members[i]
		if !m.Outdated || m.Node == nil || m.Instance.State == nodegroup.InstanceLeaving || d.isFencedByRun(m) {
			continue
		}
		if d.needsNoFence(m) {
			continue
		}
		if d.rec.WasUncordoned(m.Node) {
			d.stopUpgradeWith(record.Paused, fmt.Sprintf("node %q was made schedulable by another actor during the upgrade: run the command again to fence it again", m.Name()))
			return false
		}
		all = false
		d.waitFor("the outdated nodes to be fenced")
		d.addAction(nodemark.Fence{NodeVersion: nodemark.VersionOf(m.Node), Before: before})
	}
	return all
}

// needsNoFence reports whether the outdated node goes already or, in the forecast of a cloud that
// terminates first, has its turn still to come: to fence all is a part of scale up, which such a
// cloud leaves out (EKS E50).
func (d *decision) needsNoFence(m *nodegroup.Member) bool {
	if n, started := d.rec.FindStarted(m); started {
		return n.State == record.NodeRemoving
	}
	return d.w.Group.Managed != nil && d.w.Group.Managed.TerminateFirst
}

// holdNodes has autoscalers leave nodes alone: those that the upgrade brought up, since they look
// unneeded until pods have moved to them, and outdated ones that are kept for the way back (GKE
// G42). Nothing waits for it, since an autoscaler that is faster does no harm (E61).
func (d *decision) holdNodes() {
	if d.phase.held == noneHeld || d.w.Group.Can.Refill == nodegroup.RefillByUser {
		return
	}
	for m := range d.eachUnheld {
		action := nodemark.HoldNode{NodeVersion: nodemark.VersionOf(m.Node), Before: d.rec.GroupBaseline()}
		if d.lastAttempt(action).Outcome != nodegroup.OutcomeFatal { // whoever may not say it does without
			d.addAction(action)
		}
	}
}

// eachUnheld yields the members that autoscalers are still to be kept from.
func (d *decision) eachUnheld(yield func(*nodegroup.Member) bool) {
	unready := corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}
	for i := range d.w.Members {
		m := &d.w.Members[i]
		if m.Node == nil || !d.mustHold(m) || !m.AllowsScaleDown() {
			continue
		}
		// From one that is not Ready the control plane may take the taint off at this very moment,
		// and one of the two writes would fail.
		if !nodemark.HasTaint(m.Node, unready) && !yield(m) {
			return
		}
	}
}

// findUnheld finds a node that autoscalers are still to be kept from, "" for none, first of all one
// of which that was refused for good, with the reason.
func (d *decision) findUnheld() (node, refusal string) {
	for m := range d.eachUnheld {
		node = m.Name()
		if attempt := d.lastAttempt(nodemark.HoldNode{NodeVersion: nodemark.VersionOf(m.Node)}); attempt.Outcome == nodegroup.OutcomeFatal && !attempt.InFlight {
			return node, attempt.Detail
		}
	}
	return node, ""
}

// mustHold reports whether autoscalers are kept from the member in this phase.
func (d *decision) mustHold(m *nodegroup.Member) bool {
	if m.Outdated {
		return d.phase.held >= outdatedHeld && !d.rec.IsTerminating(m)
	}
	return d.phase.held != outdatedHeld && d.w.Group.IsUsable(m) && d.rec.IsNewMember(m) && d.rec.IsNotEnding(m)
}

// releaseHeldNodes gives the group's nodes back to autoscalers, those that an earlier run held too
// and those that may not be terminated, and reports whether all are.
func (d *decision) releaseHeldNodes() bool {
	return d.releaseHolds(func(m *nodegroup.Member) bool {
		return d.rec.IsNotEnding(m) || d.isRefused(nodegroup.Terminate{Instance: m.Instance.ID})
	})
}

// releaseHolds gives the nodes that are fit for it back to autoscalers, and reports whether all
// are.
func (d *decision) releaseHolds(fit func(*nodegroup.Member) bool) bool {
	return d.removeMarks(fit, mark{
		on:   (*nodegroup.Member).IsHeld,
		put:  func(v nodemark.NodeVersion) nodemark.NodeAction { return nodemark.HoldNode{NodeVersion: v} },
		take: func(v nodemark.NodeVersion) nodemark.NodeAction { return nodemark.FreeNode{NodeVersion: v} },
	})
}

// removeFences takes our fence from the nodes that are fit for it, and reports whether none has it
// any more.
func (d *decision) removeFences(fit func(*nodegroup.Member) bool) bool {
	return d.removeMarks(fit, mark{
		on:   d.rec.OwnsFence,
		put:  func(v nodemark.NodeVersion) nodemark.NodeAction { return nodemark.Fence{NodeVersion: v} },
		take: func(v nodemark.NodeVersion) nodemark.NodeAction { return nodemark.Unfence{NodeVersion: v} },
	})
}

// removeMarks takes a mark from the nodes that are fit for it, and reports whether none has it any
// more. A stop or an undoing leaves those for which that is refused for good.
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

// isFencedByRun reports whether the member is a node that carries the whole fence of this run.
func (d *decision) isFencedByRun(m *nodegroup.Member) bool {
	return m.IsFenced(d.rec.Run, d.fence)
}

// mark is something of ours on nodes: whether it is on one, what puts it there, and what takes it
// away.
type mark struct {
	on        func(*nodegroup.Member) bool
	put, take func(nodemark.NodeVersion) nodemark.NodeAction
}

// ForeignRun is a run of another upgrade that a node of the group is part of.
type ForeignRun struct {
	Node, Run string
	// Owner names the other upgrade.
	Owner nodemark.Owner
}

// FindForeignRun returns the first run of another upgrade that marks one of the members, in their
// order: of a group of another name, or of this one in another namespace. own is the group's name and
// namespace, run the one that is recorded for it, "" for none. Marks of older versions name no owner:
// they are of the record that can be continued with their run. records are those of own's namespace
// under other names. It returns false when no mark is foreign.
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
			owner = nodemark.Owner{Namespace: own.Namespace, Group: findRecorded(marked, own.Group, records)}
		}
		if owner.Namespace != own.Namespace || owner.Group != own.Group {
			return ForeignRun{Node: node.Name, Run: marked, Owner: owner}, true
		}
	}
	return ForeignRun{}, false
}

// findRecorded returns the group whose record can be continued with the run; otherwise, when there is
// none.
func findRecorded(run, otherwise string, records map[string]record.Record) string {
	for _, group := range slices.Sorted(maps.Keys(records)) {
		if record := records[group]; record.Run == run && record.IsResumable() {
			return group
		}
	}
	return otherwise
}
