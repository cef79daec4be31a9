package aws

import (
	"slices"
	"strings"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	awsarn "github.com/aws/aws-sdk-go-v2/aws/arn"
	it "github.com/aws/aws-sdk-go-v2/service/iam/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// verdict is AWS's answer to whether the user may do an action.
type verdict int

const (
	unverified verdict = iota
	allowed
	denied
)

// rightCheck lists actions that an upgrade does on one resource. The resource is "" if its ARN is not known.
type rightCheck struct {
	resource string
	actions  []string
	// template is the ARN of the launch template that AWS also checks for the actions, "" for none.
	template string
}

// rightChecks lists the actions for which to ask IAM before an upgrade of the group with the ARN. Policies may be limited to
// resources, so each action is listed with the resource on which AWS checks it. New machines and fleets have no ID yet.
// Policies can match them only by *, so the checks use an arbitrary ID (Service Authorization Reference, EC2).
func rightChecks(group *nodegroup.Group, arn string) []rightCheck {
	if group.Managed != nil {
		return []rightCheck{{resource: arn, actions: []string{"eks:UpdateNodegroupVersion"}}}
	}
	checks := []rightCheck{
		{resource: arn, actions: []string{
			"autoscaling:LaunchInstances", "autoscaling:ResumeProcesses", "autoscaling:SuspendProcesses",
			"autoscaling:TerminateInstanceInAutoScalingGroup", "autoscaling:UpdateAutoScalingGroup",
		}},
		{resource: ec2ARN(arn, "fleet/fleet-00000000-0000-0000-0000-000000000000"), actions: []string{"ec2:CreateFleet"}},
	}
	// Auto Scaling needs ec2:RunInstances to point a group at another template version (its user
	// guide, "Control Amazon EC2 launch template usage in Auto Scaling groups").
	if to := wantedPointer(group); to.Image != "" || to.Template != "" && group.Pointed.ID != group.Wanted.ID {
		checks = append(checks, rightCheck{resource: ec2ARN(arn, "instance/i-00000000000000000"), actions: []string{"ec2:RunInstances"}, template: ec2ARN(arn, "launch-template/"+to.Template)})
	}
	return checks
}

// ec2ARN returns the ARN of an EC2 resource in the account and region of an Auto Scaling group,
// "arn:aws:autoscaling:us-east-1:123456789012:autoScalingGroup:…". It returns "" if the group's ARN
// is not known.
func ec2ARN(group, resource string) string {
	arn, err := awsarn.Parse(group)
	if err != nil {
		return ""
	}
	arn.Service, arn.Resource = "ec2", resource
	return arn.String()
}

// principalOf returns the IAM user or role whose policies apply to a caller. A user is its own principal, and a session has the
// policies of its role. ok is false for the root user and for federated users, because IAM does not simulate them (IAM API,
// SimulatePrincipalPolicy). The ARN of a session does not contain the role's path. If the role has a path, IAM does not find
// the returned role.
func principalOf(caller string) (principal string, ok bool) {
	arn, _ := awsarn.Parse(caller) // zero if it is not an ARN
	kind, rest, _ := strings.Cut(arn.Resource, "/")
	switch {
	case arn.Service == "iam" && kind == "user":
		return caller, true
	case arn.Service == "sts" && kind == "assumed-role":
		role, _, _ := strings.Cut(rest, "/")
		arn.Service, arn.Resource = "iam", "role/"+role
		return arn.String(), role != ""
	default:
		return "", false
	}
}

// judgeSimulation returns the verdict of IAM's results about the action on the resource. If IAM refuses because the simulation
// lacks values that the request will have, such as tags, the verdict is unverified. It is also unverified if an organization's
// policies refuse, because IAM treats their conditions as refusals (https://github.com/aws/aws-sdk/issues/102).
func judgeSimulation(results []it.EvaluationResult, action, resource string) verdict {
	i := slices.IndexFunc(results, func(r it.EvaluationResult) bool { return strings.EqualFold(sdk.ToString(r.EvalActionName), action) })
	if i < 0 {
		return unverified
	}
	r := results[i]
	decision, missing := r.EvalDecision, r.MissingContextValues
	for _, s := range r.ResourceSpecificResults {
		if sdk.ToString(s.EvalResourceName) == resource {
			decision, missing = s.EvalResourceDecision, append(slices.Clone(missing), s.MissingContextValues...)
		}
	}
	switch {
	case decision == it.PolicyEvaluationDecisionTypeAllowed:
		return allowed
	case len(missing) > 0, r.OrganizationsDecisionDetail != nil && !r.OrganizationsDecisionDetail.AllowedByOrganizations:
		return unverified
	case decision == it.PolicyEvaluationDecisionTypeImplicitDeny, decision == it.PolicyEvaluationDecisionTypeExplicitDeny:
		return denied
	default:
		return unverified
	}
}
