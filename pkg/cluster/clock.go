package cluster

import (
	"net/http"
	"sync"
	"time"
)

// clockSlack is how far the API server's clock may be from ours until ours is corrected: dates of
// answers are cut to the second, and several API servers do not agree to the second.
const clockSlack = 2 * time.Second

// serverClock tells the API server's time. From one answer to the next it goes on by this machine's
// monotonic clock, so that it does not matter when the wall clock is set. The monotonic clock of a
// machine that sleeps stops: the first answer afterwards corrects that.
type serverClock struct {
	mu sync.Mutex
	// server is the server's time at the local time.
	server, local time.Time
}

func newServerClock() *serverClock {
	now := time.Now()
	return &serverClock{server: now.Round(0), local: now}
}

// Now returns the API server's time, as far as its answers tell: to a few seconds.
func (c *serverClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at(time.Now())
}

// at returns the server's time at a local time that has a monotonic reading.
func (c *serverClock) at(local time.Time) time.Time { return c.server.Add(local.Sub(c.local)) }

// observe corrects the clock by the date of an answer: it was written between the two local times, and
// is cut to the second. The correction is the smallest that makes this true.
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

// observeAnswers is a transport that hears what time it is from each answer.
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
