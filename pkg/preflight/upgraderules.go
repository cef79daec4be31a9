package preflight

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// groupRules returns the rules about the group as a whole.
func groupRules() []Rule {
	return []Rule{
		{
			ID: "RBAC001", Severity: Warn, find: findMissingRights,
			Text:   "The user lacks a permission in the cluster that the upgrade needs. A plan or a check does not need it. An upgrade by the same user stops before it changes anything.",
			Source: "kubernetes.io, Authorization, SelfSubjectAccessReview",
		},
		{
			ID: "IAM001", Severity: Warn, find: findDeniedActions,
			Text:   "The user lacks a permission in the cloud that the upgrade needs. If the cloud cannot answer in advance, the action is an info: it has no dry run, and IAM may not be queried, does not find the user's role by its name, or lacks the value of a condition. An upgrade that lacks such a permission stops when it needs it, and continues when it is granted.",
			Source: "AWS: EC2 API, DryRun; IAM API, SimulatePrincipalPolicy",
		},
		upgradeRule(RuleOwner, Refuse,
			"A service or a controller owns these nodes, replaces them itself and would revert the upgrade: Karpenter, EKS Auto Mode, "+
				"AKS node auto-provisioning, Fargate, Cluster API, OpenShift's Machine API, GKE Autopilot or GKE Flex Start. "+
				"With --strategy=short-lived, simulate shows how the Flex Start nodes of a dump end.",
			"karpenter.sh, concepts/disruption; cluster-api, common_types.go; machine-api-operator, nodelink; GKE node pool upgrade strategies; this project"),
		upgradeRule("NG002", Refuse,
			"Another process controls the group, now or always: for example, an instance refresh is active, or EKS cannot update its managed node group now. If two processes replace nodes at the same time, more nodes are unavailable than either of them allows.",
			"docs.aws.amazon.com, asg-instance-refresh; this project"),
		upgradeRule("NG003", Refuse,
			"Two nodes have the same provider ID. Only one of them disappears with the instance, so the upgrade would never end.",
			"this project"),
		upgradeRule("NG005", Warn,
			"Another strategy suits the pods better: blue-green for pods that may take more than an hour to shut down or must not be disrupted; autoscaled-blue-green for jobs that must run to completion, if an autoscaler serves the group.",
			"GKE node pool upgrade strategies"),
		upgradeRule("NG006", Refuse,
			"An outdated node has the label node-role.kubernetes.io/control-plane or node-role.kubernetes.io/master. A new control-plane node must join the cluster, and with etcd on the nodes it needs the old member's data or place. An upgrade of workers does neither.",
			"kops, Rolling updates; kubernetes.io, Upgrading kubeadm clusters"),
		upgradeRule("VER001", Refuse,
			"New nodes would run a kubelet of a newer minor version than the control plane, which Kubernetes does not support.",
			"EKS update; kubernetes.io, Version Skew Policy"),
		{
			ID: "LB006", Severity: Error, find: findLocalTraffic, Reads: []string{"services"},
			Text:   "The pods of a service with externalTrafficPolicy: Local are on several nodes that may be drained at the same time. Load balancers send only to nodes with pods of the service, and for a while there may be none.",
			Source: "GKE node pool upgrade strategies",
		},
	}
}

