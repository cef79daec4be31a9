package upgrade

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodemark"
)

// marks puts our marks on nodes and takes them off.
type marks struct{ *draft }

// fenceOutdatedNodes fences every outdated node, so that a pod that leaves one does not land on
// another (EKS E30). Nodes of the wanted revision are never fenced (EKS E31). It reports whether
// all are.
func (d marks) fenceOutdatedNodes() bool {
	all, before := true, d.rec.groupBaseline()
	for i := range d.w.Members {
		m := &d.w.Members[i]
		if !m.Outdated || m.Node == nil || m.Instance.State == nodegroup.InstanceLeaving || d.isFencedByRun(m) {
			continue
		}
		if d.needsNoFence(m) {
			continue
		}
		if d.rec.wasUncordoned(m.Node) {
			d.stopUpgradeWith(Paused, fmt.Sprintf("node %q was made schedulable by another actor during the upgrade: run the command again to fence it again", m.Name()))
			return false
		}
		all = false
		d.waiting = "the outdated nodes to be fenced"
		d.addAction(Fence{NodeVersion: VersionOf(m.Node), Before: before})
	}
	return all
}

// needsNoFence reports whether the outdated node goes already or, in the forecast of a cloud that
// terminates first, has its turn still to come: to fence all is a part of scale up, which such a
// cloud leaves out (EKS E50).
func (d marks) needsNoFence(m *nodegroup.Member) bool {
	if n, started := d.rec.findStarted(m); started {
		return n.State == NodeRemoving
	}
	return d.w.Group.Managed != nil && d.w.Group.Managed.TerminateFirst
}

// holdNodes has autoscalers leave nodes alone: those that the upgrade brought up, since they look
// unneeded until pods have moved to them, and outdated ones that are kept for the way back (GKE
// G42). Nothing waits for it, since an autoscaler that is faster does no harm (E61).
func (d marks) holdNodes() {
	if d.phase.held == noneHeld || d.w.Group.Refill() == nodegroup.RefillByUser {
		return
	}
	for m := range d.eachUnheld {
		action := HoldNode{NodeVersion: VersionOf(m.Node), Before: d.rec.groupBaseline()}
		if d.lastAttempt(action).Outcome != nodegroup.OutcomeFatal { // whoever may not say it does without
			d.addAction(action)
		}
	}
}

// eachUnheld yields the members that autoscalers are still to be kept from.
func (d marks) eachUnheld(yield func(*nodegroup.Member) bool) {
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
func (d marks) findUnheld() (node, refusal string) {
	for m := range d.eachUnheld {
		node = m.Name()
		if attempt := d.lastAttempt(HoldNode{NodeVersion: VersionOf(m.Node)}); attempt.Outcome == nodegroup.OutcomeFatal && !attempt.InFlight {
			return node, attempt.Detail
		}
	}
	return node, ""
}

// mustHold reports whether autoscalers are kept from the member in this phase.
func (d marks) mustHold(m *nodegroup.Member) bool {
	if m.Outdated {
		return d.phase.held >= outdatedHeld && !d.rec.isTerminating(m)
	}
	return d.phase.held != outdatedHeld && d.w.Group.IsUsable(m) && d.rec.isNewMember(m) && d.rec.isNotEnding(m)
}

// releaseHeldNodes gives the group's nodes back to autoscalers, those that an earlier run held too
// and those that may not be terminated, and reports whether all are.
func (d marks) releaseHeldNodes() bool {
	return d.releaseHolds(func(m *nodegroup.Member) bool {
		return d.rec.isNotEnding(m) || d.isRefused(nodegroup.Terminate{Instance: m.Instance.ID})
	})
}

// releaseHolds gives the nodes that are fit for it back to autoscalers, and reports whether all
// are.
func (d marks) releaseHolds(fit func(*nodegroup.Member) bool) bool {
	return d.removeMarks(fit, mark{
		on:   (*nodegroup.Member).IsHeld,
		put:  func(v NodeVersion) NodeAction { return HoldNode{NodeVersion: v} },
		take: func(v NodeVersion) NodeAction { return FreeNode{v} },
	})
}

// removeFences takes our fence from the nodes that are fit for it, and reports whether none has it
// any more.
func (d marks) removeFences(fit func(*nodegroup.Member) bool) bool {
	return d.removeMarks(fit, mark{
		on:   d.rec.ownsFence,
		put:  func(v NodeVersion) NodeAction { return Fence{NodeVersion: v} },
		take: func(v NodeVersion) NodeAction { return Unfence{v} },
	})
}

// removeMarks takes a mark from the nodes that are fit for it, and reports whether none has it any
// more. A stop or an undoing leaves those for which that is refused for good.
func (d marks) removeMarks(fit func(*nodegroup.Member) bool, ours mark) bool {
	done := true
	for i := range d.w.Members {
		m := &d.w.Members[i]
		if m.Node == nil || m.Instance.State == nodegroup.InstanceLeaving || !fit(m) {
			continue
		}
		if !ours.on(m) {
			done = done && !d.w.isPatchPending(d.lastAttempt(ours.put(VersionOf(m.Node))), m.Node)
			continue
		}
		action := ours.take(VersionOf(m.Node))
		d.addAction(action)
		done = done && d.rec.Stopping != "" && d.isRefused(action)
	}
	return done
}

// isFencedByRun reports whether the member is a node that carries the whole fence of this run.
func (d *draft) isFencedByRun(m *nodegroup.Member) bool {
	return m.IsFenced(d.rec.Run, d.fence)
}

// mark is something of ours on nodes: whether it is on one, what puts it there, and what takes it
// away.
type mark struct {
	on        func(*nodegroup.Member) bool
	put, take func(NodeVersion) NodeAction
}
