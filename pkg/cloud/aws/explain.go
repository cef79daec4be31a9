package aws

import (
	"fmt"
	"slices"
	"strings"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	kt "github.com/aws/aws-sdk-go-v2/service/eks/types"
)

// explanation is the meaning of an EKS error code, and its remedy (EKS E33, E34, E35).
type explanation struct{ cause, remedy string }

// explanationOf explains a code of a failed update or of an unhealthy node group.
func explanationOf(code string) explanation {
	for _, table := range []map[string]explanation{nodeExplanations(), networkExplanations(), ownExplanations(), permissionExplanations()} {
		if e, ok := table[code]; ok {
			return e
		}
	}
	return explanation{"EKS does not say why", "read what it says of the node group in the console, under Health issues and Update history"}
}

// nodeExplanations explains the codes of nodes that do not start or cannot be removed.
func nodeExplanations() map[string]explanation {
	noQuota := explanation{"the account's quota of EC2 instances is used up", "ask for a higher quota in Service Quotas"}
	noRoom := explanation{"its subnets have no free addresses for new nodes", "free addresses, or use a narrower updateConfig"}
	return map[string]explanation{
		"PodEvictionFailure": {
			"EKS could not drain the node within 15 minutes",
			"loosen the budget that the status names, or use --on-timeout=force",
		},
		"NodeCreationFailure": {
			"new nodes did not come up as nodes of the cluster",
			"look at them and at the group's scaling activities: allow more instance types where a zone has no capacity, ask for a higher quota, " +
				"or correct the user data, the node role or the way out to the API server",
		},
		"AsgInstanceLaunchFailures":                {"its Auto Scaling group cannot launch instances", "read its scaling activities, and allow more instance types or ask for a higher quota"},
		"InstanceLimitExceeded":                    noQuota,
		"LimitExceeded":                            noQuota,
		"InsufficientFreeAddresses":                noRoom,
		"IpNotAvailable":                           noRoom,
		"EniLimitReached":                          {"the account's quota of network interfaces is used up", "ask for a higher quota in Service Quotas"},
		"NodeTerminationFailure":                   {"EKS could not terminate a node", "terminate the instance yourself"},
		"Ec2InstanceTypeDoesNotExist":              {"an instance type of it does not exist here", "create a node group of other instance types"},
		"AmiIdNotFound":                            {"there is no such AMI here that may be used", "make a template version with an AMI that exists and name it with --to"},
		"AutoScalingGroupInstanceRefreshActive":    {"an instance refresh replaces the same nodes", "wait for it, or run aws autoscaling cancel-instance-refresh"},
		"AutoScalingGroupInvalidConfiguration":     {"its Auto Scaling group was changed in a way that EKS does not take", "take that change back"},
		"AutoScalingGroupRateLimitExceeded":        {"EC2 Auto Scaling turned EKS away for its rate", "wait some minutes"},
		"AutoScalingGroupOptInRequired":            {"the account has not opted in to EC2 Auto Scaling here", "opt in"},
		"AutoScalingGroupNotFound":                 {"its Auto Scaling group is gone", "make a new node group"},
		"KubernetesLabelInvalid":                   {"Kubernetes does not take a label of it", "correct the label with aws eks update-nodegroup-config"},
		"Ec2LaunchTemplateMaxLimitExceeded":        {"the account's quota of launch templates is used up", "delete some, or ask for a higher quota"},
		"Ec2LaunchTemplateVersionMaxLimitExceeded": {"its launch template has as many versions as it may", "delete old versions of it"},
	}
}

// networkExplanations explains the codes of the nodes' network.
func networkExplanations() map[string]explanation {
	noSubnet := explanation{"a subnet of it is gone", "make a new node group in subnets that exist"}
	noSecurity := explanation{"a security group of the cluster is gone", "make it again"}
	return map[string]explanation{
		"ClusterUnreachable":              {"EKS or the nodes could not reach the API server", "check that it answers and that security groups and routes let nodes through"},
		"SubnetNotFound":                  noSubnet,
		"Ec2SubnetNotFound":               noSubnet,
		"Ec2SubnetListTooLong":            {"it has more subnets than EKS takes", "make a new node group in fewer subnets"},
		"Ec2SubnetInvalidConfiguration":   {"a subnet of it gives its instances no public addresses", "have the subnet assign public addresses"},
		"Ec2SubnetMissingIpv6Assignment":  {"a subnet of it gives its instances no IPv6 addresses", "have the subnet assign IPv6 addresses"},
		"SecurityGroupNotFound":           noSecurity,
		"Ec2SecurityGroupNotFound":        noSecurity,
		"Ec2SecurityGroupDeletionFailure": {"EKS could not delete its security group", "remove what depends on the security group"},
		"VpcIdNotFound":                   {"the cluster's VPC is gone", "make a new cluster"},
	}
}

