package gkecloud_test

import (
	"testing"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud/gke"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/gkecloud"
)

// TestRollbackAfterPauseGoesToVersionOfItsTarget: GKE takes back the last upgrade of a pool. If an upgrade was paused and resumed, the
// last one may have begun with the new version.
func TestRollbackAfterPauseGoesToVersionOfItsTarget(t *testing.T) {
	for name, options := range map[string]gkecloud.Options{
		"the pool shows the new version": {}, "the pool shows the old version": {KeepsOldVersion: true}, "without a history": {HidesTargets: true},
	} {
		for _, pauses := range []int{1, 2} {
			t.Run(name, func(t *testing.T) {
				standIn, provider, nodes := open(t, options)
				before := observe(t, provider, gkecloud.NodeVersion).Wanted
				for range pauses {
					pauseUpgrade(t, standIn, provider, nodes)
				}
				back := nodegroup.Delegate{To: before, Rollback: true, Width: nodegroup.Width{MaxSurge: 1}, Etag: observe(t, provider, gkecloud.NodeVersion).Managed.Etag}
				if err := provider.Do(t.Context(), "workers", back); err != nil {
					t.Fatal(err)
				}
				nodes.release()
				if op := awaitState(t, provider, nodegroup.OperationSucceeded).Managed.Operation; op.To.ID != gkecloud.NodeVersion {
					t.Errorf("the operation goes to %s", op.To.ID)
				}
				for _, node := range nodes.list() {
					if node.Status.NodeInfo.KubeletVersion != "v"+gkecloud.NodeVersion {
						t.Errorf("node %s has %s", node.Name, node.Status.NodeInfo.KubeletVersion)
					}
				}
			})
		}
	}
}

// pauseUpgrade starts an upgrade and cancels it. The node that it has begun is finished.
func pauseUpgrade(t *testing.T, standIn *gkecloud.Cloud, provider *gke.Provider, nodes *memory) {
	t.Helper()
	id, err := standIn.Upgrade("workers", "1.34.3-gke.1200")
	if err != nil {
		t.Fatal(err)
	}
	if err := provider.Do(t.Context(), "workers", nodegroup.CancelOperation{Operation: id}); err != nil {
		t.Fatal(err)
	}
	nodes.release()
	awaitState(t, provider, nodegroup.OperationCancelled)
	nodes.keep()
}
