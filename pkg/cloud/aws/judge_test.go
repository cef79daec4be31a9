package aws

import (
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	at "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	et "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

func TestInstancesOfOtherVersionsOrImagesAreOutdated(t *testing.T) {
	plain := map[versionKey]string{{"lt-0a", 6}: "ami-6", {"lt-0a", 7}: "ami-7", {"lt-0b", 3}: "ami-b3"}
	alias := awsAnswers{
		written:        map[versionKey]string{{"lt-0a", 7}: "resolve:ssm:/aws/service/eks/image_id"},
		resolved:       map[versionKey]string{{"lt-0a", 7}: "ami-new"},
		instanceImages: map[string]string{"i-new": "ami-new", "i-old": "ami-old"},
	}
	arm := at.LaunchTemplateOverrides{InstanceType: sdk.String("m6g.large"), LaunchTemplateSpecification: template("lt-0b", "3")}
	typed := func(name string) func(*at.Instance) {
		return func(i *at.Instance) { i.InstanceType = sdk.String(name) }
	}
	running := func(image string) func(*at.Instance) {
		return func(i *at.Instance) { i.ImageId = sdk.String(image) }
	}
	byConfiguration := func(name string) func(*at.Instance) {
		return func(i *at.Instance) { i.LaunchTemplate, i.LaunchConfigurationName = nil, sdk.String(name) }
	}
	attached := func(i *at.Instance) { i.LaunchTemplate = nil }
	cases := map[string]struct {
		group    *at.AutoScalingGroup
		outside  awsAnswers
		to       string
		instance at.Instance
		want     string // the difference; empty for a current instance
	}{
		"1 launch configuration: same name": {group: newGroup(configured("v2")), instance: newInstance("i-1", byConfiguration("v2"))},
		"1 launch configuration: other name": {
			group: newGroup(configured("v2")), instance: newInstance("i-1", byConfiguration("v1")),
			want: "launch configuration v1, wanted v2",
		},
		"1 launch configuration: group moved to a template since": {
			group: newGroup(), instance: newInstance("i-1", byConfiguration("v1")), want: "launch configuration v1, wanted workers:7",
		},
		"1 launch configuration: group moved away from a template": {
			group: newGroup(configured("v2")), instance: newInstance("i-1"), want: "template workers:7, wanted v2",
		},
		"1 template: same version":  {group: newGroup(), instance: newInstance("i-1")},
		"1 template: other version": {group: newGroup(), instance: newInstance("i-1", launchedFrom("lt-0a", "6")), want: "template version 6, wanted 7"},
		"1 template: same number of another template": {
			group: newGroup(), instance: newInstance("i-1", launchedFrom("lt-0b", "7")), want: "template arm:7, wanted workers:7",
		},
		"1 mixed policy: base is compared":             {group: newGroup(mixed("7")), instance: newInstance("i-1", launchedFrom("lt-0a", "6")), want: "template version 6, wanted 7"},
		"1 mixed policy: type with its own template":   {group: newGroup(mixed("7", arm)), instance: newInstance("i-1", typed("m6g.large"), launchedFrom("lt-0b", "3"))},
		"1 mixed policy: own template, other version":  {group: newGroup(mixed("7", arm)), instance: newInstance("i-1", typed("m6g.large"), launchedFrom("lt-0b", "2")), want: "template version 2, wanted 3"},
		"1 mixed policy: own template, has the base":   {group: newGroup(mixed("7", arm)), instance: newInstance("i-1", typed("m6g.large")), want: "template workers:7, wanted arm:3"},
		"1 mixed policy: the next type is not touched": {group: newGroup(mixed("7", arm)), instance: newInstance("i-1", typed("m6i.large"))},
		"1 mixed policy: requirements with their own template": {
			group: newGroup(mixed("7", at.LaunchTemplateOverrides{
				InstanceRequirements: &at.InstanceRequirements{}, LaunchTemplateSpecification: template("lt-0b", "3"),
			})),
			instance: newInstance("i-1", typed("m7g.large"), launchedFrom("lt-0b", "3")),
		},
		"2 $Latest": {
			group: newGroup(templated("$Latest")), outside: awsAnswers{templates: []et.LaunchTemplate{numbers("lt-0a", 5, 7)}},
			instance: newInstance("i-1", launchedFrom("lt-0a", "5")), want: "template version 5, wanted 7",
		},
		"2 $Default": {
			group: newGroup(templated("$Default")), outside: awsAnswers{templates: []et.LaunchTemplate{numbers("lt-0a", 5, 7)}},
			instance: newInstance("i-1", launchedFrom("lt-0a", "7")), want: "template version 7, wanted 5",
		},
		"2 no version is $Default": {
			group: newGroup(templated("")), outside: awsAnswers{templates: []et.LaunchTemplate{numbers("lt-0a", 5, 7)}},
			instance: newInstance("i-1", launchedFrom("lt-0a", "5")),
		},
		"2 versions are numbers, not text": {group: newGroup(templated("07")), instance: newInstance("i-1")},
		"3 no template known":              {group: newGroup(), instance: newInstance("i-1", attached), want: "template unknown, wanted workers:7"},
		"3 template unknown, wanted image runs": {
			group: newGroup(), to: "ami-7", outside: awsAnswers{written: plain},
			instance: newInstance("i-1", attached, running("ami-7")), want: "template unknown, wanted workers",
		},
		"4 root volume replaced": {
			group: newGroup(), outside: awsAnswers{written: plain}, instance: newInstance("i-1", running("ami-x")),
			want: "image ami-x, wanted ami-7",
		},
		"4 root volume replaced by the wanted image": {group: newGroup(), outside: awsAnswers{written: plain}, instance: newInstance("i-1", running("ami-7"))},
		"4 image override of the policy": {
			group:    newGroup(mixed("7", at.LaunchTemplateOverrides{InstanceType: sdk.String("m6i.large"), ImageId: sdk.String("ami-o")})),
			outside:  awsAnswers{written: plain},
			instance: newInstance("i-1", running("ami-o")),
		},
		"4 launched before the image override": {
			group:    newGroup(mixed("7", at.LaunchTemplateOverrides{InstanceType: sdk.String("m6i.large"), ImageId: sdk.String("ami-o")})),
			outside:  awsAnswers{written: plain},
			instance: newInstance("i-1"), want: "image ami-7, wanted ami-o",
		},
		"5 SSM alias: the image it stands for":       {group: newGroup(), outside: alias, instance: newInstance("i-new")},
		"5 SSM alias: another image, same version":   {group: newGroup(), outside: alias, instance: newInstance("i-old"), want: "image ami-old, wanted ami-new"},
		"5 SSM alias: EC2 does not know it yet":      {group: newGroup(), outside: alias, instance: newInstance("i-unknown")},
		"7 warm pool: came into service outdated":    {group: newGroup(), instance: newInstance("i-1", launchedFrom("lt-0a", "6"), inState("Pending")), want: "template version 6, wanted 7"},
		"8 other version, wanted image":              {group: newGroup(), to: "ami-7", outside: awsAnswers{instanceImages: map[string]string{"i-1": "ami-7"}}, instance: newInstance("i-1", launchedFrom("lt-0a", "6"))},
		"8 wanted version, other image":              {group: newGroup(), to: "ami-8", outside: awsAnswers{written: plain}, instance: newInstance("i-1"), want: "image ami-7, wanted ami-8"},
		"8 wanted image of another template":         {group: newGroup(), to: "ami-7", outside: awsAnswers{written: plain, instanceImages: map[string]string{"i-1": "ami-7"}}, instance: newInstance("i-1", launchedFrom("lt-0b", "3")), want: "template arm:3, wanted workers"},
		"--to a number":                              {group: newGroup(), to: "6", outside: awsAnswers{written: plain}, instance: newInstance("i-1"), want: "template version 7, wanted 6"},
		"--to $Latest while the group has a number":  {group: newGroup(), to: "$Latest", outside: awsAnswers{templates: []et.LaunchTemplate{numbers("lt-0a", 1, 9)}}, instance: newInstance("i-1"), want: "template version 7, wanted 9"},
		"--to default while the group has a number":  {group: newGroup(), to: "default", outside: awsAnswers{templates: []et.LaunchTemplate{numbers("lt-0a", 1, 9)}}, instance: newInstance("i-1"), want: "template version 7, wanted 1"},
		"--to a number leaves types with their own":  {group: newGroup(mixed("7", arm)), to: "6", instance: newInstance("i-1", typed("m6g.large"), launchedFrom("lt-0b", "3"))},
		"--to a number, mixed policy, base instance": {group: newGroup(mixed("7", arm)), to: "6", instance: newInstance("i-1"), want: "template version 7, wanted 6"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			withInstances(c.instance)(c.group)
			got := describe(t, c.group, c.outside, c.to).Instances[0]
			if got.Why != c.want || got.Outdated != (c.want != "") {
				t.Errorf("outdated %v because %q, want %q", got.Outdated, got.Why, c.want)
			}
		})
	}
}

