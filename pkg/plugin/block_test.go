package plugin

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/creack/pty"
	"github.com/olekukonko/tablewriter/pkg/twwidth"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/emulator"
)

// TestLiveViewIsRedrawnInPlace checks that lines above a block stay and that the block appears once, after any drawing,
// writing and resizing.
func TestLiveViewIsRedrawnInPlace(t *testing.T) {
	e := emulator.New(40, 100)
	b := &block{w: e, size: e.Size}
	lines := func(texts ...string) []string { return texts }
	steps := []struct {
		do     func()
		want   string
		writes int
	}{
		{func() { b.draw(lines("one", "two")) }, "one\ntwo", 1},
		{func() { b.draw(lines("one", "two")) }, "one\ntwo", 0},
		{func() { b.draw(lines("one", "2", "three")) }, "one\n2\nthree", 1},
		{func() { b.writeAbove("a log line") }, "a log line\none\n2\nthree", 1},
		{func() { b.draw(lines("one")) }, "a log line\none", 1},
		{func() { b.draw(lines(strings.Repeat("x", 39), "2")) }, "a log line\n" + strings.Repeat("x", 39) + "\n2", 1},
		{func() { e.Resize(15, 100); b.draw(lines("short", "2")) }, "a log line\nshort\n2", 1},
		{func() { b.draw(lines(strings.Repeat("節点", 3), "2")) }, "a log line\n節点節点節点\n2", 1},
		{func() { e.Resize(8, 100); b.writeAbove("more") }, "a log li\nne\nmore\n節点節点\n節点\n2", 1},
		{func() { e.Resize(100, 100); b.draw(lines("wide again")) }, "a log line\nmore\nwide again", 1},
		{func() { b.clear() }, "a log line\nmore", 1},
		{func() { b.clear() }, "a log line\nmore", 0},
		{func() { b.writeAbove("the end") }, "a log line\nmore\nthe end", 1},
	}
	for i, s := range steps {
		before := e.Writes()
		s.do()
		if got := e.String(); got != s.want || e.Writes()-before != s.writes {
			t.Fatalf("step %d: shown are\n%s\nafter %d writes, want\n%s\nafter %d", i, got, e.Writes()-before, s.want, s.writes)
		}
	}
}

// TestLiveViewKeepsLinesAbove checks that no line written above a block is lost, in any order of operations.
func TestLiveViewKeepsLinesAbove(t *testing.T) {
	e := emulator.New(60, 1000)
	b := &block{w: e, size: e.Size}
	var want []string
	for i := range 200 {
		switch i % 3 {
		case 0:
			b.writeAbove(fmt.Sprintf("line %d", i))
			want = append(want, fmt.Sprintf("line %d", i))
		case 1:
			b.draw(strings.Split(strings.Repeat("row,", i%7)+fmt.Sprint(i), ","))
		default:
			b.draw(nil)
		}
	}
	b.clear()
	if got := e.String(); got != strings.Join(want, "\n") {
		t.Errorf("shown:\n%s", got)
	}
}

// TestLiveProgressDrawsViewBelowLinesAndErasesIt checks that a view is drawn below the lines, at most four times a second, and erased at
// the end. The lines are the same as without a view.
func TestLiveProgressDrawsViewBelowLinesAndErasesIt(t *testing.T) {
	e := emulator.New(defaultWidth, defaultHeight)
	synctest.Test(t, func(t *testing.T) {
		p := newProgressOn(e, "live")
		p.ShowNote("run r1: upgrading to workers:2")
		step := stepOf(record.PhaseUpgrade)
		step.Record.Started = time.Now()
		p.ShowStep(step)
		time.Sleep(time.Second)
		shown, before := e.String(), e.Writes()
		if !strings.Contains(shown, "0 of 2 replaced ░") || !strings.Contains(shown, "draining  n1") || !strings.Contains(shown, "node n1 draining 1 pod") {
			t.Errorf("shown:\n%s", shown)
		}
		for i := range 200 { // two seconds
			step.Status.Nodes = slices.Clone(step.Status.Nodes) // each step has its own list
			step.Status.Nodes[0].Pods = i
			p.ShowStep(step)
			time.Sleep(10 * time.Millisecond)
		}
		if frames := e.Writes() - before; frames < 4 || frames > 9 {
			t.Errorf("%d frames in two seconds", frames)
		}
		p.ShowNote(strings.Repeat("a long line ", 20))
		p.Close()
	})
	shown := e.String()
	if strings.Contains(shown, "░") || strings.Contains(shown, "STATE") || !strings.HasPrefix(shown, "00:00:00  run r1") {
		t.Errorf("in the end are shown\n%s", shown)
	}
	for _, line := range e.Lines() {
		if twwidth.Width(line) > defaultWidth || strings.HasPrefix(line, "a long") {
			t.Errorf("a line is broken by the terminal: %q", line)
		}
	}
}

// TestLiveViewNeedsTerminalWithEnoughLines: the terminal must also be able to move its cursor.
func TestLiveViewNeedsTerminalWithEnoughLines(t *testing.T) {
	for name, c := range map[string]struct {
		asked, term string
		rows        uint16
		want        string
	}{
		"a terminal":           {"auto", "xterm", 24, "live"},
		"asked for":            {"live", "xterm", 15, "live"},
		"a low one":            {"live", "xterm", 14, "tty"},
		"a dumb one":           {"auto", "dumb", 24, "plain"},
		"one line, asked for":  {"tty", "xterm", 24, "tty"},
		"nothing, asked for":   {"quiet", "xterm", 24, "quiet"},
		"lines, asked for":     {"plain", "xterm", 24, "plain"},
		"for programs, always": {"json", "dumb", 24, "json"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("TERM", c.term)
			screen, terminal, err := pty.Open()
			if err != nil {
				t.Skipf("no pseudo terminal: %v", err)
			}
			defer screen.Close()
			defer terminal.Close()
			if err := pty.Setsize(terminal, &pty.Winsize{Rows: c.rows, Cols: 80}); err != nil {
				t.Fatal(err)
			}
			if got := (console{IOStreams: genericiooptions.IOStreams{ErrOut: terminal}, progress: c.asked}).chooseProgressMode(); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
	if got := (console{IOStreams: genericiooptions.IOStreams{ErrOut: io.Discard}, progress: "live"}).chooseProgressMode(); got != "plain" {
		t.Errorf("into a pipe: %s", got)
	}
}
