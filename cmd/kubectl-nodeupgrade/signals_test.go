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

// asked is what the command says to the first Ctrl-C, and stopping what its body says to the end of
// its context.
const (
	asked    = "interrupted: ending this command (press Ctrl-C again to quit at once)"
	stopping = "stopping"
)

// patience is after how long a command is killed that should have ended.
const patience = 20 * time.Second

// TestMain is the command as well: its body echoes its input, up to the end of that, and says when
// it is to stop.
func TestMain(m *testing.M) {
	if os.Getenv("BE_THE_COMMAND") == "" {
		os.Exit(m.Run())
	}
	os.Exit(runWithSignals(os.Stderr, func(ctx context.Context) int {
		context.AfterFunc(ctx, func() { fmt.Fprintln(os.Stderr, stopping) })
		fmt.Fprintln(os.Stderr, "at work")
		if _, err := io.Copy(os.Stderr, os.Stdin); err != nil {
			return 1
		}
		return 0
	}))
}

// TestSignals sends signals to a command that a shell has started, waits for what it says to each,
// and sees whether it is still there.
func TestSignals(t *testing.T) {
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
	signal.Notify(caught, hup, intr, term) // else the commands would ignore what this test was started to ignore, as by nohup
	t.Cleanup(func() { signal.Stop(caught) })
	stops := []string{asked, stopping}
	cases := map[string]struct {
		ignores string
		answers []answer
		// last is the signal that ends it, 0 where its input has to.
		last syscall.Signal
	}{
		"a terminal that closes":           {"", []answer{{hup, stops[1:]}}, 0},
		"one that closes twice":            {"", []answer{{hup, stops[1:]}, {hup, nil}}, 0},
		"a session that ends":              {"", []answer{{term, stops}, {hup, nil}}, 0},
		"Ctrl-C":                           {"", []answer{{intr, stops}}, 0},
		"Ctrl-C twice":                     {"", []answer{{intr, stops}}, intr},
		"sent twice at once":               {"", []answer{{intr, stops}, {intr, nil}}, 0},
		"two signals at once":              {"", []answer{{term, stops}, {intr, nil}}, 0},
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
			p := begin(t, c.ignores)
			for _, a := range c.answers {
				p.send(a.to)
				p.says(a.says...)
				p.echoes()
			}
			want := 0
			if c.last != 0 {
				p.insist(c.last)
				want = 128 + int(c.last)
			} else if err := p.input.Close(); err != nil {
				t.Fatal(err)
			}
			if got := p.end(); got != want {
				t.Errorf("ended with %d, want %d", got, want)
			}
		})
	}
}

// process is a command that runs.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	input io.WriteCloser
	lines *bufio.Scanner
}

// begin starts the command with so many signals ignored, and returns when it is at work.
func begin(t *testing.T, ignores string) *process {
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
	p.says("at work")
	return p
}

func (p *process) send(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatalf("sending %s: %v", s, err)
	}
}

// insist sends the signal again and again, until the process has ended: a second signal that comes too soon does not count.
func (p *process) insist(s syscall.Signal) {
	ended := make(chan struct{})
	p.t.Cleanup(func() { close(ended) })
	again := time.NewTicker(20 * time.Millisecond)
	go func() {
		for {
			select {
			case <-ended:
				return
			case <-again.C:
				_ = p.cmd.Process.Signal(s) // it may have ended
			}
		}
	}()
}

// says wants these lines next, in any order.
func (p *process) says(lines ...string) {
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

// echoes wants the command to be there still, and to have said nothing else.
func (p *process) echoes() {
	p.t.Helper()
	const text = "are you there"
	if _, err := fmt.Fprintln(p.input, text); err != nil {
		p.t.Fatalf("it is not there any more: %v", err)
	}
	p.says(text)
}

// end is the exit code, as a shell has it.
func (p *process) end() int {
	p.t.Helper()
	for p.lines.Scan() {
		p.t.Errorf("it says %q", p.lines.Text())
	}
	_ = p.cmd.Wait() // the state tells
	if status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return p.cmd.ProcessState.ExitCode()
}
