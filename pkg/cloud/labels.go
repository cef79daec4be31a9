package cloud

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// RequireLabels is the provider with groups whose current nodes also carry the labels. A provider
// whose groups have no machines judges nodes by labels itself: its groups stay as they are, and so
// do all without labels.
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

// Unwrap is the provider without the labels; see As.
func (l labelled) Unwrap() Provider { return l.Provider }

// As is the provider as one that also tells or does what T names: a Surveyor, an Authorizer or a
// Balancer. ok is false where neither it nor one that it wraps does.
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
