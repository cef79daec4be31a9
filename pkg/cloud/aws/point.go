package aws

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	at "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	et "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// setRevision points the group at a revision of the launch template that the group uses now. For an image it first adds a
// template version: the group's current version with the new image. It refuses another template, and an image that was read
// from a record. Otherwise an attacker who can write records could choose what the group launches.
func (p *Provider) setRevision(ctx context.Context, group string, a nodegroup.SetRevision) error {
	doing := fmt.Sprintf("pointing Auto Scaling group %q at %s", group, a.To.Name)
	var to revisionPointer
	if err := json.Unmarshal([]byte(a.To.Spec), &to); err != nil {
		return fatalError("%s: reading the recorded revision: %w", doing, err)
	}
	g, err := p.readForUpdate(ctx, group)
	if err != nil {
		return err
	}
	var f groupFacts
	if err := p.readLaunchSources(ctx, g, target{}, &f); err != nil {
		return explainError(doing, err)
	}
	now := f.pointed.base
	switch {
	case now.matchesPointer(to):
		return nil
	case to.LaunchConfiguration != "" || to.Template != now.template:
		return fatalError("%s: the group launches from %s, and this tool never sets another template: change the group yourself", doing, now.displayName())
	case to.Image != "" && a.Recorded:
		return fatalError("%s: that would need a new template version, which this tool does not create to go back: change the group yourself", doing)
	}
	if to.Image != "" {
		if to.Version, err = p.addTemplateVersion(ctx, g, now, to, a.Token); err != nil || usesLatestVersion(g, to.Template) {
			return err // a group that follows $Latest launches from the new version already
		}
	}
	in, err := newUpdateInput(g, to)
	if err != nil {
		return fatalError("%s: %w", doing, err)
	}
	_, err = p.autoscaling.UpdateAutoScalingGroup(ctx, in, withoutRetries)
	return explainError(doing, err)
}

// matchesPointer reports whether a group that launches from l already uses the pointer's revision.
func (l launch) matchesPointer(to revisionPointer) bool {
	switch {
	case to.LaunchConfiguration != "":
		return l.configuration == to.LaunchConfiguration
	case l.template != to.Template:
		return false
	case to.Image != "":
		return l.image == to.Image
	default:
		return l.version == to.Version
	}
}

// addTemplateVersion adds a version to the group's launch template and returns its number. The new version equals the group's
// current one, except for the image. If the call is repeated with the same token, AWS adds no second version.
func (p *Provider) addTemplateVersion(ctx context.Context, g *at.AutoScalingGroup, now launch, to revisionPointer, token string) (int64, error) {
	doing := fmt.Sprintf("adding a version with image %s to launch template %s", to.Image, now.displayName())
	problem, err := p.sharedTemplateProblem(ctx, sdk.ToString(g.AutoScalingGroupName), now)
	if err != nil {
		return 0, err
	}
	if problem != "" {
		return 0, fatalError("%s: %s", doing, problem)
	}
	out, err := p.ec2.CreateLaunchTemplateVersion(ctx, &ec2.CreateLaunchTemplateVersionInput{
		LaunchTemplateId: sdk.String(now.template), SourceVersion: sdk.String(strconv.FormatInt(now.version, 10)),
		VersionDescription: sdk.String(fmt.Sprintf("kubectl-nodeupgrade: version %d with image %s", now.version, to.Image)),
		LaunchTemplateData: &et.RequestLaunchTemplateData{ImageId: sdk.String(to.Image)},
		ClientToken:        sdk.String(clientToken(token)),
	})
	switch {
	case err != nil:
		return 0, explainError(doing, err)
	case out.Warning != nil && len(out.Warning.Errors) > 0:
		first := out.Warning.Errors[0]
		return 0, fatalError("%s: %s (%s)", doing, sdk.ToString(first.Message), sdk.ToString(first.Code))
	case out.LaunchTemplateVersion == nil:
		return 0, fatalError("%s: AWS did not return the version's number", doing)
	}
	return sdk.ToInt64(out.LaunchTemplateVersion.VersionNumber), nil
}

// newUpdateInput returns the request that points the group at a numbered template version. For a group with a mixed instances
// policy, the request contains the whole policy.
func newUpdateInput(g *at.AutoScalingGroup, to revisionPointer) (*autoscaling.UpdateAutoScalingGroupInput, error) {
	in := &autoscaling.UpdateAutoScalingGroupInput{AutoScalingGroupName: g.AutoScalingGroupName}
	spec := &at.LaunchTemplateSpecification{LaunchTemplateId: sdk.String(to.Template), Version: sdk.String(strconv.FormatInt(to.Version, 10))}
	switch {
	case to.Template == "" || to.Version < 1:
		return nil, errors.New("the recorded revision has no launch template version")
	case mixedTemplate(g) != nil:
		in.MixedInstancesPolicy = withBaseTemplate(g.MixedInstancesPolicy, spec)
	default:
		in.LaunchTemplate = spec
	}
	return in, nil
}

// withBaseTemplate returns the policy with another base template and everything else unchanged. AWS reports a template's ID and
// name but accepts only one of them, so the name is removed. AWS removes distribution segments if the request has On-Demand
// sizes, so a policy with segments is sent without these sizes (EC2 Auto Scaling API, LaunchTemplateSpecification,
// UpdateAutoScalingGroup).
func withBaseTemplate(policy *at.MixedInstancesPolicy, base *at.LaunchTemplateSpecification) *at.MixedInstancesPolicy {
	template := *policy.LaunchTemplate
	template.LaunchTemplateSpecification = base
	template.Overrides = slices.Clone(template.Overrides)
	for i := range template.Overrides {
		if own := template.Overrides[i].LaunchTemplateSpecification; own != nil && own.LaunchTemplateId != nil {
			template.Overrides[i].LaunchTemplateSpecification = &at.LaunchTemplateSpecification{LaunchTemplateId: own.LaunchTemplateId, Version: own.Version}
		}
	}
	out := &at.MixedInstancesPolicy{LaunchTemplate: &template}
	if policy.InstancesDistribution != nil {
		distribution := *policy.InstancesDistribution
		if len(distribution.DistributionSegments) > 0 {
			distribution.OnDemandBaseCapacity, distribution.OnDemandPercentageAboveBaseCapacity = nil, nil
		}
		out.InstancesDistribution = &distribution
	}
	return out
}
