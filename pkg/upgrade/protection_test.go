package upgrade_test

import (
	"strings"
	"testing"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// An instance that a user protects is not terminated, whether its drain has begun or not. An instance that is
// terminating already ends.
func TestProtectedInstanceIsNotTerminated(t *testing.T) {
	cases := map[string]struct {
		change func(*scene)
		want   record.Result
	}{
		"nobody does":     {func(*scene) {}, ""},
		"an outdated one": {func(s *scene) { s.at("old-b-1").Instance.Protected = true }, record.Paused},
		"a current one":   {func(s *scene) { s.add(current("new-a-1")); s.at("new-a-1").Instance.Protected = true }, ""},
		"one that leaves": {func(s *scene) {
			m := s.at("old-b-1")
			m.Instance.Protected, m.Instance.State = true, nodegroup.InstanceLeaving
		}, ""},
		"one that was drained":      {func(s *scene) { s.started("old-b-1", record.NodeDraining).Instance.Protected = true }, record.Paused},
		"one that is being removed": {func(s *scene) { s.started("old-b-1", record.NodeRemoving).Instance.Protected = true }, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := roomMade(t)
			c.change(s)
			step := s.next()
			if got := step.Record; got.Stopping != c.want {
				t.Errorf("%q, want %q: %s", got.Stopping, c.want, got.Message)
			}
			if said := step.Record.Message; c.want == record.Paused && !strings.Contains(said, "protected instance i-old-b-1 (node old-b-1) against") {
				t.Errorf("it says %q", said)
			}
		})
	}
}

// started puts the member on record in a state.
func (s *scene) started(name string, state record.NodeState) *nodegroup.Member {
	m := s.at(name)
	s.Record.Nodes = map[string]record.NodeRecord{name: {
		Instance: m.Instance.ID, UID: m.Node.UID, Zone: m.Zone(), State: state, Batch: 1, Began: s.Now, Terminated: s.Now, Deadline: s.Now.Add(time.Hour),
	}}
	return m
}
