package plugin

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/build"
)

// TestGroupWithTooLargeRecordIsRejected checks that a rejected upgrade writes nothing. The commands check and status work
// for the same group.
func TestGroupWithTooLargeRecordIsRejected(t *testing.T) {
	s := twoGroups()
	for i := range 2500 {
		node := build.Node(fmt.Sprintf("ip-10-%03d-%03d.eu-central-1.compute.internal", i>>8, i&255), "a")
		node.Labels["kops.k8s.io/instancegroup"], node.Labels["image"] = "blue", "v1"
		s.nodes = append(s.nodes, *node)
	}
	s.serve(t)
	for _, flag := range []string{"--yes", "--dry-run"} {
		_, stderr, code := invoke(t, "blue", "--current=image=v2", flag)
		if code != exitUsage || !strings.Contains(stderr, "recording an upgrade of 2501 nodes: the record may need ") || !strings.Contains(stderr, "select fewer nodes with -l") {
			t.Errorf("%s ended with %d: %s", flag, code, stderr)
		}
	}
	_, stderr, code := invoke(t, "simulate", "blue", "--current=image=v2", "-f", s.writeDump(t))
	if code != exitUsage || !strings.Contains(stderr, "recording an upgrade of 2501 nodes") {
		t.Errorf("simulate ended with %d: %s", code, stderr)
	}
	if sent := s.sentRequests(); len(sent) > 0 {
		t.Errorf("requests for writes were sent: %q", sent)
	}
	if _, stderr, _ := invoke(t, "check", "blue", "--current=image=v2"); strings.Contains(stderr, "recording") {
		t.Errorf("the check is refused: %s", stderr)
	}
}
