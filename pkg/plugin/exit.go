package plugin

import (
	"context"
	"errors"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cluster"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/runner"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// The exit codes. The README documents them.
const (
	exitDone        = 0
	exitError       = 1
	exitUsage       = 2
	exitStructural  = 3
	exitLeftBehind  = 4
	exitPaused      = 5
	exitWaiting     = 6
	exitInterrupted = 130
)

// errInterrupted is the error of a command that the user interrupted before it changed anything.
var errInterrupted = &exitErr{code: exitInterrupted, err: errors.New("interrupted: nothing was touched")}

// exitErr is an error with its exit code. If err is nil, no message is printed.
type exitErr struct {
	code int
	err  error
}

func (e *exitErr) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

// Unwrap returns the inner error.
func (e *exitErr) Unwrap() error { return e.err }

// usageError marks an error that the user has to fix before anything is changed.
func usageError(err error) error {
	if err == nil {
		return nil
	}
	return &exitErr{code: exitUsage, err: err}
}

// exitCodeOf returns the process's exit code for an error.
func exitCodeOf(err error) int {
	var coded *exitErr
	var held *cluster.HeldError
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &coded):
		return coded.code
	case errors.Is(err, cloud.ErrOtherCluster):
		return exitUsage
	case errors.Is(err, runner.ErrLost), errors.As(err, &held):
		return exitPaused
	case errors.Is(err, runner.ErrNotStoppedInTime), errors.Is(err, context.Canceled): // only an interrupt cancels the context
		return exitInterrupted
	default:
		return exitError
	}
}

// exitCodeOfResult returns the exit code for the result of an upgrade.
func exitCodeOfResult(result record.Result) int {
	code, known := map[record.Result]int{
		record.Succeeded: exitDone, record.Aborted: exitDone, record.LeftBehind: exitLeftBehind, record.Interrupted: exitInterrupted,
		record.Paused: exitPaused, record.TargetMoved: exitPaused, record.Waiting: exitWaiting,
	}[result]
	if !known {
		return exitError
	}
	return code
}
