package gke

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud/gke/container"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// Do implements cloud.Provider. It starts and cancels upgrades, and ends their soaks.
func (p *Provider) Do(ctx context.Context, group string, action nodegroup.Action) error {
	switch a := action.(type) {
	case nodegroup.Delegate:
		return p.startUpgrade(ctx, group, a)
	case nodegroup.CancelOperation:
		return p.cancelOperation(ctx, a)
	case nodegroup.EndSoak:
		return p.endSoak(ctx, group, a)
	default:
		return cloud.Unsupported(providerName, action)
	}
}

// startUpgrade asks GKE to upgrade a pool. The request has the etag that the decision was based on, so that GKE refuses it if an earlier
// request, or somebody else, has changed the pool since. It names the pool's own image type, which GKE requires, and the width only
// if it is not the pool's own. GKE's rollback has no etag and no version: it is asked for only if it goes to the version of the target.
func (p *Provider) startUpgrade(ctx context.Context, group string, a nodegroup.Delegate) error {
	doing := fmt.Sprintf("starting GKE's upgrade of node pool %q to %s", group, a.To.Name)
	var to pointer
	if err := json.Unmarshal([]byte(a.To.Spec), &to); err != nil {
		return fatal(fmt.Errorf("%s: reading the recorded revision: %w", doing, err))
	}
	name := container.PoolName{ClusterName: p.cluster, Pool: group}
	if to.Pool != group || to.Cluster != p.cluster.Cluster || to.Location != p.cluster.Location || to.Version == "" {
		return fatal(fmt.Errorf("%s: the recorded revision is of another pool (%s of %s): abort the upgrade and start again", doing, to.Pool, to.Cluster))
	}
	pool, err := p.client.GetNodePool(ctx, name)
	if err != nil {
		return classify(err)
	}
	if pool.Etag != a.Etag {
		return &cloud.Error{Outcome: nodegroup.OutcomeMoved, Err: fmt.Errorf("%s: the pool has changed since it was read", doing)}
	}
	if a.Rollback && p.rollsBackTo(ctx, name, to.Version) {
		operation, err := p.client.RollbackNodePool(ctx, name, container.RollbackNodePoolUpgradeRequest{RespectPDB: true})
		if err != nil {
			return classify(err)
		}
		p.rememberTarget(operation.Name, to.Version)
		return nil
	}
	request := container.UpdateNodePoolRequest{NodeVersion: to.Version, Etag: pool.Etag, UpgradeSettings: changedSettings(pool, a)}
	if pool.Config != nil {
		request.ImageType = pool.Config.ImageType
	}
	operation, err := p.client.UpdateNodePool(ctx, name, request)
	if err != nil {
		return classify(err)
	}
	p.rememberTarget(operation.Name, to.Version)
	return nil
}

// rollsBackTo reports whether GKE's history shows that the pool's last upgrade began with the version. An upgrade that continues a
// cancelled one may begin with the new version, and GKE's rollback would go there.
func (p *Provider) rollsBackTo(ctx context.Context, name container.PoolName, version string) bool {
	info, err := p.client.FetchNodePoolUpgradeInfo(ctx, name)
	if err != nil || len(info.UpgradeDetails) == 0 {
		return false
	}
	last := slices.MaxFunc(info.UpgradeDetails, func(a, b container.UpgradeDetails) int { return a.StartTime.Compare(b.StartTime.Time) })
	return last.InitialVersion == version
}

// changedSettings returns the settings that the request asks for, or nil if the pool's own are used.
func changedSettings(pool *container.NodePool, a nodegroup.Delegate) *container.UpgradeSettings {
	switch {
	case a.Rollout.Strategy == blueGreen || a.Rollout.Strategy == autoscaledBlueGreen:
		return blueGreenSettings(a.Rollout)
	case a.Rollout == (nodegroup.Rollout{}) && rolloutOf(pool).Strategy != "":
		return nil // another strategy than surge has no width
	}
	now := nodegroup.Width{MaxSurge: 1} // GKE's default
	if own := pool.UpgradeSettings; own != nil {
		now = nodegroup.Width{MaxSurge: int(valueOf(own.MaxSurge)), MaxUnavailable: int(valueOf(own.MaxUnavailable))}
	}
	if a.Rollout == (nodegroup.Rollout{}) && (a.Width == (nodegroup.Width{}) || a.Width == now) {
		return nil
	}
	return &container.UpgradeSettings{Strategy: container.StrategySurge, MaxSurge: new(int32(a.Width.MaxSurge)), MaxUnavailable: new(int32(a.Width.MaxUnavailable))}
}

// cancelOperation asks GKE to cancel an operation. If the operation is already over, the outcome is OutcomeMoved.
func (p *Provider) cancelOperation(ctx context.Context, a nodegroup.CancelOperation) error {
	name := p.cluster.Operation(a.Operation)
	err := p.client.CancelOperation(ctx, name)
	if class := container.ClassOf(err); class != container.ClassInvalid && class != container.ClassConflict {
		return classify(err)
	}
	// GKE does not document how it refuses to cancel an operation that is over.
	op, readErr := p.client.GetOperation(ctx, name)
	if readErr == nil && isOver(op) {
		return &cloud.Error{Outcome: nodegroup.OutcomeMoved, Err: err}
	}
	return classify(err)
}

// endSoak asks GKE to delete the old nodes of a blue-green upgrade now. GKE's request names no operation, so endSoak first checks that
// the operation is the one that soaks. If it is not, the outcome is OutcomeMoved.
func (p *Provider) endSoak(ctx context.Context, group string, a nodegroup.EndSoak) error {
	name := container.PoolName{ClusterName: p.cluster, Pool: group}
	pool, err := p.client.GetNodePool(ctx, name)
	if err != nil {
		return classify(err)
	}
	op, err := p.client.GetOperation(ctx, p.cluster.Operation(a.Operation))
	if err != nil {
		return classify(err)
	}
	if info := blueGreenInfo(pool); isOver(op) || op.Status == container.OperationAborting || info == nil || info.Phase != container.PhaseNodePoolSoaking {
		return &cloud.Error{Outcome: nodegroup.OutcomeMoved, Err: fmt.Errorf("ending the soak of node pool %q: upgrade %s does not soak any more", group, a.Operation)}
	}
	return classify(p.client.CompleteNodePoolUpgrade(ctx, name))
}

// classify adds the outcome to an error of a request, nil for nil.
func classify(err error) error {
	if err == nil {
		return nil
	}
	if answered, ok := errors.AsType[*container.Error](err); ok {
		return &cloud.Error{Outcome: answered.Outcome(), Err: err}
	}
	return fatal(err)
}

func fatal(err error) error { return &cloud.Error{Outcome: nodegroup.OutcomeFatal, Err: err} }
