package awscloud

import (
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	as "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	at "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
)

// group returns the group that a request names.
func (r *region) group(name *string) (*group, error) {
	g, ok := r.groups[aws.ToString(name)]
	if !ok {
		return nil, unknownGroupError(aws.ToString(name))
	}
	return g, nil
}

// describe returns the group as the API shows it, without instances.
func (g *group) describe() at.AutoScalingGroup {
	out := at.AutoScalingGroup{
		AutoScalingGroupName:             aws.String(g.name),
		AutoScalingGroupARN:              aws.String(g.arn),
		MinSize:                          aws.Int32(int32(g.min)),
		MaxSize:                          aws.Int32(int32(g.max)),
		DesiredCapacity:                  aws.Int32(int32(g.desired)),
		DefaultCooldown:                  aws.Int32(300),
		AvailabilityZones:                g.spec.Zones,
		CreatedTime:                      aws.Time(g.created),
		HealthCheckType:                  aws.String("EC2"),
		HealthCheckGracePeriod:           aws.Int32(0),
		Instances:                        []at.Instance{},
		LaunchTemplate:                   g.template,
		MixedInstancesPolicy:             g.mixed,
		LoadBalancerNames:                []string{},
		TargetGroupARNs:                  append([]string{}, g.spec.TargetGroupARNs...),
		TrafficSources:                   g.spec.TrafficSources,
		TerminationPolicies:              []string{"Default"},
		NewInstancesProtectedFromScaleIn: aws.Bool(g.spec.ProtectNew),
		WarmPoolConfiguration:            g.spec.WarmPool,
		CapacityRebalance:                aws.Bool(false),
		SuspendedProcesses:               []at.SuspendedProcess{},
		Tags:                             []at.TagDescription{},
	}
	var subnets []string
	for _, z := range g.spec.Zones {
		out.AvailabilityZoneIds = append(out.AvailabilityZoneIds, zoneID(z))
		subnets = append(subnets, subnetID(z))
	}
	out.VPCZoneIdentifier = aws.String(strings.Join(subnets, ","))
	if g.config != "" {
		out.LaunchConfigurationName = aws.String(g.config)
	}
	if g.spec.Operator != "" {
		out.Operator = &at.Operator{Principal: aws.String(g.spec.Operator)}
	}
	for _, p := range sortedKeys(g.suspended) {
		out.SuspendedProcesses = append(out.SuspendedProcesses, at.SuspendedProcess{
			ProcessName:      aws.String(p),
			SuspensionReason: aws.String("User suspended at " + g.suspended[p].UTC().Format(activityTime)),
		})
	}
	for _, k := range sortedKeys(g.spec.Tags) {
		out.Tags = append(out.Tags, at.TagDescription{
			Key: aws.String(k), Value: aws.String(g.spec.Tags[k]), PropagateAtLaunch: aws.Bool(true),
			ResourceId: aws.String(g.name), ResourceType: aws.String("auto-scaling-group"),
		})
	}
	return out
}

// describeMembers returns the instances as DescribeAutoScalingGroups shows them.
func describeMembers(members []instance) []at.Instance {
	out := []at.Instance{}
	for _, i := range members {
		d := i.details()
		out = append(out, at.Instance{
			InstanceId:              d.InstanceId,
			InstanceType:            d.InstanceType,
			AvailabilityZone:        d.AvailabilityZone,
			AvailabilityZoneId:      d.AvailabilityZoneId,
			LifecycleState:          i.state,
			HealthStatus:            aws.String(healthStatus(i)),
			ProtectedFromScaleIn:    d.ProtectedFromScaleIn,
			LaunchTemplate:          d.LaunchTemplate,
			LaunchConfigurationName: d.LaunchConfigurationName,
			ImageId:                 d.ImageId,
			WeightedCapacity:        d.WeightedCapacity,
		})
	}
	return out
}

