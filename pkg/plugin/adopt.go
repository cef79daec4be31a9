package plugin

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cluster"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/shell"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
)

// adoptRecord takes up an upgrade that was begun before: its settings stand, unless the user says
// that they are to change.
func (g *groupContext) adoptRecord(line *commandLine, m mode) error {
	g.rebuilt = false
	if g.record.Run == "" && m == modeUpgrade {
		var err error
		if g.record, err = rebuildRecord(g.makeWorld(g.now), line); err != nil {
			return err
		}
		g.rebuilt = g.record.Run != ""
	}
	if !g.record.IsResumable() {
		return g.adoptFinished(m)
	}
	if err := rejectConflicting(m, line.isDryRun(), g.group.Name, &g.record); err != nil {
		return err
	}
	switch m {
	case modeRollback:
		g.record = g.record.RollingBack(g.group.Wanted, line.now().Round(0))
		g.record.Request.To = g.to
	case modeAbort:
		g.record = g.record.Aborting()
	default:
		if m == modeComplete {
			g.record.Soak.Until = line.now().Round(0)
		}
		request := g.record.Request.WithSettings(g.request, line.typed)
		replan := g.mayReplan(line, m)
		if err := rejectChanges(m, replan, &g.record, request, &g.group); err != nil {
			return err
		}
		g.record = reopenRecord(g.record, replan, request, g.group.Wanted)
	}
	g.record.Request.Run = g.record.Run
	g.request = g.record.Request
	return nil
}

// adoptFinished takes up what an upgrade that is over has left: nodes that became current since and
// are still fenced. Where no node is outdated the run is opened once more to release them, otherwise
// the next upgrade does that.
func (g *groupContext) adoptFinished(m mode) error {
	fenced := upgrade.FencedCurrent(&g.record, g.members)
	switch {
	case len(fenced) > 0 && (m == modeAbort || m == modeUpgrade && g.countOutdated() == 0):
		g.record = g.record.Releasing(g.group.Wanted)
		g.record.Request.Run = g.record.Run
		g.request, g.releases = g.record.Request, fenced
	case m.keepsSettings():
		return errGone
	default:
		g.record = upgrade.Record{Earlier: upgrade.EarlierRuns(&g.record, g.members)}
	}
	return nil
}

// mayReplan reports whether the upgrade may continue with other settings or to another target.
func (g *groupContext) mayReplan(line *commandLine, m mode) bool {
	return line.agreed.replan || m == modeStatus || g.record.HasFailedOperation()
}

// rejectChanges refuses to continue to another target or with other settings, unless they were
// agreed to.
func rejectChanges(m mode, replan bool, record *upgrade.Record, request upgrade.Request, group *nodegroup.Group) error {
	if !group.IsTargetKnown() && record.Target.ID != "" {
		return usageError(fmt.Errorf("run %s of group %q was begun to reach %s: pass %s", record.Run, group.Name, record.Target.Name, shell.Quote("--current="+record.Target.Name)))
	}
	moved := record.Target.ID != group.Wanted.ID
	if err := record.CheckReplan(request.Strategy, moved); err != nil && (replan || moved) {
		return usageError(fmt.Errorf("run %s of group %q: %w", record.Run, group.Name, err))
	}
	if replan {
		return nil
	}
	if wanted := group.Wanted; record.Target.ID != wanted.ID {
		return &exitErr{code: exitPaused, err: fmt.Errorf("run %s of group %q was begun to reach %s, which is now %s: pass --replan to continue to %s",
			record.Run, group.Name, record.Target.Name, wanted.Name, wanted.Name)}
	}
	if changed := record.Request.DescribeDifferences(request); changed != "" && !m.keepsSettings() {
		return usageError(fmt.Errorf("run %s of group %q was begun with other settings (%s): leave them out, or pass --replan", record.Run, group.Name, changed))
	}
	return nil
}

// reopenRecord is the record of an upgrade that stopped, or whose process died, as it continues.
func reopenRecord(record upgrade.Record, replan bool, request upgrade.Request, target nodegroup.Revision) upgrade.Record {
	reopened := record.Reopened()
	if !replan {
		reopened.Request = reopened.Request.WithProtection(request)
		return reopened
	}
	reopened = reopened.WithMoreTime(request.DrainTimeout.Duration - reopened.Request.DrainTimeout.Duration)
	reopened = reopened.Retargeted(target)
	reopened.Request = request
	return reopened
}

// rebuildRecord is the record of a run that is gone, from the marks that it left on the group's
// nodes. It refuses where they do not tell what it added to the group: a second surge could come on
// top of the first.
func rebuildRecord(world upgrade.World, line *commandLine) (upgrade.Record, error) {
	record, err := upgrade.RebuildRecord(world)
	if err == nil {
		return record, nil
	}
	group := world.Group.Name
	return upgrade.Record{}, &exitErr{code: exitError, err: fmt.Errorf(
		"taking up %s of group %q, whose record (ConfigMap %s in namespace %s) is gone: %w: %s lists the marks with the commands "+
			"that take them away; give the group the size and the processes that it is to have, and run %s to begin again",
		strings.TrimSpace("run "+record.Run), group, cluster.ObjectName(group), line.stateNamespace, err, nodegroup.Command("status", group), line.retry)}
}

// describeLoss says what an upgrade continues with whose record was lost, and what is not known any
// more.
func (g *groupContext) describeLoss() string {
	world := g.makeWorld(g.now)
	return describeLoss(&g.record, upgrade.CountWitnesses(&world, g.record.Run))
}

func describeLoss(record *upgrade.Record, fenced int) string {
	text := fmt.Sprintf("the record of run %s is gone and is rebuilt from the marks on the group's nodes", record.Run)
	switch fenced {
	case 0:
		text += ", of which none is fenced: what they say rests on annotations alone, which each node can write itself"
	case 1:
		text += ", of which 1 is fenced"
	default:
		text += fmt.Sprintf(", of which %d are fenced and agree", fenced)
	}
	if names := slices.Sorted(maps.Keys(record.Nodes)); len(names) > 0 {
		text += "; in drain: " + strings.Join(names, ", ")
	}
	if record.Sizes.Desired == 0 {
		return text
	}
	return text + fmt.Sprintf("; the group had %d nodes and a max of %d before it: what is there beyond that counts as the run's, up to its surge of %d, since what others changed "+
		"meanwhile is not known any more, nor which nodes were given up", record.Sizes.Desired, record.Sizes.Max, record.Request.Surge)
}
