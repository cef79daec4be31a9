package nodegroup

import (
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodemark"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/shell"
)

// Info is what is particular about a provider and needs no request to be known. Everything else
// that a provider does is behind cloud.Provider.
type Info struct {
	// Name is the provider's name, as --provider, Group.Provider and records have it.
	Name string
	// Scheme is what the provider IDs of its nodes begin with: "aws://"; empty for nodes of any
	// origin.
	Scheme string
	// Model names the managed service whose defaults fit its groups: "eks" or "gke".
	Model string
	// Can is what the provider can do with most of its groups. Group.Can has it for one group.
	Can Capabilities
	// FenceTaint is the NoSchedule taint that fences nodes of its groups (EKS E30).
	FenceTaint corev1.Taint
	// KindByNodes is what a group is called of which only the nodes are known; empty where a group
	// is no more than its nodes.
	KindByNodes string
	// Manager upgrades those of its groups that are Managed; the zero Manager where none are.
	Manager Manager
	// resume is the command line of ResumeCommand: the command, its option for the group, and the one for the processes.
	resume [3]string
}

// Manager is a service that upgrades groups by itself, in the words that people know from it.
type Manager struct {
	// Name is the service: "EKS".
	Name string
	// Operation is what it calls one upgrade of a group: "update". Rolling and Forced name one that honours budgets and one
	// that deletes what is left (EKS E54); "" where it has no such words.
	Operation, Rolling, Forced string
	// cannot says, by verb, why the service cannot do it and what can be done instead.
	cannot map[string]string
}

// Providers are the providers that decisions know, by name.
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
					"pause":    "EKS cannot pause an update: it finishes, or fails by itself at a node that cannot be drained",
					"rollback": "EKS cannot take a node group back to an older version: create a node group of the older release beside it and move the pods there",
				},
			},
			resume: [3]string{"aws autoscaling resume-processes", "--auto-scaling-group-name", "--scaling-processes"},
		},
		{Name: "gke", Scheme: "gce://", Model: "gke", Can: FullControl(), FenceTaint: ours, KindByNodes: "GKE node pool, read from node labels"},
		{Name: "manual", Model: "eks", FenceTaint: ours},
	}
}

// InfoOf is what is particular about the provider of the name. One that is not known is like a
// self-managed group of a cloud: it has a size, and the fence is this tool's own taint.
func InfoOf(name string) Info {
	all := Providers()
	if i := slices.IndexFunc(all, func(p Info) bool { return p.Name == name }); i >= 0 {
		return all[i]
	}
	return Info{Name: name, Model: "eks", Can: FullControl(), FenceTaint: all[len(all)-1].FenceTaint}
}

// Service is the managed service whose groups they are, as people write it: "EKS".
func (p Info) Service() string { return strings.ToUpper(p.Model) }

// OwnsNode reports whether the node is a machine of the provider, as its provider ID says.
func (p Info) OwnsNode(node *corev1.Node) bool {
	return p.Scheme != "" && strings.HasPrefix(node.Spec.ProviderID, p.Scheme)
}

// InstanceID is the ID of the node's machine as the provider's groups list it, the last element of
// the provider ID: i-0123 of aws:///us-east-1a/i-0123.
func (p Info) InstanceID(node *corev1.Node) string { return path.Base(node.Spec.ProviderID) }

// ZoneOfNode is the zone that the provider ID of the node names, the element before the last; ""
// when it names none.
func (p Info) ZoneOfNode(node *corev1.Node) string {
	parts := strings.Split(strings.TrimPrefix(node.Spec.ProviderID, p.Scheme), "/")
	if !p.OwnsNode(node) || len(parts) < 2 {
		return ""
	}
	return parts[len(parts)-2]
}

// ResumeCommand is the command line by which a user resumes processes of the group that an upgrade
// suspended.
func (p Info) ResumeCommand(group string, suspended []string) string {
	return p.resume[0] + " " + shell.Option(p.resume[1], group) + " " + shell.Command(p.resume[2], suspended...)
}

// IsClosed reports whether the node takes no new pods: it is cordoned, or has a provider's fence
// (EKS E30, E32).
func IsClosed(node *corev1.Node) bool {
	return node.Spec.Unschedulable || len(node.Spec.Taints) > 0 && slices.ContainsFunc(Providers(), func(p Info) bool { return nodemark.HasTaint(node, p.FenceTaint) })
}

// WhyNot says why the verb is not to be had of a group that the service upgrades, and what can be done instead; "" when nothing
// is known against it.
func (m Manager) WhyNot(verb string) string { return m.cannot[verb] }

// FenceTaint is the NoSchedule taint that fences nodes of the provider's groups (EKS E30).
func FenceTaint(provider string) corev1.Taint { return InfoOf(provider).FenceTaint }
