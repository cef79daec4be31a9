package plugin

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/klog/v2"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/report"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
)

// heartbeat is how long progress may be silent.
const heartbeat = 30 * time.Second

// Display shows the user what happens while a command waits for one group's upgrade. Its methods return nothing: an
// upgrade continues unseen. They may be called from several goroutines, except for Close, after which nothing is shown.
type Display interface {
	// Begin sets the identifier of the upgrade that the following calls are about.
	Begin(run string)
	// Step shows what a step of the upgrade has changed.
	Step(step upgrade.Step)
	// Note shows a text of one line that belongs to no step.
	Note(text string)
	// Cloud shows why the cloud did not answer, nil if it did, and what it did not let be read of the group.
	Cloud(group *nodegroup.Group, err error)
	// Balancers shows why load balancers could not be read, nil if they could.
	Balancers(err error)
	// Outage shows why the cluster takes no change, "" if it does.
	Outage(detail string)
	// Close ends the display. It must be called once.
	Close()
}

// progress is a Display of lines: one for each change of an upgrade's state, and a heartbeat on long waits. On
// a terminal the line of the moment is below them and is redrawn.
type progress struct {
	// group is the node group's name, run the identifier of its upgrade once it has one.
	group, run string

	w io.Writer
	// terminal is what w writes to in the end.
	terminal io.Writer
	mode     string
	color    bool

	// now is the clock that steps go by.
	now func() time.Time

	mu     sync.Mutex
	last   report.Moment
	spoken time.Time
	cloud  string
	// unread is what was said of the group that could not be read.
	unread []string
	// balancers is what was said last of load balancers that could not be read.
	balancers string
	// outages are what was said of a cluster that takes no change, since it last did.
	outages map[string]bool
	drawn   bool
	// block is what a live view draws, of live; changed is true if it is to be drawn again at once, at is when it was.
	block   *block
	live    report.Live
	changed bool
	at      time.Time
	// stopping is true once the line that says so was written.
	stopping bool
	stop     chan struct{}
	ended    chan struct{}
}

// openDisplay returns the display that --progress asks for. When stderr has no reader any more, as when head has seen
// enough, the display calls stop: from then on to the end of the process writing to a pipe without a reader returns an
// error. If stop is nil, such a write ends the process.
func (c console) openDisplay(group string, stop func()) Display {
	mode := c.chooseProgress()
	p := &progress{
		group: group, w: c.ErrOut, terminal: c.ErrOut, mode: mode, color: c.mayColor(c.ErrOut),
		now: c.now, spoken: time.Now(), stop: make(chan struct{}), ended: make(chan struct{}),
	}
	if mode == "live" {
		p.block, p.live.Hint = newBlock(c.ErrOut), "Ctrl-C stops cleanly"
	}
	if stop != nil {
		signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
		p.w = &pipe{Writer: p.w, onNoReader: stop}
		if p.block != nil {
			p.block.w = p.w
		}
	}
	go p.redrawUntilClosed()
	return p
}

// leastHeight is how many lines a terminal has at least that has a live view.
const leastHeight = 15

// chooseProgress returns the way to show progress. A live view needs a terminal that can be redrawn and is high enough, and to which
// no library logs: there are lines instead.
func (c console) chooseProgress() string {
	if c.progress != "auto" && c.progress != "live" {
		return c.progress
	}
	_, height := terminalSize(c.ErrOut)
	switch {
	case !mayRedraw(c.ErrOut):
		return "plain"
	case height < leastHeight || klog.V(1).Enabled():
		return "tty"
	default:
		return "live"
	}
}

// pipe is a writer that tells when it has no reader.
type pipe struct {
	io.Writer
	onNoReader func()
}

// Write implements io.Writer.
func (p *pipe) Write(text []byte) (int, error) {
	n, err := p.Writer.Write(text)
	if errors.Is(err, syscall.EPIPE) {
		p.onNoReader()
	}
	return n, err
}

// redrawUntilClosed redraws the line of the moment and breaks long silences, until Close.
func (p *progress) redrawUntilClosed() {
	defer close(p.ended)
	every := time.Second
	if p.mode == "live" {
		every = liveFrame
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-p.stop:
			return
		case <-ticker.C:
			p.redrawLine()
		}
	}
}

// liveFrame is how often a live view is drawn at most.
const liveFrame = 250 * time.Millisecond

// drawLive draws the live view, if anything in it is new or a second is over.
func (p *progress) drawLive() {
	if !p.changed && time.Since(p.at) < time.Second {
		return
	}
	p.changed, p.at = false, time.Now()
	p.live.At = p.now()
	width, height := p.block.size()
	p.block.draw(report.LiveLines(&p.live, report.Options{Width: width, Color: p.color}, height-1))
}

func (p *progress) redrawLine() {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.last.Status.Group == "":
	case p.mode == "live":
		p.drawLive()
	case p.mode == "tty":
		p.drawLine(report.DescribeHeartbeat(p.last))
	case time.Since(p.spoken) >= heartbeat:
		p.writeLine(report.Event{Type: report.WaitingEvent, Text: "still in " + report.DescribeHeartbeat(p.last)})
	}
}

