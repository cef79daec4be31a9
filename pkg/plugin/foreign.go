package plugin

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud/manual"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cluster"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodemark"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/report"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/shell"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// rejectForeignRun returns an error if nodes of the group are part of another upgrade: of a group with another name, or
// of the same group in another namespace. The marks on the nodes name that upgrade. Without marks, as while an upgrade
// is paused, the nodes are compared with the group names of all records.
func (s *session) rejectForeignRun(ctx context.Context, g *groupContext, m mode) error {
	if m == modeStatus || m == modeAbort {
		return nil
	}
	records, unreadable, err := s.loadRecords(ctx)
	if err != nil {
		return err
	}
	delete(records, g.name)
	s.warnOfUnreadableRecords(unreadable)
	for _, name := range slices.Sorted(maps.Keys(unreadable)) {
		if node := findNodeWithUnnamedMarks(g); node != "" {
			return fmt.Errorf("upgrading group %q: node %q has marks that may belong to group %q: %w", g.group.Name, node, name, unreadable[name])
		}
		if node := findSharedNode(name, g.members); node != "" {
			return fmt.Errorf("upgrading group %q: node %q also belongs to group %q, whose record cannot be read: %w", g.group.Name, node, name, unreadable[name])
		}
	}
	own := nodemark.Owner{Namespace: s.line.stateNamespace, Group: g.name}
	if foreign, found := upgrade.FindForeignRun(g.members, own, g.stored.Run, records); found {
		return s.rejectForeignMarks(ctx, g, foreign)
	}
	for _, name := range slices.Sorted(maps.Keys(records)) {
		rec := records[name]
		if node := findSharedNode(name, g.members); node != "" && rec.IsCloudless() && (rec.IsRunning() || rec.Result == record.Paused) {
			return foreignRunError(g, upgrade.ForeignRun{Node: node, Run: rec.Run, Owner: nodemark.Owner{Namespace: s.line.stateNamespace, Group: name}}, &rec)
		}
	}
	return nil
}

// findNodeWithUnnamedMarks returns the first node that has marks of another run without a group name; "" if there is
// none.
func findNodeWithUnnamedMarks(g *groupContext) string {
	for i := range g.members {
		if node := g.members[i].Node; node != nil {
			run := nodemark.RunOf(node)
			if _, named := nodemark.ReadOwner(node); run != "" && run != g.stored.Run && !named {
				return node.Name
			}
		}
	}
	return ""
}

// rejectUnreadableMarks returns an error if a node has marks that cannot be read, because the upgrade could not unfence
// the node later. An abort is allowed: it removes the marks that it can read.
func (g *groupContext) rejectUnreadableMarks(m mode) error {
	if m == modeStatus || m == modeAbort {
		return nil
	}
	for i := range g.members {
		if node := g.members[i].Node; node != nil {
			if unreadable := nodemark.FindUnreadable(node); unreadable != nil {
				return fmt.Errorf("upgrading group %q: %w", g.group.Name, unreadable)
			}
		}
	}
	return nil
}

// rejectForeignMarks returns an error about a node that another upgrade has marked. It reads that upgrade's record to
// explain how to continue the upgrade, or that there is no record.
func (s *session) rejectForeignMarks(ctx context.Context, g *groupContext, foreign upgrade.ForeignRun) error {
	rec, err := cluster.NewStore(s.conn.Client, foreign.Owner.Namespace, foreign.Owner.Group).LoadRecord(ctx)
	if err != nil {
		return fmt.Errorf("reading the record of the upgrade that fenced node %q: %w", foreign.Node, err)
	}
	if rec.Run != foreign.Run {
		rec = record.Record{}
	}
	return foreignRunError(g, foreign, &rec)
}

