package plugin

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud/karpenter"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodepool"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/preflight"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/report"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// listGroups prints the node groups of the cluster. With --watch it prints them again after each change.
func listGroups(ctx context.Context, c *command) error {
	if c.line.watch {
		return ignoreInterrupt(ctx, watchGroups(ctx, c))
	}
	view, err := c.conn.readView(ctx)
	if err != nil {
		return err
	}
	found, err := c.line.findGroups(ctx, c.conn, view.Nodes)
	if err != nil {
		return err
	}
	c.line.warn(found.warning)
	records, unreadable, err := c.loadRecords(ctx)
	switch {
	case err != nil && ctx.Err() != nil:
		return err
	case err != nil:
		c.line.warn("phases are unknown: " + err.Error())
	}
	c.warnOfUnreadableRecords(unreadable)
	all := c.makeGroupList(&found, view.Nodes, records)
	all.markUnknownPhases(func(group string) bool { return err != nil || unreadable[group] != nil })
	switch {
	case !c.line.isForPrograms():
		if err := c.line.writeNotes(all.hints); err != nil || len(all.list.Items) == 0 {
			return err
		}
	case len(all.unknown) > 0:
		c.line.warn(fmt.Sprintf("left out, because it is not known which of their nodes are outdated: %s: run kubectl nodeupgrade list to see why", strings.Join(all.unknown, ", ")))
	}
	return all.print(c.line.console)
}

// groupList is the list of groups at one moment.
type groupList struct {
	list *report.NodeGroupList
	// names are the groups as -o name prints them. hints are lines for people beside the table. unknown are the groups
	// that --outdated omits because their outdated nodes are not known.
	names, hints, unknown []string
}

// makeGroupList returns the groups that the command line asks for.
func (c *command) makeGroupList(found *foundGroups, nodes []*corev1.Node, records map[string]record.Record) groupList {
	all := groupList{list: report.NewList("NodeGroupList", []report.NodeGroup{})} // not nil, so that JSON has an empty list
	refusals := map[string]string{}
	for i := range found.groups {
		row := makeGroupRow(found.of(found.groups[i].Name), &found.groups[i], nodes, preflight.Facts{ServerVersion: c.conn.Version, ControlPlane: c.line.controlPlane})
		if rec, ok := records[row.Name]; ok {
			row.Phase = describePhase(&rec)
		} else if op := runningOperation(&found.groups[i]); op != nil && op.IsUpgrade() {
			row.Phase = string(record.PhaseFollow) // another process, or the service itself, began it
		}
		refusals[row.Name] = row.Refusal
		if !c.line.outdated || isUpgradable(row) {
			all.list.Items = append(all.list.Items, row)
			all.names = append(all.names, nodegroup.Prefix+row.Name)
		} else if row.Outdated == nil {
			all.unknown = append(all.unknown, row.Name)
		}
	}
	all.hints = slices.Concat(hintsOnGroups(len(all.list.Items), found.groups, refusals, nodes), hintsOnUngroupedNodes(found.providers, found.groups, nodes), hintsOnUnlistedUpgrades(found.groups, records))
	return all
}

// markUnknownPhases marks the phases of groups whose record was not read.
func (g *groupList) markUnknownPhases(isUnread func(group string) bool) {
	for i := range g.list.Items {
		row := &g.list.Items[i]
		row.PhaseUnknown = isUnread(row.Name)
	}
}

// print writes the list on stdout.
func (g *groupList) print(c console) error {
	return c.printObject(g.list, g.names, func(w io.Writer, ro report.Options) error { return report.WriteGroups(w, g.list, ro) })
}

// hintsOnGroups returns hints about what the table does not show: how to name unknown groups, and why the number of
// outdated nodes is not known. It suggests no labels for a group that is refused because of its owner.
func hintsOnGroups(listed int, groups []nodegroup.Group, refusals map[string]string, nodes []*corev1.Node) []string {
	var unknown, hints []string
	for i := range groups {
		switch g := &groups[i]; {
		case g.IsTargetKnown():
		case refusals[g.Name] != g.Refusal:
			hints = append(hints, fmt.Sprintf("%s: %s.", g.Name, refusals[g.Name]))
		case g.Refusal != "" && g.Can.Refill != nodegroup.RefillByUser:
			hints = append(hints, fmt.Sprintf("It is unknown which nodes of %s are outdated: %s.", g.Name, g.Refusal))
		default:
			unknown = append(unknown, g.Name)
		}
	}
	switch {
	case len(groups) == 0:
		hints = append(hints, fmt.Sprintf("No node groups found: %s no label of a known group. Name a group by labels: %s (%s).",
			formatCount(len(nodes), "node carries", "nodes carry"), "kubectl nodeupgrade -l KEY=VALUE --current KEY=VALUE --dry-run", describeGroupingLabels(nodes)))
	case listed == 0: // --outdated omitted all groups
		hints = append(hints, "No node group with outdated nodes can be upgraded.")
	}
	if len(unknown) > 0 {
		hints = append(hints, fmt.Sprintf("It is unknown which nodes of %s are outdated: pass --current KEY=VALUE, a label of current nodes.", strings.Join(unknown, ", ")))
	}
	return hints
}

