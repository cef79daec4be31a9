package stage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// Result is how a command ended.
type Result struct {
	Stdout, Stderr string
	Code           int
}

// Env is the environment of a user of the stage: the plugin and kubectl come first on the path, the
// kubeconfig is the administrator's and the credentials are the cloud's.
func (s *Stage) Env() []string {
	env := append(os.Environ(), s.Cloud.Env()...)
	return append(env,
		"PATH="+s.Dir+string(os.PathListSeparator)+os.Getenv("PATH"),
		"KUBECONFIG="+s.Cluster.Kubeconfig(), "HOME="+s.Dir, "NO_COLOR=1",
	)
}

// Kubectl runs kubectl with the arguments to its end. An error is a command that could not be run; how it
// ended is in the Result.
func (s *Stage) Kubectl(ctx context.Context, args ...string) (Result, error) {
	var out, errOut bytes.Buffer
	code, err := s.Start(ctx, &out, &errOut, nil, args...).Wait()
	return Result{Stdout: out.String(), Stderr: errOut.String(), Code: code}, err
}

// Process is a kubectl that runs.
type Process struct {
	cmd *exec.Cmd
	err error
}

// Start starts kubectl; extra is added to the environment.
func (s *Stage) Start(ctx context.Context, out, errOut io.Writer, extra []string, args ...string) *Process {
	cmd := s.command(ctx, s.Dir+"/kubectl", args...)
	cmd.Env = append(cmd.Env, extra...)
	return begin(cmd, out, errOut)
}

func begin(cmd *exec.Cmd, out, errOut io.Writer) *Process {
	cmd.Stdout, cmd.Stderr = out, errOut
	if err := cmd.Start(); err != nil {
		return &Process{err: fmt.Errorf("starting %s: %w", strings.Join(cmd.Args, " "), err)}
	}
	return &Process{cmd: cmd}
}

// RunLine runs a line of the shell, with the tools of a user of the stage, to its end. An error is a shell that could not be run; how
// it ended is in the Result.
func (s *Stage) RunLine(ctx context.Context, line string) (Result, error) {
	var out, errOut bytes.Buffer
	code, err := begin(s.Shell(ctx, line), &out, &errOut).Wait()
	return Result{Stdout: out.String(), Stderr: errOut.String(), Code: code}, err
}

// Shell is a line of the shell with the tools of a user of the stage, to be run.
func (s *Stage) Shell(ctx context.Context, line string) *exec.Cmd {
	return s.command(ctx, "sh", "-c", line)
}

// command is told to end when the context ends, and is ended when it does not.
func (s *Stage) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = s.Env()
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 15 * time.Second
	return cmd
}

// Interrupt sends what Ctrl-C does.
func (p *Process) Interrupt() error { return p.signal(os.Interrupt) }

// HangUp sends what a terminal sends that closes.
func (p *Process) HangUp() error { return p.signal(syscall.SIGHUP) }

// Kill ends it at once: it does not get to do anything about it.
func (p *Process) Kill() error { return p.signal(os.Kill) }

// Halt stops it where it is, as a machine does that falls asleep, until Continue.
func (p *Process) Halt() error { return p.signal(syscall.SIGSTOP) }

// Continue lets it continue where it was halted.
func (p *Process) Continue() error { return p.signal(syscall.SIGCONT) }

func (p *Process) signal(s os.Signal) error {
	if p.err != nil {
		return p.err
	}
	return p.cmd.Process.Signal(s)
}

// Wait waits for the end and returns the exit code; as a shell does, 128 and the signal's number when a signal ended it.
func (p *Process) Wait() (int, error) {
	if p.err != nil {
		return -1, p.err
	}
	err := p.cmd.Wait()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		return -1, err
	}
	if status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal()), nil
	}
	return p.cmd.ProcessState.ExitCode(), nil
}