// unmovablePodRules returns the rules about pods that an upgrade cannot move, or that their owners want
// to keep.
func unmovablePodRules() []Rule {
	return []Rule{
		upgradeRule(RuleUnmanaged, Block,
			"A pod has no controller that would create it again after its eviction. It is not evicted without --unmanaged-pods=evict.",
			"kubectl drain, filters.go"),
		upgradeRule("POD005", Block,
			"A pod tolerates both the cordon and the fence's taint, so its controller may put it on the drained node again and again.",
			"cilium#28549, calico#4850"),
		upgradeRule("POD007", Block,
			"A pod's namespace is being deleted, but the pod is not. The API server accepts no eviction in such a namespace. If a finalizer keeps the namespace, that lasts for ever.",
			"admission/plugin/namespace/lifecycle/admission.go"),
		upgradeRule("POD008", Warn,
			"A label or an annotation of a pod asks for special treatment in a drain. The finding shows whether the upgrade keeps the pod, waits for it or evicts it anyway.",
			"cluster-api#11240; cluster-autoscaler's FAQ; karpenter.sh, annotations"),
		upgradeRule("POD012", Warn,
			"A DaemonSet does not tolerate the taint of outdated nodes. If one of its pods exits there, it is not replaced, so the node has none until it is terminated.",
			"pkg/controller/daemon/util/daemonset_util.go"),
		upgradeRule(RuleForeignJob, Warn,
			"A pod runs to completion (restartPolicy Never or OnFailure), and its controller is not a Kubernetes Job but, for example, a CI runner, a TaskRun, a Workflow or a Spark driver. Such a controller may not create the pod again, so an eviction may lose its work for good. Pods whose budget an operator manages do not count, because the operator handles their evictions.",
			"kubernetes.io, Pod Lifecycle; actions-runner-controller#4618"),
	}
}

// upgradeRule returns a rule of CheckUpgrade, which applies to every plan and every upgrade.
func upgradeRule(id string, severity Severity, text, source string) Rule {
	return Rule{ID: id, Severity: severity, Text: text, Source: source, find: func(s *Scene) []Finding {
		var found []Finding
		for i := range s.ofUpgrade {
			if s.ofUpgrade[i].Rule == id {
				found = append(found, s.ofUpgrade[i])
			}
		}
		return found
	}}
}

// findLocalTraffic implements rule LB006 for the catalogue, without the warning severity that plans
// use.
func findLocalTraffic(s *Scene) []Finding {
	found := CheckServices(s.World.Members, &s.World.Request, s.Services)
	for i := range found {
		found[i].Severity = ""
		for _, w := range s.Workloads {
			if slices.ContainsFunc(w.Services, func(service *corev1.Service) bool {
				return "Service "+service.Namespace+"/"+service.Name == found[i].Object
			}) {
				found[i].Workload = w.String()
			}
		}
	}
	return found
}

// findMissingRights implements rule RBAC001.
func findMissingRights(s *Scene) []Finding {
	return slices.Concat(
		withMissingNames(s.Facts.MissingRights, Finding{
			Message: "you may not %s", Remedy: "give the user who runs the upgrade the role in docs/permissions/kubernetes-operate.yaml",
		}),
		withMissingNames(s.Facts.MissingReads, Finding{
			Severity: Note, Message: "you may not %s",
			Remedy: "ask for the role in docs/permissions/kubernetes-read.yaml; until then rules that need it are not checked",
		}),
	)
}

// findDeniedActions implements rule IAM001.
func findDeniedActions(s *Scene) []Finding {
	const policy = "docs/permissions/aws-operate.json"
	return slices.Concat(
		withMissingNames(s.Facts.DeniedActions, Finding{
			Message: "your cloud credentials may not %s", Remedy: "give the user who runs the upgrade the policy in " + policy,
		}),
		withMissingNames(s.Facts.DeniedReads, Finding{
			Message: "your cloud credentials may not %s: the upgrade does not watch load balancers, and relies on the node label and --settle",
			Remedy:  "give the user who runs the upgrade the policy in docs/permissions/aws-read.json",
		}),
		withMissingNames(s.Facts.UnverifiedActions, Finding{
			Severity: Note, Message: "the cloud cannot say in advance whether you may %s", Remedy: "compare your policy with " + policy,
		}),
	)
}

// withMissingNames returns the finding with the missing names in its message, none if there is no name.
func withMissingNames(names []string, f Finding) []Finding {
	if len(names) == 0 {
		return nil
	}
	f.Message = fmt.Sprintf(f.Message, strings.Join(names, ", "))
	return []Finding{f}
}
