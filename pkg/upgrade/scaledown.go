package upgrade

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

const (
	// AnnotationNoScaleDown with the value "true" has cluster-autoscaler leave a node alone (cluster-autoscaler's FAQ, "How can I
	// prevent Cluster Autoscaler from scaling down a particular node?").
	AnnotationNoScaleDown = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
	// AnnotationHeld holds the run that put AnnotationNoScaleDown on the node; without it that annotation is somebody else's.
	AnnotationHeld = Domain + "/scale-down-disabled"
)

// MarkHeld changes the node as HoldNode means it. One that says by itself whether it may be scaled down is left as it is.
func MarkHeld(node *corev1.Node, run string) {
	if _, theirs := node.Annotations[AnnotationNoScaleDown]; theirs {
		return
	}
	annotate(node, AnnotationNoScaleDown, "true")
	annotate(node, AnnotationHeld, run)
}

// MarkFreed changes the node as FreeNode means it: what is not ours stays, and so does what somebody else wrote over it.
func MarkFreed(node *corev1.Node) {
	if !held(node) {
		return
	}
	if node.Annotations[AnnotationNoScaleDown] == "true" {
		delete(node.Annotations, AnnotationNoScaleDown)
	}
	delete(node.Annotations, AnnotationHeld)
	delete(node.Annotations, AnnotationBefore)
}

func held(node *corev1.Node) bool {
	_, ours := node.Annotations[AnnotationHeld]
	return ours
}

// openToScaleDown reports whether nothing on the node says that it is not to be scaled down.
func openToScaleDown(node *corev1.Node) bool {
	_, said := node.Annotations[AnnotationNoScaleDown]
	return !said && !held(node) // whoever took the one away wants it so
}

// holdNew has autoscalers leave alone the nodes that the upgrade brought up: until pods have moved to them they look unneeded. Nothing
// waits for it, since an autoscaler that is faster does no harm (E61).
func (t *turn) holdNew() {
	if t.w.Group.Provider == manualProvider {
		return
	}
	before, unready := t.rec.before(), corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}
	for i := range t.w.Members {
		m := &t.w.Members[i]
		if m.Outdated || m.Node == nil || !m.openToScaleDown() || !t.w.usable(m) || !t.rec.fresh(m) || !t.stays(m) {
			continue
		}
		if hasTaint(m.Node, unready) {
			continue // the control plane takes it off at this very moment, and one of the two writes would fail
		}
		action := HoldNode{Node: m.Node.Name, UID: m.Node.UID, Version: m.Node.ResourceVersion, Before: before}
		if t.attempt(action).Outcome != OutcomeFatal { // whoever may not say it does without
			t.want(action)
		}
	}
}

// freeHeld gives the group's nodes back to autoscalers, those that an earlier run held too, and reports whether all are.
func (t *turn) freeHeld() bool {
	t.actions = slices.DeleteFunc(t.actions, func(a Action) bool { _, hold := a.(HoldNode); return hold }) // decided in this turn, for nothing
	return t.unmark(t.stays, mark{
		on:     (*Member).held,
		coming: t.holdComing,
		take:   func(n *corev1.Node) Action { return FreeNode{Node: n.Name, UID: n.UID, Version: n.ResourceVersion} },
	})
}

// holdComing reports whether a hold of ours is on its way to the node and not to be seen on it yet.
func (t *turn) holdComing(node *corev1.Node) bool {
	attempt := t.attempt(HoldNode{UID: node.UID})
	sent, _ := attempt.Action.(HoldNode)
	return t.coming(attempt, sent.Version, node)
}
