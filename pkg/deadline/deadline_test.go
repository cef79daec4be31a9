package deadline_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/deadline"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/build"
)

// TestExpiredRequestsAreNotSent sends requests whose deadline has passed, or passes while the
// connection is opened. None of them arrives completely.
func TestExpiredRequestsAreNotSent(t *testing.T) {
	cases := map[string]struct {
		left time.Duration // until the deadline
		slow bool          // opening the connection takes until the deadline
		wall bool          // only the wall clock reaches the deadline
		sent bool
	}{
		"in time":                           {left: time.Hour, sent: true},
		"in time by the wall clock":         {left: time.Hour, wall: true, sent: true},
		"late":                              {left: -time.Second},
		"late by the wall clock":            {left: -time.Second, wall: true},
		"late when the connection is there": {left: 100 * time.Millisecond, slow: true},
	}
	senders := map[string]func(*http.Transport) func(*http.Request) (*http.Response, error){
		"transport": func(next *http.Transport) func(*http.Request) (*http.Response, error) {
			return deadline.Transport(next).RoundTrip
		},
		"client": func(next *http.Transport) func(*http.Request) (*http.Response, error) {
			return deadline.Client(&http.Client{Transport: next}).Do
		},
	}
	for name, c := range cases {
		for by, sender := range senders {
			for _, version := range []string{"HTTP/1.1", "HTTP/2.0"} {
				t.Run(strings.Join([]string{name, by, version}, ", "), func(t *testing.T) {
					t.Parallel()
					end := time.Now().Add(c.left)
					s := listen(t, version)
					next := s.Client().Transport.(*http.Transport)
					next.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
						if c.slow {
							time.Sleep(time.Until(end))
						}
						return new(net.Dialer).DialContext(ctx, network, address)
					}
					if c.wall {
						end = end.Round(0)
					}
					r, err := http.NewRequestWithContext(build.Unnoticed(t.Context(), end), http.MethodPost, s.URL, strings.NewReader(text))
					if err != nil {
						t.Fatal(err)
					}
					response, err := sender(next)(r)
					if err == nil {
						response.Body.Close()
					}
					if whole := s.whole.Load() == 1; c.sent != whole || c.sent != (err == nil) {
						t.Errorf("it arrived whole: %t, and the error was %v", whole, err)
					}
					if !c.sent && !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("the error is no end of a deadline: %v", err)
					}
				})
			}
		}
	}
}

const text = "evict"

// listener counts the requests that arrive completely.
type listener struct {
	*httptest.Server
	whole atomic.Int32
}

func listen(t *testing.T, version string) *listener {
	t.Helper()
	l := &listener{}
	l.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.Proto != version {
			t.Errorf("it came by %s, want %s", r.Proto, version)
		}
		if got, err := io.ReadAll(r.Body); err == nil && string(got) == text {
			l.whole.Add(1)
		}
	}))
	l.EnableHTTP2 = version == "HTTP/2.0"
	l.StartTLS()
	t.Cleanup(l.Close)
	return l
}
