package upgrade_test

import (
	"testing"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// A group at its minimum cannot shrink and replaces a drained node by itself (EKS E09, E50). A group above its minimum
// shrinks.
func TestTerminationAtGroupMinimumDoesNotShrink(t *testing.T) {
	for name, c := range map[string]struct {
		smallest int
		shrink   bool
	}{"at the minimum": {2, false}, "above it": {1, true}} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, old("old-a-1"), current("cur-a-1"))
			s.Request.Settle, s.Group.Min = duration(0), c.smallest
			s.do(s.next().Actions...)
			s.do(s.next().Actions...)
			if got := action[nodegroup.Terminate](t, s.next()); got.Shrink != c.shrink {
				t.Errorf("shrink %t, want %t", got.Shrink, c.shrink)
			}
		})
	}
}

// A reading may be older than a raise of the minimum. If the cloud refuses to shrink the group, the same instance is
// terminated without shrinking, and the ledger is corrected.
func TestRefusedShrinkCorrectsTheLedger(t *testing.T) {
	s, terminate := removing(t, true)
	s.answer(terminate, nodegroup.OutcomeExhausted, "desiredSize equals minSize")
	if step := s.next(); step.Record.Stopping != "" || !step.Persist || step.Record.Ledger.Contribution() != 0 {
		t.Fatalf("stopping %q, persist %t, contribution %d", step.Record.Stopping, step.Persist, step.Record.Ledger.Contribution())
	}
	s.pass(30 * time.Second)
	again := action[nodegroup.Terminate](t, s.next())
	if again.Shrink || again.Instance != terminate.Instance {
		t.Fatalf("asked for %+v", again)
	}
	s.do(again)
	s.remove("old-a-1")
	s.add(current("new-a-1"))
	if step := s.rest(); step.Record.Result != record.Succeeded || step.Record.Ledger.Contribution() != 0 {
		t.Errorf("result %q, contribution %d", step.Record.Result, step.Record.Ledger.Contribution())
	}
}

// Added nodes are not returned below the group's minimum.
func TestAddedNodesAreKeptIfGroupIsAtItsMinimum(t *testing.T) {
	for name, c := range map[string]struct{ smallest, returned int }{"at the minimum": {2, 0}, "above it": {1, 1}} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, old("old-a-1"))
			s.Request.Surge, s.Request.MaxUnavailable = 1, 1
			s.do(action[nodegroup.AddCapacity](t, s.next()))
			added := current("new-a-1")
			delete(added.Node.Labels, "image") // it never becomes usable
			s.add(added)
			s.Group.Min = c.smallest
			s.next()
			s.pass(20*time.Minute + time.Second)
			s.next()
			s.pass(time.Second)
			if got := actionsOf(s.next(), "terminate"); len(got) != c.returned {
				t.Errorf("terminates %v, want %d", got, c.returned)
			}
		})
	}
}
