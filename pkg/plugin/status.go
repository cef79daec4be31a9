package plugin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cluster"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/report"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/shell"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

func newStatusCommand(f *flags) *cobra.Command {
	watch, exitCode := false, false
	cmd := &cobra.Command{
		Use:   "status [GROUP]",
		Short: "Show an upgrade's phase, the nodes in progress and what blocks it",
		Long: `Show the phase of an upgrade, each node that it works on, the pods and budgets
that block it, and the time that remains. It works from any machine, whoever
started the upgrade. Without a group, it shows the upgrade that is running.`,
		Example: `  # show how far the upgrade of a group is
  kubectl nodeupgrade status workers

  # follow it on one screen until it ends
  kubectl nodeupgrade status workers -w

  # tell a script whether nodes of a NodePool are outdated or being replaced
  kubectl nodeupgrade status karpenter/workers --exit-code

  # print one document for a script
  kubectl nodeupgrade status workers -o json`,
		Args:              rejectSeveralGroups,
		ValidArgsFunction: completeWords(f.suggestOneGroup),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := f.openCommand(cmd, args, f.parseCommandLine)
			if err != nil {
				return err
			}
			err = showStatus(cmd.Context(), c, statusFlags{watch, exitCode})
			if coded := (*exitErr)(nil); err == nil || errors.As(err, &coded) && coded.err == nil || watch || c.line.groups.node != "" || c.line.groups.selector != "" {
				return err
			}
			status, rec, err := statusWithoutCloud(cmd.Context(), c, err)
			if err == nil {
				err = c.writeStatusReport(status, &rec, "")
			}
			if err != nil {
				return err
			}
			return c.line.printStatus(status)
		},
	}
	f.addReportFlag(cmd.Flags())
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "Follow on one screen until the upgrade ends")
	cmd.Flags().BoolVar(&exitCode, "exit-code", false, "Exit with 0 if no node is outdated, 6 while nodes are replaced, and 1 if something keeps them or nothing replaces them")
	return cmd
}

// statusFlags are the flags that only a status has.
type statusFlags struct{ watch, exitCode bool }

// showStatus prints the upgrade of the chosen group. With watch it follows the upgrade until it ends.
func showStatus(ctx context.Context, c *command, flags statusFlags) error {
	s, err := c.openSession(ctx)
	if err != nil {
		return err
	}
	s, name, err := chooseGroupOrShowLeftovers(ctx, s)
	if err != nil || name == "" {
		return err
	}
	g, err := s.loadGroup(ctx, name, modeStatus)
	if err != nil {
		return err
	}
	var status *report.UpgradeStatus
	if flags.watch {
		status, err = followUpgrade(ctx, s, g)
	} else {
		status, err = printStatusOnce(ctx, s, g)
	}
	if err != nil || !flags.exitCode || status == nil {
		return err
	}
	return exitOfStatus(status)
}

// printStatusOnce prints the status of a group as it is now, and returns it.
func printStatusOnce(ctx context.Context, s *session, g *groupContext) (*report.UpgradeStatus, error) {
	rec, err := g.store.LoadRecord(ctx) // read after the group: the forecast can use a record that is newer than the group
	if err != nil {
		return nil, err
	}
	asked := g.store.CurrentRequest()
	lease, abandoned, err := s.readLease(ctx, g.store, g.name, &rec)
	if err != nil {
		return nil, err
	}
	state := recordedState{record: rec, asked: asked, lease: lease, abandoned: abandoned}
	r := &reportedGroup{groupContext: g}
	r.readControllers(ctx, s.conn, &rec)
	status := r.makeStatus(state, s.conn.Now())
	if shown := r.shownRecord(&rec); shown.IsRunning() || shown.Result == record.Waiting {
		status.TimeLeft = s.forecastRest(ctx, *g, *shown, func(ctx context.Context, p *planning) error { return p.loadRestData(ctx, &restData{}) })
	}
	if status.Leftovers, err = findGroupLeftovers(ctx, s, g, state); err != nil {
		return nil, err
	}
	if why, remedy := g.store.UnreadableRequest(); why != "" {
		status.Leftovers = append(status.Leftovers, report.Leftover{What: why, Remedy: remedy})
	}
	if err := s.writeStatusReport(status, &rec, s.account); err != nil {
		return nil, err
	}
	return status, s.line.printStatus(status)
}

// exitOfStatus returns the exit code of status --exit-code as an error without a message, nil for 0. A group without an upgrade is
// done if no node is outdated. A service that begins by itself, which has a pace, compares the nodes with a new target soon.
func exitOfStatus(status *report.UpgradeStatus) error {
	code := exitError
	switch {
	case status.Run == "" && status.Outdated == nil && len(status.Pace) > 0:
		code = exitWaiting
	case status.Run == "":
		if status.Outdated != nil && *status.Outdated == 0 {
			code = exitDone
		}
	case status.Result != "":
		code = exitCodeOfResult(status.Result)
	case !status.IsStuck():
		code = exitWaiting
	}
	if code == exitDone {
		return nil
	}
	return &exitErr{code: code}
}

