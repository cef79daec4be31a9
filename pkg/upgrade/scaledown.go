package upgrade

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodemark"
)

// holdNew has autoscalers leave alone the nodes that the upgrade brought up: until pods have moved
// to them they look unneeded. Nothing waits for it, since an autoscaler that is faster does no harm
// (E61).
func (t *turn) holdNew() {
	if t.w.Group.Refill() == nodegroup.RefillByUser {
		return
	}
	before, unready := t.rec.groupBaseline(), corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}
	for i := range t.w.Members {
		m := &t.w.Members[i]
		if m.Outdated || m.Node == nil || !m.AllowsScaleDown() || !t.w.Group.IsUsable(m) || !t.rec.fresh(m) || !t.stays(m) {
			continue
		}
		if nodemark.HasTaint(m.Node, unready) {
			continue // the control plane takes it off at this very moment, and one of the two writes would fail
		}
		action := HoldNode{Node: m.Node.Name, UID: m.Node.UID, Version: m.Node.ResourceVersion, Before: before}
		if t.attempt(action).Outcome != nodegroup.OutcomeFatal { // whoever may not say it does without
			t.want(action)
		}
	}
}

// freeHeld gives the group's nodes back to autoscalers, those that an earlier run held too, and
// reports whether all are.
func (t *turn) freeHeld() bool {
	t.actions = slices.DeleteFunc(t.actions, func(a nodegroup.Action) bool { _, hold := a.(HoldNode); return hold }) // decided in this turn, for nothing
	return t.unmark(t.stays, mark{
		on:     (*nodegroup.Member).IsHeld,
		coming: t.holdComing,
		take: func(n *corev1.Node) nodegroup.Action {
			return FreeNode{Node: n.Name, UID: n.UID, Version: n.ResourceVersion}
		},
	})
}

// holdComing reports whether a hold of ours is on its way to the node and not to be seen on it yet.
func (t *turn) holdComing(node *corev1.Node) bool {
	attempt := t.attempt(HoldNode{UID: node.UID})
	sent, _ := attempt.Action.(HoldNode)
	return t.coming(attempt, sent.Version, node)
}
