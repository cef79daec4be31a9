// Package manual is the provider for clusters whose cloud this program does not support or has no credentials for. Node labels
// alone define the groups and their outdated nodes. The user or another process adds and removes machines.
package manual

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

const providerName = "manual"

// Options configure a Provider.
type Options struct {
	// Selector makes one group of all nodes that it matches. If Selector is nil or matches everything, the labels of the nodes
	// name their groups.
	Selector labels.Selector
	// SelectorText is the name of the selector's group: the selector as the user typed it. The default is Selector.String().
	SelectorText string
	// Current contains the labels of a current node. A node that lacks one of these labels is outdated.
	Current map[string]string
	// ControlPlane allows control-plane nodes in groups.
	ControlPlane bool
}

// Provider implements cloud.Provider by node labels. It keeps no state and sends no requests.
type Provider struct{ options Options }

var _ cloud.Provider = (*Provider)(nil)

// New returns a Provider. It keeps the options' map and does not change it.
func New(o Options) *Provider {
	switch {
	case o.Selector == nil:
	case o.Selector.Empty():
		o.Selector = nil
	default:
		o.SelectorText = cmp.Or(o.SelectorText, o.Selector.String())
	}
	return &Provider{options: o}
}

// groupLabels lists the labels whose value names a node's group. The first label that a node has is used. Labels of owners such
// as Karpenter come first, because a node of an owner must not be put into another group.
func groupLabels() []string {
	return []string{
		"karpenter.sh/nodepool",
		"cluster.x-k8s.io/deployment-name",
		"eks.amazonaws.com/nodegroup",
		"alpha.eksctl.io/nodegroup-name",
		"cloud.google.com/gke-nodepool",
		"kubernetes.azure.com/agentpool",
		"kops.k8s.io/instancegroup",
		"node.kubernetes.io/instancegroup",
	}
}

// defaultGroupName returns the name of the node's group if there is no selector, "" for none. The name comes from the node's
// labels or, without such a label, from its owner. A group of an owner is called KEY=VALUE, so that users do not mistake it for
// a group that can be upgraded.
func defaultGroupName(node *corev1.Node) string {
	for _, key := range groupLabels() {
		value := node.Labels[key]
		if value == "" {
			continue
		}
		if named := key + "=" + value; nodegroup.IsNamedAfterOwner(named) {
			return named
		}
		return value
	}
	return nodegroup.GroupOfOwner(node)
}

// Name implements cloud.Provider.
func (p *Provider) Name() string { return providerName }

// Account implements cloud.Provider. There is no account.
func (p *Provider) Account(context.Context) (string, error) { return "", nil }

// Groups implements cloud.Provider. It never returns an error.
func (p *Provider) Groups(_ context.Context, nodes []*corev1.Node) ([]nodegroup.Group, error) {
	names := map[string]bool{}
	for _, node := range nodes {
		if name := p.groupName(node); name != "" {
			names[name] = true
		}
	}
	var groups []nodegroup.Group
	for _, name := range slices.Sorted(maps.Keys(names)) {
		groups = append(groups, p.newGroup(cloud.Ref{Name: name}))
	}
	return groups, nil
}

// Observe implements cloud.Provider. It does not know the nodes, so it does not check whether the group has nodes. It returns
// cloud.ErrNotFound for the empty name and, with a selector, for every name except SelectorText.
func (p *Provider) Observe(_ context.Context, ref cloud.Ref) (nodegroup.Group, error) {
	if ref.Name == "" || p.options.Selector != nil && ref.Name != p.options.SelectorText {
		return nodegroup.Group{}, fmt.Errorf("reading the nodes of group %q: %w: list the groups with kubectl nodeupgrade", ref.Name, cloud.ErrNotFound)
	}
	return p.newGroup(ref), nil
}

func (p *Provider) newGroup(ref cloud.Ref) nodegroup.Group {
	current := labels.Set(p.options.Current).String() // sorted
	revision := nodegroup.Revision{ID: current, Name: current}
	return nodegroup.Group{
		Name: ref.Name, Provider: providerName, Kind: "labelled nodes", Observed: time.Now(),
		Wanted: revision, Pointed: revision, Refusal: p.refusalReason(ref),
	}
}

func (p *Provider) refusalReason(ref cloud.Ref) string {
	var owned, target, unknown string
	if owner, is := nodegroup.OwnerOfGroup(ref.Name); is {
		owned = fmt.Sprintf("%s owns these nodes: %s", owner.Name, owner.Remedy)
	}
	if ref.To != "" {
		target = fmt.Sprintf("node labels have no revision, so --to=%s cannot be used: pass --current KEY=VALUE instead", ref.To)
	}
	switch {
	case len(p.options.Current) > 0:
	default:
		unknown = "which nodes are current is unknown: pass --current KEY=VALUE"
	}
	return cmp.Or(owned, target, unknown)
}

// groupName returns the name of the node's group, with or without a selector; "" for none.
func (p *Provider) groupName(node *corev1.Node) string {
	switch selector := p.options.Selector; {
	case !p.options.ControlPlane && nodegroup.IsControlPlane(node):
		return ""
	case selector == nil:
		return defaultGroupName(node)
	case selector.Matches(labels.Set(node.Labels)):
		return p.options.SelectorText
	default:
		return ""
	}
}

// Belongs implements cloud.Provider. It uses the node's present labels.
func (p *Provider) Belongs(group *nodegroup.Group, node *corev1.Node) bool {
	name := p.groupName(node)
	return name != "" && name == group.Name
}

// Outdated implements cloud.Provider: a node is outdated if it lacks a label in Current. Without Current no node is outdated, and
// the group's Refusal explains why.
func (p *Provider) Outdated(_ *nodegroup.Group, node *corev1.Node) bool {
	return !labels.SelectorFromSet(p.options.Current).Matches(labels.Set(node.Labels))
}

// Do implements cloud.Provider. There is no cloud, so no action is supported.
func (p *Provider) Do(_ context.Context, _ string, action nodegroup.Action) error {
	return cloud.Unsupported(providerName, action)
}
