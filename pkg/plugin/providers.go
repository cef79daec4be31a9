package plugin

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud/aws"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud/manual"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// providerAuto has the nodes' provider IDs choose the provider.
const providerAuto = "auto"

// clouds are the providers that talk to a cloud, by name. Another cloud gets a row here and one in
// nodegroup.Providers.
func clouds() map[string]func(ctx context.Context, nodes []*corev1.Node) (cloud.Provider, error) {
	return map[string]func(context.Context, []*corev1.Node) (cloud.Provider, error){
		"aws": func(ctx context.Context, nodes []*corev1.Node) (cloud.Provider, error) {
			return aws.New(ctx, aws.Options{Region: aws.RegionOf(nodes), Version: versionText()})
		},
	}
}

// providerNames are the values of --provider.
func providerNames() []string {
	names := []string{providerAuto}
	for _, provider := range nodegroup.Providers() {
		if _, known := clouds()[provider.Name]; known || provider.Refill == nodegroup.RefillByUser {
			names = append(names, provider.Name)
		}
	}
	return names
}

// alternatives writes names as a choice: "auto, aws or manual".
func alternatives(names []string) string {
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// providerFor chooses where the nodes come from: what the user said, or what the nodes' provider
// IDs say.
func (o *options) providerFor(ctx context.Context, nodes []*corev1.Node) (cloud.Provider, error) {
	name := o.provider
	if name == providerAuto && o.selector == "" {
		name = ownerOf(nodes)
	}
	open, known := clouds()[name]
	if !known {
		return o.manualProvider(), nil
	}
	provider, err := open(ctx, nodes)
	if err != nil {
		return nil, err
	}
	return cloud.RequireLabels(provider, o.settings.Current), nil
}

func (o *options) manualProvider() cloud.Provider {
	return manual.New(manual.Options{Selector: o.labels, Current: o.settings.Current, ControlPlane: o.controlPlane})
}

// ownerOf names the first provider that owns one of the nodes, "" when none does.
func ownerOf(nodes []*corev1.Node) string {
	all := nodegroup.Providers()
	i := slices.IndexFunc(all, func(p nodegroup.Info) bool { return slices.ContainsFunc(nodes, p.Owns) })
	if i < 0 {
		return ""
	}
	return all[i].Name
}