// Close implements Display. It clears the line that is drawn on a terminal.
func (p *progress) Close() {
	close(p.stop)
	<-p.ended
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clearLine()
	if p.block != nil {
		p.block.clear()
	}
}

// Begin implements Display.
func (p *progress) Begin(run string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.run = run
}

// momentOf returns what a step shows at a time.
func momentOf(at time.Time, step *upgrade.Step) report.Moment {
	return report.Moment{At: at, Status: step.Status, Blocked: step.Blocked, Sent: step.Actions, Stopping: step.Record.Stopping}
}

// Step implements Display.
func (p *progress) Step(step upgrade.Step) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := momentOf(p.now(), &step).After(p.last)
	before := p.last
	p.last = now // whose counts the events have
	for _, event := range report.DescribeChanges(before, now) {
		p.writeLine(event)
	}
	if stopping := step.Record.Stopping; stopping != "" && before.Status.Group != "" && !p.stopping {
		p.stopping = true
		p.writeLine(report.Event{Type: report.PhaseEvent, State: string(stopping), Text: "stopping: " + string(stopping)})
	}
	if p.block != nil {
		p.changed = true
		p.live.See(now, &step.Record, upgrade.ListImpacts(&step.Record))
	}
}

// Cloud implements Display. It writes each reason once, and each thing that could not be read.
func (p *progress) Cloud(group *nodegroup.Group, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != p.cloud && text != "" {
		p.writeLine(report.Event{Type: report.WaitingEvent, Text: "the cloud does not answer, the last answer stands: " + text})
	}
	p.cloud = text
	for _, unread := range group.Unread {
		if !slices.Contains(p.unread, unread) {
			p.unread = append(p.unread, unread)
			p.writeLine(report.Event{Type: report.NoteEvent, Text: unread})
		}
	}
}

// Balancers implements Display. It writes each reason once.
func (p *progress) Balancers(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil && err.Error() != p.balancers {
		p.balancers = err.Error()
		p.writeLine(report.Event{Type: report.WaitingEvent, Text: "load balancers cannot be read, the last answer stands: " + p.balancers})
	}
}

// Outage implements Display. It writes each reason once until the cluster takes a change.
func (p *progress) Outage(detail string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if detail == "" {
		clear(p.outages)
		return
	}
	if !p.outages[detail] {
		p.writeLine(report.Event{Type: report.WaitingEvent, Text: "nothing can be done in the cluster for now, it is tried again: " + detail})
	}
	if p.outages == nil {
		p.outages = map[string]bool{}
	}
	p.outages[detail] = true
}

// Note implements Display.
func (p *progress) Note(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.writeLine(report.Event{Type: report.NoteEvent, Text: text})
}

// writeLine puts one event on a line of its own.
func (p *progress) writeLine(event report.Event) {
	p.spoken = time.Now()
	switch p.mode {
	case "quiet":
	case "json":
		_ = writeEvent(p.w, report.NewEventLine(p.spoken, p.group, p.run, event, &p.last.Status)) // as for the lines for people: an upgrade continues unseen
	default:
		const indent = len(time.TimeOnly) + 2
		lines := []string{p.spoken.Format(time.TimeOnly) + "  " + sanitizeLine(event.Text)}
		if p.mode != "plain" { // the others are for terminals
			lines = report.WrapUnder(lines[0], terminalWidth(p.terminal), indent)
		}
		for i, line := range lines {
			lines[i] = line[:indent] + p.colorText(event, line[indent:])
		}
		if p.block != nil {
			p.block.writeAbove(strings.Join(lines, "\n"))
			return
		}
		p.clearLine()
		fmt.Fprintln(p.w, strings.Join(lines, "\n"))
	}
}

// writeEvent writes an event as one line of JSON. It returns the writer's error.
func writeEvent(w io.Writer, event report.EventLine) error {
	line, err := json.Marshal(event)
	if err != nil {
		return fmt.Errorf("writing an event: %w", err)
	}
	_, err = fmt.Fprintf(w, "%s\n", line)
	return err
}

// lineBreak matches what one space takes the place of. Spaces between words stay as they are: a quoted name may have several.
var lineBreak = regexp.MustCompile(` *[\t\n\v\f\r]\s*`)

// sanitizeLine makes text of which parts may come from the cluster harmless to a terminal, and one
// line.
func sanitizeLine(text string) string {
	return printers.EscapeTerminal(lineBreak.ReplaceAllString(strings.TrimSpace(text), " "))
}

// colorText colours what needs attention; colour never carries the meaning alone.
func (p *progress) colorText(event report.Event, text string) string {
	if !p.color {
		return text
	}
	switch event.Type {
	case report.BlockedEvent, report.WaitingEvent:
		return "\x1b[33m" + text + "\x1b[0m"
	case report.PhaseEvent:
		return "\x1b[1m" + text + "\x1b[0m"
	default:
		return text
	}
}

// drawLine writes the line of the moment, cut to the terminal's width in cells: a line that wraps
// cannot be redrawn. The last cell stays free, since some terminals wrap after it.
func (p *progress) drawLine(text string) {
	p.clearLine()
	fmt.Fprint(p.w, report.CutLine(sanitizeLine(text), terminalWidth(p.terminal)-1))
	p.drawn = true
}

func (p *progress) clearLine() {
	if p.drawn {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.drawn = false
	}
}
