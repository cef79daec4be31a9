// Package deadline keeps requests from leaving after their time. A context that ends cancels a
// request that is under way, but its timer is one of many that fire when a process continues that
// was halted, or a machine that slept: what was about to be sent may be sent first. So the clocks
// are asked once more where a request is handed to its connection, and again where its body is, for
// which a connection may have had to be opened. Without its body a request changes nothing.
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

// Client sends requests through next within the deadline of their context. Later ones fail with an
// error that is context.DeadlineExceeded.
func Client(next Doer) Doer { return client{next} }

// Transport does the same for a transport.
func Transport(next http.RoundTripper) http.RoundTripper { return transport{next} }

type client struct{ next Doer }

// Do implements Doer.
func (c client) Do(r *http.Request) (*http.Response, error) { return sendWithin(r, c.next.Do) }

type transport struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	return sendWithin(r, t.next.RoundTrip)
}

// WrappedRoundTripper is the transport beneath, which client-go looks for (apimachinery,
// net/http.go).
func (t transport) WrappedRoundTripper() http.RoundTripper { return t.next }

func sendWithin(r *http.Request, send func(*http.Request) (*http.Response, error)) (*http.Response, error) {
	until, limited := r.Context().Deadline()
	if !limited {
		return send(r)
	}
	if err := deadlineError(until); err != nil {
		if r.Body != nil {
			_ = r.Body.Close() // no one reads it
		}
		return nil, err
	}
	if r.Body == nil || r.Body == http.NoBody {
		return send(r)
	}
	limitedTo := *r // a transport leaves the request alone that it is given
	limitedTo.Body = body{r.Body, until}
	if again := r.GetBody; again != nil {
		limitedTo.GetBody = func() (io.ReadCloser, error) {
			b, err := again()
			return body{b, until}, err
		}
	}
	return send(&limitedTo)
}

// body is one that cannot be read after a time.
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

// deadlineError returns an error when a time has passed by either clock: while a machine sleeps
// only the wall clock keeps running, and of a wall clock that is set back only the monotonic one.
func deadlineError(until time.Time) error {
	now := time.Now()
	if now.Before(until) && now.Round(0).Before(until.Round(0)) {
		return nil
	}
	return fmt.Errorf("not sent: its time was over %s ago: %w", now.Sub(until).Round(time.Millisecond), context.DeadlineExceeded)
}
