package aws

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	at "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	et "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// versionKey names a launch template version. Versions never change once they are made.
type versionKey struct {
	template string
	number   int64
}

// templateVersion is what matters of a launch template version. Its image is an AMI or an SSM
// alias.
type templateVersion struct{ name, image string }

func (v templateVersion) alias() bool { return strings.HasPrefix(v.image, "resolve:ssm:") }

// memory keeps what AWS need not be asked for again, and which group an instance was seen in last.
type memory struct {
	mu       sync.Mutex // guards all below
	versions map[versionKey]templateVersion
	images   map[string]image
	machines map[string]string
	members  map[string]member
}

// member is where an instance was last seen. A node may be there a moment longer than its machine.
type member struct {
	group    string
	outdated bool
}

func newMemory() memory {
	return memory{
		versions: map[versionKey]templateVersion{}, images: map[string]image{},
		machines: map[string]string{}, members: map[string]member{},
	}
}

// recall splits keys into those known, with their values, and the others.
func recall[K comparable, V any](mu *sync.Mutex, from map[K]V, keys []K) (map[K]V, []K) {
	mu.Lock()
	defer mu.Unlock()
	known, others := make(map[K]V, len(keys)), map[K]bool{}
	for _, key := range keys {
		if value, ok := from[key]; ok {
			known[key] = value
		} else {
			others[key] = true
		}
	}
	return known, slices.Collect(maps.Keys(others))
}

// learn adds news to what is known, and to the memory.
func learn[K comparable, V any](mu *sync.Mutex, into map[K]V, known, news map[K]V) {
	mu.Lock()
	defer mu.Unlock()
	maps.Copy(into, news)
	maps.Copy(known, news)
}

// group reads one Auto Scaling group, or the one behind a managed node group of that name.
// It returns cloud.ErrNotFound when there is neither.
func (p *Provider) group(ctx context.Context, name string, instances bool) (*at.AutoScalingGroup, error) {
	doing := fmt.Sprintf("reading Auto Scaling group %q in %s", name, p.region)
	asked := []*autoscaling.DescribeAutoScalingGroupsInput{
		{AutoScalingGroupNames: []string{name}},
		{Filters: []at.Filter{{Name: sdk.String("tag:" + tagNodegroup), Values: []string{name}}}},
	}
	for _, in := range asked {
		in.IncludeInstances = sdk.Bool(instances)
		out, err := p.autoscaling.DescribeAutoScalingGroups(ctx, in)
		if err != nil {
			return nil, explain(doing, err)
		}
		switch len(out.AutoScalingGroups) {
		case 0:
		case 1:
			return &out.AutoScalingGroups[0], nil
		default:
			return nil, fatal("%s: %d managed node groups have that name: use the name of the Auto Scaling group", doing, len(out.AutoScalingGroups))
		}
	}
	return nil, fmt.Errorf("%s: %w: check the name, and the region with AWS_REGION", doing, cloud.ErrNotFound)
}

