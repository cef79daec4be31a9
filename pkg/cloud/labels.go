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

// AskRights implements Authorizer; of a provider that says nothing nothing is known.
func (l labelled) AskRights(ctx context.Context, group *nodegroup.Group) Rights {
	authorizer, ok := l.Provider.(Authorizer)
	if !ok {
		return Rights{}
	}
	return authorizer.AskRights(ctx, group)
}

// Survey implements Surveyor; of a provider that tells nothing nothing is known.
func (l labelled) Survey(ctx context.Context, group *nodegroup.Group) (Survey, error) {
	surveyor, ok := l.Provider.(Surveyor)
	if !ok {
		return Survey{}, nil
	}
	return surveyor.Survey(ctx, group)
}

// TargetGroups implements Balancer; of a provider that knows no load balancers there are none.
func (l labelled) TargetGroups(ctx context.Context, group *nodegroup.Group, bound []string) (TargetGroups, error) {
	balancer, ok := l.Provider.(Balancer)
	if !ok {
		return TargetGroups{}, nil
	}
	return balancer.TargetGroups(ctx, group, bound)
}

// Targets implements Balancer.
func (l labelled) Targets(ctx context.Context, groups []nodegroup.TargetGroup, ids []string) ([]nodegroup.Target, error) {
	balancer, ok := l.Provider.(Balancer)
	if !ok {
		return nil, nil
	}
	return balancer.Targets(ctx, groups, ids)
}
