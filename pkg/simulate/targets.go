package simulate

import (
	"maps"
	"slices"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// loadBalancers simulates the load balancers of the group's nodes and pods. Each target drains for the delay of its
// target group: a node from the beginning of its drain, a pod's address from the beginning of the pod's deletion.
// Targets of new nodes and pods are ignored, because no upgrade waits for them.
type loadBalancers struct {
	groups []nodegroup.TargetGroup
	// byID has the initial targets that a controller deregisters or that are already draining.
	byID map[string][]nodegroup.Target
}

func newLoadBalancers(read nodegroup.Targets) loadBalancers {
	b := loadBalancers{groups: read.Groups, byID: map[string][]nodegroup.Target{}}
	for _, target := range read.List {
		if target.Group.Bound || target.Draining {
			b.byID[target.ID] = append(b.byID[target.ID], target)
		}
	}
	return b
}

// readTargets returns the current targets of nodes in drain, and of pods that left these.
func (c *Cluster) readTargets() nodegroup.Targets {
	now := c.clock.now
	read := nodegroup.Targets{Groups: c.balancers.groups, Observed: now}
	if len(read.Groups) == 0 {
		return read
	}
	add := func(id string, since time.Time) {
		for _, target := range c.balancers.byID[id] {
			if target.Draining = true; now.Before(since.Add(target.Group.Delay)) {
				read.List = append(read.List, target)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.record.Nodes)) {
		n, addresses := c.record.Nodes[name], c.notes.Addresses[name]
		add(n.Instance, n.Began)
		for _, address := range slices.Sorted(maps.Keys(addresses)) {
			add(address, addresses[address])
		}
	}
	return read
}
