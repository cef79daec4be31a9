package aws

import (
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	at "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	et "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// newGroup returns a group that can be upgraded. It launches from version 7 of template workers (lt-0a) and has no instances.
func newGroup(change ...func(*at.AutoScalingGroup)) *at.AutoScalingGroup {
	g := &at.AutoScalingGroup{
		AutoScalingGroupName: sdk.String("workers"),
		MinSize:              sdk.Int32(1), DesiredCapacity: sdk.Int32(0), MaxSize: sdk.Int32(6),
		AvailabilityZones: []string{"us-east-1b", "us-east-1a"},
		LaunchTemplate:    template("lt-0a", "7"),
	}
	for _, c := range change {
		c(g)
	}
	return g
}

// template returns a launch template specification with ID and name, as AWS reports it. Template lt-0a is called workers.
func template(id, version string) *at.LaunchTemplateSpecification {
	names := map[string]string{"lt-0a": "workers", "lt-0b": "arm"}
	return &at.LaunchTemplateSpecification{LaunchTemplateId: sdk.String(id), LaunchTemplateName: sdk.String(names[id]), Version: sdk.String(version)}
}

func templated(version string) func(*at.AutoScalingGroup) {
	return func(g *at.AutoScalingGroup) { g.LaunchTemplate = template("lt-0a", version) }
}

func configured(name string) func(*at.AutoScalingGroup) {
	return func(g *at.AutoScalingGroup) { g.LaunchTemplate, g.LaunchConfigurationName = nil, sdk.String(name) }
}

func mixed(version string, overrides ...at.LaunchTemplateOverrides) func(*at.AutoScalingGroup) {
	return func(g *at.AutoScalingGroup) {
		g.LaunchTemplate = nil
		g.MixedInstancesPolicy = &at.MixedInstancesPolicy{
			LaunchTemplate:        &at.LaunchTemplate{LaunchTemplateSpecification: template("lt-0a", version), Overrides: overrides},
			InstancesDistribution: &at.InstancesDistribution{OnDemandPercentageAboveBaseCapacity: sdk.Int32(100)},
		}
	}
}

func withInstances(instances ...at.Instance) func(*at.AutoScalingGroup) {
	return func(g *at.AutoScalingGroup) {
		g.Instances = append(g.Instances, instances...)
		g.DesiredCapacity = sdk.Int32(int32(len(g.Instances)))
	}
}

func tagged(key, value string) func(*at.AutoScalingGroup) {
	return func(g *at.AutoScalingGroup) {
		g.Tags = append(g.Tags, at.TagDescription{Key: sdk.String(key), Value: sdk.String(value)})
	}
}

// newInstance returns an instance in service that was launched from version 7 of workers.
func newInstance(id string, change ...func(*at.Instance)) at.Instance {
	i := at.Instance{
		InstanceId: sdk.String(id), AvailabilityZone: sdk.String("us-east-1a"), InstanceType: sdk.String("m6i.large"),
		LifecycleState: at.LifecycleStateInService, LaunchTemplate: template("lt-0a", "7"), ProtectedFromScaleIn: sdk.Bool(false),
	}
	for _, c := range change {
		c(&i)
	}
	return i
}

func launchedFrom(id, version string) func(*at.Instance) {
	return func(i *at.Instance) { i.LaunchTemplate = template(id, version) }
}

func inState(s at.LifecycleState) func(*at.Instance) {
	return func(i *at.Instance) { i.LifecycleState = s }
}

func protected(i *at.Instance) { i.ProtectedFromScaleIn = sdk.Bool(true) }

// numbers returns a launch template with its version numbers.
func numbers(id string, defaultVersion, latestVersion int64) et.LaunchTemplate {
	return et.LaunchTemplate{LaunchTemplateId: sdk.String(id), DefaultVersionNumber: sdk.Int64(defaultVersion), LatestVersionNumber: sdk.Int64(latestVersion)}
}

// awsAnswers contains what AWS reports about a group besides the Auto Scaling group itself.
type awsAnswers struct {
	templates []et.LaunchTemplate
	// written contains the images in the template versions. resolved contains the AMIs for the aliases among them.
	written, resolved map[versionKey]string
	instanceImages    map[string]string
}

// describe describes a group as inspectGroup does, but without requests.
func describe(t *testing.T, g *at.AutoScalingGroup, o awsAnswers, to string) nodegroup.Group {
	t.Helper()
	out, err := tryDescribe(g, o, to)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func tryDescribe(g *at.AutoScalingGroup, o awsAnswers, to string) (nodegroup.Group, error) {
	templates := map[string]et.LaunchTemplate{}
	for _, lt := range o.templates {
		templates[sdk.ToString(lt.LaunchTemplateId)] = lt
	}
	wish, err := parseTarget(to)
	if err != nil {
		return nodegroup.Group{}, err
	}
	written, err := launchSourceOf(g)
	if err != nil {
		return nodegroup.Group{}, err
	}
	f := groupFacts{instanceImages: o.instanceImages}
	if f.pointed, err = written.resolveVersions(templates); err != nil {
		return nodegroup.Group{}, err
	}
	if f.wanted, err = f.pointed.withTarget(wish, templates); err != nil {
		return nodegroup.Group{}, err
	}
	f.pointed.imageOnly = f.wanted.imageOnly
	raw, resolved := map[versionKey]templateVersion{}, map[versionKey]templateVersion{}
	for key, image := range o.written {
		raw[key], resolved[key] = templateVersion{image: image}, templateVersion{image: image}
	}
	for key, image := range o.resolved {
		resolved[key] = templateVersion{image: image}
	}
	f.fillImages(raw, resolved)
	out := describeGroup(g)
	addGroupFacts(&out, g, &f)
	return out, nil
}
