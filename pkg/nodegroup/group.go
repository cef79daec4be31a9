// Package nodegroup describes a node group as its provider sees it, its nodes joined with their
// machines, and what can be asked of the provider. It decides nothing: a provider needs this
// package and no other to be written, and package upgrade decides over its values.
package nodegroup

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Group is a node group as its provider sees it.
type Group struct {
	// Name is the group's true name, e.g. that of the Auto Scaling group.
	Name string `json:"name"`
	// Provider is "aws", "gke" or "manual".
	Provider string `json:"provider"`
	// Kind says what sort of group it is to its provider, e.g. "Auto Scaling group".
	Kind string `json:"kind"`
	// Wanted is the revision that current instances have; Pointed is the one the group launches
	// now. They differ until SetRevision has landed.
	Wanted  Revision `json:"wanted"`
	Pointed Revision `json:"pointed"`
	// Follows is what the group launches from where that is no revision but moves with the newest
	// one: "workers:$Latest".
	Follows string `json:"follows,omitempty"`
	// Can says what can be asked of the provider for this group.
	Can Capabilities `json:"can"`
	// Desired counts nodes where Can.Resize is true, Min and Max where Can.Bounds is; 0 elsewhere.
	Desired int `json:"desired"`
	Min     int `json:"min"`
	Max     int `json:"max"`
	// Zones are the zones the group may launch in, sorted.
	Zones []string `json:"zones"`
	// Spot is true when all of its machines are Spot instances.
	Spot bool `json:"spot,omitempty"`
	// Observed is when this was read from the provider.
	Observed time.Time `json:"-"`
	// Instances are the group's machines where Can.ListInstances is true; empty elsewhere.
	Instances []Instance `json:"-"`
	// Suspended are the provider's processes that are suspended now, by whomever.
	Suspended []string `json:"suspended,omitempty"`
	// Quiesce are the processes that must be suspended while the group is upgraded.
	Quiesce []string `json:"quiesce,omitempty"`
	// Scaling are the processes that change the group's size by themselves, without an autoscaler
	// in the cluster.
	Scaling []string `json:"scaling,omitempty"`
	// Refusal says why this tool must not drive the group, with the remedy; empty when it may.
	Refusal string `json:"refusal,omitempty"`
	// AbsentTarget tells that Refusal is about a target that was asked for and does not exist.
	AbsentTarget bool `json:"-"`
	// Managed is set when the group's own cloud upgrades it.
	Managed *Managed `json:"-"`
	// LaunchFailure is the newest failure to launch an instance, as the provider tells it.
	LaunchFailure LaunchFailure `json:"-"`
	// Unread says what is not known of the group or its target because the provider could not read it, a
	// sentence each with the reason. An upgrade continues without it.
	Unread []string `json:"-"`
	// Autoscaler is what is known of one that changes the group's size.
	Autoscaler Autoscaler `json:"-"`
	// WantedLabels are labels that a verified current node carries, beside being current.
	WantedLabels map[string]string `json:"wantedLabels,omitempty"`
	// CurrentLabels are labels without which a node is outdated though its machine is current. See
	// RequireLabels.
	CurrentLabels map[string]string `json:"currentLabels,omitempty"`
}

// IsTargetKnown reports whether it is known what current nodes are. If not, no one can say which nodes are outdated.
func (g *Group) IsTargetKnown() bool { return g.Wanted.ID != "" }

// LaunchFailure is a failed attempt of the provider to bring up an instance.
type LaunchFailure struct {
	At      time.Time
	Message string
}

// Autoscaler is what is known of an autoscaler in the cluster that brings up nodes of a group for
// pods that wait.
type Autoscaler struct {
	// Tagged tells that the group's tags have autoscalers find it.
	Tagged bool
	// Serves tells that one is known to serve the group; Missing says what that would take, where
	// it was looked for and not found.
	Serves  bool
	Missing string
}

// Revision names a configuration that nodes are launched from.
type Revision struct {
	// ID is equal for two revisions exactly when they are the same to the provider.
	ID string `json:"id"`
	// Name is short and for people: "workers:7". What follows its last ":" or "@" is what --to
	// takes for it.
	Name string `json:"name"`
	// Image is the machine image, Kubernetes the kubelet's version ("v1.33.4"); either may be
	// unknown.
	Image      string `json:"image,omitempty"`
	Kubernetes string `json:"kubernetes,omitempty"`
	// Spec is the provider's own description of the whole revision, enough to go back to it.
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

// Target is what --to takes for the revision, "" where its name does not tell.
func (r Revision) Target() string {
	if at := strings.LastIndexAny(r.Name, ":@"); at >= 0 {
		return r.Name[at+1:]
	}
	return ""
}

// describeLag is how long a provider's answer may be older than what was done to it.
const describeLag = 30 * time.Second

// IsFreshAfter reports whether the group was read late enough to show what was done to it at the
// time.
func (g *Group) IsFreshAfter(at time.Time) bool { return g.Observed.After(at.Add(describeLag)) }

// RequireLabels has the group's current nodes carry labels beside what its cloud says of their
// machines, and labels that were required before. New nodes count as usable only with them (EKS
// E27). A group without machines is not changed: its labels are all that judges its nodes.
func (g *Group) RequireLabels(required map[string]string) {
	if !g.Can.ListInstances || len(required) == 0 {
		return
	}
	g.CurrentLabels, g.WantedLabels = labels.Merge(g.CurrentLabels, required), labels.Merge(g.WantedLabels, required)
}

// LacksLabels reports whether the node lacks a label of current ones; false where there is no node.
func (g *Group) LacksLabels(node *corev1.Node) bool {
	return node != nil && !labels.SelectorFromSet(g.CurrentLabels).Matches(labels.Set(node.Labels))
}
