package gke

import (
	"cmp"
	"math"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud/gke/container"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// The names of GKE's strategies, as in nodegroup.Rollout. A surge has none.
const (
	blueGreen           = "blue-green"
	autoscaledBlueGreen = "autoscaled-blue-green"
	shortLived          = "short-lived"
)

// GKE's defaults for what a pool does not set (GKE G49, G71).
const (
	defaultSoak = time.Hour
	defaultWait = 3 * 24 * time.Hour
)

// rolloutOf returns the strategy by which GKE upgrades the pool, with its settings. Nodes that GKE ends by itself within a week are
// never drained for an upgrade (GKE G90).
func rolloutOf(pool *container.NodePool) nodegroup.Rollout {
	settings := cmp.Or(pool.UpgradeSettings, &container.UpgradeSettings{})
	endsNodes := pool.QueuedProvisioning != nil && pool.QueuedProvisioning.Enabled || pool.Config != nil && pool.Config.FlexStart
	switch {
	case settings.Strategy == container.StrategyShortLived || endsNodes:
		return nodegroup.Rollout{Strategy: shortLived}
	case settings.Strategy != container.StrategyBlueGreen:
		return nodegroup.Rollout{}
	}
	own := cmp.Or(settings.BlueGreenSettings, &container.BlueGreenSettings{})
	if policy := own.AutoscaledRolloutPolicy; policy != nil {
		return nodegroup.Rollout{Strategy: autoscaledBlueGreen, WaitForDrain: durationOr(policy.WaitForDrainDuration, defaultWait)}
	}
	rollout := nodegroup.Rollout{Strategy: blueGreen, Batch: nodegroup.Quantity{N: 1}, Soak: durationOr(own.NodePoolSoakDuration, defaultSoak)}
	if policy := own.StandardRolloutPolicy; policy != nil {
		rollout.BatchSoak = durationOr(policy.BatchSoakDuration, 0)
		switch {
		case policy.BatchNodeCount != nil:
			rollout.Batch.N = int(*policy.BatchNodeCount)
		case policy.BatchPercentage != nil:
			rollout.Batch = nodegroup.Quantity{N: int(math.Round(*policy.BatchPercentage * 100)), Percent: true}
		}
	}
	return rollout
}

// blueGreenSettings returns the settings of a blue-green upgrade, which may be autoscaled.
func blueGreenSettings(asked nodegroup.Rollout) *container.UpgradeSettings {
	settings := &container.BlueGreenSettings{}
	if asked.Strategy == autoscaledBlueGreen {
		settings.AutoscaledRolloutPolicy = &container.AutoscaledRolloutPolicy{WaitForDrainDuration: new(container.Duration(asked.WaitForDrain))}
	} else {
		settings.NodePoolSoakDuration = new(container.Duration(asked.Soak))
		settings.StandardRolloutPolicy = &container.StandardRolloutPolicy{BatchSoakDuration: new(container.Duration(asked.BatchSoak))}
		if asked.Batch.Percent {
			settings.StandardRolloutPolicy.BatchPercentage = new(float64(asked.Batch.N) / 100)
		} else {
			settings.StandardRolloutPolicy.BatchNodeCount = new(int32(asked.Batch.N))
		}
	}
	return &container.UpgradeSettings{Strategy: container.StrategyBlueGreen, BlueGreenSettings: settings}
}

// durationOr returns the duration, or the other one if it is nil.
func durationOr(d *container.Duration, otherwise time.Duration) time.Duration {
	if d == nil {
		return otherwise
	}
	return time.Duration(*d)
}
