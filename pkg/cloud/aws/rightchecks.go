package aws

import (
	"slices"
	"strings"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	awsarn "github.com/aws/aws-sdk-go-v2/aws/arn"
	it "github.com/aws/aws-sdk-go-v2/service/iam/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// verdict is what AWS says beforehand of an action.
type verdict int

const (
	unverified verdict = iota
	allowed
	denied
)

// rightCheck is actions that an upgrade takes of one resource, "" where its ARN is not known.
type rightCheck struct {
	resource string
	actions  []string
	// template is the ARN of the launch template that AWS asks the actions for, "" for none.
	template string
}

// rightChecks are what IAM has to be asked for an upgrade of the group, whose ARN is given.
// Policies may be limited to resources, so each action is asked for the resource that AWS
// authorizes it by. Machines and fleets do not exist yet: policies can name them by * alone, so any
// ID stands for them (Service Authorization Reference, EC2).
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
	// Auto Scaling asks for it where a group is pointed at another template version (its user
	// guide, "Control Amazon EC2 launch template usage in Auto Scaling groups").
	if to := pointerOf(group); to.Image != "" || to.Template != "" && group.Pointed.ID != group.Wanted.ID {
		checks = append(checks, rightCheck{resource: ec2ARN(arn, "instance/i-00000000000000000"), actions: []string{"ec2:RunInstances"}, template: ec2ARN(arn, "launch-template/"+to.Template)})
	}
	return checks
}

// ec2ARN is a resource of EC2 in the account and region of an Auto Scaling group,
// "arn:aws:autoscaling:us-east-1:123456789012:autoScalingGroup:…"; "" when that is not known.
func ec2ARN(group, resource string) string {
	arn, err := awsarn.Parse(group)
	if err != nil {
		return ""
	}
	arn.Service, arn.Resource = "ec2", resource
	return arn.String()
}

// principalOf is whose policies count for a caller, as IAM names it: a user is one, and a session
// has those of its role. It is false for the root user and for federated users, whom IAM does not
// simulate (IAM API, SimulatePrincipalPolicy). A role's path is not in the name of its session;
// where it has one, IAM knows no role of the name that is returned.
func principalOf(caller string) (principal string, ok bool) {
	arn, _ := awsarn.Parse(caller) // zero for what is none
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

// judgeSimulation reads from IAM's results whether the action is allowed on the resource. In doubt
// it is unverified: a refusal that rests on values which the request will have and the simulation
// has not, such as tags, need not be one; and IAM takes conditions of an organization's policies
// for a refusal (https://github.com/aws/aws-sdk/issues/102).
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
