package gke

import (
	"strings"
	"testing"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud/gke/container"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

func TestPoolIsDescribedWithItsOwnNumbers(t *testing.T) {
	hour := container.Duration(2 * time.Hour)
	group := describePool(poolName(), &container.NodePool{
		Name: "workers", Version: "1.33.5-gke.1000", Etag: "e1", Status: container.PoolRunning, Locations: []string{"us-central1-b", "us-central1-a"},
		UpgradeSettings: &container.UpgradeSettings{MaxSurge: new(int32(3)), MaxUnavailable: new(int32(2))}, NodeDrainConfig: &container.NodeDrainConfig{PDBTimeoutDuration: &hour, GraceTerminationDuration: new(container.Duration(time.Minute))},
		Config: &container.NodeConfig{Spot: true},
	}, "1.34.3-gke.1200", nodegroup.Operation{})
	managed := group.Managed
	if managed.MaxSurge.N != 3 || managed.MaxUnavailable.N != 2 || managed.DrainTimeout != 2*time.Hour || managed.MaxGrace != time.Minute || managed.Etag != "e1" || !managed.DeletesRest || !managed.Cancels || !managed.TakesWidth {
		t.Errorf("%+v", managed)
	}
	if group.Wanted.Kubernetes != "v1.34.3-gke.1200" || group.Wanted.Target() != "1.34.3-gke.1200" || group.Pointed.ID != "1.33.5-gke.1000" || !group.Spot || group.Zones[0] != "us-central1-a" || group.Refusal != "" {
		t.Errorf("%+v", group)
	}
	bare := describeUpgrades(poolName(), &container.NodePool{})
	if bare.MaxSurge.N != 1 || bare.MaxUnavailable.N != 0 || bare.DrainTimeout != time.Hour || bare.MaxGrace != 0 { // GKE G10, G15
		t.Errorf("without settings: %+v", bare)
	}
}

// TestPoolsThatThisToolMustNotUpgradeAreRefused: the commands of the remedies name the pool, its cluster, location and project.
func TestPoolsThatThisToolMustNotUpgradeAreRefused(t *testing.T) {
	const where = "--cluster main --location us-central1 --project acme"
	for name, c := range map[string]struct{ refusal, want string }{
		"being created":                          {refuseStatus(&container.NodePool{Status: container.PoolProvisioning}), "still creating it"},
		"being deleted":                          {refuseStatus(&container.NodePool{Status: container.PoolStopping}), "deleting it"},
		"in error":                               {refuseStatus(&container.NodePool{Status: container.PoolError, Conditions: []container.StatusCondition{{Message: "no quota"}}}), "no quota"},
		"Autopilot":                              {refuseCluster(&container.Cluster{CurrentMasterVersion: "1.34.3-gke.1200", Autopilot: &container.Autopilot{Enabled: true}}), "GKE Autopilot upgrades"},
		"without a version of the control plane": {refuseCluster(&container.Cluster{Status: container.ClusterProvisioning}), "the cluster is PROVISIONING"},
		"a strategy of the future":               {refuseStrategy(poolName(), &container.NodePool{UpgradeSettings: &container.UpgradeSettings{Strategy: "CANARY"}}), "the strategy CANARY, which this version does not know: start the upgrade with gcloud container clusters upgrade main --node-pool workers --location us-central1 --project acme"},
		"another operation": {
			refuseOtherOperation(poolName(), &nodegroup.Operation{ID: "operation-1", Kind: "SET_NODE_POOL_SIZE", State: nodegroup.OperationRunning}),
			"gcloud container operations wait operation-1 --location us-central1 --project acme",
		},
	} {
		if !strings.Contains(c.refusal, c.want) {
			t.Errorf("%s: %q does not say %q", name, c.refusal, c.want)
		}
	}
	for name, refusal := range map[string]string{
		"running": refuseStatus(&container.NodePool{Status: container.PoolRunning}), "reconciling": refuseStatus(&container.NodePool{Status: container.PoolReconciling}),
		"an unknown status": refuseStatus(&container.NodePool{Status: "NEW"}), "Standard": refuseCluster(&container.Cluster{CurrentMasterVersion: "1.34.3-gke.1200"}), "surge": refuseStrategy(poolName(), &container.NodePool{}),
		"an unspecified strategy": refuseStrategy(poolName(), &container.NodePool{UpgradeSettings: &container.UpgradeSettings{Strategy: container.StrategyUnspecified}}),
		"an upgrade":              refuseOtherOperation(poolName(), &nodegroup.Operation{State: nodegroup.OperationRunning, To: nodegroup.Revision{ID: "1"}}),
	} {
		if refusal != "" {
			t.Errorf("%s: refused: %s", name, refusal)
		}
	}
	if command := describeUpgrades(poolName(), &container.NodePool{}).ChangeWidth; !strings.Contains(command, "node-pools update workers "+where) {
		t.Error(command)
	}
}

func TestWidthIsSentOnlyIfItDiffers(t *testing.T) {
	own := &container.NodePool{UpgradeSettings: &container.UpgradeSettings{MaxSurge: new(int32(2))}}
	for _, same := range []struct {
		pool  *container.NodePool
		width nodegroup.Width
	}{{&container.NodePool{}, nodegroup.Width{}}, {&container.NodePool{}, nodegroup.Width{MaxSurge: 1}}, {own, nodegroup.Width{MaxSurge: 2}}} {
		if got := changedSettings(same.pool, nodegroup.Delegate{Width: same.width}); got != nil {
			t.Errorf("%+v: sent %+v", same, got)
		}
	}
	got := changedSettings(own, nodegroup.Delegate{Width: nodegroup.Width{MaxUnavailable: 1}})
	if got == nil || *got.MaxSurge != 0 || *got.MaxUnavailable != 1 {
		t.Errorf("sent %+v", got)
	}
}

// bluePool returns a pool with a blue-green strategy.
func bluePool(settings *container.BlueGreenSettings) *container.NodePool {
	return &container.NodePool{UpgradeSettings: &container.UpgradeSettings{Strategy: container.StrategyBlueGreen, BlueGreenSettings: settings}}
}

// TestStrategyOfPoolIsRead: what a pool does not set has GKE's default (GKE G46–G49, G71).
func TestStrategyOfPoolIsRead(t *testing.T) {
	for name, c := range map[string]struct {
		pool *container.NodePool
		want nodegroup.Rollout
	}{
		"no settings": {&container.NodePool{}, nodegroup.Rollout{}},
		"blue-green":  {bluePool(nil), nodegroup.Rollout{Strategy: "blue-green", Batch: nodegroup.Quantity{N: 1}, Soak: time.Hour}},
		"a part of the pool": {
			bluePool(&container.BlueGreenSettings{NodePoolSoakDuration: new(container.Duration(0)), StandardRolloutPolicy: &container.StandardRolloutPolicy{BatchPercentage: new(0.29), BatchSoakDuration: new(container.Duration(time.Minute))}}),
			nodegroup.Rollout{Strategy: "blue-green", Batch: nodegroup.Quantity{N: 29, Percent: true}, BatchSoak: time.Minute},
		},
		"no drain": {
			bluePool(&container.BlueGreenSettings{StandardRolloutPolicy: &container.StandardRolloutPolicy{BatchNodeCount: new(int32(0))}}),
			nodegroup.Rollout{Strategy: "blue-green", Soak: time.Hour},
		},
		"autoscaled": {bluePool(&container.BlueGreenSettings{AutoscaledRolloutPolicy: &container.AutoscaledRolloutPolicy{}}), nodegroup.Rollout{Strategy: "autoscaled-blue-green", WaitForDrain: 72 * time.Hour}},
		"flex start": {&container.NodePool{Config: &container.NodeConfig{FlexStart: true}}, nodegroup.Rollout{Strategy: "short-lived"}},
		"a queue":    {&container.NodePool{QueuedProvisioning: &container.QueuedProvisioning{Enabled: true}}, nodegroup.Rollout{Strategy: "short-lived"}},
	} {
		if got := rolloutOf(c.pool); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// TestStrategyIsSentOnlyIfAskedFor: GKE keeps what a request names as the pool's own settings.
func TestStrategyIsSentOnlyIfAskedFor(t *testing.T) {
	width := nodegroup.Width{MaxSurge: 4}
	if got := changedSettings(bluePool(nil), nodegroup.Delegate{Width: width}); got != nil {
		t.Errorf("a blue-green pool: sent %+v", got)
	}
	got := changedSettings(bluePool(nil), nodegroup.Delegate{Width: width, Rollout: nodegroup.Rollout{Strategy: "surge"}})
	if got == nil || got.Strategy != container.StrategySurge || *got.MaxSurge != 4 || got.BlueGreenSettings != nil {
		t.Errorf("surge: sent %+v", got)
	}
	asked := nodegroup.Rollout{Strategy: "blue-green", Batch: nodegroup.Quantity{N: 3}, BatchSoak: time.Minute, Soak: time.Hour}
	blue := &container.NodePool{UpgradeSettings: changedSettings(&container.NodePool{}, nodegroup.Delegate{Rollout: asked})}
	part := nodegroup.Rollout{Strategy: "blue-green", Batch: nodegroup.Quantity{N: 29, Percent: true}, Soak: time.Hour}
	if got := changedSettings(bluePool(nil), nodegroup.Delegate{Rollout: part}); rolloutOf(&container.NodePool{UpgradeSettings: got}) != part {
		t.Errorf("a part of the pool: sent %+v", got)
	}
	waits := nodegroup.Rollout{Strategy: "autoscaled-blue-green", WaitForDrain: time.Hour}
	scaled := &container.NodePool{UpgradeSettings: changedSettings(&container.NodePool{}, nodegroup.Delegate{Rollout: waits})}
	if rolloutOf(blue) != asked || rolloutOf(scaled) != waits {
		t.Errorf("blue-green: sent %+v; autoscaled: sent %+v", rolloutOf(blue), rolloutOf(scaled))
	}
}
