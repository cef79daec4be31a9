package plugin

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cluster"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/preflight"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/report"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
)

// list prints the node groups of the cluster.
func (o *options) list(ctx context.Context, conn *connection) error {
	view, err := conn.read(ctx)
	if err != nil {
		return err
	}
	provider, groups, err := o.findGroups(ctx, view.Nodes)
	if err != nil {
		return err
	}
	records, err := cluster.Records(ctx, conn.client, o.stateSpace)
	if err != nil {
		fmt.Fprintln(o.ErrOut, "warning: phases are not shown:", err)
	}
	list := &report.NodeGroupList{Items: []report.NodeGroup{}} // an empty list is one in JSON, too
	list.TypeMeta, _ = report.NewMeta("NodeGroupList", "")
	var names []string
	for i := range groups {
		row := groupRow(provider, &groups[i], view.Nodes, preflight.Facts{ServerVersion: conn.version})
		if record, ok := records[row.Name]; ok {
			row.Phase = phaseText(&record)
		}
		if !o.outdated || drivable(row) {
			list.Items = append(list.Items, row)
			names = append(names, "nodegroup/"+row.Name)
		}
	}
	if len(list.Items) == 0 && !o.output.machine() {
		what := "node groups"
		if o.outdated {
			what = "node groups with outdated nodes"
		}
		fmt.Fprintf(o.ErrOut, "No %s found.\n", what)
		return nil
	}
	return o.output.print(o.Out, list, names, func(ro report.Options) error { return report.WriteGroups(o.Out, list, ro) })
}

// drivable reports whether the group has outdated nodes and may be upgraded.
func drivable(row report.NodeGroup) bool {
	return row.Outdated != nil && *row.Outdated > 0 && row.Refusal == ""
}

// findGroups lists the groups. Where the cloud cannot be asked the nodes' labels still name them.
func (o *options) findGroups(ctx context.Context, nodes []*corev1.Node) (cloud.Provider, []nodegroup.Group, error) {
	provider, err := o.providerFor(ctx, nodes)
	if err == nil {
		var groups []nodegroup.Group
		if groups, err = provider.Groups(ctx, nodes); err == nil {
			return provider, groups, nil
		}
	}
	if o.provider != "auto" || len(o.groups) > 0 || o.node != "" {
		return nil, nil, err
	}
	fmt.Fprintln(o.ErrOut, "warning: groups are taken from labels:", err)
	provider = o.manualProvider()
	groups, err := provider.Groups(ctx, nodes)
	return provider, groups, err
}

func groupRow(provider cloud.Provider, g *nodegroup.Group, nodes []*corev1.Node, facts preflight.Facts) report.NodeGroup {
	row := report.NodeGroup{Provider: g.Provider, Kind: g.Kind, Wanted: g.Wanted.Name}
	row.TypeMeta, row.ObjectMeta = report.NewMeta("NodeGroup", g.Name)
	members := membersOf(provider, g, nodes)
	upgrade.JudgeLabels(g, members, &upgrade.Record{})
	row.Nodes = len(members)
	outdated := 0
	for i := range members {
		if members[i].Outdated {
			outdated++
		}
		if node := members[i].Node; node != nil && (row.Created.IsZero() || node.CreationTimestamp.Time.Before(row.Created)) {
			row.Created = node.CreationTimestamp.UTC().Truncate(time.Second)
		}
	}
	if g.Wanted.ID != "" {
		row.Outdated = &outdated
	}
	if f := refusal(preflight.Check(&upgrade.World{Group: *g, Members: members}, facts)); f != nil {
		row.Refusal = f.String()
	}
	return row
}

// phaseText is the phase of an upgrade under way, or how the last one ended.
func phaseText(record *upgrade.Record) string {
	if record.Result != "" {
		return string(record.Result)
	}
	return string(record.Phase)
}

// membersOf joins the group with its nodes among all nodes of the cluster.
func membersOf(provider cloud.Provider, g *nodegroup.Group, nodes []*corev1.Node) []nodegroup.Member {
	var own []*corev1.Node
	for _, node := range nodes {
		if provider.Belongs(g, node) {
			own = append(own, node)
		}
	}
	return nodegroup.Join(*g, own, func(n *corev1.Node) bool { return provider.Outdated(g, n) })
}

// groupNames resolves what the user named to names of groups, and says which exist when one does
// not.
func (o *options) groupNames(ctx context.Context, s *session, suggest func(string) []string) ([]string, error) {
	groups, err := s.provider.Groups(ctx, s.view.Nodes)
	if err != nil {
		return nil, err
	}
	var names []string
	for i := range groups {
		names = append(names, groups[i].Name)
	}
	switch {
	case o.node != "":
		return o.groupOfNode(s.provider, groups, s.view.Nodes)
	case o.selector != "":
		if len(names) == 0 {
			return nil, usage(fmt.Errorf("finding the group: no node matches --selector=%s: check kubectl get nodes --show-labels", o.selector))
		}
		return names, nil
	}
	for _, wanted := range o.groups {
		if !slices.Contains(names, wanted) {
			return nil, usage(unknownGroup(wanted, names, suggest(wanted)))
		}
	}
	return o.groups, nil
}

func unknownGroup(wanted string, names, verbs []string) error {
	switch {
	case len(verbs) > 0:
		return fmt.Errorf("no node group %q: did you mean the command %q", wanted, verbs[0])
	case len(names) == 0:
		return fmt.Errorf("no node group %q: the cluster's nodes belong to none that is known: pass -l SELECTOR --current KEY=VALUE", wanted)
	default:
		return fmt.Errorf("no node group %q: there are %s", wanted, strings.Join(names, ", "))
	}
}

func (o *options) groupOfNode(provider cloud.Provider, groups []nodegroup.Group, nodes []*corev1.Node) ([]string, error) {
	i := slices.IndexFunc(nodes, func(n *corev1.Node) bool { return n.Name == o.node })
	if i < 0 {
		return nil, usage(fmt.Errorf("finding the group of node %q: %w: check kubectl get nodes", o.node, errNoNode))
	}
	for g := range groups {
		if provider.Belongs(&groups[g], nodes[i]) {
			return []string{groups[g].Name}, nil
		}
	}
	return nil, usage(fmt.Errorf("node %q belongs to no node group that is known: pass -l SELECTOR --current KEY=VALUE", o.node))
}
