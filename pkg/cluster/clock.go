package cluster

import (
	"net/http"
	"sync"
	"time"
)

// clockSlack is how far the API server's clock may differ from ours before ours is corrected. The
// dates of answers are truncated to the second, and the clocks of several API servers may differ by
// a second.
const clockSlack = 2 * time.Second

// serverClock returns the API server's time. Between answers it uses this machine's monotonic
// clock, so changes of the wall clock do not matter. The monotonic clock stops while the machine
// sleeps; the first answer after that corrects it.
type serverClock struct {
	mu sync.Mutex
	// server is the server's time when the local time was local.
	server, local time.Time
}

func newServerClock() *serverClock {
	now := time.Now()
	return &serverClock{server: now.Round(0), local: now}
}

// Now returns the API server's time, accurate to a few seconds.
func (c *serverClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at(time.Now())
}

// at returns the server's time at a local time that has a monotonic reading.
func (c *serverClock) at(local time.Time) time.Time { return c.server.Add(local.Sub(c.local)) }

// observe corrects the clock by the date of an answer. The server wrote the date between the two
// local times and truncated it to the second. The correction is the smallest that makes this true.
func (c *serverClock) observe(date, sent, received time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	behind := date.Sub(c.at(received))
	ahead := c.at(sent).Sub(date.Add(time.Second))
	switch {
	case behind > clockSlack:
		c.server, c.local = date, received
	case ahead > clockSlack:
		c.server, c.local = date.Add(time.Second), sent
	}
}

// observeAnswers returns a transport that corrects the clock with each answer.
func (c *serverClock) observeAnswers(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		sent := time.Now()
		response, err := next.RoundTrip(r)
		if err != nil {
			return response, err
		}
		if date, unread := http.ParseTime(response.Header.Get("Date")); unread == nil {
			c.observe(date, sent, time.Now())
		}
		return response, nil
	})
}
