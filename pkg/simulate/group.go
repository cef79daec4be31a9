package simulate

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// simGroup is the node group: its settings, its members, and the members as an upgrade sees them.
type simGroup struct {
	nodegroup.Group
	clock    *clock
	outdated func(*corev1.Node) bool
	// members are by instance ID or, without a cloud, by node name. roster has the members as an upgrade sees them,
	// by name.
	members map[string]*member
	roster  []nodegroup.Member
}

// member is a machine of the group: an instance, its node, or both.
type member struct {
	node     *simNode
	instance nodegroup.Instance
	// shown is the member's name in the roster.
	shown string
}

// updateInRoster updates the member in the roster.
func (g *simGroup) updateInRoster(m *member) {
	g.clock.changed = true
	shown := nodegroup.Member{Instance: m.instance, Outdated: m.instance.Outdated}
	if m.node != nil {
		shown.Node, shown.Pods = m.node.node, m.node.pods
		if m.instance.ID == "" {
			shown.Outdated = g.outdated(shown.Node)
		}
	}
	shown.CacheTraits(&g.Group)
	name := shown.Name()
	if m.shown != name {
		g.removeFromRoster(m)
		i, _ := g.positionOfMember(name)
		g.roster = slices.Insert(g.roster, i, shown)
		m.shown = name
		return
	}
	if i, ok := g.positionOfMember(name); ok {
		g.roster[i] = shown
	}
}

// removeFromRoster removes a member from the roster.
func (g *simGroup) removeFromRoster(m *member) {
	if i, ok := g.positionOfMember(m.shown); ok && m.shown != "" {
		g.roster = slices.Delete(g.roster, i, i+1)
	}
	m.shown = ""
	g.clock.changed = true
}

// updatePodsInRoster updates a node's pods in the roster. The upgrade is woken only for pods of outdated nodes.
func (g *simGroup) updatePodsInRoster(n *simNode) {
	if n.member == nil {
		return
	}
	if i, ok := g.positionOfMember(n.member.shown); ok {
		g.roster[i].Pods = n.pods
		g.clock.changed = g.clock.changed || g.roster[i].Outdated
	}
}

// removeNode removes the node of a member. A member without an instance is removed, too.
func (g *simGroup) removeNode(m *member) {
	name := m.node.node.Name
	m.node = nil
	if m.instance.ID == "" {
		delete(g.members, name)
		g.removeFromRoster(m)
		return
	}
	g.updateInRoster(m)
}

// removeInstance removes a member whose instance is gone.
func (g *simGroup) removeInstance(m *member) {
	delete(g.members, m.instance.ID)
	g.removeFromRoster(m)
}

func (g *simGroup) positionOfMember(name string) (int, bool) {
	return slices.BinarySearchFunc(g.roster, name, func(m nodegroup.Member, name string) int { return strings.Compare(m.Name(), name) })
}

// isOutdated reports whether the node belongs to the group and must be replaced.
func (g *simGroup) isOutdated(n *simNode) bool {
	if n.member == nil {
		return false
	}
	i, ok := g.positionOfMember(n.member.shown)
	return ok && g.roster[i].Outdated
}

// zoneSizes counts the instances that are not leaving, by zone.
func (g *simGroup) zoneSizes() map[string]int {
	size := map[string]int{}
	for _, m := range g.members {
		if m.instance.ID != "" && m.instance.State != nodegroup.InstanceLeaving {
			size[m.instance.Zone]++
		}
	}
	return size
}

// smallestZone returns the zone with the fewest instances. The group launches its next instance there.
func (g *simGroup) smallestZone() string {
	size := g.zoneSizes()
	zones := slices.Clone(g.Zones)
	slices.SortStableFunc(zones, func(a, b string) int { return size[a] - size[b] })
	if len(zones) == 0 {
		return ""
	}
	return zones[0]
}
