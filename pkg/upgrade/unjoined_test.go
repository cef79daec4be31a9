package upgrade_test

import (
	"strings"
	"testing"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// TestDelegateSaysWhyNodesAreMissing: during the cloud's upgrade, some machines cannot be launched, and one never
// joins. The progress lines and the last line give both reasons (EKS E33, E34).
func TestDelegateSaysWhyNodesAreMissing(t *testing.T) {
	const capacity = "We currently do not have sufficient m5.xlarge capacity"
	bare := current("new-a-1")
	bare.Node = nil
	s := following(t, old("old-a-1"), bare)
	id := bare.Instance.ID
	if step := s.next(); strings.Contains(step.Status.Waiting, id) {
		t.Errorf("a machine that has just been launched is blamed: %q", step.Status.Waiting)
	}
	s.Group.LaunchFailure = nodegroup.LaunchFailure{At: s.Now, Message: capacity}
	s.pass(5 * time.Minute)
	if waiting := s.next().Status.Waiting; !strings.Contains(waiting, capacity) || !strings.Contains(waiting, id) {
		t.Errorf("it waits for %q", waiting)
	}
	s.remove(bare.Instance.ID)
	s.Group.LaunchFailure = nodegroup.LaunchFailure{} // the group lacks no machine any more
	op := s.operate("u1", nodegroup.OperationFailed, s.Group.Wanted)
	op.Cause, op.Failure = nodegroup.LaunchFailed, "new nodes did not come up"
	step := s.next()
	for range 5 {
		if step.Finished {
			break
		}
		step = s.next()
	}
	if m := step.Record.Message; step.Record.Result != record.NodeCreationFailure || !strings.Contains(m, capacity) || !strings.Contains(m, id) {
		t.Errorf("it ended %q: %s", step.Record.Result, m)
	}
}