// chooseGroupOrShowLeftovers returns the name of the group to show: the requested one, the only one with a record, or the only
// one with a running upgrade. If there is none, it prints the leftovers of earlier upgrades and returns "". If a label
// selector names the group, it opens another session.
func chooseGroupOrShowLeftovers(ctx context.Context, s *session) (*session, string, error) {
	chosen := s.line.groups
	if chosen.isEmpty() {
		records, unreadable, err := s.loadRecords(ctx)
		if err != nil {
			return s, "", err
		}
		switch chosen.names = record.GroupsToReport(records); len(chosen.names) {
		case 0:
			if s.line.reportFile != "" {
				return s, "", usageError(errors.New("writing the report: no upgrade is running: name a group"))
			}
			return s, "", showLeftovers(ctx, s, records, unreadable)
		case 1:
		default:
			return s, "", usageError(fmt.Errorf("several upgrades are running: pass one of %s", strings.Join(quoteGroupOperands(chosen.names), ", ")))
		}
		if name := chosen.names[0]; nodegroup.IsSelector(name) {
			s, err = s.openLabelledNodes(ctx, name, records[name].Request.Current)
			return s, name, err
		}
	}
	found, names, err := s.openNamedGroups(ctx, chosen, suggestNoCommand)
	if err == nil {
		return found, names[0], nil
	}
	if labelled := s.openRecordedSelector(ctx, chosen); labelled != nil {
		return labelled, chosen.names[0], nil
	}
	return s, "", err
}

// openRecordedSelector opens a session for labelled nodes if an upgrade is recorded under their selector and the
// selector is a single word, as in -l odd. It returns nil otherwise. Only a status may use it: other users can write a
// record, and it must not choose the nodes of an upgrade.
func (s *session) openRecordedSelector(ctx context.Context, chosen groupSelection) *session {
	if len(chosen.names) != 1 || s.line.providerName != providerAuto && s.line.providerName != providerManual {
		return nil
	}
	rec, err := s.openStore(chosen.names[0]).LoadRecord(ctx)
	if err != nil || !rec.IsCloudless() {
		return nil
	}
	labelled, err := s.openLabelledNodes(ctx, chosen.names[0], rec.Request.Current)
	if err != nil {
		return nil
	}
	return labelled
}

// quoteGroupOperands returns the groups' names quoted as operands of a command.
func quoteGroupOperands(names []string) []string {
	quoted := make([]string, 0, len(names))
	for _, name := range names {
		if word := shell.Quote(name); nodegroup.IsSelector(name) {
			quoted = append(quoted, "-l "+word)
		} else {
			quoted = append(quoted, word)
		}
	}
	return quoted
}

// recordedState is what the cluster stores about an upgrade, at one moment.
type recordedState struct {
	record record.Record
	asked  record.Asked
	lease  cluster.LeaseState
	// abandoned is true if no process runs the upgrade; see command.readLease.
	abandoned bool
}

// reportedGroup is a group whose upgrade a status shows, once or repeatedly.
type reportedGroup struct {
	*groupContext
	// watched is a record of the cloud's own operation if no upgrade is recorded for it; nil if there is none. notes
	// are the notes of its last step.
	watched *record.Record
	notes   upgrade.Notes
	// controllers are the controllers of workloads that have fewer pods than before the upgrade.
	controllers map[drain.Workload]drain.Controller
}

// makeStatus returns the status that the upgrade's next step would show. It carries out no action.
func (r *reportedGroup) makeStatus(state recordedState, now time.Time) *report.UpgradeStatus {
	rec := state.record
	r.followOperation(now)
	rec = *r.shownRecord(&rec)
	follows := r.watched != nil && rec.Run == r.watched.Run
	status := makeUpgradeStatus(r.group.Name, rec)
	if rec.IsRunning() || !state.lease.IsFree() { // a process that crashed after its last write leaves its name in the lease
		status.Holder = state.lease.Holder
	}
	if follows {
		status.Follows = nodegroup.InfoOf(r.group.Provider).Manager.Name
	}
	status.Pace = r.describePace()
	if managed := r.group.Managed; managed != nil {
		status.OperationOf, status.Maintenance = r.group.Provider, managed.Maintenance
		if managed.Operation.ID != "" {
			status.Operation = &managed.Operation
		}
	}
	world := upgrade.NewWorld(now, r.group, r.members, &r.cluster.view, rec)
	world.Asked, world.Notes, world.Controllers, world.Stay = state.asked, r.notes, r.controllers, follows
	if rec.Run == "" {
		status.Status, status.Outdated = record.Status{}, countOutdatedIfKnown(&r.group, r.members)
		if status.Outdated == nil {
			status.Unknown = r.whyUnknown()
		}
		return status
	}
	step := upgrade.Next(world)
	if r.watched != nil && step.Record.Run == r.watched.Run {
		r.watched, r.notes = &step.Record, step.Notes
		status.Result, status.Message = step.Record.Result, step.Record.Message
	} else if rec.Total > 0 {
		// The record may be newer than the reading of the group, which may contain nodes that are gone. Only the
		// process that runs the upgrade counts them again.
		step.Status.Total = rec.Total
	}
	status.Impacts = upgrade.ListImpacts(&step.Record)
	status.Status, status.Blocked, status.Suspended = step.Status, step.Blocked, report.ListStillSuspended(rec.Suspended, r.group.Suspended)
	return status
}

