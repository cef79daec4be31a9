package container

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// secret is the access token of all tests. No error may contain it.
const secret = "opaque-token-0123456789"

// staticToken is a Token that always has the same value. An empty one adds no header.
type staticToken string

func (s staticToken) Wrap(next http.RoundTripper) (http.RoundTripper, error) {
	return roundTripFunc(func(r *http.Request) (*http.Response, error) {
		if s != "" {
			r.Header.Set("Authorization", "Bearer "+string(s))
		}
		return next.RoundTrip(r)
	}), nil
}

func (s staticToken) Remedy() string { return "sign in" }

type roundTripFunc func(*http.Request) (*http.Response, error)

func (f roundTripFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// testClock is a clock whose sleeps end at once.
type testClock struct {
	time  time.Time
	slept []time.Duration
}

func (c *testClock) now() time.Time { return c.time }

func (c *testClock) sleep(ctx context.Context, d time.Duration) error {
	c.slept = append(c.slept, d)
	c.time = c.time.Add(d)
	return ctx.Err()
}

// newTestClient returns a client of a TLS server with the handler.
func newTestClient(t *testing.T, handler http.HandlerFunc) *Client {
	t.Helper()
	client, _ := newClockedClient(t, handler)
	return client
}

// newClockedClient returns a client of a TLS server with the handler, and the clock of its retries.
func newClockedClient(t *testing.T, handler http.HandlerFunc) (*Client, *testClock) {
	t.Helper()
	server := httptest.NewTLSServer(handler)
	t.Cleanup(server.Close)
	clock := &testClock{time: time.Date(2026, 10, 1, 12, 0, 0, 0, time.UTC)}
	client, err := New(Options{
		Token: staticToken(secret), Endpoint: server.URL, UserAgent: "test/1", Transport: server.Client().Transport,
		Now: clock.now, Sleep: clock.sleep,
	})
	if err != nil {
		t.Fatal(err)
	}
	return client, clock
}

func testPool() PoolName {
	return PoolName{ClusterName: ClusterName{Project: "acme", Location: "europe-west1", Cluster: "prod"}, Pool: "web"}
}
