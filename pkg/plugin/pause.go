package plugin

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cluster"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/report"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

func newPauseCommand(f *flags) *cobra.Command {
	return f.newVerbCommand(verb{
		use: "pause", doing: "pausing the upgrade of", short: "Pause a running upgrade after the nodes that are being replaced",
		long: `Pause a running upgrade and wait until it has stopped. Nodes that are being
replaced are finished first. Ctrl-C ends the wait, but not the pause. If no
process runs the upgrade, it is marked as paused at once. Only resume continues
it. The process that upgrades a GKE node pool cancels GKE's operation. Without
that process the pause is refused. EKS cannot pause.`,
		needs: record.VerbPause,
		run:   pauseUpgrade,
	})
}

// pauseUpgrade asks the process that runs the upgrade to pause, and waits for it. If no process runs the upgrade, it
// marks the upgrade as paused.
func pauseUpgrade(ctx context.Context, c *command, u *recordedUpgrade) error {
	if !record.IsPausedByRequest(&u.record) {
		if u.record.UndoVerb() == record.VerbAbort {
			return usageError(fmt.Errorf("pausing the upgrade of group %q: it is being aborted and starts no further node: see %s", u.name, nodegroup.Command("status", u.name)))
		}
		if u.record.Delegation != nil {
			if atWork, err := c.awaitHolder(ctx, u.name, modeResume); err != nil || !atWork {
				resume := nodegroup.Command("resume", u.name)
				if u.record.Result == record.Waiting {
					resume += " --wait" // otherwise the process ends at once
				}
				return usageError(fmt.Errorf("pausing the upgrade of group %q: the cloud may still be upgrading the group, and only a running process of this tool can cancel that: run %s, and pause it from another terminal",
					u.name, resume))
			}
		}
		if err := u.storeRequest(ctx, c, record.VerbPause); err != nil {
			return fmt.Errorf("pausing the upgrade of group %q: %w", u.name, err)
		}
		record, err := awaitPause(ctx, c, u)
		if ctx.Err() != nil {
			return fmt.Errorf("pausing the upgrade of group %q: the wait was interrupted, but the pause is still requested: run %s to withdraw it: %w", u.name, nodegroup.Command("resume", u.name), ctx.Err())
		}
		if err != nil {
			return fmt.Errorf("pausing the upgrade of group %q: %w", u.name, err)
		}
		u.record = record
	}
	if u.record.Result != record.Paused {
		return c.line.printDone(u.name, u.record, fmt.Sprintf("%s%s was not paused: the upgrade ended before the pause, with the result %s", nodegroup.Prefix, u.name, u.record.Result))
	}
	return c.line.printDone(u.name, u.record, fmt.Sprintf("%s%s %s (%s)", nodegroup.Prefix, u.name, record.PauseMessage(&u.record, u.name), report.DescribeProgress(u.record.Replaced, u.record.CountDrained(), u.record.Total)))
}

// leaseResult is the result of waiting for a lease.
type leaseResult struct {
	hold *cluster.Hold
	err  error
}

// awaitPause waits until the record shows that the upgrade has stopped, and returns the record. If no process runs the
// upgrade, or its process is gone, awaitPause marks the upgrade as paused itself.
func awaitPause(ctx context.Context, c *command, u *recordedUpgrade) (record.Record, error) {
	display := c.line.openDisplay(u.name, nil)
	display.SetRun(u.record.Run)
	defer display.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	follower, err := u.store.Follow(ctx)
	if err != nil {
		return record.Record{}, err
	}
	claims := make(chan leaseResult, 1)
	go func() {
		hold, err := cluster.AcquireLease(ctx, c.conn.Client, cluster.Claim{
			Namespace: c.line.stateNamespace, Group: u.name, Identity: makeHolderIdentity(), Patient: true,
			Waiting: func(holder string) { display.ShowNote(describePauseWait(holder, &u.record)) },
		})
		claims <- leaseResult{hold, err}
	}()
	for {
		select {
		case <-follower.Changed():
			rec, _, err := follower.Record()
			if err == nil && rec.IsResumable() && rec.Result != record.Paused {
				continue
			}
			cancel()
			if got := <-claims; got.err == nil {
				got.hold.Release()
			}
			return rec, err
		case got := <-claims:
			if got.err != nil {
				return record.Record{}, got.err
			}
			defer got.hold.Release()
			return u.markPaused(ctx, c.conn.IdleSince(got.hold.LastHeld()), c.conn.Now())
		}
	}
}

func describePauseWait(holder string, record *record.Record) string {
	text := fmt.Sprintf("asked %s to pause", holder)
	if n := len(record.Nodes); n > 0 {
		text += fmt.Sprintf(": nodes that are being replaced are finished first (%d now)", n)
	}
	return text
}

// markPaused marks an upgrade as paused that no process runs, unless the upgrade has ended. The time without a process
// does not count against the drain timeout of nodes in drain.
func (u *recordedUpgrade) markPaused(ctx context.Context, idle time.Duration, now time.Time) (record.Record, error) {
	rec, err := u.store.LoadRecord(ctx)
	if err != nil || !rec.IsResumable() || record.IsPausedByRequest(&rec) {
		return rec, err
	}
	rec = record.CreditIdleTime(&rec, idle, now)
	rec = record.AsPaused(&rec, u.name, currentUser(), now)
	return rec, u.store.SaveRepeatedly(ctx, rec)
}

func newResumeCommand(f *flags) *cobra.Command {
	cmd := f.newVerbCommand(verb{
		use: "resume", doing: "resuming the upgrade of", short: "Continue an upgrade that was paused or that stopped",
		long: `Continue an upgrade that was paused, interrupted or stopped, with the settings
that it was started with. If a process still runs the upgrade and is about to
pause, resume withdraws the pause.`,
		run: func(ctx context.Context, c *command, u *recordedUpgrade) error {
			if err := rejectWaitingUpgrade(c.line, u.name, u.record); err != nil {
				return err
			}
			return resumeUpgrade(ctx, c, u)
		},
	})
	f.addConsentFlags(cmd)
	f.addReportFlag(cmd.Flags())
	f.addWaitFlag(cmd.Flags())
	return cmd
}

// resumeUpgrade withdraws a pause, or continues the upgrade if no process runs it.
func resumeUpgrade(ctx context.Context, c *command, u *recordedUpgrade) error {
	if err := rejectConflictingCommand(modeResume, c.line.isDryRun(), u.name, &u.record); err != nil {
		return err
	}
	asked := u.store.CurrentRequest()
	pausing := asked.Verb == record.VerbPause && asked.Run == u.record.Run
	atWork, err := c.awaitHolder(ctx, u.name, modeResume)
	if err == nil && atWork {
		err = u.rejectReportFlag(c)
	}
	if err == nil && atWork && pausing {
		err = u.store.WithdrawRequest(ctx, asked) // without a running process the request is withdrawn after the user has agreed, see reloadUnderLease
	}
	switch {
	case err != nil:
		return fmt.Errorf("resuming the upgrade of group %q: %w", u.name, err)
	case atWork && pausing:
		return c.line.printDone(u.name, u.record, fmt.Sprintf("%s%s continues: the pause that %s requested was withdrawn", nodegroup.Prefix, u.name, asked.By))
	case atWork:
		return c.line.printDone(u.name, u.record, fmt.Sprintf("%s%s is already running: see %s", nodegroup.Prefix, u.name, nodegroup.Command("status", u.name)))
	}
	s, err := u.openSession(ctx, c, modeResume)
	if err != nil {
		return err
	}
	return upgradeGroup(ctx, s, u.name, modeResume)
}
