package upgrade

import corev1 "k8s.io/api/core/v1"

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
	// held is that we keep autoscalers from the node, open that nobody does.
	held bool
	open bool
}

// Read notes what every step asks of the member's node, so that no step has to look at it again. An observer of a large
// group that takes many steps calls it for each new version of a node, which must not be changed afterwards; nobody has to.
func (m *Member) Read(g *Group) {
	m.traits = traits{}
	if m.Node == nil {
		return
	}
	m.traits = traits{
		of: m.Node, zone: m.Node.Labels[corev1.LabelTopologyZone], run: m.Node.Annotations[AnnotationRun],
		ready: nodeReady(m.Node), fit: (&Member{Node: m.Node}).Usable(g.WantedLabels),
		fence: m.Node.Spec.Unschedulable && HasFenceTaint(m.Node, g.Provider),
		held:  held(m.Node), open: openToScaleDown(m.Node),
	}
}

// read reports whether the traits are those of the member's node.
func (m *Member) read() bool { return m.Node != nil && m.traits.of == m.Node }

// ready reports whether the member is a node that is Ready.
func (m *Member) ready() bool {
	if m.read() {
		return m.traits.ready
	}
	return m.Node != nil && nodeReady(m.Node)
}

// usable is Member.Usable for the group's labels. A Node object that outlives its machine is not, however ready it looks: the group
// lists no instance of it, by a reading that would show one.
func (w *World) usable(m *Member) bool {
	if w.Group.Sized && m.Instance.ID == "" && m.Node != nil && w.Group.shows(m.Node.CreationTimestamp.Time) {
		return false
	}
	if m.read() {
		return m.traits.fit && m.Instance.State != InstancePending && m.Instance.State != InstanceLeaving
	}
	return m.Usable(w.Group.WantedLabels)
}

// fenced reports whether the member is a node that carries the whole fence of this run.
func (t *turn) fenced(m *Member) bool {
	switch {
	case m.Node == nil:
		return false
	case m.read():
		return m.traits.fence && m.traits.run == t.rec.Run
	}
	node := m.Node
	return node.Annotations[AnnotationRun] == t.rec.Run && node.Spec.Unschedulable && HasFenceTaint(node, t.w.Group.Provider)
}

// held reports whether the member is a node that we keep autoscalers from.
func (m *Member) held() bool {
	if m.read() {
		return m.traits.held
	}
	return m.Node != nil && held(m.Node)
}

// openToScaleDown reports whether nothing keeps autoscalers from the member's node.
func (m *Member) openToScaleDown() bool {
	if m.read() {
		return m.traits.open
	}
	return m.Node != nil && openToScaleDown(m.Node)
}
