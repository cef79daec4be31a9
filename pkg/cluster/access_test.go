package cluster

import (
	"strings"
	"testing"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
)

// TestAbortNeedsNoEvictions holds an abort to the rights that it needs.
func TestAbortNeedsNoEvictions(t *testing.T) {
	request := upgrade.Request{OnTimeout: upgrade.Force}
	texts := func(evicts bool) string {
		var all []string
		for _, right := range listNeededRights(&request, evicts, "kube-system") {
			all = append(all, describeRight(&right))
		}
		return strings.Join(all, "; ")
	}
	for _, moves := range []string{"create pods/eviction", "delete pods"} {
		if on, undo := texts(true), texts(false); !strings.Contains(on, moves) || strings.Contains(undo, moves) || !strings.Contains(undo, "patch nodes") {
			t.Errorf("%s: an upgrade needs %q, an abort %q", moves, on, undo)
		}
	}
}
