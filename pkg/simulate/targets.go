package simulate

import (
	"maps"
	"slices"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// loadBalancers are those before the group's nodes and pods. A target of theirs drains for its
// group's delay from when its node's drain began or, a pod's address, from when the pod began to
// end. Those of new nodes and pods make no upgrade wait.
type loadBalancers struct {
	groups []nodegroup.TargetGroup
	// byID are the targets at the beginning that a controller takes out, or that drain.
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

// readTargets are the targets of nodes in drain, and of pods that left them, as they are now.
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
