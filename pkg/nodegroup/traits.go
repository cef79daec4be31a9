package nodegroup

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodemark"
)

// traits are what every step asks of every node.
type traits struct {
	// of is the node that they were read off.
	of    *corev1.Node
	zone  string
	run   string
	ready bool
	// fence is taint and cordon, fit that nothing of the node itself keeps ordinary pods away.
	fence bool
	fit   bool
	// held is that we keep autoscalers from the node, open that no one does.
	held bool
	open bool
}

// ReadTraits notes what every step asks of the member's node, so that no step has to look at it
// again. An observer of a large group that takes many steps calls it for each new version of a
// node, which must not be changed afterwards; no one has to.
func (m *Member) ReadTraits(g *Group) {
	m.traits = traits{}
	if m.Node == nil {
		return
	}
	m.traits = readNodeTraits(m.Node)
	m.traits.fit = (&Member{Node: m.Node}).Usable(g.WantedLabels)
	m.traits.fence = m.Node.Spec.Unschedulable && nodemark.HasTaint(m.Node, FenceTaint(g.Provider))
}

// readNodeTraits are the traits that need no group.
func readNodeTraits(node *corev1.Node) traits {
	return traits{
		of: node, zone: node.Labels[corev1.LabelTopologyZone], run: node.Annotations[nodemark.AnnotationRun],
		ready: IsNodeReady(node), held: nodemark.IsHeld(node), open: nodemark.AllowsScaleDown(node),
	}
}

// hasTraits reports whether the traits are those of the member's node.
func (m *Member) hasTraits() bool { return m.Node != nil && m.traits.of == m.Node }

// IsReady reports whether the member is a node that is Ready.
func (m *Member) IsReady() bool {
	if m.hasTraits() {
		return m.traits.ready
	}
	return m.Node != nil && IsNodeReady(m.Node)
}

// IsUsable is Member.Usable for the group's labels. A Node object that outlives its machine is not,
// however ready it looks: the group lists no instance of it, by a reading that would show one.
func (g *Group) IsUsable(m *Member) bool {
	if g.Can.ListInstances && m.Instance.ID == "" && m.Node != nil && g.IsFreshAfter(m.Node.CreationTimestamp.Time) {
		return false
	}
	if m.hasTraits() {
		return m.traits.fit && m.Instance.mayServe()
	}
	return m.Usable(g.WantedLabels)
}

// IsFenced reports whether the member is a node that carries the whole fence of the run.
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

// IsHeld reports whether the member is a node that we keep autoscalers from.
func (m *Member) IsHeld() bool {
	if m.hasTraits() {
		return m.traits.held
	}
	return m.Node != nil && nodemark.IsHeld(m.Node)
}

// AllowsScaleDown reports whether nothing keeps autoscalers from the member's node.
func (m *Member) AllowsScaleDown() bool {
	if m.hasTraits() {
		return m.traits.open
	}
	return m.Node != nil && nodemark.AllowsScaleDown(m.Node)
}
