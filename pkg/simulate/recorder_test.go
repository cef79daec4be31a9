package simulate

import (
	"testing"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// Three nodes reach their drain timeout together. Only the node in the error message is reported as stuck.
func TestOnlyTheNodeInTheErrorIsStuck(t *testing.T) {
	for range 20 { // the order of a map is random
		r := newRecorder(midnight, 3, 3)
		rec := record.Record{Stopping: record.PodEvictionFailure, Nodes: map[string]record.NodeRecord{}}
		rec.Message = `draining node "old-b": it still has pods after 15m0s`
		for _, name := range []string{"old-a", "old-b", "old-c"} {
			r.open[name] = &nodeRecord{NodeForecast: NodeForecast{Name: name}, waits: "pods of " + name}
			rec.Nodes[name] = record.NodeRecord{State: record.NodeDraining, Deadline: midnight.Add(-time.Second)}
		}
		r.recordFailure(&rec)
		for name, n := range r.open {
			want := ""
			if name == "old-b" {
				want = "it still has pods after 15m0s"
			}
			if n.Stuck != want {
				t.Fatalf("node %s is stuck: %q, want %q", name, n.Stuck, want)
			}
		}
		if r.ending.Node != "old-b" || r.ending.Blocker != "pods of old-b" {
			t.Fatalf("it fails at node %q, for %q", r.ending.Node, r.ending.Blocker)
		}
	}
}
