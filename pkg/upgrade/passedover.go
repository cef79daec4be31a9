package upgrade

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// blockPassedOver adds to the blocked pods those that keep the cloud from beginning with their nodes, if the cloud passes over
// such nodes.
func (d *decision) blockPassedOver() {
	for _, m := range d.count.pending {
		closed := m.Node != nil && nodegroup.IsClosed(m.Node)
		for _, b := range findKeepers(m, d.w.Budgets, d.w.Now) {
			if !closed || b.Kind == drain.Keeps { // blockPods adds the pods with budgets that the cloud evicts now
				d.addBlocked(b)
			}
		}
	}
}

// findKeepers returns what keeps the cloud from replacing a node. Before the cloud has begun, these are the annotation of the node and
// its pods. After that, and on a cordoned node, only pods count whose drain a person must end. Pods do not count if the cloud deletes the
// rest of them after a time.
func findKeepers(m *nodegroup.Member, budgets drain.Budgets, now time.Time) []drain.Blocked {
	if m.Node == nil || !hasMachine(m) {
		return nil
	}
	var found []drain.Blocked
	if drain.IsNodeKept(m.Node) && !drain.IsDisrupted(m.Node) {
		found = append(found, drain.Blocked{Node: m.Name(), Obstacle: drain.Obstacle{Kind: drain.Keeps}, Passed: true})
	}
	if m.Instance.DeletesRest {
		return found
	}
	closed := nodegroup.IsClosed(m.Node)
	for _, pod := range m.Pods {
		keeper := drain.FindKeeper(pod, budgets, now)
		if keeper.Kind == drain.NoObstacle || closed && keeper.Kind != drain.Keeps && !keeper.NeedsPerson() {
			continue
		}
		name := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
		found = append(found, drain.Blocked{Node: m.Name(), Pod: name, UID: pod.UID, Workload: drain.WorkloadOf(pod), Obstacle: keeper, Passed: true})
	}
	return found
}

// PassedOver returns, by node, the first obstacle that keeps the group's cloud from replacing an outdated node and that its pods
// do not remove by themselves. A budget that other evictions have used up is none. It returns nil for a cloud that passes over
// no nodes.
func PassedOver(group *nodegroup.Group, members []nodegroup.Member, budgets drain.Budgets, now time.Time) map[string]drain.Blocked {
	if group.Managed == nil || !group.Managed.PassesOver {
		return nil
	}
	found := map[string]drain.Blocked{}
	for i := range members {
		m := &members[i]
		if !m.Outdated {
			continue
		}
		for _, b := range findKeepers(m, budgets, now) {
			if b.Kind != drain.BudgetSpent {
				found[m.Name()] = b
				break
			}
		}
	}
	return found
}
