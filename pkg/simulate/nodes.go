package simulate

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodemark"
)

// nodeLifecycle has nodes come, change and go, with all that follows for the pods on them.
type nodeLifecycle struct {
	clock   *clock
	group   *simGroup
	index   *podIndex
	pods    *podLifecycle
	actions *actionLog
}

// addNode takes in a new node, of a member of the group or of none.
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

// joinNode takes in a node that has come up, for daemons and for pods that wait.
func (l *nodeLifecycle) joinNode(node *corev1.Node, owner *member) {
	n := l.addNode(node, owner)
	l.pods.startMissingDaemons(n)
	l.pods.scheduler.capacityFreed(n)
}

// updateNode takes a new version of a node into account.
func (l *nodeLifecycle) updateNode(n *simNode, node *corev1.Node) {
	l.index.nodes.removeFromRanking(n)
	before := n.node
	n.readNodeObject(node)
	l.index.nodeChanged(n, before, node)
	l.index.nodes.updateRanking(n)
	l.pods.scheduler.placesChanged()
	if n.member != nil {
		n.member.node = n
		l.group.showMember(n.member)
	}
}

// updateInstance takes a change of a member's instance into account, and with it whether its node
// takes pods.
func (l *nodeLifecycle) updateInstance(m *member) {
	if m.node != nil {
		l.updateNode(m.node, m.node.node)
		return
	}
	l.group.showMember(m)
}

// removeNode removes a node of the group and everything on it.
func (l *nodeLifecycle) removeNode(n *simNode) {
	l.index.nodes.removeFromRanking(n)
	n.closed = true
	l.index.nodeChanged(n, n.node, nil)
	l.index.nodes.removeFromIndex(n)
	l.actions.dropAnswersOfNode(n.node.UID)
	for _, pod := range n.pods {
		l.pods.deletePodOfDeadNode(l.index.bound[pod.UID])
	}
	l.pods.scheduler.placesChanged()
	l.group.removeNode(n.member)
}

// actOnNode does something to a node of the group, unless it is gone or is another by now.
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

// applyAction carries out an action of the run that changes a node in place.
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
