package plugin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cluster"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/shell"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// verb is a command about a recorded upgrade. The upgrade may run on another machine.
type verb struct {
	// use is the command's word. doing begins its errors, before the group.
	use, doing, short, long string
	// needs is the verb that the upgrade's strategy must support, "" for none.
	needs record.Verb
	// afterEnd is true if the verb is also allowed after the end of an upgrade.
	afterEnd bool
	run      func(context.Context, *command, *recordedUpgrade) error
}

// recordedUpgrade is a recorded upgrade of a group.
type recordedUpgrade struct {
	name   string
	store  *cluster.Store
	record record.Record
}

func (f *flags) newVerbCommand(v verb) *cobra.Command {
	return &cobra.Command{
		Use: v.use + " GROUP", Short: v.short, Long: v.long,
		Args:              rejectSeveralGroups,
		ValidArgsFunction: completeWords(f.suggestResumableGroups),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := f.openCommand(cmd, args, f.parseVerbCommand)
			if err != nil {
				return err
			}
			u, err := c.loadRecordedUpgrade(cmd.Context())
			if err != nil {
				return err
			}
			if err := rejectFinishedUpgrade(v.doing, u.name, &u.record); err != nil && (!v.afterEnd || u.record.Run == "") {
				return err
			}
			if err := v.rejectUnsupportedVerb(u); err != nil {
				return err
			}
			return v.run(cmd.Context(), c, u)
		},
	}
}

// rejectUnsupportedVerb returns an error if the upgrade's strategy does not support the verb.
func (v verb) rejectUnsupportedVerb(u *recordedUpgrade) error {
	if v.needs == "" {
		return nil
	}
	if err := upgrade.CheckOffered(&u.record, v.needs); err != nil {
		return usageError(fmt.Errorf("%s group %q: %w", v.doing, u.name, err))
	}
	return nil
}

// parseVerbCommand parses the command line of a verb. It returns an error if no group is named.
func (f *flags) parseVerbCommand(cmd *cobra.Command, args []string) (*commandLine, error) {
	line, err := f.parseCommandLine(cmd, args)
	if err == nil && line.groups.isEmpty() {
		err = fmt.Errorf("no group is named: %s GROUP", shell.Command("kubectl nodeupgrade", cmd.Name()))
	}
	return line, err
}

// loadRecordedUpgrade loads the record of the named group. It does not check the name, so it needs neither the nodes
// nor the cloud.
func (c *command) loadRecordedUpgrade(ctx context.Context) (*recordedUpgrade, error) {
	u := &recordedUpgrade{}
	switch {
	case c.line.groups.node != "":
		s, err := c.openSession(ctx)
		if err != nil {
			return nil, err
		}
		names, err := s.resolveGroupNames(ctx, c.line.groups, suggestNoCommand)
		if err != nil {
			return nil, err
		}
		u.name = names[0]
	case c.line.groups.selector != "":
		u.name = c.line.groups.labels.String()
	default:
		u.name = c.line.groups.names[0]
	}
	u.store = c.openStore(u.name)
	var err error
	u.record, err = u.store.LoadRecord(ctx)
	return u, err
}

// openSession opens a session with the settings of the recorded upgrade.
func (u *recordedUpgrade) openSession(ctx context.Context, c *command, m mode) (*session, error) {
	line, err := restoreSettings(*c.line, m, u.name, &u.record)
	if err != nil {
		return nil, err
	}
	s, err := (&command{&line, c.conn}).openSession(ctx)
	if err == nil {
		s.account, err = s.main.Account(ctx)
	}
	return s, err
}

// restoreSettings returns the command line with the recorded upgrade's provider, group selector and labels of current
// nodes.
func restoreSettings(line commandLine, m mode, group string, record *record.Record) (commandLine, error) {
	switch {
	case record.IsCloudless():
		line.providerName = providerManual
	case line.providerName == providerAuto && record.Provider != "":
		line.providerName = record.Provider
	}
	if len(line.settings.Current) == 0 && (m != modeRollback || record.IsCloudless()) {
		line.settings.Current = record.Request.Current
	}
	if !record.IsCloudless() || !nodegroup.IsSelector(group) { // otherwise the name is the value of a label that names groups
		return line, nil
	}
	var err error
	line.groups, err = parseGroups(nil, groupSelection{selector: group}, line.providerName)
	return line, err
}

// storeRequest stores a request for the process that runs the upgrade.
func (u *recordedUpgrade) storeRequest(ctx context.Context, c *command, verb record.Verb) error {
	return u.store.StoreRequest(ctx, record.Asked{Verb: verb, Run: u.record.Run, By: currentUser(), At: c.conn.Now().UTC().Truncate(time.Second)})
}

// rejectReportFlag returns an error if --report was passed for an upgrade that another process runs.
func (u *recordedUpgrade) rejectReportFlag(c *command) error {
	if c.line.reportFile == "" {
		return nil
	}
	return usageError(fmt.Errorf("--report: another process runs this upgrade, and only that process can write its report: remove the flag, or run %s --report=%s for a report of the recorded state",
		nodegroup.Command("status", u.name), shell.Quote(c.line.reportFile)))
}