// groupsOf reads the groups of the instances, by name. It asks for at most 50 instances at
// once, and for no more of them once a group is known that lists them.
func (p *Provider) groupsOf(ctx context.Context, instances []string) ([]at.AutoScalingGroup, error) {
	var groups []at.AutoScalingGroup
	known := map[string]bool{}
	for len(instances) > 0 {
		batch := instances[:min(50, len(instances))]
		instances = instances[len(batch):]
		out, err := p.autoscaling.DescribeAutoScalingInstances(ctx, &autoscaling.DescribeAutoScalingInstancesInput{InstanceIds: batch})
		if err != nil {
			return nil, explain("reading the Auto Scaling groups of the nodes", err)
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
		found, err := p.describe(ctx, &autoscaling.DescribeAutoScalingGroupsInput{AutoScalingGroupNames: names})
		if err != nil {
			return nil, err
		}
		groups = append(groups, found...)
		instances = without(instances, found)
	}
	slices.SortFunc(groups, func(a, b at.AutoScalingGroup) int {
		return strings.Compare(sdk.ToString(a.AutoScalingGroupName), sdk.ToString(b.AutoScalingGroupName))
	})
	return groups, nil
}

// without leaves out the instances that the groups list.
func without(instances []string, groups []at.AutoScalingGroup) []string {
	listed := map[string]bool{}
	for i := range groups {
		for _, instance := range groups[i].Instances {
			listed[sdk.ToString(instance.InstanceId)] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(instances), func(id string) bool { return listed[id] })
}

// describe reads all pages of groups.
func (p *Provider) describe(ctx context.Context, in *autoscaling.DescribeAutoScalingGroupsInput) ([]at.AutoScalingGroup, error) {
	in.MaxRecords = sdk.Int32(100)
	var groups []at.AutoScalingGroup
	pages := autoscaling.NewDescribeAutoScalingGroupsPaginator(p.autoscaling, in)
	for pages.HasMorePages() {
		out, err := pages.NextPage(ctx)
		if err != nil {
			return nil, explain("reading Auto Scaling groups", err)
		}
		groups = append(groups, out.AutoScalingGroups...)
	}
	return groups, nil
}

// templates reads the version numbers that $Latest and $Default stand for now.
func (p *Provider) templates(ctx context.Context, ids []string) (map[string]et.LaunchTemplate, error) {
	templates := map[string]et.LaunchTemplate{}
	if len(ids) == 0 {
		return templates, nil
	}
	out, err := p.ec2.DescribeLaunchTemplates(ctx, &ec2.DescribeLaunchTemplatesInput{LaunchTemplateIds: ids})
	if err != nil {
		return nil, refusedTemplate(explain("reading launch templates "+strings.Join(ids, ", "), err))
	}
	for _, t := range out.LaunchTemplates {
		templates[sdk.ToString(t.LaunchTemplateId)] = t
	}
	return templates, nil
}

// versions reads template versions, each once. Images named through SSM are left as they are named.
func (p *Provider) versions(ctx context.Context, keys []versionKey) (map[versionKey]templateVersion, error) {
	known, others := recall(&p.memory.mu, p.memory.versions, keys)
	for template, numbers := range byTemplate(others) {
		news, err := p.describeVersions(ctx, template, numbers, false)
		if err != nil {
			return nil, err
		}
		learn(&p.memory.mu, p.memory.versions, known, news)
	}
	return known, nil
}

// resolved reads which AMIs the aliases among the versions stand for now: one call per template
// that has any.
func (p *Provider) resolved(ctx context.Context, versions map[versionKey]templateVersion) (map[versionKey]templateVersion, error) {
	var aliases []versionKey
	for key, v := range versions {
		if v.alias() {
			aliases = append(aliases, key)
		}
	}
	out := maps.Clone(versions)
	for template, numbers := range byTemplate(aliases) {
		news, err := p.describeVersions(ctx, template, numbers, true)
		if err != nil {
			return nil, err
		}
		maps.Copy(out, news)
	}
	return out, nil
}

func byTemplate(keys []versionKey) map[string][]string {
	out := map[string][]string{}
	for _, key := range keys {
		out[key.template] = append(out[key.template], strconv.FormatInt(key.number, 10))
	}
	return out
}

func (p *Provider) describeVersions(ctx context.Context, template string, numbers []string, resolve bool) (map[versionKey]templateVersion, error) {
	slices.Sort(numbers)
	out, err := p.ec2.DescribeLaunchTemplateVersions(ctx, &ec2.DescribeLaunchTemplateVersionsInput{
		LaunchTemplateId: sdk.String(template), Versions: numbers, ResolveAlias: sdk.Bool(resolve),
	})
	if err != nil {
		return nil, refusedTemplate(explain(fmt.Sprintf("reading launch template %s version %s", template, strings.Join(numbers, ", ")), err))
	}
	news := map[versionKey]templateVersion{}
	for _, v := range out.LaunchTemplateVersions {
		read := templateVersion{name: sdk.ToString(v.LaunchTemplateName)}
		if v.LaunchTemplateData != nil {
			read.image = sdk.ToString(v.LaunchTemplateData.ImageId)
		}
		news[versionKey{template, sdk.ToInt64(v.VersionNumber)}] = read
	}
	return news, nil
}

// refusedTemplate makes a refused of the answer that a template or a version of it does not exist.
func refusedTemplate(err error) error {
	var api smithy.APIError
	if errors.As(err, &api) && strings.HasPrefix(api.ErrorCode(), "InvalidLaunchTemplate") {
		return refusef("%v: point the group at a version that exists, or name one with --to", err)
	}
	return err
}

// describeImages reads what the AMIs are, each once. One that does not exist, or that this account
// may not use, has no id.
func (p *Provider) describeImages(ctx context.Context, ids []string) (map[string]image, error) {
	known, others := recall(&p.memory.mu, p.memory.images, ids)
	others = slices.DeleteFunc(others, func(id string) bool { return id == "" })
	if len(others) == 0 {
		return known, nil
	}
	// A filter, because naming IDs errs when one of them does not exist.
	out, err := p.ec2.DescribeImages(ctx, &ec2.DescribeImagesInput{
		Filters: []et.Filter{{Name: sdk.String("image-id"), Values: others}}, IncludeDeprecated: sdk.Bool(true),
	})
	if err != nil {
		return known, explain("reading images "+strings.Join(others, ", "), err)
	}
	news := map[string]image{}
	for _, id := range others {
		news[id] = image{}
	}
	for _, i := range out.Images {
		news[sdk.ToString(i.ImageId)] = imageOf(i)
	}
	learn(&p.memory.mu, p.memory.images, known, news)
	return known, nil
}

// machineImages reads from which AMI the instances run, each once. Instances that EC2 does not know
// (yet) are left out.
func (p *Provider) machineImages(ctx context.Context, instances []string) (map[string]string, error) {
	known, others := recall(&p.memory.mu, p.memory.machines, instances)
	for batch := range slices.Chunk(others, 200) { // the most values a filter takes
		pages := ec2.NewDescribeInstancesPaginator(p.ec2, &ec2.DescribeInstancesInput{
			Filters: []et.Filter{{Name: sdk.String("instance-id"), Values: batch}}, MaxResults: sdk.Int32(1000),
		})
		news := map[string]string{}
		for pages.HasMorePages() {
			out, err := pages.NextPage(ctx)
			if err != nil {
				return nil, explain("reading the images of instances", err)
			}
			for _, r := range out.Reservations {
				for _, i := range r.Instances {
					news[sdk.ToString(i.InstanceId)] = sdk.ToString(i.ImageId)
				}
			}
		}
		learn(&p.memory.mu, p.memory.machines, known, news)
	}
	return known, nil
}

// refreshStatus is the status of the group's newest instance refresh, "" without one. At most one
// is active, and it is the newest.
func (p *Provider) refreshStatus(ctx context.Context, asg string) (at.InstanceRefreshStatus, error) {
	out, err := p.autoscaling.DescribeInstanceRefreshes(ctx, &autoscaling.DescribeInstanceRefreshesInput{
		AutoScalingGroupName: sdk.String(asg), MaxRecords: sdk.Int32(1),
	})
	if err != nil {
		return "", explain(fmt.Sprintf("reading the instance refreshes of Auto Scaling group %q", asg), err)
	}
	if len(out.InstanceRefreshes) == 0 {
		return "", nil
	}
	return out.InstanceRefreshes[0].Status, nil
}

// newestFailure is the group's newest failed launch.
func (p *Provider) newestFailure(ctx context.Context, asg string) (nodegroup.LaunchFailure, error) {
	out, err := p.autoscaling.DescribeScalingActivities(ctx, &autoscaling.DescribeScalingActivitiesInput{
		AutoScalingGroupName: sdk.String(asg), MaxRecords: sdk.Int32(50),
	})
	if err != nil {
		return nodegroup.LaunchFailure{}, explain(fmt.Sprintf("reading the scaling activities of Auto Scaling group %q", asg), err)
	}
	return launchFailure(out.Activities), nil
}

// follower names another group that launches from the template's newest version, "" when there is
// none.
func (p *Provider) follower(ctx context.Context, asg, template string) (string, error) {
	groups, err := p.describe(ctx, &autoscaling.DescribeAutoScalingGroupsInput{IncludeInstances: sdk.Bool(false)})
	if err != nil {
		return "", err
	}
	for i := range groups {
		if name := sdk.ToString(groups[i].AutoScalingGroupName); name != asg && follows(&groups[i], template) {
			return name, nil
		}
	}
	return "", nil
}
