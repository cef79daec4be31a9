package upgrade

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// RequireLabels has the group's current nodes carry labels beside what its cloud says of their machines. New nodes count as
// usable only with them (EKS E27). A group without machines is not changed: its labels are all that judges its nodes.
func (g *Group) RequireLabels(labels map[string]string) {
	if !g.Sized || len(labels) == 0 {
		return
	}
	g.CurrentLabels = labels
	g.WantedLabels = maps.Clone(g.WantedLabels)
	if g.WantedLabels == nil {
		g.WantedLabels = map[string]string{}
	}
	maps.Copy(g.WantedLabels, labels)
}

// JudgeLabels marks members as outdated whose machines are current and whose nodes lack a label of current ones, and returns how
// many. Once an upgrade is under way only those count that lacked one when it began: a new node without the labels is a
// failure to create nodes, and would be replaced without end.
func (g *Group) JudgeLabels(members []Member, record *Record) int {
	if len(g.CurrentLabels) == 0 {
		return 0 // on the way back none are asked for
	}
	found := 0
	for i := range members {
		m := &members[i]
		machine := cmp.Or(m.Instance.ID, record.Nodes[m.Name()].Instance) // a Node may outlive its machine
		if m.Outdated || machine == "" {
			continue
		}
		if lacking := g.lacksLabels(m.Node); record.Run == "" {
			m.Outdated = lacking
		} else { // a listed machine whose Node is gone never got its labels
			m.Outdated = (lacking || m.Node == nil) && slices.Contains(record.Unlabelled, machine)
		}
		if m.Outdated {
			found++
		}
	}
	return found
}

// lacksLabels reports whether the node lacks a label of current ones; false where there is no node.
func (g *Group) lacksLabels(node *corev1.Node) bool {
	if node == nil {
		return false
	}
	for key, value := range g.CurrentLabels {
		if have, ok := node.Labels[key]; !ok || have != value {
			return true
		}
	}
	return false
}

// unlabelled are the IDs of the machines that are current and whose nodes were found outdated for their labels, sorted.
func unlabelled(members []*Member) []string {
	var ids []string
	for _, m := range members {
		if m.Instance.ID != "" && !m.Instance.Outdated {
			ids = append(ids, m.Instance.ID)
		}
	}
	slices.Sort(ids)
	return ids
}
