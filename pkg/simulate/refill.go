package simulate

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// replaceDrainedNodes adds one current node for each drained node that has no replacement yet.
func (c *Cluster) replaceDrainedNodes() {
	if c.refilled == nil {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(c.record.Nodes)) {
		if n := c.record.Nodes[name]; n.State == record.NodeDrained && !c.refilled[name] {
			c.refilled[name] = true
			c.addCurrentNode(n.Zone)
		}
	}
}

// addCurrentNode adds a current node to the group.
func (c *Cluster) addCurrentNode(zone string) {
	name := newNodeName("replacement", zone, c.clock.nextSerial())
	node := c.cloud.newNodeObject(name, nodegroup.Instance{ID: "i-" + name, Zone: zone})
	if zone == "" {
		delete(node.Labels, corev1.LabelTopologyZone)
	}
	maps.Copy(node.Labels, c.record.Request.Current)
	m := &member{}
	c.group.members[name] = m
	c.nodes.index.attachable[name] = c.cloud.model.attachable
	c.nodes.joinNode(node, m)
}
