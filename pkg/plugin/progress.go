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

// heartbeat is the longest time without a new line.
const heartbeat = 30 * time.Second

// Display shows the user what happens while a command waits for one group's upgrade. Its methods return no error,
// because the upgrade continues even without its display. All methods except Close return immediately. They may be
// called from several goroutines. Nothing may be called after Close.
type Display interface {
	// SetRun sets the identifier of the upgrade that the following calls are about.
	SetRun(run string)
	// ShowStep shows what a step of the upgrade has changed.
	ShowStep(step upgrade.Step)
	// ShowNote shows a one-line text.
	ShowNote(text string)
	// ShowCloudReading shows the error of the last reading of the group, if any, and the parts of the group that could
	// not be read.
	ShowCloudReading(group *nodegroup.Group, err error)
	// ShowBalancerError shows the error of the last reading of load balancers. err is nil if it succeeded.
	ShowBalancerError(err error)
	// ShowOutage shows why the cluster accepts no changes. detail is "" if it accepts changes.
	ShowOutage(detail string)
	// ShowRest shows a forecast of the time left.
	ShowRest(rest report.TimeLeft)
	// Close closes the display. It must be called once.
	Close()
}

// progress is a Display that writes a line for each change of an upgrade's state, and one after each long silence. On a
// terminal it redraws a line or a live view below these lines. The methods only store what to show, and one goroutine
// writes that to the terminal. So a terminal that accepts no output, for example after Ctrl-S, does not stop the
// upgrade.
type progress struct {
	// group is the node group's name. run is the identifier of its upgrade, "" if it has none yet.
	group, run string

	// w is the writer of the lines. terminal is the file behind it.
	w, terminal io.Writer
	mode        string
	color       bool
	// now returns the cluster's time.
	now func() time.Time
	// stderr passes texts from other parts of the process to this display; nil if the command has no Stderr.
	stderr *Stderr

	mu         sync.Mutex // guards the fields from here to changed
	last       report.Moment
	rest       report.TimeLeft
	lastLineAt time.Time
	// queue holds the lines that are not yet written. dropped counts the lines that did not fit into it.
	queue   []queuedLine
	dropped int
	cloud   string
	// unread lists the unreadable parts of the group that were shown.
	unread []string
	// balancers is the last shown error of load balancers.
	balancers string
	// outages has the errors that were shown since the cluster last accepted a change.
	outages map[string]bool
	// stopping is true if the line about stopping was shown.
	stopping bool
	// live is the content of the live view. changed is true if live is newer than the drawn view.
	live    report.LiveView
	changed bool

	// Only the writing goroutine uses these fields. block is nil unless there is a live view, which was last drawn at
	// drawnAt. drawn is true if there is a drawn line to erase.
	block   *block
	drawnAt time.Time
	drawn   bool

	// wake receives when a line was queued.
	wake  chan struct{}
	stop  chan struct{}
	ended chan struct{}
}

// queuedLine is a line that is not yet written: an event, or a text that another part of the process wrote to stderr.
type queuedLine struct {
	at    time.Time
	event report.Event
	// text is the whole line; "" for an event.
	text string
}

// queueLimit is the maximum number of queued lines.
const queueLimit = 10_000

// openDisplay returns a display for --progress. If stderr has lost its reader, as after "| head -1", the display calls
// stop. To find that out, openDisplay makes the process ignore SIGPIPE, so that writes to such a pipe return an error.
// If stop is nil, such a write ends the process.
func (c console) openDisplay(group string, stop func()) Display {
	terminal := fileOf(c.ErrOut)
	p := &progress{
		group: group, w: terminal, terminal: terminal, mode: c.chooseProgressMode(), color: c.mayColor(terminal), now: c.now, lastLineAt: time.Now(),
		wake: make(chan struct{}, 1), stop: make(chan struct{}), ended: make(chan struct{}),
	}
	if stop != nil {
		signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
		p.w = &pipeWriter{Writer: terminal, onNoReader: stop}
	}
	if p.mode == "live" {
		p.live.Hint = "Ctrl-C stops cleanly"
		p.block = &block{w: p.w, size: func() (int, int) { return terminalSize(terminal) }}
	}
	if s, is := c.ErrOut.(*Stderr); is {
		p.stderr = s
		s.divert(p.showText)
	}
	go p.writeUntilClosed()
	return p
}

// minHeight is the number of lines that a terminal must have for a live view.
const minHeight = 15

// chooseProgressMode returns the mode of --progress. A live view needs a terminal with minHeight lines whose cursor
// can be moved. There is none while libraries log to stderr.
func (c console) chooseProgressMode() string {
	if c.progress != "auto" && c.progress != "live" {
		return c.progress
	}
	_, height := terminalSize(c.ErrOut)
	switch {
	case !mayRedraw(c.ErrOut):
		return "plain"
	case height < minHeight || klog.V(1).Enabled():
		return "tty"
	default:
		return "live"
	}
}