// foreignRunError returns an error that names the upgrade that has marked the node, and the command that continues that upgrade
// or removes its marks.
func foreignRunError(g *groupContext, foreign upgrade.ForeignRun, record *record.Record) error {
	owner := foreign.Owner
	where := " " + shell.Quote("--state-namespace="+owner.Namespace)
	if record.IsResumable() {
		return &exitErr{code: exitPaused, err: fmt.Errorf("upgrading group %q: node %q is part of run %s of group %q (namespace %s): run %s to continue it, or %s to undo it",
			g.group.Name, foreign.Node, foreign.Run, owner.Group, owner.Namespace, nodegroup.Command("resume", owner.Group)+where, nodegroup.Command("abort", owner.Group)+where)}
	}
	state := "not recorded there"
	if record.Run != "" {
		state = fmt.Sprintf("over (%s)", record.Result)
	}
	if i, member := nodegroup.IndexOfMember(g.members, foreign.Node); member && g.members[i].Node != nil {
		if _, named := record.Nodes[foreign.Node]; named { // the node stays fenced on purpose, so status does not list it as a leftover
			return &exitErr{code: exitPaused, err: fmt.Errorf("upgrading group %q: node %q stays fenced by run %s of group %q (namespace %s), which is %s: replace the node, or let pods onto it again with: %s",
				g.group.Name, foreign.Node, foreign.Run, owner.Group, owner.Namespace, state, report.CleanupCommand(g.members[i].Node))}
		}
	}
	return &exitErr{code: exitPaused, err: fmt.Errorf("upgrading group %q: node %q has marks of run %s of group %q (namespace %s), which is %s: "+
		"run %s to list the marks and the commands that remove them", g.group.Name, foreign.Node, foreign.Run, owner.Group, owner.Namespace, state, nodegroup.Command("status", g.name))}
}

// findSharedNode returns a member that also belongs to another group of labelled nodes. The other group's name is a
// selector or the value of a group label. It returns "" if there is none.
func findSharedNode(group string, members []nodegroup.Member) string {
	options := manual.Options{ControlPlane: true}
	if nodegroup.IsSelector(group) {
		selection, err := parseGroups(nil, groupSelection{selector: group}, providerManual)
		if err != nil {
			return ""
		}
		options.Selector, options.SelectorText = selection.labels, group
	}
	provider := manual.New(options)
	for i := range members {
		if node := members[i].Node; node != nil && provider.Belongs(&nodegroup.Group{Name: group}, node) {
			return node.Name
		}
	}
	return ""
}

// rejectAbsentTarget returns an error if the typed target does not exist.
func (s *session) rejectAbsentTarget(g *groupContext, m mode) error {
	if !g.group.AbsentTarget || s.line.settings.To == "" || g.to != s.line.settings.To || m == modeStatus || m == modeAbort {
		return nil
	}
	return usageError(fmt.Errorf("upgrading group %q to %s: %s", g.group.Name, s.line.settings.To, g.group.Refusal))
}

// rejectTargetOfRecordOnly returns an error if only the record names the target. Otherwise anybody who may write the
// record could choose the image of new machines. The target is accepted if the user types it, the group's template has
// it, or an instance already has it.
func (s *session) rejectTargetOfRecordOnly(g *groupContext, m mode) error {
	switch {
	case m == modeStatus || m == modeAbort || g.to == "" || g.to == s.line.settings.To || g.group.Managed != nil:
		return nil
	case g.group.Refusal != "" || g.group.Pointed.ID == g.group.Wanted.ID:
		return nil
	case slices.ContainsFunc(g.group.Instances, func(i nodegroup.Instance) bool { return !i.Outdated }):
		return nil
	}
	command := nodegroup.Command("", g.name)
	if m == modeRollback {
		command = nodegroup.Command("rollback", g.name)
	}
	return usageError(fmt.Errorf("run %s of group %q has the target %s, but neither the group nor any of its instances has that revision: if the target is right, run %s %s",
		g.stored.Run, g.group.Name, g.group.Wanted.Name, command, shell.Quote("--to="+g.to)))
}
