package aws

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	et "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

var _ cloud.Authorizer = (*Provider)(nil)

// actionAddVersion is the IAM action for adding a template version. An EC2 dry run checks it.
const actionAddVersion = "ec2:CreateLaunchTemplateVersion"

// CheckRights implements cloud.Authorizer. The only request to EC2 that changes something adds a template version, and EC2 has
// a dry run for it. Auto Scaling and EKS have no dry run, so IAM simulates the user's policies. Permissions without an answer
// are unverified.
func (p *Provider) CheckRights(ctx context.Context, group *nodegroup.Group) cloud.Rights {
	var r cloud.Rights
	if add := newVersionDryRun(group); add != nil {
		_, err := p.ec2.CreateLaunchTemplateVersion(ctx, add)
		addVerdict(&r, actionAddVersion, judgeDryRun(err))
	}
	checks := rightChecks(group, p.arns.get(group.Name))
	verdicts := p.policies.simulate(ctx, checks)
	for _, check := range checks {
		for _, action := range check.actions {
			addVerdict(&r, action, verdicts[action])
		}
	}
	slices.Sort(r.Denied)
	slices.Sort(r.Unverified)
	return r
}

func addVerdict(r *cloud.Rights, action string, v verdict) {
	switch v {
	case denied:
		r.Denied = append(r.Denied, action)
	case unverified:
		r.Unverified = append(r.Unverified, action)
	}
}

// newVersionDryRun returns the request for a dry run that adds a version to the group's template, nil if the upgrade uses an
// existing version.
func newVersionDryRun(group *nodegroup.Group) *ec2.CreateLaunchTemplateVersionInput {
	to := wantedPointer(group)
	if group.Managed != nil || to.Image == "" {
		return nil
	}
	return &ec2.CreateLaunchTemplateVersionInput{
		DryRun: sdk.Bool(true), LaunchTemplateId: sdk.String(to.Template), LaunchTemplateData: &et.RequestLaunchTemplateData{ImageId: sdk.String(to.Image)},
	}
}

// wantedPointer returns the pointer of the group's wanted revision, zero if it cannot be decoded.
func wantedPointer(group *nodegroup.Group) revisionPointer {
	var to revisionPointer
	if json.Unmarshal([]byte(group.Wanted.Spec), &to) != nil {
		return revisionPointer{}
	}
	return to
}

// judgeDryRun returns the verdict of EC2's answer to a dry run. The answer is an error even if the action is allowed.
func judgeDryRun(err error) verdict {
	switch answer, ok := errors.AsType[smithy.APIError](err); {
	case ok && answer.ErrorCode() == "DryRunOperation":
		return allowed
	case ok && isDeniedCode(answer.ErrorCode()):
		return denied
	default:
		return unverified
	}
}
