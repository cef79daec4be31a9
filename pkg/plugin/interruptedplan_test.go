package plugin

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/report"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/ledger"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// interruptBetweenNodes changes the record to an interrupted upgrade without a cloud. Its first node was drained and removed,
// and the replacement has not come yet.
func interruptBetweenNodes(r *record.Record) {
	r.Version, r.Result, r.Ended = record.Version, record.Interrupted, time.Now().Add(-time.Minute)
	r.Total, r.Replaced, r.Begun = 2, 1, 1
	r.Request.WaitReplacement = true
	r.Nodes = map[string]record.NodeRecord{"b0": {UID: "b0", Zone: "a", State: record.NodeDrained, Batch: 1, Began: time.Now().Add(-10 * time.Minute)}}
	r.Ledger = ledger.FromBooks(ledger.Books{Known: []string{"b2"}, Zones: map[string]ledger.Zone{"": {Removed: 1}}})
}

// TestPlanWithoutCloudPredictsRestOfInterruptedUpgrade: the plan has no replacements, because the simulation adds no nodes in
// place of the user.
func TestPlanWithoutCloudPredictsRestOfInterruptedUpgrade(t *testing.T) {
	s := twoGroups()
	s.storeRecord(t, "blue", inDrain(interruptBetweenNodes))
	s.withLeases()
	s.serve(t)
	began := time.Now()
	stdout, stderr, code := invoke(t, "blue", "--current=image=v2", "--dry-run", "-o", "json")
	took := time.Since(began)
	var plan report.Plan
	if err := json.Unmarshal([]byte(stdout), &plan); err != nil || code != exitDone {
		t.Fatalf("exit code %d after %s, error %v, stderr %q", code, took, err, stderr)
	}
	if took > 5*time.Second {
		t.Errorf("it took %s", took)
	}
	if n := plan.Nodes; len(n) != 1 || n[0].Name != "b1" || n[0].End.Latest.Duration == 0 {
		t.Errorf("got nodes %+v", n)
	}
	if !strings.Contains(strings.Join(plan.Unread, "; "), "you bring no other node") {
		t.Errorf("it does not say that replacements are not waited for: %q", plan.Unread)
	}
}
