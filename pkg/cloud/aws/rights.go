package aws

import (
	"context"
	"encoding/json"
	"errors"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	et "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

var _ cloud.Authorizer = (*Provider)(nil)

// AskRights implements cloud.Authorizer. EC2 answers a dry run of the one request that upgrades to
// an AMI make of it; Auto Scaling and EKS have no dry run, so what is asked of them is unverified.
func (p *Provider) AskRights(ctx context.Context, group *nodegroup.Group) cloud.Rights {
	if group.Managed != nil {
		return cloud.Rights{Unverified: []string{"eks:UpdateNodegroupVersion"}}
	}
	r := cloud.Rights{Unverified: []string{
		"autoscaling:LaunchInstances", "autoscaling:ResumeProcesses", "autoscaling:SuspendProcesses",
		"autoscaling:TerminateInstanceInAutoScalingGroup", "autoscaling:UpdateAutoScalingGroup", "ec2:CreateFleet",
	}}
	var to revisionPointer
	if err := json.Unmarshal([]byte(group.Wanted.Spec), &to); err != nil || to.Image == "" {
		return r // it goes to a version that is there
	}
	r.Unverified = append(r.Unverified, "ec2:RunInstances")
	_, err := p.ec2.CreateLaunchTemplateVersion(ctx, &ec2.CreateLaunchTemplateVersionInput{
		DryRun: sdk.Bool(true), LaunchTemplateId: sdk.String(to.Template), LaunchTemplateData: &et.RequestLaunchTemplateData{ImageId: sdk.String(to.Image)},
	})
	const adds = "ec2:CreateLaunchTemplateVersion"
	var answer smithy.APIError
	switch {
	case errors.As(err, &answer) && answer.ErrorCode() == "DryRunOperation":
	case errors.As(err, &answer) && isDenied(answer.ErrorCode()):
		r.Denied = append(r.Denied, adds)
	default:
		r.Unverified = append(r.Unverified, adds)
	}
	return r
}
