package upgrade_test

import (
	"strings"
	"testing"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// A drained node whose machine is gone stays, because there is no machine to terminate. The last line names the
// node and the command that deletes it.
func TestNodeWithoutMachineIsNamed(t *testing.T) {
	s := newScene(t, old("old-a-1"), current("cur-a-1"))
	s.Request.Settle, s.Group.Desired = duration(0), 1
	s.at("old-a-1").Instance = nodegroup.Instance{}
	step := s.rest()
	for range 5 {
		s.pass(time.Minute)
		step = s.rest()
	}
	if step.Record.Result != record.Succeeded || !strings.HasSuffix(step.Record.Message, "kubectl delete node old-a-1") {
		t.Errorf("result %q: %q", step.Record.Result, step.Record.Message)
	}
}
