package upgrade

import (
	"path"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
)

// World is everything a decision may rest on, at one moment.
type World struct {
	// Now is the wall clock.
	Now time.Time
	// Request is what the user asked for, with all defaults resolved.
	Request Request
	// Group is the node group as its cloud, or for the manual provider its labels, show it.
	Group Group
	// Members are the group's nodes joined with their instances, sorted by Name. See Join.
	Members []Member
	// Budgets are the PodDisruptionBudgets of the cluster.
	Budgets drain.Budgets
	// Disrupted tells when a pod (namespace/name) was last seen in the status.disruptedPods of a budget:
	// from then on that budget's status shows its eviction.
	Disrupted map[types.NamespacedName]time.Time
	// EndingNamespaces are the namespaces that are being deleted.
	EndingNamespaces map[string]bool
	// Facts tell which pods others need, as it was when this process took the upgrade up.
	Facts drain.Facts
	// Open holds, by Action.Key, each action that was begun: whether it is in flight, and how it last ended.
	Open map[string]Attempt
	// Record is what was stored last; its zero value starts a new upgrade.
	Record Record
	// Idle is for how long, up to Now, no holder of the lease was at work: the process was stopped, or asleep.
	Idle time.Duration
	// Notes are the last Step's.
	Notes Notes
	// Stop is set when the user asked to stop; nothing new is begun.
	Stop bool
	// Asked is what somebody else asked of this upgrade.
	Asked Asked
	// EvictionsAtOnce is how many evictions may be in flight at once, 0 for any number.
	EvictionsAtOnce int
	// Brief has Step.Status leave out its Nodes, for those who take many steps and show none.
	Brief bool
}

// Group is a node group as its provider sees it.
type Group struct {
	// Name is the group's true name, e.g. that of the Auto Scaling group.
	Name string `json:"name"`
	// Provider is "aws", "gke" or "manual".
	Provider string `json:"provider"`
	// Kind says what sort of group it is to its provider, e.g. "Auto Scaling group".
	Kind string `json:"kind"`
	// Wanted is the revision that current instances have; Pointed is the one the group launches now.
	// They differ until SetRevision has landed.
	Wanted  Revision `json:"wanted"`
	Pointed Revision `json:"pointed"`
	// Follows is what the group launches from where that is no revision but moves with the newest one: "workers:$Latest".
	Follows string `json:"follows,omitempty"`
	// Sized is true when the provider has a size to change; Desired, Min and Max are counts of nodes then.
	Sized   bool `json:"sized"`
	Desired int  `json:"desired"`
	Min     int  `json:"min"`
	Max     int  `json:"max"`
	// Zones are the zones the group may launch in, sorted.
	Zones []string `json:"zones"`
	// Zonal is true when the provider can add an instance in a named zone.
	Zonal bool `json:"zonal"`
	// Observed is when this was read from the provider.
	Observed time.Time `json:"-"`
	// Instances are the group's machines; empty for the manual provider.
	Instances []Instance `json:"-"`
	// Suspended are the provider's processes that are suspended now, by whomever.
	Suspended []string `json:"suspended,omitempty"`
	// Quiesce are the processes that must be suspended while the group is upgraded.
	Quiesce []string `json:"quiesce,omitempty"`
	// Refusal says why this tool must not drive the group, with the remedy; empty when it may.
	Refusal string `json:"refusal,omitempty"`
	// LaunchFailure is the newest failure to launch an instance, as the provider tells it.
	LaunchFailure LaunchFailure `json:"-"`
	// WantedLabels are labels that a verified current node carries, beside being current.
	WantedLabels map[string]string `json:"wantedLabels,omitempty"`
	// CurrentLabels are labels without which a node is outdated though its machine is current. See RequireLabels.
	CurrentLabels map[string]string `json:"currentLabels,omitempty"`
}

// LaunchFailure is a failed attempt of the provider to bring up an instance.
type LaunchFailure struct {
	At      time.Time
	Message string
}

// Revision names a configuration that nodes are launched from.
type Revision struct {
	// ID is equal for two revisions exactly when they are the same to the provider.
	ID string `json:"id"`
	// Name is short and for people: "workers:7". What follows its last ":" or "@" is what --to takes for it.
	Name string `json:"name"`
	// Image is the machine image, Kubernetes the kubelet's version ("v1.33.4"); either may be unknown.
	Image      string `json:"image,omitempty"`
	Kubernetes string `json:"kubernetes,omitempty"`
	// Spec is the provider's own description of the whole revision, enough to go back to it.
	Spec string `json:"spec,omitempty"`
}

