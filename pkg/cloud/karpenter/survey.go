package karpenter

import (
	"context"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

var _ cloud.Surveyor = (*Provider)(nil)

// Survey implements cloud.Surveyor. Karpenter creates a NodeClaim when it launches its machine.
func (p *Provider) Survey(ctx context.Context, group *nodegroup.Group) (cloud.Survey, error) {
	_, claims, err := p.read(ctx)
	survey := cloud.Survey{Launched: map[string]time.Time{}}
	for _, c := range claims {
		if GroupName(c.PoolName()) == group.Name {
			survey.Launched[instanceID(c)] = c.CreationTimestamp.Time
		}
	}
	return survey, err
}
