package aws

import (
	"fmt"
	"slices"
	"strings"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	kt "github.com/aws/aws-sdk-go-v2/service/eks/types"
)

// explanation is the cause that an EKS error code stands for, and the remedy (EKS E33, E34, E35).
type explanation struct{ cause, remedy string }

// explanationOf returns the explanation of a code of a failed update or an unhealthy node group.
func explanationOf(code string) explanation {
	for _, table := range []map[string]explanation{nodeExplanations(), networkExplanations(), eksResourceExplanations(), permissionExplanations()} {
		if e, ok := table[code]; ok {
			return e
		}
	}
	return explanation{"EKS does not say why", "read the node group's Health issues and Update history in the console"}
}

// nodeExplanations returns explanations of the codes for nodes that do not start or cannot be removed.
func nodeExplanations() map[string]explanation {
	noQuota := explanation{"the account's quota of EC2 instances is used up", "request a higher quota in Service Quotas"}
	noRoom := explanation{"its subnets have no free addresses for new nodes", "free addresses, or lower maxUnavailable in its updateConfig"}
	return map[string]explanation{
		"PodEvictionFailure": {
			"EKS could not drain the node within 15 minutes",
			"find the PodDisruptionBudget with kubectl nodeupgrade status and change it so that it allows an eviction, or pass --on-timeout=force",
		},
		"NodeCreationFailure": {
			"new instances did not join the cluster as nodes",
			"check these instances and the group's scaling activities: allow more instance types if a zone has no capacity, request a higher quota, or correct the user data, the node role or the route to the API server",
		},
		"AsgInstanceLaunchFailures":                {"its Auto Scaling group cannot launch instances", "read its scaling activities, and allow more instance types or request a higher quota"},
		"InstanceLimitExceeded":                    noQuota,
		"LimitExceeded":                            noQuota,
		"InsufficientFreeAddresses":                noRoom,
		"IpNotAvailable":                           noRoom,
		"EniLimitReached":                          {"the account's quota of network interfaces is used up", "request a higher quota in Service Quotas"},
		"NodeTerminationFailure":                   {"EKS could not terminate a node", "terminate the instance yourself"},
		"Ec2InstanceTypeDoesNotExist":              {"one of its instance types does not exist in this region", "create a node group with other instance types"},
		"AmiIdNotFound":                            {"its AMI does not exist in this region, or the account may not use it", "create a template version with an AMI that exists, and pass it with --to"},
		"AutoScalingGroupInstanceRefreshActive":    {"an instance refresh replaces the same nodes", "wait for it, or run aws autoscaling cancel-instance-refresh"},
		"AutoScalingGroupInvalidConfiguration":     {"its Auto Scaling group was changed in a way that EKS does not accept", "undo that change"},
		"AutoScalingGroupRateLimitExceeded":        {"EC2 Auto Scaling throttled requests from EKS", "wait some minutes and run the command again"},
		"AutoScalingGroupOptInRequired":            {"the account has not opted in to EC2 Auto Scaling in this region", "opt in"},
		"AutoScalingGroupNotFound":                 {"its Auto Scaling group was deleted", "create a new node group"},
		"KubernetesLabelInvalid":                   {"one of its labels is not valid in Kubernetes", "correct the label with aws eks update-nodegroup-config"},
		"Ec2LaunchTemplateMaxLimitExceeded":        {"the account's quota of launch templates is used up", "delete some, or request a higher quota"},
		"Ec2LaunchTemplateVersionMaxLimitExceeded": {"its launch template has the maximum number of versions", "delete old versions"},
	}
}

// networkExplanations returns explanations of the codes for problems of the nodes' network.
func networkExplanations() map[string]explanation {
	noSubnet := explanation{"one of its subnets was deleted", "create a new node group in subnets that exist"}
	noSecurity := explanation{"a security group of the cluster was deleted", "create it again"}
	return map[string]explanation{
		"ClusterUnreachable":              {"EKS or the nodes could not reach the API server", "check that it answers, and that security groups and routes allow connections from the nodes"},
		"SubnetNotFound":                  noSubnet,
		"Ec2SubnetNotFound":               noSubnet,
		"Ec2SubnetListTooLong":            {"it has more subnets than EKS allows", "create a new node group with fewer subnets"},
		"Ec2SubnetInvalidConfiguration":   {"one of its subnets assigns no public addresses to instances", "turn on automatic public addresses for the subnet"},
		"Ec2SubnetMissingIpv6Assignment":  {"one of its subnets assigns no IPv6 addresses to instances", "turn on automatic IPv6 addresses for the subnet"},
		"SecurityGroupNotFound":           noSecurity,
		"Ec2SecurityGroupNotFound":        noSecurity,
		"Ec2SecurityGroupDeletionFailure": {"EKS could not delete its security group", "delete the resources that use the security group"},
		"VpcIdNotFound":                   {"the cluster's VPC was deleted", "create a new cluster"},
	}
}