// details returns the instance as DescribeAutoScalingInstances shows it, with the health status in capitals.
func (i instance) details() at.AutoScalingInstanceDetails {
	d := at.AutoScalingInstanceDetails{
		AutoScalingGroupName: aws.String(i.group),
		InstanceId:           aws.String(i.id),
		InstanceType:         aws.String(i.spec.kind),
		AvailabilityZone:     aws.String(i.zone),
		AvailabilityZoneId:   aws.String(zoneID(i.zone)),
		LifecycleState:       aws.String(string(i.state)),
		HealthStatus:         aws.String(strings.ToUpper(healthStatus(i))),
		ProtectedFromScaleIn: aws.Bool(i.protected),
	}
	if i.spec.config != "" {
		d.LaunchConfigurationName = aws.String(i.spec.config)
	} else {
		d.LaunchTemplate = &i.spec.template
	}
	if i.spec.imageOverride {
		d.ImageId = aws.String(i.spec.image)
	}
	if i.spec.weight != "" {
		d.WeightedCapacity = aws.String(i.spec.weight)
	}
	return d
}

// isEmptyOrContains reports whether the list is empty or contains s.
func isEmptyOrContains(list []string, s string) bool {
	return len(list) == 0 || slices.Contains(list, s)
}

// compileGroupFilters returns a function that reports whether a group matches all filters of DescribeAutoScalingGroups. A group
// matches a filter if it matches one of the filter's values.
func compileGroupFilters(filters []at.Filter) (func(group) bool, error) {
	for _, f := range filters {
		name := aws.ToString(f.Name)
		if name != "tag-key" && name != "tag-value" && !strings.HasPrefix(name, "tag:") {
			return nil, validationError("Filter type %s is not correct. Allowed Filter types are: tag-key, tag-value, tag:<key>", name)
		}
	}
	return func(g group) bool {
		return !slices.ContainsFunc(filters, func(f at.Filter) bool { return !matchesTagFilter(g.spec.Tags, *f.Name, f.Values) })
	}, nil
}

// matchesTagFilter reports whether tags match one filter.
func matchesTagFilter(tags map[string]string, name string, values []string) bool {
	for k, v := range tags {
		switch key, exact := strings.CutPrefix(name, "tag:"); {
		case exact && key == k && slices.Contains(values, v),
			name == "tag-key" && slices.Contains(values, k),
			name == "tag-value" && slices.Contains(values, v):
			return true
		}
	}
	return false
}

// compileActivityFilters returns a function that reports whether an activity matches the ids and filters of
// DescribeScalingActivities.
func compileActivityFilters(in *as.DescribeScalingActivitiesInput) (func(at.Activity) bool, error) {
	tests := []func(at.Activity) bool{func(a at.Activity) bool {
		return isEmptyOrContains(in.ActivityIds, *a.ActivityId)
	}}
	for _, f := range in.Filters {
		t, err := compileActivityFilter(aws.ToString(f.Name), f.Values, in.AutoScalingGroupName != nil)
		if err != nil {
			return nil, err
		}
		tests = append(tests, t)
	}
	return func(a at.Activity) bool {
		return !slices.ContainsFunc(tests, func(t func(at.Activity) bool) bool { return !t(a) })
	}, nil
}

func compileActivityFilter(name string, values []string, named bool) (func(at.Activity) bool, error) {
	switch name {
	case "Status":
		if !named {
			return nil, validationError("The Status filter can only be used in combination with AutoScalingGroupName")
		}
		return func(a at.Activity) bool { return slices.Contains(values, string(a.StatusCode)) }, nil
	case "StartTimeLowerBound", "StartTimeUpperBound":
		if len(values) != 1 {
			return nil, validationError("Filter %s takes one value", name)
		}
		bound, err := time.Parse(time.RFC3339, values[0])
		if err != nil {
			return nil, validationError("Filter %s: %s is not an ISO 8601 timestamp", name, values[0])
		}
		if name == "StartTimeLowerBound" {
			return func(a at.Activity) bool { return !a.StartTime.Before(bound) }, nil
		}
		return func(a at.Activity) bool { return !a.StartTime.After(bound) }, nil
	}
	return nil, validationError("Filter type %s is not correct. Allowed Filter types are: StartTimeLowerBound, StartTimeUpperBound, Status", name)
}
