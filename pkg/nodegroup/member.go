package nodegroup

import (
	"slices"
	"sort"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Member is a node of the group with its instance. Either may be missing: an
// instance that never became a node, or a node of the manual provider.
type Member struct {
	Node     *corev1.Node
	Instance Instance
	// Outdated is true if the member must be replaced.
	Outdated bool
	// Pods are all pods bound to the node. It is nil if the observer does not read them (current nodes).
	Pods []*corev1.Pod

	traits traits
}

// Name returns the node's name or, for an instance without a node, the instance's ID.
func (m *Member) Name() string {
	if m.Node != nil {
		return m.Node.Name
	}
	return m.Instance.ID
}

// Zone returns the member's zone, or "" if it is not known.
func (m *Member) Zone() string {
	switch {
	case m.Instance.Zone != "" || m.Node == nil:
		return m.Instance.Zone
	case m.hasTraits():
		return m.traits.zone
	}
	return m.Node.Labels[corev1.LabelTopologyZone]
}

// JoinMembers joins nodes with instances by Info.InstanceID, and sorts the members by name. outdated is called for
// nodes without an instance. A node whose instance is not listed is still a member: its instance may have just been
// removed. If the group's cloud lists no machines, each node stands for its machine.
func JoinMembers(group Group, nodes []*corev1.Node, outdated func(*corev1.Node) bool) []Member {
	byID := make(map[string]Instance, len(group.Instances))
	for _, instance := range group.Instances {
		byID[instance.ID] = instance
	}
	provider, members := InfoOf(group.Provider), make([]Member, 0, len(nodes))
	for _, node := range nodes {
		instance, known := byID[provider.InstanceID(node)]
		delete(byID, instance.ID)
		member := Member{Node: node, Instance: instance, Outdated: instance.mustBeReplaced()}
		if !known {
			member.Outdated = outdated(node)
		}
		if !group.Can.ListInstances && provider.OwnsNode(node) {
			member.Instance = machineOfNode(&group, node, member.Outdated)
		}
		members = append(members, member)
	}
	for _, instance := range byID {
		members = append(members, Member{Instance: instance, Outdated: instance.mustBeReplaced()})
	}
	slices.SortFunc(members, func(a, b Member) int { return strings.Compare(a.Name(), b.Name()) })
	return members
}

// WithMachines returns the group with the machines of its members, for forecasts of a group whose cloud lists no machines.
// Its size is the number of machines, and its cloud has full control.
func WithMachines(group Group, members []Member) Group {
	group.Instances, group.Can = nil, FullControl()
	for i := range members {
		if members[i].Instance.ID != "" {
			group.Instances = append(group.Instances, members[i].Instance)
		}
	}
	group.Desired = len(group.Instances)
	group.Min, group.Max = group.Desired, group.Desired
	return group
}

// machineOfNode returns the machine of a node as the node shows it. Its revision is the version of its kubelet.
func machineOfNode(group *Group, node *corev1.Node, outdated bool) Instance {
	provider := InfoOf(group.Provider)
	zone, kubelet := node.Labels[corev1.LabelTopologyZone], node.Status.NodeInfo.KubeletVersion
	if zone == "" {
		zone = provider.ZoneOfNode(node)
	}
	version := strings.TrimPrefix(kubelet, "v")
	return Instance{
		ID: provider.InstanceID(node), Zone: zone, State: InstanceInService, Outdated: outdated,
		Revision: Revision{ID: version, Name: group.Name + ":" + version, Kubernetes: kubelet},
	}
}

// Usable reports whether the member takes ordinary pods: it has started, and its node is not cordoned (EKS E25–E27).
func (m *Member) Usable(labels map[string]string) bool {
	return m.HasStarted(labels) && !m.Node.Spec.Unschedulable
}

// HasStarted reports whether the member's instance is in service and its node is Ready. The node must have the labels
// and no known start-up taint.
func (m *Member) HasStarted(labels map[string]string) bool {
	if m.Node == nil || !m.Instance.mayServe() {
		return false
	}
	for key, value := range labels {
		if m.Node.Labels[key] != value {
			return false
		}
	}
	return IsNodeReady(m.Node) && !slices.ContainsFunc(m.Node.Spec.Taints, isStartupTaint)
}

// HasNotReadyTaint reports whether the node has the not-ready taint. The control plane removes it shortly after the
// node has become Ready (pkg/controller/nodelifecycle/node_lifecycle_controller.go).
func HasNotReadyTaint(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool {
		return taint.Key == corev1.TaintNodeNotReady && taint.Effect == corev1.TaintEffectNoSchedule
	})
}

// isStartupTaint reports whether the taint means that a Ready node does not take pods yet.
func isStartupTaint(taint corev1.Taint) bool {
	return taint.Key == "node.cloudprovider.kubernetes.io/uninitialized" ||
		strings.HasPrefix(taint.Key, "readiness.k8s.io/") ||
		strings.HasPrefix(taint.Key, "node.cilium.io/") ||
		strings.HasSuffix(taint.Key, "/agent-not-ready")
}

// IsControlPlane reports whether the node has the label of control-plane nodes, or its name before Kubernetes 1.24.
func IsControlPlane(node *corev1.Node) bool {
	_, today := node.Labels["node-role.kubernetes.io/control-plane"]
	_, before := node.Labels["node-role.kubernetes.io/master"]
	return today || before
}

// ReadyCondition returns the node's Ready condition, or nil if it has none.
func ReadyCondition(node *corev1.Node) *corev1.NodeCondition {
	for i := range node.Status.Conditions {
		if node.Status.Conditions[i].Type == corev1.NodeReady {
			return &node.Status.Conditions[i]
		}
	}
	return nil
}

// IsNodeReady reports whether the Ready condition is True. It returns false for Unknown and for a missing condition.
func IsNodeReady(node *corev1.Node) bool {
	c := ReadyCondition(node)
	return c != nil && c.Status == corev1.ConditionTrue
}

// IndexOfMember returns the index of the member with the name, and whether it was found. members must be sorted by
// name.
func IndexOfMember(members []Member, name string) (int, bool) {
	i := sort.Search(len(members), func(i int) bool { return members[i].Name() >= name })
	return i, i < len(members) && members[i].Name() == name
}
