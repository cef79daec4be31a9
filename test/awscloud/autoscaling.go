package awscloud

import (
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	as "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	at "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
)

func autoscalingOperations() map[string]operation {
	return map[string]operation{
		"DescribeAutoScalingGroups":    readOperation((*region).describeGroups),
		"DescribeAutoScalingInstances": readOperation((*region).describeGroupInstances),
		"DescribeScalingActivities":    readOperation((*region).describeActivities),
		"DescribeInstanceRefreshes":    readOperation((*region).describeRefreshes),
		"DescribeWarmPool":             readOperation((*region).describeWarmPool),
		"DescribeLifecycleHooks":       readOperation((*region).describeHooks),
		"DescribeLaunchConfigurations": readOperation((*region).describeConfigurations),

		"UpdateAutoScalingGroup":              changeOperation((*region).updateGroup),
		"SetDesiredCapacity":                  changeOperation((*region).setDesiredCapacity),
		"SuspendProcesses":                    changeOperation((*region).suspendProcesses),
		"ResumeProcesses":                     changeOperation((*region).resumeProcesses),
		"SetInstanceProtection":               changeOperation((*region).setInstanceProtection),
		"TerminateInstanceInAutoScalingGroup": changeOperation((*region).terminateInstance),
		"LaunchInstances":                     launchOperation(),
	}
}

// page returns the part of all that begins at the token, and the token of the next page. size is the default page size. most is
// the maximum for records, which is the request's MaxRecords.
func page[T any](all []T, token *string, records *int32, size, most int32) (found []T, next *string, err error) {
	if records != nil {
		if *records < 1 || *records > most {
			return nil, nil, validationError("1 validation error detected: Value '%d' at 'maxRecords' failed to satisfy constraint: Member must have value between 1 and %d", *records, most)
		}
		size = *records
	}
	from := 0
	if token != nil {
		if _, err := fmt.Sscanf(*token, "next-%d", &from); err != nil || from < 0 || from > len(all) {
			return nil, nil, clientError("InvalidNextToken", "The token '%s' is invalid", *token)
		}
	}
	to := min(len(all), from+int(size))
	if to < len(all) {
		return all[from:to], aws.String(fmt.Sprintf("next-%d", to)), nil
	}
	return all[from:to], nil, nil
}

func (r *region) describeGroups(in *as.DescribeAutoScalingGroupsInput) (*as.DescribeAutoScalingGroupsOutput, error) {
	if limit := max(50, int(aws.ToInt32(in.MaxRecords))); len(in.AutoScalingGroupNames) > limit {
		return nil, validationError("The number of group names that may be passed in is limited to %d", limit)
	}
	match, err := compileGroupFilters(in.Filters)
	if err != nil {
		return nil, err
	}
	v := r.laggedView()
	found := []group{}
	for _, g := range v.groups {
		if isEmptyOrContains(in.AutoScalingGroupNames, g.name) && match(g) {
			found = append(found, g)
		}
	}
	found, next, err := page(found, in.NextToken, in.MaxRecords, 50, 100)
	if err != nil {
		return nil, err
	}
	out := &as.DescribeAutoScalingGroupsOutput{AutoScalingGroups: []at.AutoScalingGroup{}, NextToken: next}
	for _, g := range found {
		d := g.describe()
		if in.IncludeInstances == nil || *in.IncludeInstances {
			d.Instances = describeMembers(v.members(g.name))
		}
		out.AutoScalingGroups = append(out.AutoScalingGroups, d)
	}
	return out, nil
}

func (r *region) describeGroupInstances(in *as.DescribeAutoScalingInstancesInput) (*as.DescribeAutoScalingInstancesOutput, error) {
	if len(in.InstanceIds) > 50 {
		return nil, validationError("The number of instance ids that may be passed in is limited to 50")
	}
	all := []at.AutoScalingInstanceDetails{}
	for _, i := range r.laggedView().instances {
		if !i.left && isEmptyOrContains(in.InstanceIds, i.id) {
			all = append(all, i.details())
		}
	}
	found, next, err := page(all, in.NextToken, in.MaxRecords, 50, 50)
	return &as.DescribeAutoScalingInstancesOutput{AutoScalingInstances: found, NextToken: next}, err
}

