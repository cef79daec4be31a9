package nodegroup

import (
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodemark"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/shell"
)

// Info is the static data about a provider. Everything that needs requests is behind cloud.Provider.
type Info struct {
	// Name is the provider's name, as in --provider, Group.Provider and records.
	Name string
	// Scheme is the prefix of its nodes' provider IDs: "aws://". It is empty if nodes may have any provider ID.
	Scheme string
	// Model is the managed service whose defaults are used for its groups: "eks" or "gke".
	Model string
	// Can is what the provider supports for most of its groups. Group.Can is for one group.
	Can Capabilities
	// FenceTaint is the NoSchedule taint that fences nodes of its groups (EKS E30).
	FenceTaint corev1.Taint
	// KindByNodes is the kind of a group of which only the nodes are known. It is empty if groups are only their
	// nodes.
	KindByNodes string
	// Manager is the service that upgrades Managed groups; zero if there are none.
	Manager Manager
	// resume has the parts of ResumeCommand: the command, its option for the group, and its option for the processes.
	resume [3]string
}

// Manager is a service that upgrades groups itself, with its own terms.
type Manager struct {
	// Name is the name of the service: "EKS".
	Name string
	// Operation is its term for an upgrade of a group: "update". Rolling is its term for an upgrade that respects
	// budgets, and Forced for one that deletes the remaining pods (EKS E54); "" if it has no such terms.
	Operation, Rolling, Forced string
	// Taint is the NoSchedule taint of a node that the service has begun to replace; zero if the service cordons such nodes.
	Taint corev1.Taint
	// Maintains is true if the service upgrades groups without a user's request, too.
	Maintains bool
	// cannot is, by verb, why the service does not support the verb and what the user can do instead.
	cannot map[string]string
	// BeginsByItself is true if it takes no request to begin; see Managed.ByItself.
	BeginsByItself bool
}

// Providers returns the known providers.
func Providers() []Info {
	ours := corev1.Taint{Key: nodemark.Domain + "/outdated", Effect: corev1.TaintEffectNoSchedule}
	return []Info{
		{
			Name: "aws", Scheme: "aws://", Model: "eks", Can: FullControl(),
			FenceTaint:  corev1.Taint{Key: "eks.amazonaws.com/nodegroup", Value: "unschedulable", Effect: corev1.TaintEffectNoSchedule},
			KindByNodes: "Auto Scaling group, read from node labels",
			Manager: Manager{
				Name: "EKS", Operation: "update", Rolling: "rolling update", Forced: "force update",
				cannot: map[string]string{
					// containers-roadmap#1531, and EKS E11.
					"pause":    "EKS cannot pause an update: it runs until it has finished, or until a node cannot be drained",
					"rollback": "EKS cannot take a node group back to an older version: create a node group of the older release beside it and move the pods there",
				},
			},
			resume: [3]string{"aws autoscaling resume-processes", "--auto-scaling-group-name", "--scaling-processes"},
		},
		{
			Name: "gke", Scheme: "gce://", Model: "gke", Can: FullControl(), FenceTaint: ours, KindByNodes: "GKE node pool, read from node labels",
			Manager: Manager{
				Name: "GKE", Operation: "upgrade", Maintains: true,
			},
		},
		{
			Name: "karpenter", Model: "eks", Can: Capabilities{ListInstances: true, Refill: RefillByPods}, FenceTaint: ours, KindByNodes: "Karpenter NodePool, read from node labels",
			Manager: Manager{
				Name: "Karpenter", Operation: "roll-out", BeginsByItself: true,
				Taint: corev1.Taint{Key: "karpenter.sh/disrupted", Effect: corev1.TaintEffectNoSchedule},
				cannot: map[string]string{
					"pause":    "Karpenter has no pause: set a budget of its NodePool to nodes: \"0\" with the reason Drifted",
					"resume":   "Karpenter continues as soon as the budgets of its NodePool allow it",
					"rollback": "change its NodePool or NodeClass back, and Karpenter replaces the nodes again",
					"complete": "Karpenter keeps no drained nodes",
				},
			},
		},
		{Name: "manual", Model: "eks", FenceTaint: ours},
	}
}

// InfoOf returns the data about the provider. An unknown provider is treated like self-managed groups of a cloud:
// they have a size, and are fenced with this tool's own taint.
func InfoOf(name string) Info {
	all := Providers()
	if i := slices.IndexFunc(all, func(p Info) bool { return p.Name == name }); i >= 0 {
		return all[i]
	}
	return Info{Name: name, Model: "eks", Can: FullControl(), FenceTaint: all[len(all)-1].FenceTaint}
}

// Service returns the name of the managed service for people: "EKS".
func (p Info) Service() string { return strings.ToUpper(p.Model) }

// OwnsNode reports whether the node's provider ID is one of the provider.
func (p Info) OwnsNode(node *corev1.Node) bool {
	return p.Scheme != "" && strings.HasPrefix(node.Spec.ProviderID, p.Scheme)
}

// InstanceID returns the ID of the node's machine, as the provider's groups list it. It is the last element of the
// provider ID: i-0123 of aws:///us-east-1a/i-0123.
func (p Info) InstanceID(node *corev1.Node) string { return path.Base(node.Spec.ProviderID) }

// ZoneOfNode returns the zone in the node's provider ID, which is the element before the last, or "" if it has none.
func (p Info) ZoneOfNode(node *corev1.Node) string {
	parts := strings.Split(strings.TrimPrefix(node.Spec.ProviderID, p.Scheme), "/")
	if !p.OwnsNode(node) || len(parts) < 2 {
		return ""
	}
	return parts[len(parts)-2]
}

// ResumeCommand returns the command line with which a user resumes the group's processes that an upgrade suspended.
func (p Info) ResumeCommand(group string, suspended []string) string {
	return p.resume[0] + " " + shell.Option(p.resume[1], group) + " " + shell.Command(p.resume[2], suspended...)
}

// IsClosed reports whether the node takes no new pods: it is cordoned, or has the taint of a provider or of its service (EKS
// E30, E32).
func IsClosed(node *corev1.Node) bool {
	return node.Spec.Unschedulable || len(node.Spec.Taints) > 0 && slices.ContainsFunc(Providers(), func(p Info) bool {
		return nodemark.HasTaint(node, p.FenceTaint) || p.Manager.Taint.Key != "" && nodemark.HasTaint(node, p.Manager.Taint)
	})
}

// WhyUnsupported returns why the service does not support the verb, and what the user can do instead. It returns "" if no
// reason is known.
func (m Manager) WhyUnsupported(verb string) string { return m.cannot[verb] }

// FenceTaint returns the NoSchedule taint that fences nodes of the provider's groups (EKS E30).
func FenceTaint(provider string) corev1.Taint { return InfoOf(provider).FenceTaint }
