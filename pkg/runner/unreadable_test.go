package runner

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodemark"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// TestUnreadableNodeAnnotationEndsTheUpgrade uses a node with an annotation that this program never writes. Added capacity must be removed
// immediately, and the message must name the node and the remedy.
func TestUnreadableNodeAnnotationEndsTheUpgrade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, 2)
		s.nodes["old-1"].Annotations = map[string]string{nodemark.AnnotationNodeBaseline: "{"}
		s.onDo = func(_ context.Context, action nodegroup.Action) error {
			if a, ok := action.(nodemark.NodeAction); ok {
				s.mu.Lock()
				defer s.mu.Unlock()
				return a.Apply(s.nodes[a.Target().Node].DeepCopy(), "r1", nodegroup.FenceTaint("aws"))
			}
			return nil
		}
		rec, err := s.runner(surge(1)).Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		const remedy = "kubectl annotate node old-1 kubectl-nodeupgrade/prev-"
		if rec.Result != record.Failed || !strings.Contains(rec.Message, remedy) {
			t.Errorf("result %q: %s", rec.Result, rec.Message)
		}
		if took := time.Since(s.began); took > 2*time.Minute {
			t.Errorf("it took %s", took)
		}
	})
}