// whyUnknown returns why it is not known which nodes of the group are outdated, or how a user makes it known.
func (r *reportedGroup) whyUnknown() string {
	if owner := r.findOwnerRefusal(); owner != nil {
		return owner.String()
	}
	if m := r.group.Managed; m != nil && m.ByItself != "" && r.group.Refusal != "" {
		return r.group.Refusal
	}
	return "pass --current KEY=VALUE, a label of current nodes"
}

// maxControllersRead is the maximum number of controllers that a status reads.
const maxControllersRead = 20

// readControllers reads the controllers of workloads that have fewer pods than before the upgrade.
func (r *reportedGroup) readControllers(ctx context.Context, conn *connection, record *record.Record) {
	if len(record.Workloads) == 0 {
		return
	}
	unscaled := upgrade.Next(upgrade.NewWorld(conn.Now(), r.group, r.members, &r.cluster.view, *record)).Unscaled
	reader := cluster.NewControllerReader(conn.Client, conn.Now)
	r.controllers = map[drain.Workload]drain.Controller{}
	for _, w := range unscaled[:min(len(unscaled), maxControllersRead)] {
		r.controllers[w] = reader.ReadController(ctx, w)
	}
}

// followOperation begins to follow the cloud's running operation, if there is one. A service that begins by itself continues with
// the newest target when its user changes that, so the status then follows the operation for the new target.
func (r *reportedGroup) followOperation(now time.Time) {
	op := runningOperation(&r.group)
	begins := r.watched == nil && op != nil && op.IsUpgrade()
	if m := r.group.Managed; begins || r.watched != nil && m != nil && m.ByItself != "" && m.Operation.ID != "" && m.Operation.ID != r.watched.Run {
		record := upgrade.WatchOperation(&r.group, r.request, countOutdated(r.members), now)
		r.watched, r.notes = &record, upgrade.Notes{}
	}
}

// shownRecord returns the record of the upgrade that the status shows: the stored one, or that of the followed operation if the
// stored upgrade is over and was another one.
func (r *reportedGroup) shownRecord(stored *record.Record) *record.Record {
	isOwn := stored.IsRunning() || stored.Result == record.Waiting && stored.Delegation != nil && r.group.Managed != nil && stored.Delegation.ID == r.group.Managed.Operation.ID
	if r.watched != nil && !isOwn {
		return r.watched
	}
	return stored
}

// describePace returns how many nodes the group's cloud may replace at the same time, now and later. It returns nil if that does
// not change.
func (r *reportedGroup) describePace() []report.Pace {
	if r.group.Managed == nil {
		return nil
	}
	var pace []report.Pace
	for _, change := range r.group.Managed.Pace {
		pace = append(pace, report.Pace{From: change.From, Nodes: change.MaxUnavailable})
	}
	return pace
}

// isFollowingOperation reports whether an operation is followed that has not ended.
func (r *reportedGroup) isFollowingOperation() bool {
	return r.watched != nil && r.watched.Result == ""
}

// describeRecordedGroups returns the end of a sentence that names the groups with records.
func describeRecordedGroups(records map[string]record.Record) string {
	const most = 10
	names := slices.Sorted(maps.Keys(records))
	switch n := len(names); {
	case n == 0:
		return ", and none is on record."
	case n > most:
		names = append(names[:most:most], fmt.Sprintf("and %d more", n-most))
	}
	return ". There are records for " + strings.Join(names, ", ") + ": see kubectl nodeupgrade status GROUP."
}

// showLeftovers prints the leftovers of all upgrades.
func showLeftovers(ctx context.Context, s *session, records map[string]record.Record, unreadable map[string]error) error {
	left, err := findAllLeftovers(ctx, s, records, unreadable)
	if err != nil {
		return err
	}
	status := &report.UpgradeStatus{Leftovers: left}
	status.TypeMeta, _ = report.NewMeta("UpgradeStatus", "")
	return s.line.printObject(status, nil, func(w io.Writer, _ report.Options) error {
		lines := report.LeftoverLines(left)
		if len(left) == 0 {
			lines = []string{"No upgrade is running" + describeRecordedGroups(records)}
		}
		return writeLines(w, lines)
	})
}
