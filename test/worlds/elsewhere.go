package worlds

import (
	"math/rand/v2"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodemark"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// drawElsewhere makes another user run the command for the same nodes in some worlds. The other command has another namespace for its
// records, or a selector that matches the group. It draws from its own generator.
func drawElsewhere(p *Plan) {
	d := dice{rand.New(rand.NewPCG(p.Seed, 0x656c7365))}
	if d.chance(25) {
		p.Elsewhere = d.moment()
	}
}

// expectedOwner returns the owner that the upgrade of the world's group writes on nodes.
func expectedOwner() nodemark.Owner {
	return nodemark.Owner{Namespace: "kube-system", Group: "workers", Epoch: 1}
}

// checkForeignRun checks S32: a command with another group name or namespace is refused if a node has marks of the running upgrade. It
// is also refused if the marks are unreadable.
func (u *user) checkForeignRun() {
	if u.done {
		return
	}
	own, records := nodemark.Owner{Namespace: "elsewhere", Group: "workers"}, map[string]record.Record{}
	if u.c.plan.Seed%2 == 0 {
		own = nodemark.Owner{Namespace: expectedOwner().Namespace, Group: "team in (a, b)"}
		records[expectedOwner().Group] = u.stored.record
	}
	group := u.c.readGroup()
	members := newView(u.c).joinMembers(&group, &record.Record{})
	marked, unreadable := u.markedNodes(members)
	switch found, is := upgrade.FindForeignRun(members, own, "", records); {
	case is && (!marked[found.Node] || found.Owner != expectedOwner()):
		u.rules.fail("S32", "the command names node %s as part of run %s of %v, but the node has no such mark", found.Node, found.Run, found.Owner)
	case is:
		u.rules.tally.count("second run", foreignRunRefused)
	case len(marked) > 0 && !unreadable:
		u.rules.fail("S32", "an upgrade of group %q in namespace %s may begin, although these nodes have marks of another upgrade: %v", own.Group, own.Namespace, sortedKeys(marked))
	}
}

// markedNodes returns the members with a mark of an upgrade, and whether an annotation of this program is unreadable.
func (u *user) markedNodes(members []nodegroup.Member) (nodes map[string]bool, unreadable bool) {
	nodes = map[string]bool{}
	for i := range members {
		node := members[i].Node
		if node == nil {
			continue
		}
		unreadable = unreadable || nodemark.FindUnreadable(node) != nil
		if node.Annotations[nodemark.AnnotationRun] != "" || node.Annotations[nodemark.AnnotationHeld] != "" {
			nodes[node.Name] = true
		}
	}
	return nodes, unreadable
}
