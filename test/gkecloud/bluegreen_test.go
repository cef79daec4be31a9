package gkecloud_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud/gke"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/gkecloud"
)

// openBlue starts a stand-in with a pool "blue" of two nodes, whose drained nodes are kept for an hour.
func openBlue(t *testing.T) (*gkecloud.Cloud, *gke.Provider, *memory) {
	t.Helper()
	standIn, provider, nodes := open(t, gkecloud.Options{})
	settings := map[string]any{"strategy": "BLUE_GREEN", "blueGreenSettings": map[string]any{
		"nodePoolSoakDuration": "3600s", "standardRolloutPolicy": map[string]any{"batchNodeCount": 2.0, "batchSoakDuration": "0s"},
	}}
	if err := standIn.AddPool(t.Context(), gkecloud.PoolSpec{Name: "blue", Zones: []string{"us-central1-a"}, Counts: []int{2}, Settings: settings}); err != nil {
		t.Fatal(err)
	}
	return standIn, provider, nodes
}

func observeBlue(t *testing.T, p *gke.Provider, to string) nodegroup.Group {
	t.Helper()
	group, err := p.Observe(t.Context(), cloud.Ref{Name: "blue", To: to})
	if err != nil {
		t.Fatal(err)
	}
	return group
}

// awaitBlue waits until the operation of the pool "blue" is as wanted.
func awaitBlue(t *testing.T, p *gke.Provider, wanted func(*nodegroup.Operation) bool) nodegroup.Operation {
	t.Helper()
	limit := time.Now().Add(20 * time.Second)
	for time.Now().Before(limit) {
		if op := observeBlue(t, p, "").Managed.Operation; wanted(&op) {
			return op
		}
	}
	t.Fatalf("the operation is %+v", observeBlue(t, p, "").Managed.Operation)
	return nodegroup.Operation{}
}

func isSoaking(op *nodegroup.Operation) bool { return !op.SoaksUntil.IsZero() }

// startBlue asks GKE to upgrade the pool "blue" by the pool's own strategy.
func startBlue(t *testing.T, p *gke.Provider) {
	t.Helper()
	group := observeBlue(t, p, "")
	if want := (nodegroup.Rollout{Strategy: "blue-green", Batch: nodegroup.Quantity{N: 2}, Soak: time.Hour}); group.Managed.Rollout != want {
		t.Errorf("the pool's strategy is %+v, want %+v", group.Managed.Rollout, want)
	}
	if err := p.Do(t.Context(), "blue", nodegroup.Delegate{To: group.Wanted, Etag: group.Managed.Etag}); err != nil {
		t.Fatal(err)
	}
}

// TestSoakIsShownAndEnded: the end of the soak is known, and a user can end it early (GKE G49, G52).
func TestSoakIsShownAndEnded(t *testing.T) {
	standIn, provider, nodes := openBlue(t)
	startBlue(t, provider)
	early := observeBlue(t, provider, "").Managed.Operation
	end := nodegroup.EndSoak{Operation: early.ID}
	if err := provider.Do(t.Context(), "blue", end); outcomeOf(err) != nodegroup.OutcomeMoved || isSoaking(&early) {
		t.Errorf("before the soak: %q: %v; %+v", outcomeOf(err), err, early)
	}
	nodes.release()
	op := awaitBlue(t, provider, isSoaking)
	if left := time.Until(op.SoaksUntil); left < 58*time.Minute || left > time.Hour || !strings.Contains(op.Stage, "soak") {
		t.Errorf("%s are left of the soak: %q", left, op.Stage)
	}
	if state, err := standIn.Pool("blue"); err != nil || len(state.Nodes) != 4 {
		t.Errorf("during the soak there are the nodes %v (%v)", state.Nodes, err)
	}
	if err := provider.Do(t.Context(), "blue", end); err != nil {
		t.Fatal(err)
	}
	awaitBlue(t, provider, func(op *nodegroup.Operation) bool { return op.State == nodegroup.OperationSucceeded })
	state, err := standIn.Pool("blue")
	for name, version := range state.Nodes {
		if version != "1.34.3-gke.1200" {
			t.Errorf("node %s has %s", name, version)
		}
	}
	if len(state.Nodes) != 2 || err != nil {
		t.Errorf("after the soak there are the nodes %v (%v)", state.Nodes, err)
	}
	if err := provider.Do(t.Context(), "blue", end); outcomeOf(err) != nodegroup.OutcomeMoved {
		t.Errorf("after the soak: %q: %v", outcomeOf(err), err)
	}
	if got := standIn.Writes(); !slices.Equal(got, []string{"PUT blue", "POST blue:completeUpgrade"}) {
		t.Errorf("GKE accepted %q", got)
	}
}

// TestRollbackInSoakKeepsOldNodes: GKE takes back an upgrade that soaks once its operation is cancelled (GKE G54, G56).
func TestRollbackInSoakKeepsOldNodes(t *testing.T) {
	standIn, provider, nodes := openBlue(t)
	before := observeBlue(t, provider, gkecloud.NodeVersion).Wanted
	startBlue(t, provider)
	nodes.release()
	op := awaitBlue(t, provider, isSoaking)
	if err := provider.Do(t.Context(), "blue", nodegroup.CancelOperation{Operation: op.ID}); err != nil {
		t.Fatal(err)
	}
	awaitBlue(t, provider, func(op *nodegroup.Operation) bool { return op.State == nodegroup.OperationCancelled })
	back := nodegroup.Delegate{To: before, Rollback: true, Etag: observeBlue(t, provider, gkecloud.NodeVersion).Managed.Etag}
	if err := provider.Do(t.Context(), "blue", back); err != nil {
		t.Fatal(err)
	}
	done := awaitBlue(t, provider, func(now *nodegroup.Operation) bool {
		return now.ID != op.ID && now.State == nodegroup.OperationSucceeded
	})
	state, err := standIn.Pool("blue")
	if len(state.Nodes) != 2 || err != nil || done.To.ID != gkecloud.NodeVersion {
		t.Errorf("the operation went to %q, and the nodes are %v (%v)", done.To.ID, state.Nodes, err)
	}
	for name, version := range state.Nodes {
		if version != gkecloud.NodeVersion {
			t.Errorf("node %s has %s", name, version)
		}
	}
}
