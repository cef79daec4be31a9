// Package manual is the provider for nodes without a cloud that this tool knows: groups are
// read off labels, and whoever brings nodes up and takes them away does so by hand.
package manual

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
)

// groupLabels name a node's group, the first that is there winning.
var groupLabels = [...]string{
	"eks.amazonaws.com/nodegroup",
	"alpha.eksctl.io/nodegroup-name",
	"cloud.google.com/gke-nodepool",
	"kubernetes.azure.com/agentpool",
	"kops.k8s.io/instancegroup",
	"node.kubernetes.io/instancegroup",
	karpenterLabel,
	"cluster.x-k8s.io/deployment-name",
}

const karpenterLabel = "karpenter.sh/nodepool"

// Options say which nodes are a group, and which of them are current.
type Options struct {
	// Selector makes the nodes it matches one group, whose name is SelectorText; nil takes groups from well-known labels.
	Selector     labels.Selector
	SelectorText string
	// Current are labels that a current node carries, all of them.
	Current map[string]string
	// ControlPlane lets control-plane nodes be part of a group.
	ControlPlane bool
}

// Provider implements cloud.Provider over labels alone.
type Provider struct{ options Options }

// New makes a Provider.
func New(options Options) *Provider { return &Provider{options: options} }

// Name implements cloud.Provider.
func (p *Provider) Name() string { return "manual" }

// Account implements cloud.Provider: there is none.
func (p *Provider) Account(context.Context) (string, error) { return "", nil }

// Groups lists the groups by name.
func (p *Provider) Groups(_ context.Context, nodes []*corev1.Node) ([]upgrade.Group, error) {
	byName := map[string]upgrade.Group{}
	for _, node := range nodes {
		if name := p.groupOf(node); name != "" {
			byName[name] = p.group(name, byName[name], node)
		}
	}
	groups := make([]upgrade.Group, 0, len(byName))
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		groups = append(groups, byName[name])
	}
	return groups, nil
}

// Observe implements cloud.Provider. Labels cannot be asked without nodes, so a group is whatever carries its name.
func (p *Provider) Observe(_ context.Context, ref cloud.Ref) (upgrade.Group, error) {
	if ref.To != "" {
		return upgrade.Group{}, fmt.Errorf("--to=%s: without a cloud nobody can make such nodes: say with --current which nodes are current", ref.To)
	}
	return p.group(ref.Name, upgrade.Group{}, nil), nil
}

func (p *Provider) group(name string, g upgrade.Group, node *corev1.Node) upgrade.Group {
	current := labels.Set(p.options.Current).String()
	revision := upgrade.Revision{ID: current, Name: current}
	g.Name, g.Provider, g.Kind = name, p.Name(), "labelled nodes"
	g.Wanted, g.Pointed, g.WantedLabels = revision, revision, p.options.Current
	switch {
	case node != nil && node.Labels[karpenterLabel] != "":
		g.Refusal = "Karpenter replaces these nodes itself: change the NodePool or its NodeClass and let it drift them"
	case current == "" && g.Refusal == "":
		g.Refusal = "which nodes are current is not known: pass --current KEY=VALUE"
	}
	return g
}

// groupOf is the name of the node's group, "" when it has none.
func (p *Provider) groupOf(node *corev1.Node) string {
	if !p.options.ControlPlane && controlPlane(node) {
		return ""
	}
	if p.options.Selector != nil {
		if p.options.Selector.Matches(labels.Set(node.Labels)) {
			return p.options.SelectorText
		}
		return ""
	}
	for _, key := range groupLabels {
		if name := node.Labels[key]; name != "" {
			return name
		}
	}
	return ""
}

func controlPlane(node *corev1.Node) bool {
	for key := range node.Labels {
		if role, ok := strings.CutPrefix(key, "node-role.kubernetes.io/"); ok && (role == "control-plane" || role == "master") {
			return true
		}
	}
	return false
}

// Belongs implements cloud.Provider.
func (p *Provider) Belongs(group *upgrade.Group, node *corev1.Node) bool {
	return p.groupOf(node) == group.Name
}

// Outdated reports whether the node lacks one of the labels of a current node. Where nobody said which those
// are, no node is.
func (p *Provider) Outdated(_ *upgrade.Group, node *corev1.Node) bool {
	for key, value := range p.options.Current {
		if node.Labels[key] != value {
			return true
		}
	}
	return false
}

// Do implements cloud.Provider: there is nothing to change anywhere.
func (p *Provider) Do(_ context.Context, _ string, action upgrade.Action) error {
	return cloud.Unsupported(p.Name(), action)
}
