package plugin

import (
	"errors"
	"fmt"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// mode is what a command does with the recorded upgrade.
type mode string

const (
	// modeUpgrade begins an upgrade or continues the recorded one.
	modeUpgrade mode = ""
	// modeStatus only reads the upgrade.
	modeStatus   mode = "status"
	modeResume   mode = "resume"
	modeComplete mode = "complete"
	modeRollback mode = "rollback"
	modeAbort    mode = "abort"
)

// keepsSettings reports whether the upgrade's settings come from the record, so the user need not repeat flags.
func (m mode) keepsSettings() bool { return m == modeResume || m == modeComplete || m.undoesUpgrade() }

// undoesUpgrade reports whether the command undoes the upgrade, after the process that runs it has stopped.
func (m mode) undoesUpgrade() bool { return m == modeRollback || m == modeAbort }

// correspondingVerb returns the request that the command fulfils or makes obsolete. It has the command's name, except
// that a resume makes a pause obsolete.
func (m mode) correspondingVerb() record.Verb {
	if m == modeResume {
		return record.VerbPause
	}
	return record.Verb(m)
}

// chooseTarget returns the target for observing the group, in the form of --to: the typed one, or the recorded one of
// an upgrade that continues.
func chooseTarget(m mode, typed string, record *record.Record) (string, error) {
	switch {
	case typed != "" || !record.IsResumable():
		return typed, nil
	case m == modeRollback:
		to, err := upgrade.RollbackTarget(record)
		return to, usageError(err)
	default:
		return record.Request.To, nil
	}
}

// rejectConflictingCommand returns an error if the record's state does not allow the command, for example while the
// upgrade is being rolled back. The error names the command that continues.
func rejectConflictingCommand(m mode, dryRun bool, group string, rec *record.Record) error {
	var state string
	continues := string(rec.UndoVerb())
	switch record.Verb(continues) {
	case record.VerbRollback:
		if m == modeRollback || m == modeResume {
			return nil
		}
		state = fmt.Sprintf("run %s of group %q is being rolled back", rec.Run, group)
	case record.VerbAbort:
		state = fmt.Sprintf("run %s of group %q is being aborted", rec.Run, group)
	default:
		if m != modeUpgrade || !record.IsPausedByRequest(rec) || dryRun {
			return nil
		}
		continues, state = "resume", fmt.Sprintf("group %q was paused by %s at %s", group, rec.PausedBy, rec.Ended.Format(time.RFC3339))
	}
	if m == modeStatus || m == modeAbort {
		return nil
	}
	return &exitErr{code: exitPaused, err: fmt.Errorf("%s: run %s to continue", state, nodegroup.Command(continues, group))}
}

// rejectFinishedUpgrade returns an error if no upgrade is running or resumable.
func rejectFinishedUpgrade(doing, group string, record *record.Record) error {
	switch {
	case record.Run == "":
		return usageError(fmt.Errorf("%s group %q: it has no recorded upgrade: run %s to start one, or %s to list what an earlier upgrade left", doing, group, nodegroup.Command("", group), nodegroup.Command("status", group)))
	case !record.IsResumable() && record.CountDrained() > 0:
		return usageError(fmt.Errorf("%s group %q: its upgrade is over (%s), and drained nodes stay fenced until you replace them: to release a node, give it the labels of current nodes and run %s",
			doing, group, record.Result, nodegroup.Command("abort", group)))
	case !record.IsResumable():
		return usageError(fmt.Errorf("%s group %q: its upgrade is over (%s)", doing, group, record.Result))
	default:
		return nil
	}
}

// describeRun returns the beginning of a run's errors, such as "upgrading group x".
func describeRun(group string, rec *record.Record) string {
	switch {
	case rec.Result == record.Aborted || rec.Stopping == record.Aborted:
		return fmt.Sprintf("aborting the upgrade of group %q", group)
	case rec.Rollback:
		return fmt.Sprintf("rolling group %q back", group)
	default:
		return fmt.Sprintf("upgrading group %q", group)
	}
}

// errUpgradeEnded means that the upgrade ended while the command waited for the upgrade's process.
var errUpgradeEnded = errors.New("the upgrade ended while this command waited for its process")
