package plugin

import (
	"bytes"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/creack/pty"
	"github.com/olekukonko/tablewriter/pkg/twwidth"
)

// openTerminal opens a terminal of some columns. read closes it and returns its content.
func openTerminal(t *testing.T, columns int) (terminal *os.File, read func() string) {
	t.Helper()
	screen, terminal, err := pty.Open()
	if err != nil {
		t.Skipf("no pseudo terminal: %v", err)
	}
	t.Cleanup(func() { screen.Close() })
	if err := pty.Setsize(terminal, &pty.Winsize{Rows: 24, Cols: uint16(columns)}); err != nil {
		t.Fatal(err)
	}
	shown := make(chan string)
	go func() {
		var text bytes.Buffer
		_, _ = io.Copy(&text, screen) // reading ends with an error because the other end is closed
		shown <- strings.ReplaceAll(text.String(), "\r\n", "\n")
	}()
	return terminal, func() string {
		if err := terminal.Close(); err != nil {
			t.Fatal(err)
		}
		return <-shown
	}
}

// onTerminal runs a command with a terminal of some columns as stdout, and returns its content.
func onTerminal(t *testing.T, columns int, args ...string) string {
	t.Helper()
	terminal, read := openTerminal(t, columns)
	if code := Run(t.Context(), args, nil, terminal, io.Discard); code != exitDone {
		t.Errorf("exit code %d", code)
	}
	return read()
}

// TestOutputFitsTheTerminalWidth checks that output fits the terminal's width. On a pipe each node has one line.
func TestOutputFitsTheTerminalWidth(t *testing.T) {
	t.Setenv("NO_COLOR", "1")
	for _, columns := range []int{80, 100, 120, 200} {
		for _, args := range [][]string{{"simulate"}, {"simulate", "--compare"}} {
			text := onTerminal(t, columns, args...)
			if strings.Contains(text, "\x1b") || !strings.Contains(text, "In each row") {
				t.Errorf("%v in %d columns:\n%q", args, columns, text)
			}
			for line := range strings.Lines(text) {
				if n := twwidth.Width(strings.TrimSuffix(line, "\n")); n > columns {
					t.Errorf("%v: %d cells of %d: %q", args, n, columns, line)
				}
			}
		}
	}
	stdout, _, _ := simulated(t, "")
	if wide := onTerminal(t, 80, "simulate", "-o", "wide"); strings.Contains(wide, "In each row") || strings.Count(wide, "\n1 ") != 1 {
		t.Errorf("wide:\n%s", wide)
	}
	if strings.Contains(stdout, "In each row") {
		t.Errorf("into a pipe:\n%s", stdout)
	}
}

// TestOnlyTerminalsGetColoursByDefault checks that only terminals get colours, unless the user or the environment decides. The user's flag
// comes first.
func TestOnlyTerminalsGetColoursByDefault(t *testing.T) {
	const yellow = "\x1b[33m12 nodes to replace" // the example has warnings
	cases := map[string]struct {
		env  map[string]string
		args []string
		want bool
	}{
		"a terminal":            {nil, nil, true},
		"NO_COLOR":              {map[string]string{"NO_COLOR": "1"}, nil, false},
		"a dumb terminal":       {map[string]string{"TERM": "dumb"}, nil, false},
		"never":                 {nil, []string{"--color=never"}, false},
		"always, with NO_COLOR": {map[string]string{"NO_COLOR": "1"}, []string{"--color=always"}, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Setenv("TERM", "xterm-256color")
			t.Setenv("NO_COLOR", "") // an empty NO_COLOR counts as well
			if err := os.Unsetenv("NO_COLOR"); err != nil {
				t.Fatal(err)
			}
			for key, value := range c.env {
				t.Setenv(key, value)
			}
			if text := onTerminal(t, 100, append([]string{"simulate"}, c.args...)...); strings.Contains(text, yellow) != c.want || strings.Contains(text, "\x1b") != c.want {
				t.Errorf("coloured is not %t:\n%q", c.want, text[:min(len(text), 200)])
			}
		})
	}
	if stdout, _, _ := simulated(t, "", "--color=always"); !strings.HasPrefix(stdout, yellow) {
		t.Errorf("always, into a pipe: %q", stdout[:min(len(stdout), 200)])
	}
}

// TestNoColorStillRedrawsLine checks that NO_COLOR removes only colours.
func TestNoColorStillRedrawsLine(t *testing.T) {
	screen, terminal, err := pty.Open()
	if err != nil {
		t.Skipf("no pseudo terminal: %v", err)
	}
	defer screen.Close()
	defer terminal.Close()
	for env, want := range map[string]bool{"NO_COLOR": true, "TERM": false} {
		t.Run(env, func(t *testing.T) {
			t.Setenv("TERM", "xterm")
			t.Setenv(env, "dumb")
			if got := mayRedraw(terminal); got != want {
				t.Errorf("redrawn is %t, want %t", got, want)
			}
		})
	}
	if mayRedraw(&bytes.Buffer{}) {
		t.Error("a buffer is drawn over")
	}
}

// TestNotesFitTheTerminal checks that notes and errors break at words on a terminal, and are one line on a pipe.
func TestNotesFitTheTerminal(t *testing.T) {
	terminal, read := openTerminal(t, 60)
	Run(t.Context(), []string{"simulate"}, nil, io.Discard, terminal)
	Run(t.Context(), []string{"simulate", "--progress=" + strings.Repeat("no such mode ", 9)}, nil, io.Discard, terminal)
	text := read()
	for line := range strings.Lines(text) {
		if n := twwidth.Width(strings.TrimSuffix(line, "\n")); n > 60 {
			t.Errorf("%d cells: %q", n, line)
		}
	}
	_, piped, _ := invoke(t, "simulate")
	squeeze := func(text string) string { return strings.Join(strings.Fields(text), "") } // a long word is broken, too
	if !strings.HasPrefix(squeeze(text), squeeze(piped)+"error:--progress=nosuch") {
		t.Errorf("on the terminal\n%s\ninto a pipe\n%s", text, piped)
	}
}
