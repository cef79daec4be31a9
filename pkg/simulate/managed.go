package simulate

import (
	"cmp"
	"hash/fnv"
	"maps"
	"slices"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain/schedule"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// evictionRetryDelay is how long the cloud's own drain waits until it retries evictions that a budget refused (kubectl,
// pkg/drain).
const evictionRetryDelay = 5 * time.Second

// cloudAddsFirst reports whether the group's own cloud upgrades the group and adds nodes before it drains any.
func (c *Cluster) cloudAddsFirst() bool {
	return c.group.Managed != nil && !c.group.Managed.TerminateFirst
}

// countCloudSurge returns how many nodes the group's own cloud adds beyond the replacements of outdated nodes (EKS
// E21). It returns 0 for a group that this tool upgrades.
func (c *Cluster) countCloudSurge(req record.Request) int {
	if !c.cloudAddsFirst() {
		return 0
	}
	outdated := 0
	for i := range c.group.roster {
		if c.group.roster[i].Outdated {
			outdated++
		}
	}
	return max(0, req.Surge-outdated)
}

// removeSurplusNode simulates how the group's own cloud removes one of the nodes that it added. The node is cordoned and
// drained for up to the drain timeout. Then it is terminated with the pods that are left on it (EKS E60, E62).
// removeSurplusNode returns false when the group has its original size again.
func (c *Cluster) removeSurplusNode(req record.Request, size int) (removed bool) {
	if !c.cloudAddsFirst() || c.group.Desired <= size {
		return false
	}
	m := c.chooseSurplusNode()
	if m == nil {
		return false
	}
	c.drainSurplusNode(m.node, req)
	if outcome, _ := c.cloud.terminateInstance(nodegroup.Terminate{Instance: m.instance.ID, Shrink: true}); outcome != nodegroup.OutcomeDone {
		return false // the group is at its minimum
	}
	for c.group.members[m.instance.ID] != nil && c.Advance(time.Time{}) {
	}
	return true
}

// chooseSurplusNode returns the node that a shrinking group removes: the oldest in the zone with the most nodes. In a
// drawn order, it is any node of that zone.
func (c *Cluster) chooseSurplusNode() *member {
	size := c.group.zoneSizes()
	var chosen *member
	for _, id := range slices.Sorted(maps.Keys(c.group.members)) {
		m := c.group.members[id]
		if m.node == nil || m.instance.State != nodegroup.InstanceInService {
			continue
		}
		if chosen == nil || cmp.Or(cmp.Compare(size[m.instance.Zone], size[chosen.instance.Zone]), c.compareRemovalOrder(chosen, m)) > 0 {
			chosen = m
		}
	}
	return chosen
}

// compareRemovalOrder returns a negative number if a is removed before b.
func (c *Cluster) compareRemovalOrder(a, b *member) int {
	if c.drawn != 0 {
		return cmp.Compare(hashName(a.instance.ID, c.drawn), hashName(b.instance.ID, c.drawn))
	}
	return a.node.node.CreationTimestamp.Compare(b.node.node.CreationTimestamp.Time)
}

func hashName(name string, seed uint64) uint64 {
	h := fnv.New64a()
	_, _ = h.Write(append([]byte(name), byte(seed))) // writing to a hash never fails
	return h.Sum64()
}

// drainSurplusNode cordons a node and evicts its pods. It repeats the evictions that budgets refuse.
func (c *Cluster) drainSurplusNode(n *simNode, req record.Request) {
	closed := n.node.DeepCopy()
	closed.Spec.Unschedulable = true
	c.nodes.updateNode(n, closed)
	limit := c.clock.now.Add(req.DrainTimeout.Duration)
	for c.clock.now.Before(limit) && c.evictPodsOfNode(n, req.Policy()) {
		again := c.clock.now.Add(evictionRetryDelay)
		for c.clock.now.Before(again) && c.countLeavingPods(n) > 0 && c.Advance(again) {
		}
	}
}

// evictPodsOfNode tries to evict the node's pods, and reports whether any pod that must leave was there.
func (c *Cluster) evictPodsOfNode(n *simNode, policy drain.Policy) (anyLeft bool) {
	left := false
	for _, pod := range n.pods {
		switch drain.Judge(pod, policy, false).Fate {
		case drain.Go:
			c.evictPod(schedule.Eviction{UID: pod.UID, Node: n.node.Name})
			left = true
		case drain.Leaving:
			left = true
		}
	}
	c.pods.placePending()
	return left
}

func (c *Cluster) countLeavingPods(n *simNode) (left int) {
	for _, pod := range n.pods {
		if drain.Judge(pod, drain.Policy{EvictUnmanaged: true}, false).Fate != drain.Stay {
			left++
		}
	}
	return left
}