// TestAWSLifecycleStatesAreMapped checks the state for each lifecycle state of the SDK.
func TestAWSLifecycleStatesAreMapped(t *testing.T) {
	want := map[at.LifecycleState]nodegroup.InstanceState{
		"Pending": nodegroup.InstancePending, "Pending:Wait": nodegroup.InstancePending, "Pending:Proceed": nodegroup.InstancePending,
		"InService": nodegroup.InstanceInService, "Standby": nodegroup.InstanceStandby, "EnteringStandby": nodegroup.InstanceStandby,
		"Terminating": nodegroup.InstanceLeaving, "Terminating:Wait": nodegroup.InstanceLeaving, "Terminating:Proceed": nodegroup.InstanceLeaving,
		"Terminating:Retained": nodegroup.InstanceLeaving, "Terminated": nodegroup.InstanceLeaving,
		"Detaching": nodegroup.InstanceLeaving, "Detached": nodegroup.InstanceLeaving,
	}
	states := append(at.LifecycleState("").Values(), "", "Invented", "PendingElsewhere")
	for _, s := range states {
		expected, known := want[s]
		if !known {
			expected = nodegroup.InstanceUnknown
		}
		if got := instanceStateOf(s); got != expected {
			t.Errorf("%q is %s, want %s", s, got, expected)
		}
	}
}