// pipeWriter is a writer that calls onNoReader when its pipe has no reader.
type pipeWriter struct {
	io.Writer
	onNoReader func()
}

// Write implements io.Writer.
func (p *pipeWriter) Write(text []byte) (int, error) {
	n, err := p.Writer.Write(text)
	if errors.Is(err, syscall.EPIPE) {
		p.onNoReader()
	}
	return n, err
}

// liveFrame is the shortest time between two drawings of a live view.
const liveFrame = 250 * time.Millisecond

// writeUntilClosed writes queued lines and redraws the live parts below them, until Close. It is the only writer.
func (p *progress) writeUntilClosed() {
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
			p.writeQueue()
			p.clear()
			return
		case <-p.wake:
			p.writeQueue()
		case <-ticker.C:
			p.queueHeartbeat()
			p.writeQueue()
			p.redraw()
		}
	}
}

// queueHeartbeat queues a line after a long time without one, unless a live view or line shows the time.
func (p *progress) queueHeartbeat() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last.Status.Group != "" && p.mode != "live" && p.mode != "tty" && time.Since(p.lastLineAt) >= heartbeat {
		p.addEvent(report.Event{Type: report.WaitingEvent, Text: "still in " + report.DescribeHeartbeat(p.currentMoment())})
	}
}

// writeQueue writes the queued lines.
func (p *progress) writeQueue() {
	p.mu.Lock()
	queue, dropped := p.queue, p.dropped
	p.queue, p.dropped = nil, 0
	if dropped > 0 {
		text := fmt.Sprintf("%d lines are missing here: this terminal accepted no output for too long", dropped)
		queue = append([]queuedLine{p.makeQueuedLine(report.Event{Type: report.NoteEvent, Text: text})}, queue...)
	}
	p.mu.Unlock()
	if len(queue) == 0 {
		return
	}
	lines := make([]string, 0, len(queue))
	for _, line := range queue {
		lines = append(lines, p.formatLine(line)...)
	}
	text := strings.Join(lines, "\n")
	if p.block != nil {
		p.block.writeAbove(text)
		return
	}
	p.clear()
	fmt.Fprintln(p.w, text)
}

// redraw redraws the line or the view below the lines.
func (p *progress) redraw() {
	p.mu.Lock()
	last, live, changed := p.currentMoment(), p.live, p.changed
	p.changed = false
	p.mu.Unlock()
	switch {
	case last.Status.Group == "":
	case p.mode == "tty":
		p.drawLine(report.DescribeHeartbeat(last))
	case p.mode == "live" && (changed || time.Since(p.drawnAt) >= time.Second):
		p.drawnAt = time.Now()
		live.At, live.TimeLeft = last.At, last.TimeLeft
		width, height := p.block.size()
		p.block.draw(report.LiveLines(&live, report.Options{Width: width, Color: p.color}, height-1))
	}
}

// currentMoment returns the last moment with the current time and the time that is left now.
func (p *progress) currentMoment() report.Moment {
	now := p.last
	now.At = p.now()
	now.TimeLeft = p.rest.CountedFrom(now.At)
	return now
}

// clear erases the line or the view below the lines.
func (p *progress) clear() {
	if p.block != nil {
		p.block.clear()
	}
	p.clearLine()
}

// Close implements Display. It returns when all lines are written, which may take long on a blocked terminal. Call it
// after releasing the lease.
func (p *progress) Close() {
	close(p.stop)
	<-p.ended
	if p.stderr != nil {
		p.stderr.divert(nil)
		p.writeQueue() // lines that were queued after the goroutine ended
	}
}

// showText shows a text that another part of the process wrote to stderr.
func (p *progress) showText(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for line := range strings.Lines(text) {
		if line = sanitizeLine(line); line != "" {
			p.addLine(queuedLine{text: line})
		}
	}
}

// SetRun implements Display.
func (p *progress) SetRun(run string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.run = run
}

// makeMoment returns the state after a step, at a time.
func makeMoment(at time.Time, step *upgrade.Step) report.Moment {
	return report.Moment{At: at, Status: step.Status, Blocked: step.Blocked, Sent: step.Actions, Stopping: step.Record.Stopping}
}

// ShowStep implements Display.
func (p *progress) ShowStep(step upgrade.Step) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := makeMoment(p.now(), &step).WithWaitsReportedBy(p.last)
	if now.Stopping != "" { // the forecast does not apply to an upgrade that stops
		p.rest = report.TimeLeft{}
	}
	now.TimeLeft = p.rest.CountedFrom(now.At)
	before := p.last
	p.last = now // addEvent uses the counts of p.last
	for _, event := range report.DescribeChanges(before, now) {
		p.addEvent(event)
	}
	if stopping := step.Record.Stopping; stopping != "" && before.Status.Group != "" && !p.stopping {
		p.stopping = true
		p.addEvent(report.Event{Type: report.PhaseEvent, State: string(stopping), Text: "stopping: " + string(stopping)})
	}
	if p.mode == "live" {
		p.changed = true
		p.live.Update(now, &step.Record, upgrade.ListImpacts(&step.Record))
	}
}

