package nodegroup

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Owner is a service or a controller that owns nodes and replaces them itself, so this tool should not replace them.
type Owner struct {
	// Name is the owner's name for people: "Karpenter".
	Name string
	// Kind is the owner's word for a group of its nodes.
	Kind string
	// Does is what the owner does with its nodes. Remedy is what a user can do to get newer nodes.
	Does, Remedy string
	// Provider is the name of the provider that follows the owner's replacements; "" if there is none.
	Provider string
	// Expires is true if the owner's nodes end by themselves within a week. The strategy short-lived waits for their end
	// (GKE G01).
	Expires bool

	// group returns the group of a node of the owner, as KEY=VALUE, or "" for other nodes. keys are the KEYs that only this
	// owner uses.
	group func(*corev1.Node) string
	keys  []string
}

// Node labels that identify owners.
const (
	karpenterPool = "karpenter.sh/nodepool"
	computeType   = "eks.amazonaws.com/compute-type"
	gkePool       = "cloud.google.com/gke-nodepool"
	// openShiftSet is a label of Machines. Their nodes are grouped by it.
	openShiftSet = "machine.openshift.io/cluster-api-machineset"
	// clusterAPIDeployment is a label of Machines that some clusters copy to nodes.
	clusterAPIDeployment = "cluster.x-k8s.io/deployment-name"
)

// clusterAPIAnnotations returns the annotations of all Cluster API nodes, the most specific first (cluster-api,
// api/core/v1beta2/common_types.go).
func clusterAPIAnnotations() []string {
	return []string{"cluster.x-k8s.io/owner-name", "cluster.x-k8s.io/owner-kind", "cluster.x-k8s.io/machine"}
}

// owners returns all known owners. The first one that owns a node counts, so special cases come before the general
// one.
func owners() []Owner {
	const drift = "change its NodePool or NodeClass, and %s replaces its nodes (drift)"
	return []Owner{
		{
			Name: "Fargate", Kind: "Fargate nodes", group: groupOfFargate, keys: []string{computeType},
			Does: "created this node for one pod and removes it with that pod", Remedy: "restart the workload with kubectl rollout restart, which gives its pods new nodes",
		},
		{
			Name: "EKS Auto Mode", Kind: "EKS Auto Mode NodePool", Provider: "karpenter", group: groupOfKarpenter(computeType, "auto"),
			Does: "created this node and replaces it itself", Remedy: strings.ReplaceAll(drift, "%s", "EKS Auto Mode"),
		},
		{
			Name: "AKS node auto-provisioning", Kind: "AKS node auto-provisioning NodePool", Provider: "karpenter", group: groupOfKarpenter("karpenter.azure.com/aksnodeclass", ""),
			Does: "created this node and replaces it itself", Remedy: strings.ReplaceAll(drift, "%s", "AKS"),
		},
		{
			Name: "Karpenter", Kind: "Karpenter NodePool", Provider: "karpenter", group: groupByLabel(karpenterPool, ""), keys: []string{karpenterPool},
			Does: "created this node and replaces it itself", Remedy: strings.ReplaceAll(drift, "%s", "Karpenter"),
		},
		{
			Name: "OpenShift's Machine API", Kind: "OpenShift machines", group: groupOfOpenShift, keys: []string{openShiftSet},
			Does: "replaces this node and upgrades its system itself", Remedy: "update the cluster, whose Machine Config Operator upgrades its nodes, or change the MachineSet and delete its Machines",
		},
		{
			Name: "Cluster API", Kind: "Cluster API machines", group: groupOfClusterAPI, keys: append(clusterAPIAnnotations(), clusterAPIDeployment),
			Does: "replaces this node itself", Remedy: "change its MachineDeployment or MachinePool, which rolls its machines",
		},
		{
			Name: "GKE Autopilot", Kind: "GKE Autopilot nodes", group: groupOfAutopilot,
			Does: "upgrades and replaces this node", Remedy: "upgrade the cluster or set a maintenance window, and GKE replaces the nodes",
		},
		{
			Name: "GKE Flex Start", Kind: "GKE Flex Start node pool", Expires: true, group: groupOfFlexStart,
			Does: "terminates this node within 7 days, and starts newer nodes when they are needed", Remedy: "change the node pool and wait",
		},
	}
}

// OwnerOf returns the owner of the node, or false if it has none.
func OwnerOf(node *corev1.Node) (Owner, bool) {
	for _, owner := range owners() {
		if owner.group(node) != "" {
			return owner, true
		}
	}
	return Owner{}, false
}

