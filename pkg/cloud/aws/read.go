package aws

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	at "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	et "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// versionKey identifies a launch template version. A version never changes after it was created.
type versionKey struct {
	template string
	number   int64
}

// templateVersion is the part of a launch template version that matters. Its image is an AMI or an SSM alias.
type templateVersion struct {
	name, image string
	// spot is true for a version that asks for Spot instances.
	spot bool
}

func (v templateVersion) hasImageAlias() bool { return strings.HasPrefix(v.image, "resolve:ssm:") }

// seenInstance contains the group in which an instance was last seen, and whether the instance was outdated. It is zero for an
// instance that was never seen.
type seenInstance struct {
	group    string
	outdated bool
}

// readGroup reads one Auto Scaling group by its own name or by its managed node group's name. It returns cloud.ErrNotFound if
// neither exists.
func (p *Provider) readGroup(ctx context.Context, name string, instances bool) (*at.AutoScalingGroup, error) {
	doing := fmt.Sprintf("reading Auto Scaling group %q in %s", name, p.region)
	out, err := p.autoscaling.DescribeAutoScalingGroups(ctx, &autoscaling.DescribeAutoScalingGroupsInput{
		AutoScalingGroupNames: []string{p.managed.cache.autoscalingGroupName(name)}, IncludeInstances: sdk.Bool(instances),
	})
	if err != nil {
		return nil, explainError(doing, err)
	}
	if len(out.AutoScalingGroups) > 0 {
		return &out.AutoScalingGroups[0], nil
	}
	out, err = p.autoscaling.DescribeAutoScalingGroups(ctx, &autoscaling.DescribeAutoScalingGroupsInput{
		Filters: []at.Filter{{Name: sdk.String("tag:" + tagNodegroup), Values: []string{name}}}, IncludeInstances: sdk.Bool(instances),
	})
	if err != nil {
		return nil, explainError(doing, err)
	}
	found, err := chooseNodegroup(out.AutoScalingGroups, p.managed.cache.thisCluster())
	switch {
	case err != nil:
		return nil, fatalError("reading node group %q in %s: %w", name, p.region, err)
	case found == nil:
		return nil, fmt.Errorf("%s: %w: check the name, and the region with AWS_REGION", doing, cloud.ErrNotFound)
	}
	return found, nil
}

// readGroupsOf reads the groups of the instances, sorted by name. One request contains at most 50 instances. Instances of a
// group that was already read are skipped.
func (p *Provider) readGroupsOf(ctx context.Context, instances []string) ([]at.AutoScalingGroup, error) {
	var groups []at.AutoScalingGroup
	known := map[string]bool{}
	for len(instances) > 0 {
		batch := instances[:min(50, len(instances))]
		instances = instances[len(batch):]
		out, err := p.autoscaling.DescribeAutoScalingInstances(ctx, &autoscaling.DescribeAutoScalingInstancesInput{InstanceIds: batch})
		if err != nil {
			return nil, explainError("reading the Auto Scaling groups of the nodes", err)
		}
		var names []string
		for _, i := range out.AutoScalingInstances {
			if name := sdk.ToString(i.AutoScalingGroupName); !known[name] {
				known[name] = true
				names = append(names, name)
			}
		}
		if len(names) == 0 {
			continue
		}
		found, err := p.readGroupPages(ctx, &autoscaling.DescribeAutoScalingGroupsInput{AutoScalingGroupNames: names})
		if err != nil {
			return nil, err
		}
		groups = append(groups, found...)
		instances = removeListed(instances, found)
	}
	slices.SortFunc(groups, func(a, b at.AutoScalingGroup) int {
		return strings.Compare(sdk.ToString(a.AutoScalingGroupName), sdk.ToString(b.AutoScalingGroupName))
	})
	return groups, nil
}

