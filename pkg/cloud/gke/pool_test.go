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
		UpgradeSettings: &container.UpgradeSettings{MaxSurge: new(int32(3)), MaxUnavailable: new(int32(2))}, NodeDrainConfig: &container.NodeDrainConfig{PDBTimeoutDuration: &hour},
		Config: &container.NodeConfig{Spot: true},
	}, "1.34.3-gke.1200", nodegroup.Operation{})
	managed := group.Managed
	if managed.MaxSurge.N != 3 || managed.MaxUnavailable.N != 2 || managed.DrainTimeout != 2*time.Hour || managed.Etag != "e1" || !managed.DeletesRest || !managed.Cancels || !managed.TakesWidth {
		t.Errorf("%+v", managed)
	}
	if group.Wanted.Kubernetes != "v1.34.3-gke.1200" || group.Wanted.Target() != "1.34.3-gke.1200" || group.Pointed.ID != "1.33.5-gke.1000" || !group.Spot || group.Zones[0] != "us-central1-a" || group.Refusal != "" {
		t.Errorf("%+v", group)
	}
	bare := describeUpgrades(poolName(), &container.NodePool{})
	if bare.MaxSurge.N != 1 || bare.MaxUnavailable.N != 0 || bare.DrainTimeout != time.Hour { // GKE G10, G15
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
		"flex start":                             {refuseStrategy(poolName(), &container.NodePool{Config: &container.NodeConfig{FlexStart: true}}), "within 7 days"},
		"a queue":                                {refuseStrategy(poolName(), &container.NodePool{QueuedProvisioning: &container.QueuedProvisioning{Enabled: true}}), "within 7 days"},
		"short-lived":                            {refuseStrategy(poolName(), &container.NodePool{UpgradeSettings: &container.UpgradeSettings{Strategy: container.StrategyShortLived}}), "within 7 days"},
		"blue-green":                             {refuseStrategy(poolName(), &container.NodePool{UpgradeSettings: &container.UpgradeSettings{Strategy: container.StrategyBlueGreen}}), "gcloud container clusters upgrade main --node-pool workers --location us-central1 --project acme"},
		"without a version of the control plane": {refuseCluster(&container.Cluster{Status: container.ClusterProvisioning}), "the cluster is PROVISIONING"},
		"a strategy of the future":               {refuseStrategy(poolName(), &container.NodePool{UpgradeSettings: &container.UpgradeSettings{Strategy: "CANARY"}}), "the strategy CANARY, which this version does not know"},
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
	own := &container.UpgradeSettings{MaxSurge: new(int32(2))}
	for _, same := range []struct {
		own   *container.UpgradeSettings
		width nodegroup.Width
	}{{nil, nodegroup.Width{}}, {nil, nodegroup.Width{MaxSurge: 1}}, {own, nodegroup.Width{MaxSurge: 2}}} {
		if got := changedSettings(same.own, same.width); got != nil {
			t.Errorf("%+v: sent %+v", same, got)
		}
	}
	got := changedSettings(own, nodegroup.Width{MaxUnavailable: 1})
	if got == nil || *got.MaxSurge != 0 || *got.MaxUnavailable != 1 {
		t.Errorf("sent %+v", got)
	}
}
