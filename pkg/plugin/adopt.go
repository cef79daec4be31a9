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
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// adoptRecord returns the upgrade that a command begins or continues. A recorded upgrade keeps its settings unless the user changes
// them. Without a recorded upgrade it returns a new one with the user's settings.
func (o *observation) adoptRecord(line *commandLine, m mode, wished record.Request) (resolution, error) {
	r := resolution{request: wished, record: o.stored}
	if r.record.Run == "" && m == modeUpgrade {
		world := upgrade.NewWorld(o.now, o.group, o.members, &o.cluster.view, o.stored)
		world.Request = wished
		var err error
		if r.record, err = rebuildRecord(world, line); err != nil {
			return resolution{}, err
		}
		r.rebuilt = r.record.Run != ""
	}
	if !r.record.IsResumable() {
		return o.adoptFinishedRecord(&r.record, m, wished)
	}
	if err := rejectConflictingCommand(m, line.isDryRun(), o.group.Name, &r.record); err != nil {
		return resolution{}, err
	}
	switch m {
	case modeRollback:
		r.record = upgrade.AsRollback(&r.record, o.group.Wanted, line.now().Round(0))
		r.record.Request.To = o.to
	case modeAbort:
		r.record = r.record.AsAborting()
	default:
		if m == modeComplete {
			r.record = r.record.AsCompleting(line.now().Round(0))
		}
		request := r.record.Request.WithSettings(wished, line.typed)
		replan := mayReplan(line, m, &r.record)
		if err := rejectUnagreedChanges(m, replan, &r.record, request, &o.group); err != nil {
			return resolution{}, err
		}
		for _, flag := range []string{"max-surge", "update-strategy"} {
			if line.typed(flag) && !m.keepsSettings() {
				r.keptSurge = describeKeptSurge(&r.record, flag, wished.Surge)
			}
		}
		r.record = reopenRecord(r.record, replan, request, o.group.Wanted)
	}
	r.record.Request.Run = r.record.Run
	r.request = r.record.Request
	return r, nil
}

// adoptFinishedRecord returns how to continue after a finished upgrade that left nodes fenced which are current now.
// If no node is outdated, it reopens the run to unfence the nodes. Otherwise the next upgrade unfences them.
func (o *observation) adoptFinishedRecord(rec *record.Record, m mode, wished record.Request) (resolution, error) {
	fenced := upgrade.ListFencedCurrent(rec, o.members)
	switch {
	case len(fenced) > 0 && (m == modeAbort || m == modeUpgrade && countOutdated(o.members) == 0):
		opened := rec.AsUnfencing(o.group.Wanted)
		opened.Request.Run = opened.Run
		return resolution{request: opened.Request, record: opened, nodesToUnfence: fenced}, nil
	case m.keepsSettings():
		return resolution{}, errUpgradeEnded
	default:
		return resolution{request: wished, record: record.Record{Earlier: upgrade.ListFencingRuns(rec, o.members)}}, nil
	}
}

// mayReplan reports whether the upgrade may continue with other settings or to another target.
func mayReplan(line *commandLine, m mode, record *record.Record) bool {
	return line.consent.replan || m == modeStatus || record.HasFailedOperation()
}

// rejectUnagreedChanges returns an error if the upgrade would continue to another target or with other settings, unless
// the user passed --replan.
func rejectUnagreedChanges(m mode, replan bool, record *record.Record, request record.Request, group *nodegroup.Group) error {
	if !group.IsTargetKnown() && record.Target.ID != "" {
		return usageError(fmt.Errorf("run %s of group %q has the target %s: pass %s", record.Run, group.Name, record.Target.Name, shell.Quote("--current="+record.Target.Name)))
	}
	moved := record.Target.ID != group.Wanted.ID
	if err := record.CheckReplan(&request, moved); err != nil {
		return usageError(fmt.Errorf("run %s of group %q: %w", record.Run, group.Name, err))
	}
	if replan {
		return nil
	}
	if wanted := group.Wanted; record.Target.ID != wanted.ID {
		return &exitErr{code: exitPaused, err: fmt.Errorf("run %s of group %q was started for target %s, but the target is now %s: pass --replan to continue to %s",
			record.Run, group.Name, record.Target.Name, wanted.Name, wanted.Name)}
	}
	if changed := record.Request.DescribeDifferences(request); changed != "" && !m.keepsSettings() {
		return usageError(fmt.Errorf("run %s of group %q was started with other settings (%s): remove these flags, or pass --replan", record.Run, group.Name, changed))
	}
	return nil
}

// reopenRecord returns the record of a stopped upgrade as it continues.
func reopenRecord(record record.Record, replan bool, request record.Request, target nodegroup.Revision) record.Record {
	reopened := record.Reopened()
	if !replan {
		reopened.Request = reopened.Request.WithProtection(request)
		return reopened
	}
	reopened = reopened.WithDeadlinesMoved(request.DrainTimeout.Duration - reopened.Request.DrainTimeout.Duration)
	reopened = reopened.WithTarget(target)
	reopened.Request = request
	return reopened
}

// describeKeptSurge returns a warning if the user asks, with the flag, for another surge than the running upgrade has, else "". The
// upgrade keeps its surge because its ledger counts the added nodes by it.
func describeKeptSurge(rec *record.Record, flag string, wished int) string {
	if !rec.IsResumable() || rec.Request.Surge == wished {
		return ""
	}
	return fmt.Sprintf("--%s: run %s keeps the %d added nodes that it was started with, not %d: only a new upgrade can use another number", flag, rec.Run, rec.Request.Surge, wished)
}

// rebuildRecord returns the record of a run whose record was deleted, made from the marks on the group's nodes. If the
// marks do not show how many nodes the run added, it returns an error: a second surge could come on top of the first.
func rebuildRecord(world upgrade.World, line *commandLine) (record.Record, error) {
	rec, err := upgrade.RebuildRecord(world)
	if err == nil {
		return rec, nil
	}
	group := world.Group.Name
	return record.Record{}, &exitErr{code: exitError, err: fmt.Errorf(
		"continuing %s of group %q, whose record (ConfigMap %s in namespace %s) is gone: %w: remove the marks with the commands that %s lists, restore the group's size and resume its processes, and run %s to start again",
		strings.TrimSpace("run "+rec.Run), group, cluster.ObjectName(group), line.stateNamespace, err, nodegroup.Command("status", group), line.retryCommand)}
}

// describeLostRecord describes what the upgrade continues with after its record was lost, and what is not known any
// more.
func (g *groupContext) describeLostRecord() string {
	world := g.makeWorld(g.now)
	return describeRebuiltRecord(&g.record, upgrade.CountFencedByRun(&world, g.record.Run))
}

func describeRebuiltRecord(record *record.Record, fenced int) string {
	text := fmt.Sprintf("the record of run %s is gone and is rebuilt from the marks on the group's nodes", record.Run)
	switch fenced {
	case 0:
		text += ", but none of these nodes is fenced: only annotations, which each node can write itself, support this"
	case 1:
		text += ", of which 1 is fenced"
	default:
		text += fmt.Sprintf(", of which %d are fenced and agree", fenced)
	}
	if names := slices.Sorted(maps.Keys(record.Nodes)); len(names) > 0 {
		text += "; draining: " + strings.Join(names, ", ")
	}
	if record.Sizes.Desired == 0 {
		return text
	}
	return text + fmt.Sprintf("; the group had %d nodes and a max of %d before the run: more nodes, up to the run's surge of %d, count as added by the run. Changes by others during the run, and nodes that the run skipped, are not known any more", record.Sizes.Desired, record.Sizes.Max, record.Request.Surge)
}
