package cluster

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// TestServerClockFollowsDateOfAPIServer uses an API server whose clock differs from this machine's. The server's clock counts. Differences
// that come from truncated seconds and slow answers are ignored.
func TestServerClockFollowsDateOfAPIServer(t *testing.T) {
	start := time.Now()
	after := start.Add
	type heard struct{ date, sent, received time.Duration }
	cases := map[string]struct {
		heard []heard
		want  time.Duration // at 10 s
	}{
		"no answer":                        {nil, 10 * time.Second},
		"a right clock":                    {[]heard{{0, 0, 20 * time.Millisecond}, {5 * time.Second, 5900 * time.Millisecond, 6 * time.Second}}, 10 * time.Second},
		"an answer that took long":         {[]heard{{0, 0, 9 * time.Second}, {9 * time.Second, 0, 9 * time.Second}}, 10 * time.Second},
		"a clock that is behind":           {[]heard{{time.Hour, 0, 0}}, time.Hour + 10*time.Second},
		"a clock that is ahead":            {[]heard{{-time.Hour, 0, 0}}, -time.Hour + 11*time.Second},
		"a machine that slept":             {[]heard{{0, 0, 0}, {time.Hour, time.Second, time.Second}}, time.Hour + 9*time.Second},
		"one that is corrected but once":   {[]heard{{time.Hour, 0, 0}, {time.Hour + 4*time.Second, 5 * time.Second, 5 * time.Second}}, time.Hour + 10*time.Second},
		"two servers that differ a little": {[]heard{{0, 0, 0}, {2 * time.Second, 2 * time.Second, 2 * time.Second}, {time.Second, 3 * time.Second, 3 * time.Second}}, 10 * time.Second},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			clock := &serverClock{server: start.Round(0), local: start}
			for _, h := range c.heard {
				clock.observe(after(h.date), after(h.sent), after(h.received))
			}
			if got := clock.at(after(10 * time.Second)).Sub(start.Round(0)); got.Round(time.Millisecond) != c.want {
				t.Errorf("after 10 s it shows %s, want %s", got, c.want)
			}
		})
	}
}

// TestConnectionUsesServerTime uses a server whose clock is first an hour ahead, and then an hour behind.
func TestConnectionUsesServerTime(t *testing.T) {
	ahead := time.Hour
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Date", time.Now().Add(ahead).UTC().Format(http.TimeFormat))
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"major":"1","minor":"36","gitVersion":"v1.36.3"}`)
	}))
	defer server.Close()
	c, err := Connect(t.Context(), &rest.Config{Host: server.URL}, "test", io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	for _, ahead = range []time.Duration{time.Hour, -time.Hour} {
		_, _ = c.Client.CoreV1().Nodes().Get(t.Context(), "n", metav1.GetOptions{}) // the answer is not a node, but has a date
		if off := time.Until(c.Now()) - ahead; off.Abs() > 5*time.Second {
			t.Errorf("with a server that is %s ahead it is off by %s", ahead, off)
		}
	}
}
