package nodegroup

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodemark"
)

// traits are the properties of a node that every step needs.
type traits struct {
	// of is the node from which the traits were read.
	of    *corev1.Node
	zone  string
	run   string
	ready bool
	// fence is true if the node has the taint and the cordon. fit is true if nothing on the node itself keeps
	// ordinary pods away.
	fence bool
	fit   bool
	// held is true if this tool keeps autoscalers from the node. open is true if nothing does.
	held bool
	open bool
}

// CacheTraits caches the properties of the member's node that every step needs. Calling it is optional. An observer of
// a large group should call it for each new version of a node. The node must not be changed afterwards.
func (m *Member) CacheTraits(g *Group) {
	m.traits = traits{}
	if m.Node == nil {
		return
	}
	m.traits = readNodeTraits(m.Node)
	m.traits.fit = (&Member{Node: m.Node}).Usable(g.WantedLabels)
	m.traits.fence = m.Node.Spec.Unschedulable && nodemark.HasTaint(m.Node, FenceTaint(g.Provider))
}

// readNodeTraits returns the traits that do not depend on the group.
func readNodeTraits(node *corev1.Node) traits {
	return traits{
		of: node, zone: node.Labels[corev1.LabelTopologyZone], run: node.Annotations[nodemark.AnnotationRun],
		ready: IsNodeReady(node), held: nodemark.IsHeld(node), open: nodemark.AllowsScaleDown(node),
	}
}

// hasTraits reports whether the traits were read from the member's current node.
func (m *Member) hasTraits() bool { return m.Node != nil && m.traits.of == m.Node }

// IsReady reports whether the member is a node that is Ready.
func (m *Member) IsReady() bool {
	if m.hasTraits() {
		return m.traits.ready
	}
	return m.Node != nil && IsNodeReady(m.Node)
}

// IsUsable is Member.Usable with the group's labels. It also returns false for a Node object that outlives its
// machine: the group was read late enough to list the machine, but does not.
func (g *Group) IsUsable(m *Member) bool {
	if g.Can.ListInstances && m.Instance.ID == "" && m.Node != nil && g.IsFreshAfter(m.Node.CreationTimestamp.Time) {
		return false
	}
	if m.hasTraits() {
		return m.traits.fit && m.Instance.mayServe()
	}
	return m.Usable(g.WantedLabels)
}

// IsFenced reports whether the member's node has the complete fence of the run.
func (m *Member) IsFenced(run string, fence corev1.Taint) bool {
	switch {
	case m.Node == nil:
		return false
	case m.hasTraits():
		return m.traits.fence && m.traits.run == run
	}
	return m.Node.Annotations[nodemark.AnnotationRun] == run && m.Node.Spec.Unschedulable && nodemark.HasTaint(m.Node, fence)
}

// FencedBy returns the run that fenced the member's node, or "" if no run did.
func (m *Member) FencedBy() string {
	switch {
	case m.Node == nil:
		return ""
	case m.hasTraits():
		return m.traits.run
	}
	return m.Node.Annotations[nodemark.AnnotationRun]
}

// IsHeld reports whether this tool keeps autoscalers from the member's node.
func (m *Member) IsHeld() bool {
	if m.hasTraits() {
		return m.traits.held
	}
	return m.Node != nil && nodemark.IsHeld(m.Node)
}

// AllowsScaleDown reports whether autoscalers may remove the member's node: nothing on the node forbids it.
func (m *Member) AllowsScaleDown() bool {
	if m.hasTraits() {
		return m.traits.open
	}
	return m.Node != nil && nodemark.AllowsScaleDown(m.Node)
}
