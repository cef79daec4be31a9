package cloud

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// RequireLabels returns the provider with one more condition: a node is current only if it also
// carries the labels. Groups without machines stay as they are, because their provider already
// judges nodes by labels. Without labels it returns the provider itself.
func RequireLabels(provider Provider, labels map[string]string) Provider {
	if len(labels) == 0 {
		return provider
	}
	return labelled{provider, labels}
}

type labelled struct {
	Provider
	labels map[string]string
}

// Groups implements Provider.
func (l labelled) Groups(ctx context.Context, nodes []*corev1.Node) ([]nodegroup.Group, error) {
	groups, err := l.Provider.Groups(ctx, nodes)
	for i := range groups {
		groups[i].RequireLabels(l.labels)
	}
	return groups, err
}

// Observe implements Provider.
func (l labelled) Observe(ctx context.Context, ref Ref) (nodegroup.Group, error) {
	group, err := l.Provider.Observe(ctx, ref)
	group.RequireLabels(l.labels)
	return group, err
}

// Unwrap returns the provider without the labels; see As.
func (l labelled) Unwrap() Provider { return l.Provider }

// As returns the provider as a T: a Surveyor, an Authorizer or a Balancer. It looks at the provider
// and at every provider that it wraps. ok is false if none of them is a T.
func As[T any](provider Provider) (as T, ok bool) {
	for {
		if as, ok = provider.(T); ok {
			return as, true
		}
		wrapping, wraps := provider.(interface{ Unwrap() Provider })
		if !wraps {
			return as, false
		}
		provider = wrapping.Unwrap()
	}
}
