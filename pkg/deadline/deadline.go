// Package deadline prevents requests from being sent after their deadline. The end of a context
// cancels a request. But when a process continues after it was halted, or a machine wakes up, many
// timers fire together, and the request may be sent before its own timer fires. So this package
// checks the clocks again before a request is passed to its connection, and again before its body
// is read. Opening the connection may take time in between. A request without its body changes
// nothing.
package deadline

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"
)

// Doer is an HTTP client.
type Doer interface {
	Do(*http.Request) (*http.Response, error)
}

// Client returns a client that sends requests through next before the deadline of their context.
// Later requests fail with an error that is context.DeadlineExceeded.
func Client(next Doer) Doer { return client{next} }

// Transport returns a transport that does the same.
func Transport(next http.RoundTripper) http.RoundTripper { return transport{next} }

type client struct{ next Doer }

// Do implements Doer.
func (c client) Do(r *http.Request) (*http.Response, error) { return sendBeforeDeadline(r, c.next.Do) }

type transport struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	return sendBeforeDeadline(r, t.next.RoundTrip)
}

// WrappedRoundTripper returns the inner transport, which client-go looks for (apimachinery,
// net/http.go).
func (t transport) WrappedRoundTripper() http.RoundTripper { return t.next }

func sendBeforeDeadline(r *http.Request, send func(*http.Request) (*http.Response, error)) (*http.Response, error) {
	until, limited := r.Context().Deadline()
	if !limited {
		return send(r)
	}
	if err := deadlineError(until); err != nil {
		if r.Body != nil {
			_ = r.Body.Close() // the transport does not get it, so it cannot close it
		}
		return nil, err
	}
	if r.Body == nil || r.Body == http.NoBody {
		return send(r)
	}
	limitedTo := *r // a transport must not change the request
	limitedTo.Body = body{r.Body, until}
	if again := r.GetBody; again != nil {
		limitedTo.GetBody = func() (io.ReadCloser, error) {
			b, err := again()
			return body{b, until}, err
		}
	}
	return send(&limitedTo)
}

// body is a request body that cannot be read after a time.
type body struct {
	io.ReadCloser
	until time.Time
}

// Read implements io.Reader.
func (b body) Read(p []byte) (int, error) {
	if err := deadlineError(b.until); err != nil {
		return 0, err
	}
	return b.ReadCloser.Read(p)
}

// deadlineError returns an error if the time has passed by the wall clock or the monotonic clock.
// While a machine sleeps, only the wall clock runs. If the wall clock is set back, only the
// monotonic clock is right.
func deadlineError(until time.Time) error {
	now := time.Now()
	if now.Before(until) && now.Round(0).Before(until.Round(0)) {
		return nil
	}
	late := max(now.Sub(until), now.Round(0).Sub(until.Round(0))) // of the clock that has passed it
	return fmt.Errorf("not sent: its time was over %s ago: %w", late.Round(time.Millisecond), context.DeadlineExceeded)
}
