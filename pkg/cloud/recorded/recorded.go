// Package recorded is the provider for a cluster that was saved to a file. It reads the groups from node labels. From the nodes
// it derives the facts that a cloud would report.
package recorded

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud/manual"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// absentLabel is a label that no node has. If the user names no label of current nodes, this one stands for it, so that every
// node is outdated.
const absentLabel = "kubectl-nodeupgrade/current"

// Options configure a Provider.
type Options struct {
	// Options configure the groups. Without Current every node is outdated.
	manual.Options
	// Provider is the name of the nodes' cloud provider. If Provider is empty, the provider IDs of the nodes are used.
	Provider string
	// Nodes are all nodes in the file.
	Nodes []*corev1.Node
}

// Provider implements cloud.Provider for a cluster that was saved to a file.
type Provider struct {
	*manual.Provider
	options Options
}

// New returns a Provider.
func New(o Options) *Provider {
	groups := o.Options
	if len(groups.Current) == 0 {
		groups.Current = map[string]string{absentLabel: ""}
	}
	return &Provider{manual.New(groups), o}
}

// Observe implements cloud.Provider. If all nodes of the group are machines of one cloud, Observe describes a group of that
// cloud. The group has exactly these nodes, and it may launch machines in each of their zones. A node without a provider ID
// gets one.
func (p *Provider) Observe(ctx context.Context, ref cloud.Ref) (nodegroup.Group, error) {
	g, err := p.Provider.Observe(ctx, cloud.Ref{Name: ref.Name})
	if err != nil {
		return g, err
	}
	own := slices.DeleteFunc(slices.Clone(p.options.Nodes), func(n *corev1.Node) bool { return !p.Belongs(&g, n) })
	g.Wanted = p.wantedRevision(&g, ref.To, own)
	g.Pointed = g.Wanted
	provider := p.chooseProvider(own)
	if provider.KindByNodes == "" || len(own) == 0 {
		return g, nil
	}
	return g, p.fillGroupFromNodes(&g, provider, own)
}

// wantedRevision returns the wanted revision. Its name is the user's --to, and its Kubernetes version is the kubelet version of
// the newest current node.
func (p *Provider) wantedRevision(g *nodegroup.Group, to string, own []*corev1.Node) nodegroup.Revision {
	wanted := g.Wanted
	if len(p.options.Current) == 0 {
		wanted = nodegroup.Revision{ID: "new", Name: "new nodes"}
	}
	wanted.Name = cmp.Or(to, wanted.Name)
	current := slices.DeleteFunc(slices.Clone(own), func(n *corev1.Node) bool { return p.Outdated(g, n) })
	if len(current) > 0 {
		newest := slices.MaxFunc(current, func(a, b *corev1.Node) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
		wanted.Kubernetes = newest.Status.NodeInfo.KubeletVersion
	}
	return wanted
}

// chooseProvider returns the provider that the user named, or else the provider of all these nodes.
func (p *Provider) chooseProvider(nodes []*corev1.Node) nodegroup.Info {
	if p.options.Provider != "" {
		return nodegroup.InfoOf(p.options.Provider)
	}
	for _, provider := range nodegroup.Providers() {
		if !slices.ContainsFunc(nodes, func(n *corev1.Node) bool { return !provider.OwnsNode(n) }) {
			return provider
		}
	}
	return nodegroup.Info{}
}

// fillGroupFromNodes derives from the nodes what the provider would report about the group, and adds these facts. It returns an
// error if the zone of a node is unknown.
func (p *Provider) fillGroupFromNodes(g *nodegroup.Group, provider nodegroup.Info, own []*corev1.Node) error {
	zones := map[string]bool{}
	for _, node := range own {
		zone := cmp.Or(node.Labels[corev1.LabelTopologyZone], provider.ZoneOfNode(node))
		if zone == "" {
			return fmt.Errorf("node %q has no zone: add the label %s to it, or pass --provider=manual", node.Name, corev1.LabelTopologyZone)
		}
		if node.Spec.ProviderID == "" { // a node that was written by hand; Join needs the ID to find the instance
			node.Spec.ProviderID = provider.Scheme + "/" + zone + "/" + node.Name
		}
		zones[zone] = true
		instance := nodegroup.Instance{
			ID: provider.InstanceID(node), Zone: zone, State: nodegroup.InstanceInService, Outdated: p.Outdated(g, node), Revision: g.Wanted,
		}
		if instance.Outdated {
			version := cmp.Or(node.Status.NodeInfo.KubeletVersion, "old")
			instance.Revision = nodegroup.Revision{ID: "old", Name: version, Kubernetes: node.Status.NodeInfo.KubeletVersion}
		}
		g.Instances = append(g.Instances, instance)
	}
	g.Provider, g.Kind, g.Can = provider.Name, provider.KindByNodes, provider.Can
	g.Zones = slices.Sorted(maps.Keys(zones))
	g.Desired, g.Min, g.Max = len(own), len(own), len(own)
	return nil
}
