package plugin

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// serveAhead makes the commands of this test use the server, whose clock is ahead of this machine's.
func (s *apiServer) serveAhead(t *testing.T, ahead time.Duration) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Date", time.Now().Add(ahead).UTC().Format(http.TimeFormat))
		s.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	kubeconfig(t, server.URL)
}

// TestSoakEndsByServerClock sets the end of a soak one minute before or after the server's time. Whether the soak has
// ended must not depend on this machine's clock.
func TestSoakEndsByServerClock(t *testing.T) {
	for _, ahead := range []time.Duration{0, time.Hour, -time.Hour} {
		for left, says := range map[time.Duration]string{time.Minute: "to continue after that time, run kubectl nodeupgrade resume blue", -time.Minute: "a question needs a terminal"} {
			t.Run(ahead.String()+" "+left.String(), func(t *testing.T) {
				s := twoGroups()
				s.storeRecord(t, "blue", inDrain(setSoaking, func(r *record.Record) {
					r.Result, r.Nodes = record.Waiting, nil
					r.Soak.Until = time.Now().Add(ahead + left)
				}))
				s.withLeases()
				s.serveAhead(t, ahead)
				_, stderr, code := invoke(t, "resume", "blue")
				if !strings.Contains(stderr, says) {
					t.Errorf("exit code %d, stderr %q, want it to say %q", code, stderr, says)
				}
			})
		}
	}
}