// eksResourceExplanations returns explanations of the codes for the resources that EKS itself manages for a node group.
func eksResourceExplanations() map[string]explanation {
	noTemplate := explanation{"its launch template was deleted", "create a new node group"}
	return map[string]explanation{
		"Ec2LaunchTemplateNotFound":             noTemplate,
		"SourceEc2LaunchTemplateNotFound":       noTemplate,
		"Ec2LaunchTemplateVersionMismatch":      {"its Auto Scaling group uses another template version than the one that EKS created for it", "set the Auto Scaling group to EKS's version again"},
		"Ec2LaunchTemplateInvalidConfiguration": {"EKS does not allow a setting of its launch template", "create a template version without that setting, and pass it with --to"},
		"Ec2LaunchTemplateDeletionFailure":      {"EKS could not delete its launch template", "delete it yourself"},
		"InternalFailure":                       {"EKS had an internal error", "wait some minutes and run the command again"},
	}
}

// permissionExplanations returns explanations of the codes for missing permissions, and for requests that the API server
// refuses.
func permissionExplanations() map[string]explanation {
	noRole := explanation{"its node role or instance profile was deleted", "create it again under the same name"}
	return map[string]explanation{
		"AccessDenied":               {"AWS or the API server denied a request of EKS or of the nodes", "grant the permission that the message names: check the node role's access entry, the cluster's IAM role and the ClusterRole eks:node-manager"},
		"OperationNotPermitted":      {"the cluster's role lacks a permission", "attach AmazonEKSClusterPolicy to it"},
		"AdmissionRequestDenied":     {"an admission webhook denied a request of EKS", "configure it to allow EKS's requests for nodes and pods"},
		"IamInstanceProfileNotFound": noRole,
		"IamNodeRoleNotFound":        noRole,
		"IamLimitExceeded":           {"the account's quota of roles or instance profiles is used up", "request a higher quota in Service Quotas"},
		"IamThrottling":              {"IAM throttled requests from EKS", "wait some minutes and run the command again"},
	}
}

// explainFailedUpdate explains the failures of an update. text is one line with the first failure, its remedy and the codes of
// further failures. code is the code of the first failure, and resources are all resources that EKS names. force is true if the
// update ignored budgets.
func explainFailedUpdate(failures []kt.ErrorDetail, force bool) (code, text string, resources []string) {
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
		if f.ErrorCode != failures[0].ErrorCode && !slices.Contains(others, string(f.ErrorCode)) {
			others = append(others, string(f.ErrorCode))
		}
	}
	first := failures[0]
	e := explanationOf(string(first.ErrorCode))
	if first.ErrorCode == kt.ErrorCodePodEvictionFailure && force {
		e.remedy = "check the pods that are left on the node"
	}
	text = formatExplanation(e, string(first.ErrorCode), sdk.ToString(first.ErrorMessage), resources)
	if len(others) > 0 {
		text = fmt.Sprintf("%s; EKS also reports %s", text, strings.Join(others, ", "))
	}
	return string(first.ErrorCode), text, resources
}

// explainHealthIssue returns one line with the reason why a node group is not healthy, and with the remedy.
func explainHealthIssue(issue kt.Issue) string {
	code := string(issue.Code)
	return formatExplanation(explanationOf(code), code, sdk.ToString(issue.Message), issue.ResourceIds)
}

// formatExplanation returns an explanation as one line with the resources and EKS's own message: "new nodes did not come up
// (i-1, i-2) [NodeCreationFailure: Instances failed to join the kubernetes cluster]: look at them".
func formatExplanation(e explanation, code, message string, resources []string) string {
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
