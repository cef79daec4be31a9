package cloud

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// WithClock returns a provider that converts the Observed time of groups from this machine's clock to the clock now.
func WithClock(provider Provider, now func() time.Time) Provider { return clocked{provider, now} }

type clocked struct {
	Provider
	now func() time.Time
}

// Groups implements Provider.
func (c clocked) Groups(ctx context.Context, nodes []*corev1.Node) ([]nodegroup.Group, error) {
	groups, err := c.Provider.Groups(ctx, nodes)
	for i := range groups {
		groups[i].Observed = c.convertTime(groups[i].Observed)
	}
	return groups, err
}

// Observe implements Provider.
func (c clocked) Observe(ctx context.Context, ref Ref) (nodegroup.Group, error) {
	group, err := c.Provider.Observe(ctx, ref)
	group.Observed = c.convertTime(group.Observed)
	return group, err
}

// convertTime returns the time that c.now showed when this machine's clock showed the local time.
func (c clocked) convertTime(local time.Time) time.Time {
	if local.IsZero() {
		return local
	}
	return c.now().Add(-time.Since(local))
}

// Unwrap returns the wrapped provider, which uses this machine's clock. See As.
func (c clocked) Unwrap() Provider { return c.Provider }
