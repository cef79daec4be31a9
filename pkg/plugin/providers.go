package plugin

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud/aws"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud/gke"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud/manual"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud/recorded"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

const (
	// providerAuto chooses the provider by the nodes' provider IDs.
	providerAuto = "auto"
	// providerGKE upgrades node pools through GKE's API.
	providerGKE = "gke"
	// providerManual finds groups by the nodes' labels and uses no cloud API.
	providerManual = "manual"
)

// cloudProviders returns the providers that use a cloud's API, by name. A new cloud needs a row here and one in
// nodegroup.Providers.
func cloudProviders() map[string]func(context.Context, *commandLine, []*corev1.Node) (cloud.Provider, error) {
	return map[string]func(context.Context, *commandLine, []*corev1.Node) (cloud.Provider, error){
		"aws": func(ctx context.Context, l *commandLine, nodes []*corev1.Node) (cloud.Provider, error) {
			return aws.New(ctx, aws.Options{Region: aws.RegionOf(nodes), Version: currentVersion(), ClusterName: l.clusterName})
		},
		providerGKE: func(ctx context.Context, l *commandLine, nodes []*corev1.Node) (cloud.Provider, error) {
			return gke.New(ctx, nodes, gke.Options{Config: l.api.config, KubeconfigNames: l.api.names, ClusterName: l.clusterName, UserAgent: makeUserAgent()})
		},
	}
}

// listProviderNames returns the values of --provider.
func listProviderNames() []string {
	names := []string{providerAuto}
	for _, provider := range nodegroup.Providers() {
		names = append(names, provider.Name)
	}
	return names
}

// joinAlternatives joins names as a choice: "auto, aws, gke or manual".
func joinAlternatives(names []string) string {
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// openProvider returns the provider of --provider. With "auto" it chooses the provider by the nodes' provider IDs, unless
// a label selector or the labels of current nodes say that the nodes are upgraded by labels.
func (l *commandLine) openProvider(ctx context.Context, nodes []*corev1.Node) (cloud.Provider, error) {
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
	provider, err := open(ctx, l, nodes)
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