// removeListed returns the instances that are in none of the groups.
func removeListed(instances []string, groups []at.AutoScalingGroup) []string {
	listed := map[string]bool{}
	for i := range groups {
		for _, instance := range groups[i].Instances {
			listed[sdk.ToString(instance.InstanceId)] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(instances), func(id string) bool { return listed[id] })
}

// readGroupPages reads all pages of groups.
func (p *Provider) readGroupPages(ctx context.Context, in *autoscaling.DescribeAutoScalingGroupsInput) ([]at.AutoScalingGroup, error) {
	in.MaxRecords = sdk.Int32(100)
	var groups []at.AutoScalingGroup
	pages := autoscaling.NewDescribeAutoScalingGroupsPaginator(p.autoscaling, in)
	for pages.HasMorePages() {
		out, err := pages.NextPage(ctx)
		if err != nil {
			return nil, explainError("reading Auto Scaling groups", err)
		}
		groups = append(groups, out.AutoScalingGroups...)
	}
	return groups, nil
}

// readTemplates reads the templates, by ID. They contain the version numbers that $Latest and $Default currently stand for.
func (p *Provider) readTemplates(ctx context.Context, ids []string) (map[string]et.LaunchTemplate, error) {
	templates := map[string]et.LaunchTemplate{}
	if len(ids) == 0 {
		return templates, nil
	}
	out, err := p.ec2.DescribeLaunchTemplates(ctx, &ec2.DescribeLaunchTemplatesInput{LaunchTemplateIds: ids})
	if err != nil {
		return nil, markAbsentTemplate(explainError("reading launch templates "+strings.Join(ids, ", "), err))
	}
	for _, t := range out.LaunchTemplates {
		templates[sdk.ToString(t.LaunchTemplateId)] = t
	}
	return templates, nil
}

// readVersions reads template versions, each once. It does not resolve SSM aliases of images.
func (p *Provider) readVersions(ctx context.Context, keys []versionKey) (map[versionKey]templateVersion, error) {
	return p.versions.getOrFetch(keys, func(unknown []versionKey) (map[versionKey]templateVersion, error) {
		return p.fetchVersions(ctx, unknown, false)
	})
}

// resolveAliases returns the versions with AMIs in place of SSM aliases. It sends one request for each template that has an
// alias.
func (p *Provider) resolveAliases(ctx context.Context, versions map[versionKey]templateVersion) (map[versionKey]templateVersion, error) {
	var aliases []versionKey
	for key, v := range versions {
		if v.hasImageAlias() {
			aliases = append(aliases, key)
		}
	}
	resolved, err := p.fetchVersions(ctx, aliases, true)
	out := maps.Clone(versions)
	maps.Copy(out, resolved)
	return out, err
}

// fetchVersions reads template versions with one request for each template. If a request fails, it returns the error and the
// versions that it has read.
func (p *Provider) fetchVersions(ctx context.Context, keys []versionKey, resolve bool) (map[versionKey]templateVersion, error) {
	numbers := map[string][]string{}
	for _, key := range keys {
		numbers[key.template] = append(numbers[key.template], strconv.FormatInt(key.number, 10))
	}
	read := map[versionKey]templateVersion{}
	for template, own := range numbers {
		slices.Sort(own)
		out, err := p.ec2.DescribeLaunchTemplateVersions(ctx, &ec2.DescribeLaunchTemplateVersionsInput{
			LaunchTemplateId: sdk.String(template), Versions: own, ResolveAlias: sdk.Bool(resolve),
		})
		if err != nil {
			return read, markAbsentTemplate(explainError(fmt.Sprintf("reading launch template %s version %s", template, strings.Join(own, ", ")), err))
		}
		for _, v := range out.LaunchTemplateVersions {
			read[versionKey{template, sdk.ToInt64(v.VersionNumber)}] = describeVersion(v)
		}
	}
	return read, nil
}

func describeVersion(v et.LaunchTemplateVersion) templateVersion {
	read := templateVersion{name: sdk.ToString(v.LaunchTemplateName)}
	if v.LaunchTemplateData != nil {
		read.image = sdk.ToString(v.LaunchTemplateData.ImageId)
		market := v.LaunchTemplateData.InstanceMarketOptions
		read.spot = market != nil && market.MarketType == et.MarketTypeSpot
	}
	return read
}

// markAbsentTemplate converts the error to an absentError if AWS answered that a template or its version does not exist.
func markAbsentTemplate(err error) error {
	if api, ok := errors.AsType[smithy.APIError](err); ok && strings.HasPrefix(api.ErrorCode(), "InvalidLaunchTemplate") {
		return newAbsentError("%v: set the group to a version that exists, or pass one with --to", err)
	}
	return err
}

// unknownKubernetes names the fact that stays unknown if a group's images cannot be read.
const unknownKubernetes = "the Kubernetes version of its images is unknown"

// unknownBecause returns the unknown fact with the error as the reason, nil without an error.
func unknownBecause(fact string, err error) []string {
	if err == nil {
		return nil
	}
	return []string{fact + ": " + err.Error()}
}

// readImages reads the AMIs, each once. The result for an AMI that does not exist, or that this account may not use, has no id.
func (p *Provider) readImages(ctx context.Context, ids []string) (map[string]image, error) {
	named := slices.DeleteFunc(ids, func(id string) bool { return id == "" })
	return p.images.getOrFetch(named, func(unknown []string) (map[string]image, error) {
		// Naming the IDs instead of filtering would return an error if one of them does not exist.
		out, err := p.ec2.DescribeImages(ctx, &ec2.DescribeImagesInput{Filters: ec2Filter("image-id", unknown), IncludeDeprecated: sdk.Bool(true)})
		if err != nil {
			return nil, explainError("reading images "+strings.Join(unknown, ", "), err)
		}
		read := map[string]image{}
		for _, id := range unknown {
			read[id] = image{}
		}
		for _, i := range out.Images {
			read[sdk.ToString(i.ImageId)] = describeImage(i)
		}
		return read, nil
	})
}

// readInstanceImages reads the AMI of each instance once. Instances that EC2 does not know (yet) are left out.
func (p *Provider) readInstanceImages(ctx context.Context, instances []string) (map[string]string, error) {
	return p.instanceImages.getOrFetch(instances, func(unknown []string) (map[string]string, error) {
		read := map[string]string{}
		for batch := range slices.Chunk(unknown, 200) { // the maximum number of values in a filter
			pages := ec2.NewDescribeInstancesPaginator(p.ec2, &ec2.DescribeInstancesInput{Filters: ec2Filter("instance-id", batch), MaxResults: sdk.Int32(1000)})
			for pages.HasMorePages() {
				out, err := pages.NextPage(ctx)
				if err != nil {
					return read, explainError("reading the images of instances", err)
				}
				for _, i := range machinesIn(out.Reservations) {
					read[sdk.ToString(i.InstanceId)] = sdk.ToString(i.ImageId)
				}
			}
		}
		return read, nil
	})
}

// machinesIn returns the instances of the reservations.
func machinesIn(reservations []et.Reservation) (all []et.Instance) {
	for _, r := range reservations {
		all = append(all, r.Instances...)
	}
	return all
}

// readRefreshStatus returns the status of the group's newest instance refresh, "" without one. Only the newest refresh can be
// active.
func (p *Provider) readRefreshStatus(ctx context.Context, asg string) (at.InstanceRefreshStatus, error) {
	out, err := p.autoscaling.DescribeInstanceRefreshes(ctx, &autoscaling.DescribeInstanceRefreshesInput{
		AutoScalingGroupName: sdk.String(asg), MaxRecords: sdk.Int32(1),
	})
	if err != nil {
		return "", explainError(fmt.Sprintf("reading the instance refreshes of Auto Scaling group %q", asg), err)
	}
	if len(out.InstanceRefreshes) == 0 {
		return "", nil
	}
	return out.InstanceRefreshes[0].Status, nil
}

// readNewestLaunchFailure reads the group's newest failed launch.
func (p *Provider) readNewestLaunchFailure(ctx context.Context, asg string) (nodegroup.LaunchFailure, error) {
	out, err := p.autoscaling.DescribeScalingActivities(ctx, &autoscaling.DescribeScalingActivitiesInput{
		AutoScalingGroupName: sdk.String(asg), MaxRecords: sdk.Int32(50),
	})
	if err != nil {
		return nodegroup.LaunchFailure{}, explainError(fmt.Sprintf("reading the scaling activities of Auto Scaling group %q", asg), err)
	}
	return newestLaunchFailure(out.Activities), nil
}

// findOtherGroupUsing returns the name of another group that launches from the template's newest version, "" if there is none.
func (p *Provider) findOtherGroupUsing(ctx context.Context, asg, template string) (string, error) {
	groups, err := p.readGroupPages(ctx, &autoscaling.DescribeAutoScalingGroupsInput{IncludeInstances: sdk.Bool(false)})
	if err != nil {
		return "", err
	}
	for i := range groups {
		if name := sdk.ToString(groups[i].AutoScalingGroupName); name != asg && usesLatestVersion(&groups[i], template) {
			return name, nil
		}
	}
	return "", nil
}
