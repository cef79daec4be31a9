package plugin

import (
	"io"
	"sync"
)

// Stderr is the stderr of a process. The commands, the Kubernetes libraries and the signal handler write to it. While a
// [Display] is open, the display shows these texts. So they do not damage a live view, and writers do not wait for a
// terminal that accepts no output.
type Stderr struct {
	w io.Writer

	mu sync.Mutex
	// show is called with each text while a display is open, and returns immediately; nil otherwise.
	show func(text string)
}

// NewStderr returns a Stderr that writes to w. If w is a Stderr, it returns w.
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

// passToDisplay passes the text to the open display. It returns false if none is open.
func (s *Stderr) passToDisplay(text string) (passed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.show != nil {
		s.show(text)
	}
	return s.show != nil
}

// divert passes all later texts to show, or to the writer if show is nil. When it returns, no call of an earlier show
// is running.
func (s *Stderr) divert(show func(text string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.show = show
}

// fileOf returns the writer behind a Stderr. It returns other writers unchanged.
func fileOf(w io.Writer) io.Writer {
	if s, is := w.(*Stderr); is {
		return s.w
	}
	return w
}
