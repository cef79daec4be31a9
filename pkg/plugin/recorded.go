package plugin

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

// labelOfNoNode is a label that no node carries.
const labelOfNoNode = "kubectl-nodeupgrade/current"

// recorded is the provider of a cluster that was written down: groups come from labels, and what a
// cloud would tell of them from their nodes.
type recorded struct {
	*manual.Provider
	nodes []*corev1.Node
	// provider is what the user said: auto, aws or manual.
	provider string
	// to is what new nodes are called; all is true when every node is to be replaced.
	to  string
	all bool
}

func newRecorded(l *commandLine, nodes []*corev1.Node) *recorded {
	r := &recorded{nodes: nodes, provider: l.providerName, to: l.settings.To, all: len(l.settings.Current) == 0}
	current := l.settings.Current
	if r.all {
		current = map[string]string{labelOfNoNode: ""}
	}
	r.Provider = manual.New(manual.Options{Selector: l.groups.labels, SelectorText: l.groups.selector, Current: current, ControlPlane: l.controlPlane})
	return r
}

// Observe is cloud.Provider's. A group whose nodes are machines of one cloud is taken for a group
// of that cloud with just these nodes, which may launch in each of their zones.
func (r *recorded) Observe(ctx context.Context, ref cloud.Ref) (nodegroup.Group, error) {
	g, err := r.Provider.Observe(ctx, cloud.Ref{Name: ref.Name})
	if err != nil {
		return g, err
	}
	own := slices.DeleteFunc(slices.Clone(r.nodes), func(n *corev1.Node) bool { return !r.Belongs(&g, n) })
	g.Wanted = r.describeWanted(&g, own)
	g.Pointed = g.Wanted
	provider := r.chooseProvider(own)
	if provider.KindByNodes == "" || len(own) == 0 {
		return g, nil
	}
	return g, r.describeByNodes(&g, provider, own)
}

// describeWanted describes new nodes: as the user calls them, and as the newest of those that are
// current already.
func (r *recorded) describeWanted(g *nodegroup.Group, own []*corev1.Node) nodegroup.Revision {
	wanted := g.Wanted
	if r.all {
		wanted = nodegroup.Revision{ID: "new", Name: "new nodes"}
	}
	wanted.Name = cmp.Or(r.to, wanted.Name)
	current := slices.DeleteFunc(slices.Clone(own), func(n *corev1.Node) bool { return r.Outdated(g, n) })
	if len(current) > 0 {
		newest := slices.MaxFunc(current, func(a, b *corev1.Node) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
		wanted.Kubernetes = newest.Status.NodeInfo.KubeletVersion
	}
	return wanted
}

// chooseProvider is what the user named or, with auto, the provider that owns all of the nodes.
func (r *recorded) chooseProvider(nodes []*corev1.Node) nodegroup.Info {
	if r.provider != providerAuto {
		return nodegroup.InfoOf(r.provider)
	}
	for _, provider := range nodegroup.Providers() {
		if !slices.ContainsFunc(nodes, func(n *corev1.Node) bool { return !provider.OwnsNode(n) }) {
			return provider
		}
	}
	return nodegroup.Info{}
}

// describeByNodes adds what the provider would tell of the group. It returns an error where a node
// does not say its zone.
func (r *recorded) describeByNodes(g *nodegroup.Group, provider nodegroup.Info, own []*corev1.Node) error {
	zones := map[string]bool{}
	for _, node := range own {
		zone := cmp.Or(node.Labels[corev1.LabelTopologyZone], provider.ZoneOfNode(node))
		if zone == "" {
			return usageError(fmt.Errorf("node %q names no zone: give it the label %s, or pass --provider=manual", node.Name, corev1.LabelTopologyZone))
		}
		if node.Spec.ProviderID == "" { // written by hand; Join finds the instance by it
			node.Spec.ProviderID = provider.Scheme + "/" + zone + "/" + node.Name
		}
		zones[zone] = true
		instance := nodegroup.Instance{
			ID: provider.InstanceID(node), Zone: zone, State: nodegroup.InstanceInService, Outdated: r.Outdated(g, node), Revision: g.Wanted,
		}
		if instance.Outdated {
			version := cmp.Or(node.Status.NodeInfo.KubeletVersion, "old")
			instance.Revision = nodegroup.Revision{ID: "old", Name: version, Kubernetes: node.Status.NodeInfo.KubeletVersion}
		}
		g.Instances = append(g.Instances, instance)
	}
	g.Provider, g.Kind, g.Sized, g.Zonal = provider.Name, provider.KindByNodes, true, true
	g.Zones = slices.Sorted(maps.Keys(zones))
	g.Desired, g.Min, g.Max = len(own), len(own), len(own)
	return nil
}
