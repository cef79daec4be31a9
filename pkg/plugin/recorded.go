package plugin

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud/manual"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
)

// nobodyIsCurrent is a label that no node carries.
const nobodyIsCurrent = "kubectl-nodeupgrade/current"

// recorded is the provider of a cluster that was written down: groups come from labels, and what a cloud would tell
// of them from their nodes.
type recorded struct {
	*manual.Provider
	nodes []*corev1.Node
	// provider is what the user said: auto, aws or manual.
	provider string
	// to is what new nodes are called; all is true when every node is to be replaced.
	to  string
	all bool
}

func newRecorded(o *options, nodes []*corev1.Node) *recorded {
	r := &recorded{nodes: nodes, provider: o.provider, to: o.settings.To, all: len(o.settings.Current) == 0}
	current := o.settings.Current
	if r.all {
		current = map[string]string{nobodyIsCurrent: ""}
	}
	r.Provider = manual.New(manual.Options{Selector: o.labels, SelectorText: o.selector, Current: current, ControlPlane: o.controlPlane})
	return r
}

// Observe is cloud.Provider's. A group whose nodes are instances of AWS is taken for an Auto Scaling group of just
// these nodes, which may launch in each of their zones.
func (r *recorded) Observe(ctx context.Context, ref cloud.Ref) (upgrade.Group, error) {
	g, err := r.Provider.Observe(ctx, cloud.Ref{Name: ref.Name})
	if err != nil {
		return g, err
	}
	own := slices.DeleteFunc(slices.Clone(r.nodes), func(n *corev1.Node) bool { return !r.Belongs(&g, n) })
	g.Wanted = r.wanted(&g, own)
	g.Pointed = g.Wanted
	if r.provider == "manual" || len(own) == 0 || (r.provider == "auto" && !allOnAWS(own)) {
		return g, nil
	}
	return g, r.asAutoScaling(&g, own)
}

// wanted describes new nodes: as the user calls them, and as the newest of those that are current already.
func (r *recorded) wanted(g *upgrade.Group, own []*corev1.Node) upgrade.Revision {
	wanted := g.Wanted
	if r.all {
		wanted = upgrade.Revision{ID: "new", Name: "new nodes"}
	}
	wanted.Name = cmp.Or(r.to, wanted.Name)
	current := slices.DeleteFunc(slices.Clone(own), func(n *corev1.Node) bool { return r.Outdated(g, n) })
	if len(current) > 0 {
		newest := slices.MaxFunc(current, func(a, b *corev1.Node) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
		wanted.Kubernetes = newest.Status.NodeInfo.KubeletVersion
	}
	return wanted
}

// asAutoScaling adds what AWS would tell of the group. It errs where a node does not say its zone.
func (r *recorded) asAutoScaling(g *upgrade.Group, own []*corev1.Node) error {
	zones := map[string]bool{}
	for _, node := range own {
		zone := cmp.Or(node.Labels[corev1.LabelTopologyZone], zoneOf(node.Spec.ProviderID))
		if zone == "" {
			return usage(fmt.Errorf("node %q names no zone: give it the label %s, or pass --provider=manual", node.Name, corev1.LabelTopologyZone))
		}
		if node.Spec.ProviderID == "" { // written by hand; Join finds the instance by it
			node.Spec.ProviderID = onAWS + "/" + zone + "/" + node.Name
		}
		zones[zone] = true
		instance := upgrade.Instance{
			ID: path.Base(node.Spec.ProviderID), Zone: zone, State: upgrade.InstanceInService, Outdated: r.Outdated(g, node), Revision: g.Wanted,
		}
		if instance.Outdated {
			version := cmp.Or(node.Status.NodeInfo.KubeletVersion, "old")
			instance.Revision = upgrade.Revision{ID: "old", Name: version, Kubernetes: node.Status.NodeInfo.KubeletVersion}
		}
		g.Instances = append(g.Instances, instance)
	}
	g.Provider, g.Kind, g.Sized, g.Zonal = "aws", "Auto Scaling group, as its nodes tell", true, true
	g.Zones = slices.Sorted(maps.Keys(zones))
	g.Desired, g.Min, g.Max = len(own), len(own), len(own)
	return nil
}

// onAWS is what provider IDs of AWS begin with: aws:///us-east-1a/i-0123.
const onAWS = "aws://"

func allOnAWS(nodes []*corev1.Node) bool {
	return !slices.ContainsFunc(nodes, func(n *corev1.Node) bool { return !strings.HasPrefix(n.Spec.ProviderID, onAWS) })
}

// zoneOf reads the zone off a provider ID of AWS, "" when it has none.
func zoneOf(providerID string) string {
	rest, ok := strings.CutPrefix(providerID, onAWS)
	parts := strings.Split(rest, "/")
	if !ok || len(parts) < 2 {
		return ""
	}
	return parts[len(parts)-2]
}