// hintsOnUngroupedNodes returns hints that name the owners of nodes outside of all groups, so that users do not look for
// these nodes in the list.
func hintsOnUngroupedNodes(of providers, groups []nodegroup.Group, nodes []*corev1.Node) []string {
	counts, owners, orphans := map[string]int{}, map[string]nodegroup.Owner{}, map[string]int{}
	for _, node := range nodes {
		owner, owned := nodegroup.OwnerOf(node)
		switch {
		case !owned || nodegroup.IsControlPlane(node) || slices.ContainsFunc(groups, func(g nodegroup.Group) bool { return of.belongs(&g, node) }):
		case of.readsNodePools() && karpenter.Owns(node):
			orphans[node.Labels[nodepool.Label]]++
		default:
			counts[owner.Name]++
			owners[owner.Name] = owner
		}
	}
	var hints []string
	for _, pool := range slices.Sorted(maps.Keys(orphans)) {
		hints = append(hints, fmt.Sprintf("Not listed: %s of NodePool %s, which does not exist: create it again, or delete the NodeClaims.", formatCount(orphans[pool], "node", "nodes"), pool))
	}
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		hints = append(hints, fmt.Sprintf("Not listed: %s of %s: %s.", formatCount(counts[name], "node", "nodes"), name, owners[name].Remedy))
	}
	return hints
}

// hintsOnUnlistedUpgrades returns hints about resumable upgrades of groups that are not in the list, such as labelled
// nodes.
func hintsOnUnlistedUpgrades(groups []nodegroup.Group, records map[string]record.Record) []string {
	var hints []string
	for _, name := range slices.Sorted(maps.Keys(records)) {
		record := records[name]
		if record.IsResumable() && !slices.ContainsFunc(groups, func(g nodegroup.Group) bool { return g.Name == name }) {
			hints = append(hints, fmt.Sprintf("Not listed: the upgrade of %s (%s): see %s.", name, describePhase(&record), nodegroup.Command("status", name)))
		}
	}
	return hints
}

func formatCount(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// describeGroupingLabels names label keys by which the user could select groups of nodes. They are no keys of
// Kubernetes itself, and several nodes share a value.
func describeGroupingLabels(nodes []*corev1.Node) string {
	const most = 6
	values := map[string]map[string]int{}
	for _, node := range nodes {
		for key, value := range node.Labels {
			if values[key] == nil {
				values[key] = map[string]int{}
			}
			values[key][value]++
		}
	}
	var keys []string
	for _, key := range slices.Sorted(maps.Keys(values)) {
		domain, _, prefixed := strings.Cut(key, "/")
		isKubernetes := prefixed && (domain == "kubernetes.io" || strings.HasSuffix(domain, ".kubernetes.io"))
		isShared := slices.Max(slices.Collect(maps.Values(values[key]))) > 1 || len(nodes) == 1
		if !isKubernetes && isShared {
			keys = append(keys, key)
		}
	}
	switch {
	case len(keys) == 0:
		return "the nodes have no labels that could name a group: add one with kubectl label nodes"
	case len(keys) > most:
		return "labels in use: " + strings.Join(keys[:most], ", ") + ", …"
	default:
		return "labels in use: " + strings.Join(keys, ", ")
	}
}

// isUpgradable reports whether the group has outdated nodes and may be upgraded.
func isUpgradable(row report.NodeGroup) bool {
	return row.Outdated != nil && *row.Outdated > 0 && row.Refusal == ""
}

func makeGroupRow(provider cloud.Provider, g *nodegroup.Group, nodes []*corev1.Node, facts preflight.Facts) report.NodeGroup {
	row := report.NodeGroup{Provider: g.Provider, Wanted: g.Wanted.Name}
	row.TypeMeta, row.ObjectMeta = report.NewMeta("NodeGroup", g.Name)
	members := joinMembers(provider, g, nodes)
	setOwnerKind(g, members)
	row.Kind = g.Kind
	upgrade.MarkOutdatedByLabels(g, members, &record.Record{})
	row.Nodes = len(members)
	for i := range members {
		if node := members[i].Node; node != nil && (row.Created.IsZero() || node.CreationTimestamp.Time.Before(row.Created)) {
			row.Created = node.CreationTimestamp.UTC().Truncate(time.Second)
		}
	}
	row.Outdated = countOutdatedIfKnown(g, members)
	if f := preflight.FirstRefusal(preflight.CheckUpgrade(&upgrade.World{Group: *g, Members: members}, facts)); f != nil {
		row.Refusal = f.String()
	} else if g.Managed != nil {
		row.Refusal = g.Managed.ByItself
	}
	return row
}

// describePhase returns the phase of a running upgrade, or the result of the last one.
func describePhase(rec *record.Record) string {
	if rec.Result != "" && rec.Result != record.Waiting {
		return string(rec.Result)
	}
	return string(rec.Phase)
}

// setOwnerKind sets the group's kind to its owner's kind, if one owner owns all of its nodes.
func setOwnerKind(g *nodegroup.Group, members []nodegroup.Member) {
	if owner, owned := nodegroup.OwnerOfAll(members); owned {
		g.Kind = owner.Kind
	}
}

// joinMembers joins the group's instances with its nodes.
func joinMembers(provider cloud.Provider, g *nodegroup.Group, nodes []*corev1.Node) []nodegroup.Member {
	var own []*corev1.Node
	for _, node := range nodes {
		if provider.Belongs(g, node) {
			own = append(own, node)
		}
	}
	return nodegroup.JoinMembers(*g, own, func(n *corev1.Node) bool { return provider.Outdated(g, n) })
}