// InstanceState is the part of a machine's life that matters here.
type InstanceState string

// The states of an instance. A provider maps its own states to these and everything it does not know to InstanceUnknown.
const (
	InstancePending   InstanceState = "Pending"
	InstanceInService InstanceState = "InService"
	InstanceLeaving   InstanceState = "Terminating"
	InstanceUnknown   InstanceState = "Unknown"
)

// Instance is one machine of the group.
type Instance struct {
	ID       string
	Zone     string
	State    InstanceState
	Revision Revision
	// Outdated is the provider's judgement against Group.Wanted; Why says what differs.
	Outdated bool
	Why      string
	// Protected is true for an instance its owner has protected against removal.
	Protected bool
}

// Member is a node of the group with its instance. Either may be missing: an
// instance that never became a node, or a node of the manual provider.
type Member struct {
	Node     *corev1.Node
	Instance Instance
	// Outdated tells that the member is to be replaced.
	Outdated bool
	// Pods are all pods bound to the node. Nil where the observer does not keep them (current nodes).
	Pods []*corev1.Pod

	traits traits
}

// Name is the node's name or, for an instance without a node, the instance's ID.
func (m *Member) Name() string {
	if m.Node != nil {
		return m.Node.Name
	}
	return m.Instance.ID
}

// Zone is the member's zone, "" when nobody says.
func (m *Member) Zone() string {
	switch {
	case m.Instance.Zone != "" || m.Node == nil:
		return m.Instance.Zone
	case m.read():
		return m.traits.zone
	}
	return m.Node.Labels[corev1.LabelTopologyZone]
}

// Join pairs nodes with instances by the last element of the provider ID
// (aws:///us-east-1a/i-0123) and sorts the members by name. outdated judges a node that
// has no instance. Nodes whose instance the group does not list are members still: their
// machine may be gone a moment before them.
func Join(group Group, nodes []*corev1.Node, outdated func(*corev1.Node) bool) []Member {
	byID := make(map[string]Instance, len(group.Instances))
	for _, instance := range group.Instances {
		byID[instance.ID] = instance
	}
	members := make([]Member, 0, len(nodes))
	for _, node := range nodes {
		instance, known := byID[path.Base(node.Spec.ProviderID)]
		delete(byID, instance.ID)
		member := Member{Node: node, Instance: instance, Outdated: instance.Outdated}
		if !known {
			member.Outdated = outdated(node)
		}
		members = append(members, member)
	}
	for _, instance := range byID {
		members = append(members, Member{Instance: instance, Outdated: instance.Outdated})
	}
	slices.SortFunc(members, func(a, b Member) int { return strings.Compare(a.Name(), b.Name()) })
	return members
}

// Attempt is the memory of one action: it is in flight, or has ended in Outcome.
type Attempt struct {
	Action Action
	// Begun is when the last try was started, Ended when its answer was sorted.
	Begun, Ended time.Time
	InFlight     bool
	Outcome      Outcome
	// Detail is the server's answer for people.
	Detail string
	// Tries counts how often the action was started.
	Tries int
	// NotBefore is the earliest next try; the runner draws the jitter.
	NotBefore time.Time
}

// Outcome is an answer of a server, sorted once and in one place (package runner).
type Outcome string

const (
	// OutcomeDone is a request that was accepted.
	OutcomeDone Outcome = "done"
	// OutcomeMoved is an object that is gone or is no longer the one that was decided on (404, 409).
	OutcomeMoved Outcome = "moved"
	// OutcomeRefused is an eviction that a budget refused (429 with a DisruptionBudget cause).
	OutcomeRefused Outcome = "refused"
	// OutcomeLater is a request that had no effect and may have one later: overload, throttling, a webhook's denial.
	OutcomeLater Outcome = "later"
	// OutcomeUnclear is a request whose answer was lost: it may have had its effect.
	OutcomeUnclear Outcome = "unclear"
	// OutcomeExhausted is a request the cloud has no capacity or quota for, or a termination that would shrink a group
	// below its minimum.
	OutcomeExhausted Outcome = "exhausted"
	// OutcomeUnsupported is a launch in a named zone that is not to be had here, for want of a permission or of the
	// operation itself. The group can still be made larger as a whole.
	OutcomeUnsupported Outcome = "unsupported"
	// OutcomeFatal is a request that will never be accepted as it is: forbidden, invalid.
	OutcomeFatal Outcome = "fatal"
)
