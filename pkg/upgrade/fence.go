package upgrade

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodemark"
)

// fenceAll fences every outdated node, so that a pod that leaves one does not land on another
// (EKS E30). Nodes of the wanted revision are never fenced (EKS E31). It reports whether all are.
func (t *turn) fenceAll() bool {
	all, before := true, t.rec.groupBaseline()
	for i := range t.w.Members {
		m := &t.w.Members[i]
		if !m.Outdated || m.Node == nil || m.Instance.State == nodegroup.InstanceLeaving || t.isFenced(m) {
			continue
		}
		if n, started := t.rec.started(m); started && n.State == NodeRemoving {
			continue
		}
		if t.uncordoned(m.Node) {
			t.fail(Paused, fmt.Sprintf("node %q was made schedulable by another actor during the upgrade: run the command again to fence it again", m.Name()))
			return false
		}
		all = false
		t.waiting = "the outdated nodes to be fenced"
		t.want(Fence{Node: m.Node.Name, UID: m.Node.UID, Version: m.Node.ResourceVersion, Before: before})
	}
	return all
}

// uncordoned reports whether somebody took away a fence of this run.
func (t *turn) uncordoned(node *corev1.Node) bool {
	return node.Annotations[nodemark.AnnotationRun] == t.rec.Run && !node.Spec.Unschedulable
}

// isFenced reports whether the member is a node that carries the whole fence of this run.
func (t *turn) isFenced(m *nodegroup.Member) bool {
	return m.IsFenced(t.rec.Run, nodegroup.FenceTaint(t.w.Group.Provider))
}
