package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"syscall"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/fixture"
)

// pool is the name of the nodes that are drained, or of their group.
const pool = "bench"

// rival is a way to drain nodes without the tool.
type rival struct {
	way string
	// drainCommand is fixture.OneByOne or fixture.FourAtOnce.
	drainCommand string
	heavy        bool
	// isTool is true for the tool itself.
	isTool bool
}

// The rivals.
var (
	oneByOne      = rival{way: "kubectl drain, one by one", drainCommand: fixture.OneByOne}
	fourAtOnce    = rival{way: "xargs -P 4 kubectl drain", drainCommand: fixture.FourAtOnce}
	heavyOneByOne = rival{way: oneByOne.way, drainCommand: oneByOne.drainCommand, heavy: true}
)

// toolName is the tool's name in the table.
const toolName = "kubectl nodeupgrade"

// command returns the rival's command.
func (r rival) command(sc *scenario) string {
	if r.isTool {
		return sc.command()
	}
	var flags []string
	if sc.limit > 0 {
		flags = append(flags, "--timeout="+sc.limit.String())
	}
	return fixture.DrainLine(pool, r.drainCommand, flags...)
}

// command returns the tool's command.
func (sc *scenario) command() string {
	line := fixture.UpgradeLine(pool, sc.window)
	if len(sc.zones) > 0 {
		line = "kubectl nodeupgrade " + pool + " --settle=0s --yes --progress=json"
	}
	if sc.limit > 0 {
		line += " --on-timeout=skip --drain-timeout=" + sc.limit.String()
	}
	return line
}

// ended is the result of a command that has exited.
type ended struct {
	took, cpu time.Duration
	// mib is the largest resident size of any of its processes.
	mib    int
	code   int
	stderr string
}

// measureCommand runs a shell line with the fixture's tools. Its CPU time includes all processes that the shell waited for.
func measureCommand(ctx context.Context, s *fixture.Fixture, line string) (ended, error) {
	var stderr bytes.Buffer
	cmd := s.NewShellCommand(ctx, line)
	cmd.Stderr = &stderr
	began := time.Now()
	err := cmd.Run()
	took := time.Since(began)
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return ended{}, fmt.Errorf("running %q: %w", line, err)
	}
	state := cmd.ProcessState
	e := ended{took: took, cpu: state.UserTime() + state.SystemTime(), code: state.ExitCode(), stderr: stderr.String()}
	if usage, ok := state.SysUsage().(*syscall.Rusage); ok {
		e.mib = int(usage.Maxrss >> 10)
	}
	return e, nil
}
