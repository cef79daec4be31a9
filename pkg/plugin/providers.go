package plugin

import (
	"context"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud/aws"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud/gke"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud/karpenter"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud/manual"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud/recorded"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

const (
	// providerAuto chooses the provider by the nodes' provider IDs.
	providerAuto = "auto"
	// providerGKE upgrades node pools through GKE's API.
	providerGKE = "gke"
	// providerKarpenter follows Karpenter's NodePools.
	providerKarpenter = "karpenter"
	// providerManual finds groups by the nodes' labels and uses no cloud API.
	providerManual = "manual"
)

// opener opens a provider for nodes of the cluster.
type opener func(ctx context.Context, l *commandLine, conn *connection, nodes []*corev1.Node) (cloud.Provider, error)

// cloudProviders returns the providers that use a cloud's API, or that of a controller, by name. A new one needs a row here
// and one in nodegroup.Providers.
func cloudProviders() map[string]opener {
	return map[string]opener{
		"aws": func(ctx context.Context, l *commandLine, _ *connection, nodes []*corev1.Node) (cloud.Provider, error) {
			return aws.New(ctx, aws.Options{Region: aws.RegionOf(nodes), Version: currentVersion(), ClusterName: l.clusterName})
		},
		providerGKE: func(ctx context.Context, l *commandLine, conn *connection, nodes []*corev1.Node) (cloud.Provider, error) {
			return gke.New(ctx, nodes, gke.Options{Config: conn.api.config, KubeconfigNames: conn.api.names, ClusterName: l.clusterName, UserAgent: makeUserAgent()})
		},
		providerKarpenter: func(_ context.Context, _ *commandLine, conn *connection, _ []*corev1.Node) (cloud.Provider, error) {
			return karpenter.New(conn.readNodePools), nil
		},
	}
}

// providers are the providers of a cluster's groups.
type providers struct {
	// main is the provider of all groups but NodePools.
	main cloud.Provider
	// pools is the provider of Karpenter's NodePools; nil if the cluster has none, or if main is their provider.
	pools cloud.Provider
}

// of returns the provider of a group.
func (p providers) of(group string) cloud.Provider {
	if p.pools != nil && karpenter.IsGroup(group) {
		return p.pools
	}
	return p.main
}

// readsNodePools reports whether one of the providers is that of Karpenter's NodePools.
func (p providers) readsNodePools() bool { return p.pools != nil || p.main.Name() == providerKarpenter }

// listGroups returns the groups of all providers, the NodePools last.
func (p providers) listGroups(ctx context.Context, nodes []*corev1.Node) ([]nodegroup.Group, error) {
	if p.pools == nil {
		return p.main.Groups(ctx, nodes)
	}
	groups, err := p.main.Groups(ctx, slices.DeleteFunc(slices.Clone(nodes), karpenter.Owns))
	if err != nil {
		return nil, err
	}
	pools, err := p.pools.Groups(ctx, nodes)
	if err != nil {
		return nil, &poolsError{err}
	}
	return append(groups, pools...), nil
}

// poolsError means that only the NodePools could not be read.
type poolsError struct{ error }

func (e *poolsError) Unwrap() error { return e.error }

// withClock returns the providers with the clock of the API server; see cloud.WithClock.
func (p providers) withClock(now func() time.Time) providers {
	p.main = cloud.WithClock(p.main, now)
	if p.pools != nil {
		p.pools = cloud.WithClock(p.pools, now)
	}
	return p
}

// belongs reports whether the node is a member of the group.
func (p providers) belongs(g *nodegroup.Group, node *corev1.Node) bool {
	return p.of(g.Name).Belongs(g, node)
}

// listProviderNames returns the values of --provider.
func listProviderNames() []string {
	names := []string{providerAuto}
	for _, provider := range nodegroup.Providers() {
		names = append(names, provider.Name)
	}
	return names
}

// joinAlternatives joins names as a choice: "auto, aws, gke, karpenter or manual".
func joinAlternatives(names []string) string {
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// openProviders returns the provider of --provider. With "auto" it chooses the provider by the nodes' provider IDs, unless
// a label selector or the labels of current nodes say that the nodes are upgraded by labels. Nodes of Karpenter then have a
// provider of their own. If only NodePools are asked for, it is the only one.
func (l *commandLine) openProviders(ctx context.Context, conn *connection, nodes []*corev1.Node) (providers, error) {
	if l.providerName != providerAuto || l.groups.selector != "" {
		main, err := l.openProvider(ctx, conn, nodes)
		return providers{main: main}, err
	}
	asked := l.groups.names
	if len(asked) > 0 && !slices.ContainsFunc(asked, func(name string) bool { return !karpenter.IsGroup(name) }) {
		return providers{main: karpenter.New(conn.readNodePools)}, nil
	}
	found := providers{}
	if slices.ContainsFunc(nodes, karpenter.Owns) {
		found.pools = karpenter.New(conn.readNodePools)
	}
	var err error
	found.main, err = l.openProvider(ctx, conn, slices.DeleteFunc(slices.Clone(nodes), karpenter.Owns))
	return found, err
}

// openProvider returns the provider of nodes that are not Karpenter's; see openProviders.
func (l *commandLine) openProvider(ctx context.Context, conn *connection, nodes []*corev1.Node) (cloud.Provider, error) {
	name := l.providerName
	if name == providerAuto && l.groups.selector == "" {
		name = findProviderOfNodes(nodes)
	}
	if name == providerGKE && l.providerName == providerAuto && len(l.settings.Current) > 0 {
		name = providerManual // GKE takes no labels
	}
	open, known := cloudProviders()[name]
	if !known {
		return l.newManualProvider(), nil
	}
	provider, err := open(ctx, l, conn, nodes)
	if err != nil {
		return nil, err
	}
	return cloud.RequireLabels(provider, l.settings.Current), nil
}

// newManualProvider returns the provider of groups that are found by labels.
func (l *commandLine) newManualProvider() cloud.Provider {
	return manual.New(manual.Options{Selector: l.groups.labels, Current: l.settings.Current, ControlPlane: l.controlPlane})
}

// newDumpProvider returns the provider of the nodes in a dump.
func (l *commandLine) newDumpProvider(nodes []*corev1.Node) cloud.Provider {
	labels := manual.Options{Selector: l.groups.labels, SelectorText: l.groups.selector, Current: l.settings.Current, ControlPlane: l.controlPlane}
	o := recorded.Options{Options: labels, Nodes: nodes}
	if l.providerName != providerAuto {
		o.Provider = l.providerName
	}
	return recorded.New(o)
}

// findProviderOfNodes returns the name of the first provider that owns one of the nodes, "" if there is none.
func findProviderOfNodes(nodes []*corev1.Node) string {
	all := nodegroup.Providers()
	i := slices.IndexFunc(all, func(p nodegroup.Info) bool { return slices.ContainsFunc(nodes, p.OwnsNode) })
	if i < 0 {
		return ""
	}
	return all[i].Name
}
