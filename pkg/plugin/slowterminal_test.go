package plugin

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/report"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/simulate"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/emulator"
)

// slowTerminal is a terminal that blocks until it is opened, and whose writes take a while.
type slowTerminal struct {
	*emulator.Terminal
	opened chan struct{}
	delay  time.Duration
}

// Write implements io.Writer.
func (s slowTerminal) Write(text []byte) (int, error) {
	<-s.opened
	time.Sleep(s.delay)
	return s.Terminal.Write(text)
}

// newSlowTerminal returns a terminal that accepts output after a time.
func newSlowTerminal(after, delay time.Duration) slowTerminal {
	s := slowTerminal{emulator.New(defaultWidth, 100), make(chan struct{}), delay}
	time.AfterFunc(after, func() { close(s.opened) })
	return s
}

// textsOf returns the lines of a terminal without their times.
func textsOf(t *emulator.Terminal) []string {
	var texts []string
	for _, line := range t.Lines() {
		if _, text, timed := strings.Cut(line, "  "); timed {
			line = text
		}
		texts = append(texts, line)
	}
	return texts
}

// TestBlockedTerminalDelaysNoStep blocks the terminal for 30 seconds. No step of the runner may be delayed, and the
// terminal must then get all lines once and in order.
func TestBlockedTerminalDelaysNoStep(t *testing.T) {
	for _, mode := range []string{"live", "tty", "plain"} {
		t.Run(mode, func(t *testing.T) {
			var got, want []string
			synctest.Test(t, func(t *testing.T) {
				w := newSlowTerminal(30*time.Second, 0)
				p := newProgressOn(w, mode)
				began := time.Now()
				for i := range 20 {
					p.ShowNote(fmt.Sprintf("note %d", i))
					want = append(want, fmt.Sprintf("note %d", i))
					p.ShowStep(stepOf(record.Phase(fmt.Sprint("p", i))))
					time.Sleep(time.Second)
				}
				if took := time.Since(began); took != 20*time.Second {
					t.Errorf("20 steps in 20 seconds took %s", took)
				}
				p.Close()
				got = textsOf(w.Terminal)
			})
			notes := slices.DeleteFunc(slices.Clone(got), func(text string) bool { return !strings.HasPrefix(text, "note ") })
			if !slices.Equal(notes, want) {
				t.Errorf("got notes %q, want %q", notes, want)
			}
			if last := got[len(got)-1]; last != "phase p19" {
				t.Errorf("the last line is %q", last)
			}
		})
	}
}

// TestSlowTerminalShowsEachNoteOnce: on a terminal as slow as one over ssh, the display skips drawings but no note.
func TestSlowTerminalShowsEachNoteOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSlowTerminal(0, 200*time.Millisecond)
		p := newProgressOn(w, "live")
		p.ShowStep(stepOf(record.PhaseUpgrade))
		began := time.Now()
		for i := range 300 {
			p.ShowNote(fmt.Sprintf("note %d", i))
			time.Sleep(20 * time.Millisecond)
		}
		p.Close()
		if late := time.Since(began) - 300*20*time.Millisecond; late > time.Second {
			t.Errorf("it ends %s after the last line", late)
		}
		texts := textsOf(w.Terminal)
		for i := range 300 {
			if count := len(slices.DeleteFunc(slices.Clone(texts), func(s string) bool { return s != fmt.Sprintf("note %d", i) })); count != 1 {
				t.Fatalf("note %d is shown %d times in\n%s", i, count, w)
			}
		}
		if strings.Contains(w.String(), "replaced") {
			t.Errorf("the view is still there:\n%s", w)
		}
	})
}

// TestOutputQueueOfBlockedTerminalIsLimited checks that the queue of a blocked terminal has a limit, and that the terminal shows how many
// lines are missing.
func TestOutputQueueOfBlockedTerminalIsLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSlowTerminal(time.Minute, 0)
		p := newProgressOn(w, "plain")
		p.ShowNote("the first one")
		synctest.Wait() // wait until the write blocks
		for i := range queueLimit + 7 {
			p.ShowNote(fmt.Sprintf("note %d", i))
		}
		p.Close()
		texts := textsOf(w.Terminal)
		if len(texts) != queueLimit+2 || texts[1] != "7 lines are missing here: this terminal accepted no output for too long" || texts[2] != "note 7" {
			t.Errorf("%d lines that begin with %q", len(texts), texts[:min(len(texts), 3)])
		}
	})
}