// OwnerOfAll returns the owner that all members with a node have, or false if there is no such owner.
func OwnerOfAll(members []Member) (Owner, bool) {
	var found Owner
	for i := range members {
		if members[i].Node == nil {
			continue
		}
		owner, owned := OwnerOf(members[i].Node)
		if !owned || found.Name != "" && found.Name != owner.Name {
			return Owner{}, false
		}
		found = owner
	}
	return found, found.Name != ""
}

// OwnerOfGroup returns the owner whose key is in the group's name, or false for other names.
func OwnerOfGroup(name string) (Owner, bool) {
	all := owners()
	i := slices.IndexFunc(all, func(o Owner) bool {
		return slices.ContainsFunc(o.keys, func(key string) bool { return strings.HasPrefix(name, key+"=") })
	})
	if i < 0 {
		return Owner{}, false
	}
	return all[i], true
}

// IsNamedAfterOwner reports whether the name is one that GroupOfOwner returns.
func IsNamedAfterOwner(name string) bool {
	_, named := OwnerOfGroup(name)
	return named
}

// GroupOfOwner returns the group of a node that has an owner, as KEY=VALUE. It returns "" for a node without an owner.
func GroupOfOwner(node *corev1.Node) string {
	if owner, owned := OwnerOf(node); owned {
		return owner.group(node)
	}
	return ""
}

// groupByLabel returns a group function for nodes that have the label with the value. The value "" stands for any value
// except "".
func groupByLabel(key, value string) func(*corev1.Node) string {
	return func(node *corev1.Node) string {
		if got := node.Labels[key]; got == "" || value != "" && got != value {
			return ""
		}
		return key + "=" + node.Labels[key]
	}
}

// groupOfKarpenter returns a group function for nodes of a managed Karpenter, which have the label. Their group is their
// NodePool.
func groupOfKarpenter(key, value string) func(*corev1.Node) string {
	return func(node *corev1.Node) string {
		if groupByLabel(key, value)(node) == "" {
			return ""
		}
		return groupByLabel(karpenterPool, "")(node)
	}
}

// groupOfFargate returns the group of a Fargate node. It recognizes the node by EKS's label or by the node's name.
func groupOfFargate(node *corev1.Node) string {
	if node.Labels[computeType] == "fargate" || node.Labels[computeType] == "" && strings.HasPrefix(node.Name, "fargate-ip-") {
		return computeType + "=fargate"
	}
	return ""
}

// groupOfClusterAPI returns the group of a Cluster API node.
func groupOfClusterAPI(node *corev1.Node) string {
	if name := groupByLabel(clusterAPIDeployment, "")(node); name != "" {
		return name
	}
	for _, key := range clusterAPIAnnotations() {
		if value := node.Annotations[key]; value != "" {
			return key + "=" + value
		}
	}
	return ""
}

// groupOfOpenShift returns the group of a Machine API node. The node's annotation contains the Machine, as
// NAMESPACE/NAME. A Machine's name is that of its MachineSet and a suffix of five characters
// (openshift/machine-api-operator, pkg/controller/nodelink).
func groupOfOpenShift(node *corev1.Node) string {
	_, machine, _ := strings.Cut(node.Annotations["machine.openshift.io/machine"], "/")
	if machine == "" {
		return ""
	}
	if at := strings.LastIndex(machine, "-"); at > 0 {
		machine = machine[:at]
	}
	return openShiftSet + "=" + machine
}

// groupOfAutopilot returns the group of a GKE Autopilot node. GKE names such nodes gk3-CLUSTER-POOL-…, and nodes of
// Standard clusters gke-…. So a node with GKE's provisioning label and another name does not belong to a Standard
// cluster.
func groupOfAutopilot(node *corev1.Node) string {
	named := strings.HasPrefix(node.Name, "gk3-") || node.Labels["cloud.google.com/gke-autopilot"] == "true"
	provisioned := groupByLabel("cloud.google.com/gke-provisioning", "standard")(node) != "" && !strings.HasPrefix(node.Name, "gke-")
	if named || provisioned {
		return groupByLabel(gkePool, "")(node)
	}
	return ""
}

// groupOfFlexStart returns the group of a GKE node that was started for a job, with or without a queue, and ends
// within a week.
func groupOfFlexStart(node *corev1.Node) string {
	for _, key := range []string{"cloud.google.com/gke-flex-start", "cloud.google.com/gke-queued"} {
		tainted := slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == key && t.Value == "true" })
		if tainted || node.Labels[key] == "true" {
			return groupByLabel(gkePool, "")(node)
		}
	}
	return ""
}
