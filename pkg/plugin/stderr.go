package plugin

import (
	"io"
	"sync"
)

// Stderr is the stderr of a process. All parts of the process write to it: the commands, the Kubernetes libraries and the
// process's signal handler. While a [Display] is open, the display shows these texts as well: a live view stays whole, and
// no writer waits for a terminal that takes no output.
type Stderr struct {
	w io.Writer

	mu sync.Mutex
	// show takes each text while a display is open, and returns at once; nil otherwise.
	show func(text string)
}

// NewStderr returns a Stderr that writes to w. It returns w if that is one.
func NewStderr(w io.Writer) *Stderr {
	if s, is := w.(*Stderr); is {
		return s
	}
	return &Stderr{w: w}
}

// Write implements io.Writer. While a display is open, it returns no error.
func (s *Stderr) Write(text []byte) (int, error) {
	if s.passToDisplay(string(text)) {
		return len(text), nil
	}
	return s.w.Write(text)
}

// passToDisplay gives the text to the open display. It returns false if none is open.
func (s *Stderr) passToDisplay(text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.show != nil {
		s.show(text)
	}
	return s.show != nil
}

// divert passes all later texts to show, or to the writer if show is nil. When it returns, no earlier show is running.
func (s *Stderr) divert(show func(text string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.show = show
}

// fileOf returns the writer that a Stderr writes to, and other writers as they are.
func fileOf(w io.Writer) io.Writer {
	if s, is := w.(*Stderr); is {
		return s.w
	}
	return w
}
