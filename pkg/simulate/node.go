package simulate

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/fit"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// amount is an amount of CPU in millicores and of memory in bytes.
type amount struct{ cpu, memory int64 }

func (a amount) plus(b amount) amount { return amount{a.cpu + b.cpu, a.memory + b.memory} }
func (a amount) times(n int64) amount { return amount{n * a.cpu, n * a.memory} }

// simNode is a node with its pods, and with sums that the scheduler needs.
type simNode struct {
	// number is unique among all nodes that have ever existed.
	number int32
	node   *corev1.Node
	// member is nil for a node outside the group.
	member *member
	// pods are sorted by UID. The slice is replaced, never changed, because a World may share it.
	pods []*corev1.Pod
	// room has the node's resources and what its pods use.
	room fit.Node
	// scored is what its pods use, with the scheduler's default values for pods that request nothing.
	scored amount
	// closed is true if the node takes no pods at all. ranked is true if the node is in the ranking.
	closed bool
	ranked bool
	rank   rank
}

// rank orders nodes for the scheduler: by the share of allocated resources, then by the number of pods, then by name.
type rank struct {
	load int64
	pods int
	name string
}

func (r rank) compareRanks(o rank) int {
	return cmp.Or(cmp.Compare(r.load, o.load), cmp.Compare(r.pods, o.pods), strings.Compare(r.name, o.name))
}

// loadScale is the load of a full node.
const loadScale = 10_000

func (n *simNode) currentRank() rank {
	r := rank{pods: len(n.pods), name: n.node.Name}
	if has := n.room.Allocatable.CPU; has > 0 {
		r.load += n.scored.cpu * loadScale / has
	}
	if has := n.room.Allocatable.Memory; has > 0 {
		r.load += n.scored.memory * loadScale / has
	}
	return r
}

// readNodeObject updates the fields that depend on the node object.
func (n *simNode) readNodeObject(node *corev1.Node) {
	n.node = node
	n.room.Update(node)
	n.closed = !nodegroup.IsNodeReady(node) || (n.member != nil && n.member.instance.State == nodegroup.InstanceLeaving)
}

func comparePodUID(pod *corev1.Pod, uid types.UID) int {
	return strings.Compare(string(pod.UID), string(uid))
}

// placePodOnNode adds the pod to the node's list, or replaces its earlier version.
func (n *simNode) placePodOnNode(pod *corev1.Pod) {
	i, known := slices.BinarySearchFunc(n.pods, pod.UID, comparePodUID)
	pods := make([]*corev1.Pod, 0, len(n.pods)+1)
	pods = append(append(pods, n.pods[:i]...), pod)
	if known {
		i++
	}
	n.pods = append(pods, n.pods[i:]...)
}

func (n *simNode) removePodFromNode(uid types.UID) {
	if i, known := slices.BinarySearchFunc(n.pods, uid, comparePodUID); known {
		n.pods = slices.Concat(n.pods[:i], n.pods[i+1:])
	}
}

// nodeIndex has all nodes, and a ranking of those that take pods, in the order in which the scheduler tries them.
type nodeIndex struct {
	byName map[string]*simNode
	// sorted is sorted by name. ranking is sorted by how much of a node is allocated.
	sorted  []*simNode
	ranking ranking
	// added counts all nodes that have ever existed.
	added int32
}

// removeFromRanking removes the node from the ranking before its rank changes.
func (x *nodeIndex) removeFromRanking(n *simNode) {
	if n.ranked {
		x.ranking.removeNode(n)
		n.ranked = false
	}
}

func (x *nodeIndex) updateRanking(n *simNode) {
	if n.closed {
		return
	}
	n.rank, n.ranked = n.currentRank(), true
	x.ranking.insertNode(n)
}

func (x *nodeIndex) addToIndex(n *simNode) {
	n.number = x.added
	x.added++
	x.byName[n.node.Name] = n
	i, _ := x.positionOfNode(n.node.Name)
	x.sorted = slices.Insert(x.sorted, i, n)
}

func (x *nodeIndex) removeFromIndex(n *simNode) {
	delete(x.byName, n.node.Name)
	if i, ok := x.positionOfNode(n.node.Name); ok {
		x.sorted = slices.Delete(x.sorted, i, i+1)
	}
}

func (x *nodeIndex) positionOfNode(name string) (int, bool) {
	return slices.BinarySearchFunc(x.sorted, name, func(n *simNode, name string) int { return strings.Compare(n.node.Name, name) })
}