func (r *region) describeActivities(in *as.DescribeScalingActivitiesInput) (*as.DescribeScalingActivitiesOutput, error) {
	match, err := compileActivityFilters(in)
	if err != nil {
		return nil, err
	}
	var all []at.Activity
	for _, g := range r.laggedView().groups {
		if in.AutoScalingGroupName == nil || *in.AutoScalingGroupName == g.name {
			all = append(all, g.activities...)
		}
	}
	found := []at.Activity{}
	for _, a := range sortActivities(all) {
		if match(a) {
			found = append(found, a)
		}
	}
	found, next, err := page(found, in.NextToken, in.MaxRecords, 100, 100)
	return &as.DescribeScalingActivitiesOutput{Activities: found, NextToken: next}, err
}

func (r *region) describeRefreshes(in *as.DescribeInstanceRefreshesInput) (*as.DescribeInstanceRefreshesOutput, error) {
	g, err := r.group(in.AutoScalingGroupName)
	if err != nil {
		return nil, err
	}
	all := []at.InstanceRefresh{}
	for _, f := range g.spec.Refreshes {
		if f.AutoScalingGroupName = aws.String(g.name); isEmptyOrContains(in.InstanceRefreshIds, aws.ToString(f.InstanceRefreshId)) {
			all = append(all, f)
		}
	}
	found, next, err := page(all, in.NextToken, in.MaxRecords, 50, 100)
	return &as.DescribeInstanceRefreshesOutput{InstanceRefreshes: found, NextToken: next}, err
}

func (r *region) describeWarmPool(in *as.DescribeWarmPoolInput) (*as.DescribeWarmPoolOutput, error) {
	g, err := r.group(in.AutoScalingGroupName)
	if err != nil {
		return nil, err
	}
	return &as.DescribeWarmPoolOutput{Instances: []at.Instance{}, WarmPoolConfiguration: g.spec.WarmPool}, nil
}

func (r *region) describeHooks(in *as.DescribeLifecycleHooksInput) (*as.DescribeLifecycleHooksOutput, error) {
	g, err := r.group(in.AutoScalingGroupName)
	if err != nil {
		return nil, err
	}
	out := &as.DescribeLifecycleHooksOutput{LifecycleHooks: []at.LifecycleHook{}}
	const name = "drain-before-terminate"
	if g.spec.TerminatingHook > 0 && isEmptyOrContains(in.LifecycleHookNames, name) {
		seconds := int32((g.spec.TerminatingHook + time.Second - 1) / time.Second)
		out.LifecycleHooks = append(out.LifecycleHooks, at.LifecycleHook{
			AutoScalingGroupName: aws.String(g.name),
			LifecycleHookName:    aws.String(name),
			LifecycleTransition:  aws.String("autoscaling:EC2_INSTANCE_TERMINATING"),
			DefaultResult:        aws.String("CONTINUE"),
			HeartbeatTimeout:     aws.Int32(seconds),
			GlobalTimeout:        aws.Int32(100 * seconds),
		})
	}
	return out, nil
}

func (r *region) describeConfigurations(in *as.DescribeLaunchConfigurationsInput) (*as.DescribeLaunchConfigurationsOutput, error) {
	all := []at.LaunchConfiguration{}
	for _, name := range sortedKeys(r.configs) {
		if isEmptyOrContains(in.LaunchConfigurationNames, name) {
			all = append(all, r.configs[name])
		}
	}
	found, next, err := page(all, in.NextToken, in.MaxRecords, 50, 100)
	return &as.DescribeLaunchConfigurationsOutput{LaunchConfigurations: found, NextToken: next}, err
}
