package cast

import (
	"errors"
	"fmt"
	"io"
	"os/exec"
	"reflect"
	"strings"
	"time"

	"github.com/creack/pty"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/emulator"
)

const (
	// Columns is the width of the terminal in cells.
	Columns = 80
	// Rows is the height of the terminal in cells.
	Rows = 24
)

// Shot is a recorded screen: what the terminal showed from one moment until the next shot.
type Shot struct {
	// At is the time since the recording began.
	At     time.Duration
	Screen emulator.Screen
	// Prompt is true if a command line has just appeared.
	Prompt bool
}

// Recording is a terminal with all that it has shown. Its methods must not be called at the same time.
type Recording struct {
	// Shots are in the order of their times. Each differs from the one before.
	Shots    []Shot
	terminal *emulator.Terminal
	began    time.Time
}

// New starts a recording.
func New() *Recording {
	return &Recording{terminal: emulator.New(Columns, Rows), began: time.Now()}
}

// Run shows the line behind a prompt, runs the command on the terminal to its end and returns the exit code. Its error says that the
// command could not be run or that its output could not be read.
func (r *Recording) Run(line string, cmd *exec.Cmd) (int, error) {
	separator := ""
	if len(r.Shots) > 0 {
		separator = "\n"
	}
	r.write(separator + "$ " + line + "\n")
	r.take(true)
	master, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: Rows, Cols: Columns})
	if err != nil {
		return -1, fmt.Errorf("starting %q on a terminal: %w", line, err)
	}
	defer master.Close()
	r.watch(master)
	if err := cmd.Wait(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		return -1, fmt.Errorf("running %q: %w", line, err)
	}
	return cmd.ProcessState.ExitCode(), nil
}

// watch feeds the terminal from the reader until the reader returns an error. A terminal device returns one as soon as no
// process has it open.
func (r *Recording) watch(reader io.Reader) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := reader.Read(buffer)
		// A screen is taken after each line, so that no line scrolls off unseen.
		for line := range strings.Lines(string(buffer[:n])) {
			r.write(line)
			r.take(false)
		}
		if err != nil {
			return
		}
	}
}

func (r *Recording) write(text string) { _, _ = r.terminal.Write([]byte(text)) } // Write of a terminal returns no error

// take adds a shot if the screen has changed.
func (r *Recording) take(prompt bool) {
	screen := r.terminal.Screen()
	if n := len(r.Shots); n > 0 && reflect.DeepEqual(r.Shots[n-1].Screen, screen) {
		return
	}
	r.Shots = append(r.Shots, Shot{At: time.Since(r.began), Screen: screen, Prompt: prompt})
}
