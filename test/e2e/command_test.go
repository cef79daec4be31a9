package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/report"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/fixture"
)

// commandLimit is the time limit for any step of a test. It is longer than the two minutes for which a late disruption controller
// may wrongly count a pod as disrupted (see deploy).
const commandLimit = 4 * time.Minute

// event is one line of --progress=json.
type event struct {
	Time  time.Time `json:"time"`
	Group string    `json:"group"`
	report.Event
	Counts *report.Counts `json:"counts"`
}

// progress is the stderr of a running command: events and other lines.
type progress struct {
	mu     sync.Mutex // guards the fields below
	rest   []byte
	events []event
	lines  []string
	closed bool
	news   chan struct{} // each new line closes this channel and replaces it; the end of stderr closes it for good
}

// Write implements io.Writer.
func (p *progress) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return 0, io.ErrClosedPipe // this closes the pipe
	}
	p.rest = append(p.rest, text...)
	for {
		line, rest, whole := bytes.Cut(p.rest, []byte("\n"))
		if !whole {
			return len(text), nil
		}
		var e event
		if json.Unmarshal(line, &e) == nil {
			p.events = append(p.events, e)
		} else {
			p.lines = append(p.lines, string(line))
		}
		p.rest = bytes.Clone(rest)
		close(p.news)
		p.news = make(chan struct{})
	}
}

// find returns the first wanted event at or after the index from. If there is none yet, news is closed when more lines arrive.
func (p *progress) find(from int, wanted func(event) bool) (found event, next int, ok bool, news <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := from; i < len(p.events); i++ {
		if wanted(p.events[i]) {
			return p.events[i], i + 1, true, p.news
		}
	}
	return event{}, len(p.events), false, p.news
}

// plainLines returns the lines that are not events.
func (p *progress) plainLines() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.lines...)
}

// output is a command's stdout. It may be read while the command runs.
type output struct {
	mu   sync.Mutex // guards the fields below
	text strings.Builder
}

// Write implements io.Writer.
func (o *output) Write(text []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(text)
}

// String returns the output so far.
func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// command is a running kubectl.
type command struct {
	t       *testing.T
	what    string
	process *fixture.Process
	out     output
	log     *progress
	seen    int
	ended   chan struct{}
	code    int
	err     error
}

func startKubectl(t *testing.T, s *fixture.Fixture, args ...string) *command {
	t.Helper()
	return startWithEnv(t, s, nil, args...)
}

// startWithEnv starts kubectl with env added to its environment.
func startWithEnv(t *testing.T, s *fixture.Fixture, env []string, args ...string) *command {
	t.Helper()
	c := &command{t: t, what: "kubectl " + strings.Join(args, " "), log: &progress{news: make(chan struct{})}, ended: make(chan struct{})}
	c.process = s.Start(t.Context(), &c.out, c.log, env, args...)
	go func() {
		defer close(c.ended)
		c.code, c.err = c.process.Wait()
	}()
	t.Cleanup(func() {
		<-c.ended // the process always ends, because the test's context ends first
		if t.Failed() {
			t.Logf("%s ended with %d\n%s", c.what, c.code, c.transcript())
		}
	})
	return c
}

// awaitEvent waits for the next wanted event. The test fails if the command exits first.
func (c *command) awaitEvent(what string, wanted func(event) bool) event {
	c.t.Helper()
	limit := time.NewTimer(commandLimit)
	defer limit.Stop()
	for {
		found, next, ok, news := c.log.find(c.seen, wanted)
		c.seen = next
		if ok {
			return found
		}
		select {
		case <-news:
		case <-c.ended:
			if _, _, ok, _ := c.log.find(c.seen, wanted); !ok {
				c.t.Fatalf("%s ended with %d before %s\n%s", c.what, c.code, what, c.transcript())
			}
		case <-limit.C:
			c.t.Fatalf("%s: waited in vain for %s within %s\n%s", c.what, what, commandLimit, c.transcript())
		}
	}
}

// interrupt sends the signal of Ctrl-C.
func (c *command) interrupt() {
	c.t.Helper()
	if err := c.process.Interrupt(); err != nil {
		c.t.Fatalf("interrupting %s: %v", c.what, err)
	}
}

// hangUp sends the signal of a closing terminal.
func (c *command) hangUp() {
	c.t.Helper()
	if err := c.process.HangUp(); err != nil {
		c.t.Fatalf("hanging up on %s: %v", c.what, err)
	}
}

// stopReading stops reading the command's stderr.
func (c *command) stopReading() {
	c.log.mu.Lock()
	defer c.log.mu.Unlock()
	c.log.closed = true
}

// awaitExit waits until the command exits, and fails the test if its exit code is not code.
func (c *command) awaitExit(code int) {
	c.t.Helper()
	c.awaitExitWithin(commandLimit, code)
}

// awaitExitWithin is like [command.awaitExit], with another time limit.
func (c *command) awaitExitWithin(limit time.Duration, code int) {
	c.t.Helper()
	select {
	case <-c.ended:
	case <-time.After(limit):
		c.t.Fatalf("%s has not ended within %s\n%s", c.what, limit, c.transcript())
	}
	if c.err != nil || c.code != code {
		c.t.Fatalf("%s ended with %d (%v), want %d\n%s", c.what, c.code, c.err, code, c.transcript())
	}
}

// errorLine returns the line that starts with "error: ". The test fails unless there is exactly one.
func (c *command) errorLine() string {
	c.t.Helper()
	found := errorLines(c.log.plainLines())
	if len(found) != 1 {
		c.t.Fatalf("%s wrote %d lines that start with \"error: \", want 1\n%s", c.what, len(found), c.transcript())
	}
	return found[0]
}

func errorLines(lines []string) []string {
	var found []string
	for _, line := range lines {
		if strings.HasPrefix(line, "error: ") {
			found = append(found, line)
		}
	}
	return found
}

// transcript returns the command's output: first stderr, then stdout.
func (c *command) transcript() string {
	c.log.mu.Lock()
	defer c.log.mu.Unlock()
	var b strings.Builder
	for _, e := range c.log.events {
		b.WriteString(e.Time.Format("15:04:05.000") + " " + string(e.Type) + ": " + e.Text + "\n")
	}
	for _, line := range c.log.lines {
		b.WriteString(line + "\n")
	}
	b.WriteString(c.out.String())
	return b.String()
}

// runKubectl runs kubectl and waits until it exits.
func runKubectl(t *testing.T, s *fixture.Fixture, args ...string) fixture.Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), commandLimit)
	defer cancel()
	result, err := s.Kubectl(ctx, args...)
	if err != nil {
		t.Fatalf("kubectl %s: %v", strings.Join(args, " "), err)
	}
	return result
}

// phaseBegan returns a function that reports whether an event says that the phase has begun.
func phaseBegan(name string) func(event) bool {
	return func(e event) bool { return e.Type == report.PhaseEvent && e.State == report.KebabCase(name) }
}

// nodeReached returns a function that reports whether an event says that a node has reached the state.
func nodeReached(state string) func(event) bool {
	return func(e event) bool { return e.Type == report.NodeEvent && e.State == report.KebabCase(state) }
}