// ownExplanations explains the codes of the resources that EKS keeps for the group.
func ownExplanations() map[string]explanation {
	noTemplate := explanation{"its launch template is gone", "make a new node group"}
	return map[string]explanation{
		"Ec2LaunchTemplateNotFound":             noTemplate,
		"SourceEc2LaunchTemplateNotFound":       noTemplate,
		"Ec2LaunchTemplateVersionMismatch":      {"its Auto Scaling group launches from another template version than EKS made for it", "point the Auto Scaling group at EKS's version again"},
		"Ec2LaunchTemplateInvalidConfiguration": {"EKS does not take a setting of its launch template", "make a template version without it and name that with --to"},
		"Ec2LaunchTemplateDeletionFailure":      {"EKS could not delete its launch template", "delete it yourself"},
		"InternalFailure":                       {"EKS had a fault of its own", "wait some minutes"},
	}
}

// permissionExplanations explains the codes of missing permissions, and of requests that the API
// server refuses.
func permissionExplanations() map[string]explanation {
	noRole := explanation{"its node role or instance profile is gone", "make it again under the same name"}
	return map[string]explanation{
		"AccessDenied":               {"EKS or the nodes were refused by AWS or by the API server", "allow what the message names: the node role's access entry, the cluster role, or the cluster role eks:node-manager"},
		"OperationNotPermitted":      {"the cluster's role lacks a permission", "attach AmazonEKSClusterPolicy to it"},
		"AdmissionRequestDenied":     {"an admission webhook refused EKS", "let it pass what EKS does to nodes and pods"},
		"IamInstanceProfileNotFound": noRole,
		"IamNodeRoleNotFound":        noRole,
		"IamLimitExceeded":           {"the account's quota of roles or instance profiles is used up", "ask for a higher quota in Service Quotas"},
		"IamThrottling":              {"IAM turned EKS away for its rate", "wait some minutes"},
	}
}

// explainUpdate returns one line that says why an update failed and what to do, with the resources
// that EKS names. force reports that the update ignored budgets. Further failures are listed by
// their code only.
func explainUpdate(failures []kt.ErrorDetail, force bool) (code, text string, resources []string) {
	if len(failures) == 0 {
		return "", "EKS does not say why: read the node group's update history in the console", nil
	}
	var others []string
	for _, f := range failures {
		for _, id := range f.ResourceIds {
			if !slices.Contains(resources, id) {
				resources = append(resources, id)
			}
		}
	}
	for _, f := range failures[1:] {
		if f.ErrorCode != failures[0].ErrorCode {
			others = append(others, string(f.ErrorCode))
		}
	}
	first := failures[0]
	e := explanationOf(string(first.ErrorCode))
	if first.ErrorCode == kt.ErrorCodePodEvictionFailure && force {
		e.remedy = "look at the pods that are left on the node"
	}
	text = explainCode(e, string(first.ErrorCode), sdk.ToString(first.ErrorMessage), resources)
	if len(others) > 0 {
		text = fmt.Sprintf("%s; it also tells of %s", text, strings.Join(slices.Compact(others), ", "))
	}
	return string(first.ErrorCode), text, resources
}

// explainIssue returns one line that says why a node group is not healthy and what to do.
func explainIssue(issue kt.Issue) string {
	code := string(issue.Code)
	return explainCode(explanationOf(code), code, sdk.ToString(issue.Message), issue.ResourceIds)
}

// explainCode returns an explanation with EKS's own message: "new nodes did not come up (i-1, i-2)
// [NodeCreationFailure: Instances failed to join the kubernetes cluster]: look at them".
func explainCode(e explanation, code, message string, resources []string) string {
	text := e.cause
	if len(resources) > 0 {
		const shown = 5
		list := strings.Join(resources[:min(shown, len(resources))], ", ")
		if len(resources) > shown {
			list += fmt.Sprintf(" and %d more", len(resources)-shown)
		}
		text += " (" + list + ")"
	}
	own := code
	if message = strings.TrimRight(strings.Join(strings.Fields(message), " "), ". "); message != "" {
		own += ": " + message
	}
	return text + " [" + own + "]: " + e.remedy
}
