package aws

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	at "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	et "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

var _ cloud.Surveyor = (*Provider)(nil)

// surveyLimit is the maximum number of instances, and of activities, that a survey reads.
const surveyLimit = 100

// Survey implements cloud.Surveyor. It sends one DescribeInstances, one DescribeScalingActivities and one DescribeSubnets. Auto
// Scaling keeps activities for six weeks. If a request fails, Survey returns the error and what it has read.
func (p *Provider) Survey(ctx context.Context, group *nodegroup.Group) (cloud.Survey, error) {
	var s cloud.Survey
	if len(group.Instances) == 0 {
		return s, nil
	}
	ids := make([]string, 0, surveyLimit)
	for _, i := range group.Instances[:min(surveyLimit, len(group.Instances))] {
		ids = append(ids, i.ID)
	}
	out, err := p.ec2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{Filters: ec2Filter("instance-id", ids)})
	if err != nil {
		return s, explainError("reading when instances were launched", err)
	}
	machines := machinesIn(out.Reservations)
	s.Launched = launchTimes(machines)
	past, err := p.autoscaling.DescribeScalingActivities(ctx, &autoscaling.DescribeScalingActivitiesInput{
		AutoScalingGroupName: sdk.String(p.managed.cache.autoscalingGroupName(group.Name)), MaxRecords: sdk.Int32(surveyLimit),
	})
	if err != nil {
		return s, explainError(fmt.Sprintf("reading the scaling activities of Auto Scaling group %q", group.Name), err)
	}
	s.Terminations = terminationDurations(past.Activities)
	s.Subnets, err = p.readSubnets(ctx, subnetsOf(machines))
	return s, err
}

func ec2Filter(name string, values []string) []et.Filter {
	return []et.Filter{{Name: sdk.String(name), Values: values}}
}

// subnetsOf returns the IDs of the machines' subnets, sorted. A terminated machine has no subnet.
func subnetsOf(machines []et.Instance) []string {
	ids := map[string]bool{}
	for _, i := range machines {
		if i.SubnetId != nil {
			ids[*i.SubnetId] = true
		}
	}
	return slices.Sorted(maps.Keys(ids))
}

func (p *Provider) readSubnets(ctx context.Context, ids []string) ([]nodegroup.Subnet, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	out, err := p.ec2.DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{Filters: ec2Filter("subnet-id", ids)})
	if err != nil {
		return nil, explainError("reading the number of free addresses", err)
	}
	var subnets []nodegroup.Subnet
	for _, s := range out.Subnets {
		cidr, err := netip.ParsePrefix(sdk.ToString(s.CidrBlock))
		if err != nil {
			continue // an IPv6-only subnet does not run out of addresses
		}
		subnets = append(subnets, nodegroup.Subnet{Zone: sdk.ToString(s.AvailabilityZone), CIDR: cidr, Free: int(sdk.ToInt32(s.AvailableIpAddressCount))})
	}
	return subnets, nil
}

// launchTimes returns the launch time of each instance, by ID.
func launchTimes(machines []et.Instance) map[string]time.Time {
	at := map[string]time.Time{}
	for _, i := range machines {
		if i.LaunchTime != nil {
			at[sdk.ToString(i.InstanceId)] = *i.LaunchTime
		}
	}
	return at
}

// terminationDurations returns the duration of each successful termination among the activities.
func terminationDurations(activities []at.Activity) []time.Duration {
	var took []time.Duration
	for _, a := range activities {
		ended := a.StatusCode == at.ScalingActivityStatusCodeSuccessful && a.StartTime != nil && a.EndTime != nil
		if ended && strings.HasPrefix(sdk.ToString(a.Description), "Terminating") {
			took = append(took, a.EndTime.Sub(*a.StartTime))
		}
	}
	return took
}
