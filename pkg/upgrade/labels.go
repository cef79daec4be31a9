package upgrade

import (
	"cmp"
	"slices"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// JudgeLabels marks members as outdated whose machines are current and whose nodes lack a label of
// current ones, and returns how many. Once an upgrade is under way only those count that lacked one
// when it began: a new node without the labels is a failure to create nodes, and would be replaced
// without end.
func JudgeLabels(g *nodegroup.Group, members []nodegroup.Member, record *Record) int {
	if len(g.CurrentLabels) == 0 {
		return 0 // on the way back none are asked for
	}
	found := 0
	for i := range members {
		m := &members[i]
		machine := cmp.Or(m.Instance.ID, record.Nodes[m.Name()].Instance) // a Node may outlive its machine
		if m.Outdated || machine == "" || m.Instance.State == nodegroup.InstanceStandby {
			continue
		}
		if lacking := g.LacksLabels(m.Node); record.Run == "" {
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

// withoutLabels are the IDs of the machines that are current and whose nodes were found outdated
// for their labels, sorted.
func withoutLabels(members []*nodegroup.Member) []string {
	var ids []string
	for _, m := range members {
		if m.Instance.ID != "" && !m.Instance.Outdated {
			ids = append(ids, m.Instance.ID)
		}
	}
	slices.Sort(ids)
	return ids
}
