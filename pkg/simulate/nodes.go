package simulate

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodemark"
)

// nodeLifecycle adds, changes and removes nodes, and updates the pods on them.
type nodeLifecycle struct {
	clock   *clock
	group   *simGroup
	index   *podIndex
	pods    *podLifecycle
	actions *actionLog
}

// addNode adds or updates a node. owner is nil for a node outside the group.
func (l *nodeLifecycle) addNode(node *corev1.Node, owner *member) *simNode {
	n, known := l.index.nodes.byName[node.Name]
	if !known {
		n = &simNode{member: owner, node: node}
		n.room.Attachable = l.index.attachable[node.Name]
		l.index.nodes.addToIndex(n)
	}
	l.updateNode(n, node)
	return n
}

// joinNode adds a node that has become Ready, and starts DaemonSet pods and pending pods on it.
func (l *nodeLifecycle) joinNode(node *corev1.Node, owner *member) {
	n := l.addNode(node, owner)
	l.pods.startMissingDaemons(n)
	l.pods.scheduler.markFreed(n)
}

// updateNode replaces a node's object by a newer version.
func (l *nodeLifecycle) updateNode(n *simNode, node *corev1.Node) {
	l.index.nodes.removeFromRanking(n)
	before := n.node
	n.readNodeObject(node)
	l.index.updateForNode(n, before, node)
	l.index.nodes.updateRanking(n)
	l.pods.scheduler.markPlacesChanged()
	if n.member != nil {
		n.member.node = n
		l.group.updateInRoster(n.member)
	}
}

// updateInstance updates the node and the roster after a change of a member's instance. A node whose instance is
// leaving takes no pods.
func (l *nodeLifecycle) updateInstance(m *member) {
	if m.node != nil {
		l.updateNode(m.node, m.node.node)
		return
	}
	l.group.updateInRoster(m)
}

// removeNode removes a node of the group and all pods on it.
func (l *nodeLifecycle) removeNode(n *simNode) {
	l.index.nodes.removeFromRanking(n)
	n.closed = true
	l.index.updateForNode(n, n.node, nil)
	l.index.nodes.removeFromIndex(n)
	l.actions.dropAnswersOfNode(n.node.UID)
	for _, pod := range n.pods {
		l.pods.deletePodOfDeadNode(l.index.bound[pod.UID])
	}
	l.pods.scheduler.markPlacesChanged()
	l.group.removeNode(n.member)
}

// actOnNode calls act for a node of the group. The outcome is Moved if the node is gone or was replaced by another of
// the same name.
func (l *nodeLifecycle) actOnNode(name string, uid types.UID, act func(*simNode) error) (nodegroup.Outcome, string) {
	n, ok := l.index.nodes.byName[name]
	if !ok || n.member == nil || n.node.UID != uid {
		return nodegroup.OutcomeMoved, fmt.Sprintf("node %q is gone", name)
	}
	if err := act(n); err != nil {
		return nodegroup.OutcomeFatal, err.Error()
	}
	return nodegroup.OutcomeDone, ""
}

// applyAction executes an action of the run that changes a node object.
func (l *nodeLifecycle) applyAction(a nodemark.NodeAction, run string) (nodegroup.Outcome, string) {
	return l.actOnNode(a.Target().Node, a.Target().UID, func(n *simNode) error {
		node := n.node.DeepCopy()
		if err := a.Apply(node, run, nodegroup.FenceTaint(l.group.Provider)); err != nil {
			return err
		}
		node.ResourceVersion = l.clock.nextVersion()
		l.updateNode(n, node)
		return nil
	})
}

// deleteNode removes the Node object.
func (l *nodeLifecycle) deleteNode(a nodemark.DeleteNode) (nodegroup.Outcome, string) {
	return l.actOnNode(a.Node, a.UID, func(n *simNode) error {
		l.removeNode(n)
		return nil
	})
}
