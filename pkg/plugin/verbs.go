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

// verb is a command about one upgrade that is recorded, from whichever machine.
type verb struct {
	// use is its word, doing what its errors begin with before the group.
	use, doing, short, long string
	// needs is what the upgrade's strategy must have, "" for nothing.
	needs record.Verb
	// afterEnd is for a verb that has something to do after the end of an upgrade, too.
	afterEnd bool
	run      func(context.Context, *command, *recordedUpgrade) error
}

// recordedUpgrade is the upgrade that a verb is about.
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

// rejectUnsupportedVerb refuses the verb where the upgrade's strategy does not have it.
func (v verb) rejectUnsupportedVerb(u *recordedUpgrade) error {
	if v.needs == "" {
		return nil
	}
	if err := upgrade.CheckOffered(&u.record, v.needs); err != nil {
		return usageError(fmt.Errorf("%s group %q: %w", v.doing, u.name, err))
	}
	return nil
}

// parseVerbCommand reads the command line of a verb.
func (f *flags) parseVerbCommand(cmd *cobra.Command, args []string) (*commandLine, error) {
	line, err := f.parseCommandLine(cmd, args)
	if err == nil && line.groups.isEmpty() {
		err = fmt.Errorf("no group is named: %s GROUP", shell.Command("kubectl nodeupgrade", cmd.Name()))
	}
	return line, err
}

// loadRecordedUpgrade reads what is recorded of the group that was named. A name is taken as it is:
// neither the nodes nor a cloud need be asked.
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

// openSession reads the cluster for an upgrade that is recorded, whose settings stand.
func (u *recordedUpgrade) openSession(ctx context.Context, c *command, m mode) (*session, error) {
	line, err := restoreSettings(*c.line, m, u.name, &u.record)
	if err != nil {
		return nil, err
	}
	s, err := (&command{&line, c.conn}).openSession(ctx)
	if err == nil {
		s.account, err = s.provider.Account(ctx)
	}
	return s, err
}

// restoreSettings is the command line with what the upgrade was begun with and the record tells:
// which nodes the group has and which of them are current.
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
	if !record.IsCloudless() || !nodegroup.IsSelector(group) { // else it is what the nodes' labels call the group
		return line, nil
	}
	var err error
	line.groups, err = parseGroups(nil, groupSelection{selector: group}, line.providerName)
	return line, err
}

// storeRequest tells whoever holds the upgrade what is asked for.
func (u *recordedUpgrade) storeRequest(ctx context.Context, c *command, verb record.Verb) error {
	return u.store.Ask(ctx, record.Asked{Verb: verb, Run: u.record.Run, By: currentUser(), At: c.conn.Now().UTC().Truncate(time.Second)})
}

// rejectReportFlag returns an error if --report was passed for an upgrade that another process runs.
func (u *recordedUpgrade) rejectReportFlag(c *command) error {
	if c.line.reportFile == "" {
		return nil
	}
	return usageError(fmt.Errorf("--report: another process runs this upgrade, and only that process can write its report: remove the flag, or run %s --report=%s for a report of the recorded state",
		nodegroup.Command("status", u.name), shell.Quote(c.line.reportFile)))
}

// warnReportNotWritten warns that no report is written, if --report was passed, because another process ran the upgrade.
func (u *recordedUpgrade) warnReportNotWritten(c *command) {
	if c.line.reportFile != "" {
		c.line.warn(fmt.Sprintf("group %q: no report was written: another process ran the upgrade", u.name))
	}
}

// awaitHolder reports whether the upgrade has a holder that gives a sign of life. It changes
// nothing.
func (c *command) awaitHolder(ctx context.Context, group string, m mode) (bool, error) {
	display := c.line.openDisplay(group, nil)
	defer display.Close()
	return c.conn.AwaitRenewal(ctx, c.line.stateNamespace, group, func(holder string) { display.ShowNote(describeLeaseWait(holder, m)) })
}

// clearStaleHolder takes the name of a holder that is gone out of the lease of an upgrade that is over.
func (c *command) clearStaleHolder(ctx context.Context, group string, m mode) error {
	lease, err := c.conn.ReadLease(ctx, c.line.stateNamespace, group)
	if err != nil || lease.Holder == "" {
		return err
	}
	display := c.line.openDisplay(group, nil)
	defer display.Close()
	hold, err := c.acquireLease(ctx, group, m, display)
	if _, held := errors.AsType[*cluster.HeldError](err); held {
		return nil // who lives gives the lease back
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
was started with.`,
		needs: record.VerbComplete,
		run:   completeSoak,
	})
	f.addConsentFlags(cmd)
	f.addReportFlag(cmd.Flags())
	return cmd
}

// completeSoak has the holder of an upgrade end its soak or, where no one carries the upgrade out,
// does that (GKE G52). Nothing is written before the user has agreed: the next process would obey it.
func completeSoak(ctx context.Context, c *command, u *recordedUpgrade) error {
	if err := rejectConflictingCommand(modeComplete, false, u.name, &u.record); err != nil {
		return err
	}
	if err := upgrade.Allows(&u.record, record.VerbComplete); err != nil {
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
	if !u.record.IsResumable() || upgrade.Allows(&u.record, record.VerbComplete) != nil { // its holder did so, and has gone since
		u.warnReportNotWritten(c)
		return u.printSoakEnded(c)
	}
	s, err := u.openSession(ctx, c, modeComplete)
	if err != nil {
		return err
	}
	err = upgradeGroup(ctx, s, u.name, modeComplete)
	if _, held := errors.AsType[*cluster.HeldError](err); held { // it was only late; the user has agreed by now
		u.warnReportNotWritten(c)
		return u.requestSoakEnd(ctx, c)
	}
	return err
}

// requestSoakEnd has the holder of the upgrade end the soak.
func (u *recordedUpgrade) requestSoakEnd(ctx context.Context, c *command) error {
	if err := u.storeRequest(ctx, c, record.VerbComplete); err != nil {
		return fmt.Errorf("completing the upgrade of group %q: %w", u.name, err)
	}
	return u.printSoakEnded(c)
}

func (u *recordedUpgrade) printSoakEnded(c *command) error {
	return c.line.printDone(u.name, u.record, fmt.Sprintf("%s%s: the soak has ended, and the outdated nodes are deleted", nodegroup.Prefix, u.name))
}
