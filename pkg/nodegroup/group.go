// Package nodegroup describes node groups as their providers see them, joins nodes with their machines, and defines
// the actions that a provider supports. It makes no decisions. A provider can be written with this package only.
// Package upgrade decides over its values.
package nodegroup

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Group is a node group as its provider sees it.
type Group struct {
	// Name is the group's full name, for example that of the Auto Scaling group.
	Name string `json:"name"`
	// Provider is "aws", "gke" or "manual".
	Provider string `json:"provider"`
	// Kind is the provider's name for this kind of group, for example "Auto Scaling group".
	Kind string `json:"kind"`
	// Wanted is the revision that current instances have. Pointed is the revision that the group launches now. They
	// differ until a SetRevision has taken effect.
	Wanted  Revision `json:"wanted"`
	Pointed Revision `json:"pointed"`
	// Follows is set if the group launches from an alias that moves with the newest revision: "workers:$Latest".
	Follows string `json:"follows,omitempty"`
	// Can is what the provider supports for this group.
	Can Capabilities `json:"can"`
	// Desired is the number of nodes if Can.Resize is true. Min and Max are its limits if Can.Bounds is true.
	// Otherwise, they are 0.
	Desired int `json:"desired"`
	Min     int `json:"min"`
	Max     int `json:"max"`
	// Zones are the zones in which the group may launch nodes, sorted.
	Zones []string `json:"zones"`
	// Spot is true if all of its machines are Spot instances.
	Spot bool `json:"spot,omitempty"`
	// Observed is when the group was read from the provider.
	Observed time.Time `json:"-"`
	// Instances are the group's machines if Can.ListInstances is true; otherwise empty.
	Instances []Instance `json:"-"`
	// Suspended are the provider's processes that are currently suspended, no matter by whom.
	Suspended []string `json:"suspended,omitempty"`
	// Quiesce are the processes that must be suspended while the group is upgraded.
	Quiesce []string `json:"quiesce,omitempty"`
	// Scaling are the processes that change the group's size by themselves, without an autoscaler
	// in the cluster.
	Scaling []string `json:"scaling,omitempty"`
	// Refusal is why this tool must not upgrade the group, with the remedy; empty if it may.
	Refusal string `json:"refusal,omitempty"`
	// AbsentTarget is true if Refusal is about a requested target that does not exist.
	AbsentTarget bool `json:"-"`
	// Managed is set when the group's own cloud upgrades it.
	Managed *Managed `json:"-"`
	// LaunchFailure is the most recent failure to launch an instance, as reported by the provider.
	LaunchFailure LaunchFailure `json:"-"`
	// Unread is what is not known about the group or its target because the provider could not read it. Each sentence
	// includes the reason. An upgrade continues without this data.
	Unread []string `json:"-"`
	// Autoscaler is what is known of an autoscaler that changes the group's size.
	Autoscaler Autoscaler `json:"-"`
	// WantedLabels are labels that a current node must have before it counts as usable.
	WantedLabels map[string]string `json:"wantedLabels,omitempty"`
	// CurrentLabels are labels without which a node is outdated even if its machine is current. See RequireLabels.
	CurrentLabels map[string]string `json:"currentLabels,omitempty"`
}

// IsTargetKnown reports whether the wanted revision is known. If not, outdated nodes cannot be identified.
func (g *Group) IsTargetKnown() bool { return g.Wanted.ID != "" }

// AddsNodes reports whether nodes are added before the first one is drained, if the upgrade has a surge: by this tool, or
// by the cloud that upgrades the group.
func (g *Group) AddsNodes() bool { return g.Can.Resize || g.Managed != nil }

// LaunchFailure is a failed attempt of the provider to launch an instance.
type LaunchFailure struct {
	At      time.Time
	Message string
}

// Autoscaler is what is known of an autoscaler in the cluster that adds nodes to a group for pending pods.
type Autoscaler struct {
	// Tagged is true if the group's tags let autoscalers discover it.
	Tagged bool
	// Serves is true if an autoscaler is known to serve the group. Missing is what is missing for that, if this was
	// checked.
	Serves  bool
	Missing string
}

// Revision is a configuration from which nodes are launched.
type Revision struct {
	// ID is equal for two revisions if and only if the provider considers them the same.
	ID string `json:"id"`
	// Name is a short name for people: "workers:7". The part after the last ":" or "@" is the revision's value for
	// --to.
	Name string `json:"name"`
	// Image is the machine image. Kubernetes is the kubelet's version ("v1.33.4"). Either may be unknown.
	Image      string `json:"image,omitempty"`
	Kubernetes string `json:"kubernetes,omitempty"`
	// Spec is the provider's description of the whole revision. It is sufficient for a rollback.
	Spec string `json:"spec,omitempty"`
}

// Sizes is a group's size at one moment, in nodes.
type Sizes struct {
	// Desired, Min and Max are the desired, smallest and largest size.
	Desired int `json:"desired"`
	Min     int `json:"min"`
	Max     int `json:"max"`
	// Zones counts the nodes of each zone.
	Zones map[string]int `json:"zones,omitempty"`
}

// Target returns the revision's value for --to, or "" if its name does not contain one.
func (r Revision) Target() string {
	if at := strings.LastIndexAny(r.Name, ":@"); at >= 0 {
		return r.Name[at+1:]
	}
	return ""
}

// visibilityLag is how long a provider's answers may take to show a change.
const visibilityLag = 30 * time.Second

// IsFreshAfter reports whether the group was read late enough to show a change that was made at the time.
func (g *Group) IsFreshAfter(at time.Time) bool { return g.Observed.After(at.Add(visibilityLag)) }

// RequireLabels adds labels that the group's current nodes must have. They are added to labels that were required
// before, and to what the cloud reports about machines. New nodes are usable only with these labels (EKS E27). A
// group without machines is not changed, because its nodes are judged by labels only.
func (g *Group) RequireLabels(required map[string]string) {
	if !g.Can.ListInstances || len(required) == 0 {
		return
	}
	g.CurrentLabels, g.WantedLabels = labels.Merge(g.CurrentLabels, required), labels.Merge(g.WantedLabels, required)
}

// LacksLabels reports whether the node lacks a label of current nodes. It returns false if there is no node.
func (g *Group) LacksLabels(node *corev1.Node) bool {
	return node != nil && !labels.SelectorFromSet(g.CurrentLabels).Matches(labels.Set(node.Labels))
}
