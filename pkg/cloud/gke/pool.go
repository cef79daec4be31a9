package gke

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud/gke/container"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/shell"
)

const (
	providerName = "gke"
	kind         = "GKE node pool"
	// drainTimeout is how long GKE obeys budgets at a node. Then it deletes the pods that are left (GKE G15).
	drainTimeout = time.Hour
	// drainInterval is how often GKE's drain tries an eviction again. GKE does not document it.
	drainInterval = 5 * time.Second
)

// pointer is the JSON of Revision.Spec: the pool and the version.
type pointer struct {
	Project  string `json:"project"`
	Location string `json:"location"`
	Cluster  string `json:"cluster"`
	Pool     string `json:"pool"`
	Version  string `json:"version"`
}

// revisionOf returns the revision of a pool's nodes with the version.
func revisionOf(pool container.PoolName, version string) nodegroup.Revision {
	spec, _ := json.Marshal(pointer{pool.Project, pool.Location, pool.Cluster, pool.Pool, version}) // marshalling strings cannot fail
	return nodegroup.Revision{ID: version, Name: pool.Pool + ":" + version, Kubernetes: "v" + version, Spec: string(spec)}
}

// describePool returns the group of a pool. wanted is the version of the target.
func describePool(name container.PoolName, pool *container.NodePool, wanted string, operation nodegroup.Operation) nodegroup.Group {
	group := nodegroup.Group{
		Name: pool.Name, Provider: providerName, Kind: kind, Zones: slices.Sorted(slices.Values(pool.Locations)),
		Wanted: revisionOf(name, wanted), Pointed: revisionOf(name, pool.Version),
		Can: nodegroup.Capabilities{Refill: nodegroup.RefillBySize}, Managed: describeUpgrades(name, pool), Refusal: refuseStatus(pool),
	}
	if config := pool.Config; config != nil {
		group.Spot = config.Spot || config.Preemptible
	}
	group.Managed.Operation = operation
	if scaling := pool.Autoscaling; scaling != nil && scaling.Enabled {
		group.Autoscaler.Serves = true
	}
	return group
}

// describeUpgrades returns how GKE upgrades the pool. A pool without settings has the widths of GKE's default (GKE G10).
func describeUpgrades(name container.PoolName, pool *container.NodePool) *nodegroup.Managed {
	managed := &nodegroup.Managed{
		MaxSurge: nodegroup.Quantity{N: 1}, TakesWidth: true, DrainTimeout: drainTimeout, DeletesRest: true, DrawsNodes: true, RollsInSlots: true,
		PollInterval: drainInterval, Cancels: true, RollsBack: true, EndsSoaks: true, Etag: pool.Etag, Rollout: rolloutOf(pool), TakesRollout: true,
		ChangeWidth: poolCommand("gcloud container node-pools update", name) + " --max-surge-upgrade=N --max-unavailable-upgrade=M",
	}
	if settings := pool.UpgradeSettings; settings != nil {
		managed.MaxSurge.N, managed.MaxUnavailable.N = int(valueOf(settings.MaxSurge)), int(valueOf(settings.MaxUnavailable))
	}
	if drain := pool.NodeDrainConfig; drain != nil {
		managed.DrainTimeout, managed.MaxGrace = durationOr(drain.PDBTimeoutDuration, drainTimeout), durationOr(drain.GraceTerminationDuration, 0)
	}
	return managed
}

// valueOf returns the number, 0 for nil.
func valueOf(n *int32) int32 {
	if n == nil {
		return 0
	}
	return *n
}

// refuseStatus refuses pools that GKE is creating or deleting, or that are in an error state.
func refuseStatus(pool *container.NodePool) string {
	why := ""
	if len(pool.Conditions) > 0 && pool.Conditions[0].Message != "" {
		why = ": " + pool.Conditions[0].Message
	}
	switch pool.Status {
	case container.PoolProvisioning:
		return "GKE is still creating it: wait until gcloud container node-pools list shows RUNNING"
	case container.PoolStopping:
		return "GKE is deleting it"
	case container.PoolError:
		return "GKE could not create it, or it is in another error state" + why + ": see it in the Google Cloud console"
	}
	return ""
}

// refuseStrategy refuses to start upgrades of pools with strategies that this package does not know. Their upgrades can be followed.
func refuseStrategy(name container.PoolName, pool *container.NodePool) string {
	settings := pool.UpgradeSettings
	if settings == nil || slices.Contains([]container.Strategy{"", container.StrategyUnspecified, container.StrategySurge, container.StrategyBlueGreen, container.StrategyShortLived}, settings.Strategy) {
		return ""
	}
	return fmt.Sprintf("it has the strategy %s, which this version does not know: start the upgrade with %s, and follow it with %s -w",
		settings.Strategy, upgradeCommand(name), nodegroup.Command("status", name.Pool))
}

// refuseCluster refuses pools of clusters whose nodes GKE alone upgrades, and of those whose control plane has no version yet.
func refuseCluster(cluster *container.Cluster) string {
	if cluster.CurrentMasterVersion == "" {
		return fmt.Sprintf("GKE does not report the version of its control plane (the cluster is %s): wait until the cluster is RUNNING", cluster.Status)
	}
	if cluster.Autopilot != nil && cluster.Autopilot.Enabled {
		return "GKE Autopilot upgrades and replaces these nodes: upgrade the cluster or set a maintenance window"
	}
	return ""
}

// refuseOtherOperation refuses a pool while GKE makes another change than an upgrade of the pool.
func refuseOtherOperation(name container.PoolName, op *nodegroup.Operation) string {
	if op.State != nodegroup.OperationRunning || op.IsUpgrade() {
		return ""
	}
	return fmt.Sprintf("GKE is carrying out another operation (%s): wait for it with %s", op.Kind,
		shell.Command("gcloud container operations wait", op.ID)+" "+locationOptions(name.ClusterName))
}

// poolCommand returns the command of gcloud with the pool as its operand.
func poolCommand(command string, name container.PoolName) string {
	return shell.Command(command, name.Pool) + " " + shell.Option("--cluster", name.Cluster) + " " + locationOptions(name.ClusterName)
}

// upgradeCommand returns the command of gcloud that starts an upgrade of the pool.
func upgradeCommand(name container.PoolName) string {
	return shell.Command("gcloud container clusters upgrade", name.Cluster) + " " + shell.Option("--node-pool", name.Pool) + " " + locationOptions(name.ClusterName)
}

// locationOptions returns gcloud's options for the cluster's location and project.
func locationOptions(name container.ClusterName) string {
	return shell.Option("--location", name.Location) + " " + shell.Option("--project", name.Project)
}
