//go:build unix

package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"syscall"
	"testing"
	"time"
)

// interruptMessage is the message after the first Ctrl-C. stopMessage is the message of the command's body when its context ends.
const (
	interruptMessage = "interrupted: ending this command (press Ctrl-C again to quit at once)"
	stopMessage      = "stopping"
)

// patience is how long a command may run before the test kills it.
const patience = 20 * time.Second

// TestMain is also the command that TestSignalsEndTheCommand starts. Its body copies its input to stderr until the input ends, and
// prints a message when its context ends.
func TestMain(m *testing.M) {
	if os.Getenv("BE_THE_COMMAND") == "" {
		os.Exit(m.Run())
	}
	os.Exit(runWithSignals(os.Stderr, func(ctx context.Context) int {
		context.AfterFunc(ctx, func() { fmt.Fprintln(os.Stderr, stopMessage) })
		fmt.Fprintln(os.Stderr, "at work")
		if _, err := io.Copy(os.Stderr, os.Stdin); err != nil {
			return 1
		}
		return 0
	}))
}

// TestSignalsEndTheCommand sends signals to a command that a shell has started. It checks the message for each signal and whether
// the command still runs.
func TestSignalsEndTheCommand(t *testing.T) {
	const (
		hup  = syscall.SIGHUP
		intr = syscall.SIGINT
		term = syscall.SIGTERM
	)
	type answer struct {
		to   syscall.Signal
		says []string
	}
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, hup, intr, term) // otherwise the commands would inherit ignored signals, for example from nohup
	t.Cleanup(func() { signal.Stop(caught) })
	stops := []string{interruptMessage, stopMessage}
	cases := map[string]struct {
		ignores string
		answers []answer
		// last is the signal that ends the command, or 0 if the end of its input ends it.
		last syscall.Signal
	}{
		"a terminal that closes":           {"", []answer{{hup, stops[1:]}}, 0},
		"one that closes twice":            {"", []answer{{hup, stops[1:]}, {hup, nil}}, 0},
		"a session that ends":              {"", []answer{{term, stops}, {hup, nil}}, 0},
		"Ctrl-C":                           {"", []answer{{intr, stops}}, 0},
		"Ctrl-C twice":                     {"", []answer{{intr, stops}}, intr},
		"the same signal sent twice":       {"", []answer{{intr, stops}, {intr, nil}}, 0},
		"two signals together":             {"", []answer{{term, stops}, {intr, nil}}, 0},
		"Ctrl-C twice, ignored at first":   {"INT", []answer{{intr, stops}}, intr},
		"terminated twice":                 {"", []answer{{term, stops}}, term},
		"nohup, and the terminal closes":   {"HUP", []answer{{hup, nil}, {term, stops}}, 0},
		"terminated without its terminal":  {"", []answer{{hup, stops[1:]}, {term, stops[:1]}}, 0},
		"terminated twice without it":      {"", []answer{{hup, stops[1:]}, {term, stops[:1]}}, term},
		"nohup, and Ctrl-C twice":          {"HUP", []answer{{intr, stops}, {hup, nil}}, intr},
		"all ignored, and Ctrl-C twice":    {"HUP INT TERM", []answer{{hup, nil}, {intr, stops}}, intr},
		"all ignored, and then terminated": {"HUP INT TERM", []answer{{hup, nil}, {term, stops}}, term},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := startCommand(t, c.ignores)
			for _, a := range c.answers {
				p.send(a.to)
				p.awaitLines(a.says...)
				p.checkStillRunning()
			}
			want := 0
			if c.last != 0 {
				p.sendUntilEnd(c.last)
				want = 128 + int(c.last)
			} else if err := p.input.Close(); err != nil {
				t.Fatal(err)
			}
			if got := p.exitCode(); got != want {
				t.Errorf("ended with %d, want %d", got, want)
			}
		})
	}
}

// process is a running command.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	input io.WriteCloser
	lines *bufio.Scanner
}

// startCommand starts the command with the given signals ignored, and returns when its body runs.
func startCommand(t *testing.T, ignores string) *process {
	t.Helper()
	script := `exec "$0"`
	if ignores != "" {
		script = `trap "" ` + ignores + "; " + script
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, "sh", "-c", script, os.Args[0])
	cmd.Env = append(os.Environ(), "BE_THE_COMMAND=1")
	input, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, cmd: cmd, input: input, lines: bufio.NewScanner(stderr)}
	p.awaitLines("at work")
	return p
}

func (p *process) send(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatalf("sending %s: %v", s, err)
	}
}

// sendUntilEnd sends the signal repeatedly until the process has ended, because a signal soon after the first does not
// count.
func (p *process) sendUntilEnd(s syscall.Signal) {
	ended := make(chan struct{})
	p.t.Cleanup(func() { close(ended) })
	again := time.NewTicker(20 * time.Millisecond)
	go func() {
		for {
			select {
			case <-ended:
				return
			case <-again.C:
				_ = p.cmd.Process.Signal(s) // the process may have ended
			}
		}
	}()
}

// awaitLines reads the next lines and checks that they are the given ones, in any order.
func (p *process) awaitLines(lines ...string) {
	p.t.Helper()
	var got []string
	for range lines {
		if !p.lines.Scan() {
			break
		}
		got = append(got, p.lines.Text())
	}
	slices.Sort(got)
	if want := slices.Sorted(slices.Values(lines)); !slices.Equal(got, want) {
		p.t.Fatalf("it says %q, want %q", got, want)
	}
}

// checkStillRunning checks that the command still copies its input and has printed nothing else.
func (p *process) checkStillRunning() {
	p.t.Helper()
	const text = "are you there"
	if _, err := fmt.Fprintln(p.input, text); err != nil {
		p.t.Fatalf("the command no longer runs: %v", err)
	}
	p.awaitLines(text)
}

// exitCode waits until the command ends, and returns its exit code as a shell shows it.
func (p *process) exitCode() int {
	p.t.Helper()
	for p.lines.Scan() {
		p.t.Errorf("it says %q", p.lines.Text())
	}
	_ = p.cmd.Wait() // ProcessState has the exit code
	if status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return p.cmd.ProcessState.ExitCode()
}