// ShowRest implements Display. It writes a line if more than the times has changed.
func (p *progress) ShowRest(rest report.TimeLeft) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last.Stopping != "" {
		return
	}
	if event, differs := report.DescribeTimeLeftChange(&p.rest, &rest, p.last.Status.Manager); differs {
		p.addEvent(event)
	}
	p.rest = rest
}

// ShowCloudReading implements Display. It shows each error and each unreadable part of the group once.
func (p *progress) ShowCloudReading(group *nodegroup.Group, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != p.cloud && text != "" {
		p.addEvent(report.Event{Type: report.WaitingEvent, Text: "the cloud does not answer; its last answer is used: " + text})
	}
	p.cloud = text
	for _, unread := range group.Unread {
		if !slices.Contains(p.unread, unread) {
			p.unread = append(p.unread, unread)
			p.addEvent(report.Event{Type: report.NoteEvent, Text: unread})
		}
	}
}

// ShowBalancerError implements Display. It shows each error once.
func (p *progress) ShowBalancerError(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil && err.Error() != p.balancers {
		p.balancers = err.Error()
		p.addEvent(report.Event{Type: report.WaitingEvent, Text: "load balancers cannot be read; their last answer is used: " + p.balancers})
	}
}

// ShowOutage implements Display. It shows each error once until the cluster accepts a change.
func (p *progress) ShowOutage(detail string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if detail == "" {
		clear(p.outages)
		return
	}
	if !p.outages[detail] {
		p.addEvent(report.Event{Type: report.WaitingEvent, Text: "nothing can be done in the cluster now; the upgrade tries again: " + detail})
	}
	if p.outages == nil {
		p.outages = map[string]bool{}
	}
	p.outages[detail] = true
}

// ShowNote implements Display.
func (p *progress) ShowNote(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.addEvent(report.Event{Type: report.NoteEvent, Text: text})
}

// addEvent queues the line of an event.
func (p *progress) addEvent(event report.Event) {
	p.lastLineAt = time.Now()
	if p.mode != "quiet" {
		p.addLine(p.makeQueuedLine(event))
	}
}

// makeQueuedLine returns the line for an event that happens now.
func (p *progress) makeQueuedLine(event report.Event) queuedLine {
	now := time.Now()
	if p.mode != "json" {
		return queuedLine{at: now, event: event}
	}
	var text strings.Builder
	_ = writeEvent(&text, report.NewEventLine(now, p.group, p.run, event, &p.last.Status)) // encoding a line cannot fail
	return queuedLine{text: strings.TrimSuffix(text.String(), "\n")}
}

// addLine queues a line. If the queue is full, it drops the oldest line.
func (p *progress) addLine(line queuedLine) {
	if len(p.queue) >= queueLimit {
		p.queue = p.queue[1:]
		p.dropped++
	}
	p.queue = append(p.queue, line)
	select {
	case p.wake <- struct{}{}:
	default: // the goroutine will wake up already
	}
}

// formatLine returns the line as one or more lines of the terminal.
func (p *progress) formatLine(line queuedLine) []string {
	if line.text != "" {
		return []string{line.text}
	}
	const indent = len(time.TimeOnly) + 2
	lines := []string{line.at.Format(time.TimeOnly) + "  " + sanitizeLine(line.event.Text)}
	if p.mode != "plain" { // other modes are for terminals
		lines = report.WrapIndented(lines[0], terminalWidth(p.terminal), indent)
	}
	for i, text := range lines {
		lines[i] = text[:indent] + p.colorText(line.event, text[indent:])
	}
	return lines
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

// lineBreak matches line breaks and tabs with the spaces around them. It does not match other spaces, because a quoted
// name may contain several.
var lineBreak = regexp.MustCompile(` *[\t\n\v\f\r]\s*`)

// sanitizeLine returns the text as one line without control characters. Parts of the text may come from the cluster.
func sanitizeLine(text string) string {
	return printers.EscapeTerminal(lineBreak.ReplaceAllString(strings.TrimSpace(text), " "))
}

// colorText colours an event's text if the event needs attention.
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

// drawLine draws the line that shows the current moment. A line that wraps could not be erased, so drawLine cuts it to
// the terminal's width. The last cell stays free, because some terminals wrap after it.
func (p *progress) drawLine(text string) {
	p.clearLine()
	fmt.Fprint(p.w, report.TruncateLine(sanitizeLine(text), terminalWidth(p.terminal)-1))
	p.drawn = true
}

// clearLine erases the line of drawLine.
func (p *progress) clearLine() {
	if p.drawn {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.drawn = false
	}
}