// warnReportNotWritten warns that no report was written because another process ran the upgrade. It does nothing
// without --report.
func (u *recordedUpgrade) warnReportNotWritten(c *command) {
	if c.line.reportFile != "" {
		c.line.warn(fmt.Sprintf("group %q: no report was written: another process ran the upgrade", u.name))
	}
}

// awaitHolder waits until the process that runs the upgrade renews its lease. It returns false if none does in time. It
// changes nothing in the cluster.
func (c *command) awaitHolder(ctx context.Context, group string, m mode) (bool, error) {
	display := c.line.openDisplay(group, nil)
	defer display.Close()
	return c.conn.AwaitRenewal(ctx, c.line.stateNamespace, group, func(holder string) { display.ShowNote(describeLeaseWait(holder, m)) })
}

// clearStaleHolder removes the name of a crashed process from the lease of a finished upgrade.
func (c *command) clearStaleHolder(ctx context.Context, group string, m mode) error {
	lease, err := c.conn.ReadLease(ctx, c.line.stateNamespace, group)
	if err != nil || lease.Holder == "" {
		return err
	}
	display := c.line.openDisplay(group, nil)
	defer display.Close()
	hold, err := c.acquireLease(ctx, group, m, display)
	if _, held := errors.AsType[*cluster.HeldError](err); held {
		return nil // a running process releases the lease itself
	}
	if err == nil {
		hold.Release()
	}
	return err
}

func newCompleteCommand(f *flags) *cobra.Command {
	cmd := f.newVerbCommand(verb{
		use: "complete", doing: "completing the upgrade of", short: "End an upgrade's soak now",
		long: `End the soak of a blue-green upgrade and delete the outdated nodes now. If no
process runs the upgrade, complete continues it here with the settings that it
was started with. For a GKE node pool it asks GKE to end the soak.`,
		needs: record.VerbComplete,
		run:   completeSoak,
	})
	f.addConsentFlags(cmd)
	f.addReportFlag(cmd.Flags())
	return cmd
}

// completeSoak asks the process that runs the upgrade to end its soak. If no process runs it, completeSoak continues
// the upgrade itself (GKE G52). It writes nothing before the user has agreed, because the next process would act on a
// stored request.
func completeSoak(ctx context.Context, c *command, u *recordedUpgrade) error {
	if err := rejectConflictingCommand(modeComplete, false, u.name, &u.record); err != nil {
		return err
	}
	if err := upgrade.Allows(&u.record, record.VerbComplete); err != nil && !u.record.IsCompleting() { // the process of an earlier complete may have crashed
		return usageError(fmt.Errorf("completing the upgrade of group %q: %w: see %s", u.name, err, nodegroup.Command("status", u.name)))
	}
	atWork, err := c.awaitHolder(ctx, u.name, modeComplete)
	switch {
	case err != nil:
		return fmt.Errorf("completing the upgrade of group %q: %w", u.name, err)
	case atWork:
		if err := u.rejectReportFlag(c); err != nil {
			return fmt.Errorf("completing the upgrade of group %q: %w", u.name, err)
		}
		return u.requestSoakEnd(ctx, c)
	}
	if u.record, err = u.store.LoadRecord(ctx); err != nil {
		return err
	}
	if !u.record.IsResumable() || upgrade.Allows(&u.record, record.VerbComplete) != nil && !u.record.IsCompleting() { // the process exited in between
		u.warnReportNotWritten(c)
		return c.line.printDone(u.name, u.record, fmt.Sprintf("%s%s: the soak is over: see %s", nodegroup.Prefix, u.name, nodegroup.Command("status", u.name)))
	}
	s, err := u.openSession(ctx, c, modeComplete)
	if err != nil {
		return err
	}
	err = upgradeGroup(ctx, s, u.name, modeComplete)
	if _, held := errors.AsType[*cluster.HeldError](err); held { // a process still renews the lease, and the user has agreed already
		u.warnReportNotWritten(c)
		return u.requestSoakEnd(ctx, c)
	}
	return err
}

// requestSoakEnd asks the process that runs the upgrade to end the soak.
func (u *recordedUpgrade) requestSoakEnd(ctx context.Context, c *command) error {
	if err := u.storeRequest(ctx, c, record.VerbComplete); err != nil {
		return fmt.Errorf("completing the upgrade of group %q: %w", u.name, err)
	}
	if u.record.Delegation != nil {
		return c.line.printDone(u.name, u.record, fmt.Sprintf("%s%s: the process that runs the upgrade was asked to end the soak: see %s", nodegroup.Prefix, u.name, nodegroup.Command("status", u.name)))
	}
	return c.line.printDone(u.name, u.record, fmt.Sprintf("%s%s: the soak has ended, and the outdated nodes are deleted", nodegroup.Prefix, u.name))
}
