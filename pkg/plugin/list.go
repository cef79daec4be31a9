package plugin

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/preflight"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/report"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
)

// listGroups prints the node groups of the cluster.
func listGroups(ctx context.Context, c *command) error {
	view, err := c.readView(ctx)
	if err != nil {
		return err
	}
	provider, groups, err := c.findGroups(ctx, view.Nodes)
	if err != nil {
		return err
	}
	records, err := c.loadRecords(ctx)
	if err != nil {
		fmt.Fprintln(c.ErrOut, "warning: phases are not shown:", err)
	}
	list := report.NewList("NodeGroupList", []report.NodeGroup{}) // an empty list is one in JSON, too
	var names []string
	for i := range groups {
		row := describeGroup(provider, &groups[i], view.Nodes, preflight.Facts{ServerVersion: c.Version})
		if record, ok := records[row.Name]; ok {
			row.Phase = describePhase(&record)
		}
		if !c.outdated || isUpgradable(row) {
			list.Items = append(list.Items, row)
			names = append(names, groupPrefix+row.Name)
		}
	}
	if len(list.Items) == 0 && !c.isForPrograms() {
		what := "node groups"
		if c.outdated {
			what = "node groups with outdated nodes"
		}
		fmt.Fprintf(c.ErrOut, "No %s found.\n", what)
		return nil
	}
	return c.printObject(list, names, func(ro report.Options) error { return report.WriteGroups(c.Out, list, ro) })
}

// isUpgradable reports whether the group has outdated nodes and may be upgraded.
func isUpgradable(row report.NodeGroup) bool {
	return row.Outdated != nil && *row.Outdated > 0 && row.Refusal == ""
}

func describeGroup(provider cloud.Provider, g *nodegroup.Group, nodes []*corev1.Node, facts preflight.Facts) report.NodeGroup {
	row := report.NodeGroup{Provider: g.Provider, Kind: g.Kind, Wanted: g.Wanted.Name}
	row.TypeMeta, row.ObjectMeta = report.NewMeta("NodeGroup", g.Name)
	members := joinMembers(provider, g, nodes)
	upgrade.JudgeLabels(g, members, &upgrade.Record{})
	row.Nodes = len(members)
	for i := range members {
		if node := members[i].Node; node != nil && (row.Created.IsZero() || node.CreationTimestamp.Time.Before(row.Created)) {
			row.Created = node.CreationTimestamp.UTC().Truncate(time.Second)
		}
	}
	if g.Wanted.ID != "" {
		outdated := countOutdated(members)
		row.Outdated = &outdated
	}
	if f := preflight.FirstRefusal(preflight.CheckUpgrade(&upgrade.World{Group: *g, Members: members}, facts)); f != nil {
		row.Refusal = f.String()
	}
	return row
}

// describePhase is the phase of an upgrade under way, or how the last one ended.
func describePhase(record *upgrade.Record) string {
	if record.Result != "" && record.Result != upgrade.Waiting {
		return string(record.Result)
	}
	return string(record.Phase)
}

// joinMembers joins the group with its nodes among all nodes of the cluster.
func joinMembers(provider cloud.Provider, g *nodegroup.Group, nodes []*corev1.Node) []nodegroup.Member {
	var own []*corev1.Node
	for _, node := range nodes {
		if provider.Belongs(g, node) {
			own = append(own, node)
		}
	}
	return nodegroup.JoinMembers(*g, own, func(n *corev1.Node) bool { return provider.Outdated(g, n) })
}
