package cloud

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// RequireLabels returns a provider for which a node is current only if it also has the labels. It does not change groups
// without machines, because their provider already judges nodes by labels. If labels is empty, RequireLabels returns the
// provider itself.
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

// Unwrap returns the wrapped provider, which does not require the labels. See As.
func (l labelled) Unwrap() Provider { return l.Provider }

// As returns the provider as a T: a Surveyor, an Authorizer or a Balancer. If the provider is no T, As tries the providers that
// it wraps. ok is false if no provider is a T.
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
