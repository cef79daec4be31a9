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
			Text: "The user lacks a right in the cluster that carrying the upgrade out takes. A plan or a check does not need it; " +
				"an upgrade by the same user stops before anything is touched.",
			Source: "kubernetes.io, Authorization, SelfSubjectAccessReview",
		},
		{
			ID: "IAM001", Severity: Warn, find: findDeniedActions,
			Text: "The cloud does not let the user do what the upgrade takes. Actions that it does not tell of beforehand are named as an info: " +
				"those without a dry run where IAM may not be asked, does not know the user's role by its name alone, or lacks what a condition looks at. " +
				"An upgrade that lacks one of them stops when it comes to it, and continues when it is allowed.",
			Source: "AWS: EC2 API, DryRun; IAM API, SimulatePrincipalPolicy",
		},
		upgradeRule(RuleOwner, Refuse,
			"A service or a controller owns these nodes and replaces them by itself, and it would undo what is done here: Karpenter, EKS Auto Mode, "+
				"AKS node auto-provisioning, Fargate, Cluster API, OpenShift's Machine API, GKE Autopilot or GKE Flex Start. "+
				"Nodes of Flex Start may be followed by --strategy=short-lived.",
			"karpenter.sh, concepts/disruption; cluster-api, common_types.go; machine-api-operator, nodelink; GKE node pool upgrade strategies; this project"),
		upgradeRule("NG002", Refuse,
			"The group is another writer's at the moment or for good, such as an instance refresh under way or a managed node group that EKS cannot update now: "+
				"two that replace nodes at once take more of them away than either means to.",
			"docs.aws.amazon.com, asg-instance-refresh; this project"),
		upgradeRule("NG003", Refuse,
			"Two nodes have one provider ID. Only one of them goes with the machine, so the upgrade would never end.",
			"this project"),
		upgradeRule("NG005", Warn,
			"Another strategy suits the pods better: blue-green for pods that may take more than an hour to shut down, or that are not to be disrupted, "+
				"autoscaled blue-green for jobs that must run to their end where an autoscaler serves the group.",
			"GKE node pool upgrade strategies"),
		upgradeRule("VER001", Refuse,
			"New nodes would run a kubelet of a newer minor version than the control plane, which Kubernetes does not support.",
			"EKS update; kubernetes.io, Version Skew Policy"),
		{
			ID: "LB006", Severity: Error, find: findLocalTraffic, Reads: []string{"services"},
			Text: "A service with externalTrafficPolicy: Local has its pods on several nodes that may be drained at once: " +
				"load balancers send to nodes with pods of the service only, and those may all be gone.",
			Source: "GKE node pool upgrade strategies",
		},
	}
}

// keptPodRules returns the rules about pods that an upgrade cannot move, or that their owners want
// to keep.
func keptPodRules() []Rule {
	return []Rule{
		upgradeRule("POD001", Block,
			"A pod has no controller that would bring it back after its eviction. It is not evicted unless the user says so.",
			"kubectl drain, filters.go"),
		upgradeRule("POD005", Block,
			"A pod tolerates both the cordon and the fence's taint, so its controller may bring it back to the node that is drained, again and again.",
			"cilium#28549, calico#4850"),
		upgradeRule("POD007", Block,
			"A pod's namespace is being deleted and the pod is not: the API server accepts no eviction there, for ever if a finalizer keeps the namespace.",
			"admission/plugin/namespace/lifecycle/admission.go"),
		upgradeRule("POD008", Warn,
			"A pod's owner asks by a label or an annotation for another drain than the usual one. "+
				"The finding says whether the pod is left alone, waited for or evicted all the same.",
			"cluster-api#11240; cluster-autoscaler's FAQ; karpenter.sh, annotations"),
		upgradeRule("POD012", Warn,
			"A DaemonSet does not tolerate the taint of outdated nodes. "+
				"If one of its pods exits there, it is not replaced, so the node is without it until the node is terminated.",
			"pkg/controller/daemon/util/daemonset_util.go"),
		upgradeRule(RuleForeignJob, Warn,
			"A pod ends by itself (restartPolicy Never or OnFailure), and its controller is no Job of Kubernetes but a CI runner, a TaskRun, a Workflow, a Spark driver. "+
				"Such a controller need not make it again, so that its eviction may end its work for good. Pods whose budget an operator writes are left out, since it sees to their evictions.",
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
		nameLacking(s.Facts.MissingRights, Finding{
			Message: "you may not %s", Remedy: "whoever carries the upgrade out needs a role as in docs/permissions/kubernetes-operate.yaml",
		}),
		nameLacking(s.Facts.MissingReads, Finding{
			Severity: Note, Message: "you may not %s",
			Remedy: "rules that need it are not looked at: ask for a role as in docs/permissions/kubernetes-read.yaml",
		}),
	)
}

// findDeniedActions implements rule IAM001.
func findDeniedActions(s *Scene) []Finding {
	const policy = "docs/permissions/aws-operate.json"
	return slices.Concat(
		nameLacking(s.Facts.DeniedActions, Finding{
			Message: "your cloud credentials may not %s", Remedy: "whoever carries the upgrade out needs a policy as in " + policy,
		}),
		nameLacking(s.Facts.DeniedReads, Finding{
			Message: "your cloud credentials may not %s: load balancers are not followed, and nodes leave them by label and --settle",
			Remedy:  "whoever carries the upgrade out needs a policy as in docs/permissions/aws-read.json",
		}),
		nameLacking(s.Facts.UnverifiedActions, Finding{
			Severity: Note, Message: "the cloud does not say beforehand whether you may %s", Remedy: "compare your policy with " + policy,
		}),
	)
}

// nameLacking returns the finding with the missing names in its message, none if there is no name.
func nameLacking(names []string, f Finding) []Finding {
	if len(names) == 0 {
		return nil
	}
	f.Message = fmt.Sprintf(f.Message, strings.Join(names, ", "))
	return []Finding{f}
}