// TestStderrTextsAppearAboveLiveView checks that the live view stays intact when other parts of the process write to
// stderr and when the terminal echoes Ctrl-C.
func TestStderrTextsAppearAboveLiveView(t *testing.T) {
	e := emulator.New(defaultWidth, defaultHeight)
	synctest.Test(t, func(t *testing.T) {
		p := newProgressOn(e, "live")
		p.stderr = NewStderr(e)
		p.stderr.divert(p.showText)
		p.ShowNote("run r1: upgrading to workers:2")
		p.ShowStep(stepOf(record.PhaseUpgrade))
		time.Sleep(time.Second)
		fmt.Fprint(e, "^C")
		fmt.Fprintln(p.stderr, "interrupted: ending this command")
		time.Sleep(time.Second)
		if shown := e.String(); strings.Count(shown, "0 of 2 replaced") != 1 || strings.Contains(shown, "^C") {
			t.Errorf("shown:\n%s", shown)
		}
		fmt.Fprint(p.stderr, "Warning: one\nWarning: \x1b[2Jtwo\n")
		stopping := stepOf(record.PhaseUpgrade)
		stopping.Record.Stopping = record.Interrupted
		p.ShowStep(stopping)
		p.Close()
		fmt.Fprintln(p.stderr, "error: the last line")
	})
	want := []string{
		"run r1: upgrading to workers:2", "phase upgrade: 2 outdated nodes, desired 3, max 4 (a:3)", "node n1 draining 1 pod (batch 1)",
		"interrupted: ending this command", "Warning: one", "Warning: ^[[2Jtwo", "stopping: interrupted", "error: the last line",
	}
	if got := textsOf(e); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestStderrIsWrittenImmediatelyWithoutDisplay checks that texts are written immediately before a display is opened and after it is
// closed.
func TestStderrIsWrittenImmediatelyWithoutDisplay(t *testing.T) {
	var text strings.Builder
	s := NewStderr(&text)
	if NewStderr(s) != s || fileOf(s) != io.Writer(&text) {
		t.Error("it is wrapped twice")
	}
	fmt.Fprint(s, "before ")
	p := (console{IOStreams: genericiooptions.IOStreams{ErrOut: s}, progress: "plain"}).openDisplay("workers", nil)
	fmt.Fprintln(s, "during")
	p.Close()
	fmt.Fprint(s, "after")
	if got := text.String(); got != "before during\nafter" {
		t.Errorf("got %q", got)
	}
}

// TestResizesLoseNoLine resizes the terminal each second while lines are written and the view is drawn. No line may be
// lost, and no part of an old view may stay.
func TestResizesLoseNoLine(t *testing.T) {
	e := emulator.New(100, 40)
	var want []string
	synctest.Test(t, func(t *testing.T) {
		p := newProgressOn(e, "live")
		long := strings.Repeat("ip-10-0-0-1.", 12)
		sizes := [][2]int{{100, 40}, {61, 30}, {200, 50}, {80, 24}, {40, 60}, {120, 30}}
		for i := range 60 {
			size := sizes[i%len(sizes)]
			e.Resize(size[0], size[1])
			step := stepOf(record.PhaseUpgrade)
			step.Status.Waiting = long
			step.Status.Nodes[0].Pods = i
			p.ShowStep(step)
			text := fmt.Sprintf("note %d", i)
			p.ShowNote(text)
			want = append(want, text)
			time.Sleep(time.Second + time.Duration(i)*17*time.Millisecond)
		}
		p.Close()
	})
	got := slices.DeleteFunc(textsOf(e), func(text string) bool {
		return strings.HasPrefix(text, "phase upgrade:") || strings.HasPrefix(text, "node n1 draining")
	})
	if !slices.Equal(got, want) {
		t.Errorf("shown:\n%s", e)
	}
}

// newProgressOn returns an open display of a mode on a terminal.
func newProgressOn(w screenWriter, mode string) *progress {
	p := &progress{
		group: "workers", w: w, terminal: w, mode: mode, now: time.Now, lastLineAt: time.Now(),
		wake: make(chan struct{}, 1), stop: make(chan struct{}), ended: make(chan struct{}),
	}
	if mode == "live" {
		p.block = &block{w: w, size: w.Size}
	}
	go p.writeUntilClosed()
	return p
}

// screenWriter is a terminal of a known size.
type screenWriter interface {
	io.Writer
	Size() (columns, height int)
}

// TestProgressShowsTheTimeLeft checks that a forecast is shown in the view and in one line, and that none is shown
// while the upgrade stops.
func TestProgressShowsTheTimeLeft(t *testing.T) {
	e := emulator.New(defaultWidth, defaultHeight)
	synctest.Test(t, func(t *testing.T) {
		p := newProgressOn(e, "live")
		step := stepOf(record.PhaseUpgrade)
		step.Record.Started = time.Now()
		p.ShowStep(step)
		minutes := func(n int) record.Duration { return record.Duration{Duration: time.Duration(n) * time.Minute} }
		p.ShowRest(report.TimeLeft{Remaining: simulate.Span{Earliest: minutes(6), Latest: minutes(15)}, RemainingAsOf: time.Now()})
		p.ShowRest(report.TimeLeft{Remaining: simulate.Span{Earliest: minutes(8), Latest: minutes(20)}, RemainingAsOf: time.Now()})
		for _, want := range []struct {
			after time.Duration
			text  string
		}{{time.Second, "  7m59s-19m left\n"}, {5 * time.Minute, "  2m59s-14m left (forecast 5m ago)\n"}, {15 * time.Minute, "  started 20m ago, time left not known\n"}} {
			time.Sleep(want.after)
			if shown := e.String(); !strings.Contains(shown, want.text) {
				t.Errorf("%q is not in\n%s", want.text, shown)
			}
		}
		p.ShowRest(report.TimeLeft{Remaining: simulate.Span{Earliest: minutes(1), Latest: minutes(2)}, RemainingAsOf: time.Now()})
		stopping := step
		stopping.Record.Stopping = record.Interrupted
		p.ShowStep(stopping)
		p.ShowRest(report.TimeLeft{RemainingUnknown: "context canceled"})
		time.Sleep(time.Second)
		if shown := e.String(); strings.Count(shown, "left") != 1 {
			t.Errorf("a forecast is shown of an upgrade that stops:\n%s", shown)
		}
		p.Close()
	})
	if got := strings.Count(e.String(), "time left: 6m-15m, if nothing else interferes"); got != 1 || strings.Count(e.String(), "left") != 1 {
		t.Errorf("shown:\n%s", e)
	}
}
