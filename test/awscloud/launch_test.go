package awscloud_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	as "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	at "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	et "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/awscloud"
)

func inputToLaunchIn(zone string, n int32, token string) *as.LaunchInstancesInput {
	return &as.LaunchInstancesInput{
		AutoScalingGroupName: aws.String("g"), AvailabilityZones: []string{zone}, RequestedCapacity: aws.Int32(n), ClientToken: aws.String(token),
	}
}

func TestLaunchInstancesUsesNamedZone(t *testing.T) {
	o := shortTimes()
	o.Boot = time.Hour
	c, template := start(t, o)
	addGroup(t, c, template, []int{2, 1, 1}, nil)
	out := must(scaling(c).LaunchInstances(t.Context(), inputToLaunchIn(zoneA, 2, "run/a-1")))(t)
	if len(out.Instances) != 1 || len(out.Instances[0].InstanceIds) != 2 || len(out.Errors) != 0 {
		t.Fatalf("got %+v, want two instances and no error", out)
	}
	equal(t, "zone, market, type", [3]string{*out.Instances[0].AvailabilityZone, *out.Instances[0].MarketType, *out.Instances[0].InstanceType}, [3]string{zoneA, "OnDemand", "m5.large"})
	s := status(t, c)
	equal(t, "desired", s.Desired, 6)
	equal(t, "zones", counts(s), [3]int{4, 1, 1})
	equal(t, "state", s.Instances[4].State, at.LifecycleStatePending)
}

func TestLaunchInstancesIsIdempotent(t *testing.T) {
	c, template := start(t, shortTimes())
	addGroup(t, c, template, []int{1, 1, 1}, nil)
	first := must(scaling(c).LaunchInstances(t.Context(), inputToLaunchIn(zoneB, 1, "t")))(t)
	again := must(scaling(c).LaunchInstances(t.Context(), inputToLaunchIn(zoneB, 1, "t")))(t)
	equal(t, "the answer to the repeated call", again.Instances, first.Instances)
	equal(t, "desired", status(t, c).Desired, 4)
	_, err := scaling(c).LaunchInstances(t.Context(), inputToLaunchIn(zoneB, 2, "t"))
	wantCode(t, err, "IdempotentParameterMismatch")
}

func TestLaunchInstancesIsAsSlowAsConfigured(t *testing.T) {
	o := shortTimes()
	o.LaunchCall = 150 * time.Millisecond
	c, template := start(t, o)
	addGroup(t, c, template, []int{1, 1, 1}, nil)
	before := time.Now()
	must(scaling(c).LaunchInstances(t.Context(), inputToLaunchIn(zoneB, 1, "t")))(t)
	if took := time.Since(before); took < o.LaunchCall {
		t.Errorf("answered after %v, want %v", took, o.LaunchCall)
	}
	equal(t, "desired", status(t, c).Desired, 4)
}

// TestLaunchInstancesContinuesIfClientDisconnects checks that the call takes effect even if its client disconnects.
func TestLaunchInstancesContinuesIfClientDisconnects(t *testing.T) {
	o := shortTimes()
	o.LaunchCall = time.Second
	c, template := start(t, o)
	addGroup(t, c, template, []int{1, 1, 1}, nil)
	ctx, cancel := context.WithCancel(t.Context())
	answered := make(chan error, 1)
	go func() {
		_, err := scaling(c).LaunchInstances(ctx, inputToLaunchIn(zoneB, 1, "t"))
		answered <- err
	}()
	// Once the first call has arrived, a second call with the same token and other parameters is refused.
	await(t, c, "the call", func(awscloud.GroupStatus) bool {
		_, err := scaling(c).LaunchInstances(t.Context(), inputToLaunchIn("us-east-1f", 1, "t"))
		return strings.Contains(err.Error(), "IdempotentParameterMismatch")
	})
	cancel()
	if err := <-answered; err == nil {
		t.Fatal("the call was answered before its time")
	}
	await(t, c, "the launch", func(s awscloud.GroupStatus) bool { return s.Desired == 4 })
}

func TestLaunchInstancesReportsMissingCapacity(t *testing.T) {
	for name, tc := range map[string]struct {
		retry   at.RetryStrategy
		desired int
	}{
		"gives up":               {at.RetryStrategyNone, 4},
		"leaves it to the group": {at.RetryStrategyRetryWithGroupConfiguration, 6},
	} {
		t.Run(name, func(t *testing.T) {
			c, template := start(t, shortTimes())
			addGroup(t, c, template, []int{1, 1, 1}, func(s *awscloud.GroupSpec) { s.Suspended = append(s.Suspended, "Terminate") })
			c.LimitCapacity(zoneC, 1)
			in := inputToLaunchIn(zoneC, 3, "t")
			in.RetryStrategy = tc.retry
			out := must(scaling(c).LaunchInstances(t.Context(), in))(t)
			if len(out.Instances) != 1 || len(out.Instances[0].InstanceIds) != 1 || len(out.Errors) != 1 {
				t.Fatalf("got %+v, want one instance and one error", out)
			}
			equal(t, "error", *out.Errors[0].ErrorCode, "InsufficientInstanceCapacity")
			equal(t, "zone", *out.Errors[0].AvailabilityZone, zoneC)
			equal(t, "desired", status(t, c).Desired, tc.desired)
			await(t, c, "the group at its desired size", inService(tc.desired))
		})
	}
}

func TestLaunchInstancesRejectsInvalidRequests(t *testing.T) {
	for name, tc := range map[string]struct {
		group func(*awscloud.GroupSpec)
		call  func(*as.LaunchInstancesInput)
		want  string
	}{
		"above the maximum": {
			call: func(in *as.LaunchInstancesInput) { in.RequestedCapacity = aws.Int32(18) },
			want: "The requested capacity 18 would bring the desired capacity 3 above max value 20 for the AutoScalingGroup.",
		},
		"no zone in a group of several": {
			call: func(in *as.LaunchInstancesInput) { in.AvailabilityZones = nil },
			want: "AvailabilityZones or SubnetIds must be specified for groups with multiple Availability Zones",
		},
		"two zones": {
			call: func(in *as.LaunchInstancesInput) { in.AvailabilityZones = []string{zoneA, zoneB} },
			want: "LaunchInstances takes one Availability Zone or subnet",
		},
		"a zone that is not the group's": {
			call: func(in *as.LaunchInstancesInput) { in.AvailabilityZones = []string{"us-east-1f"} },
			want: "The Availability Zone or subnet is not part of the Auto Scaling group",
		},
		"a group with a warm pool": {
			group: func(s *awscloud.GroupSpec) { s.WarmPool = &at.WarmPoolConfiguration{} },
			want:  "LaunchInstances is not supported for Auto Scaling groups with a warm pool",
		},
		"On-Demand mixed with Spot": {
			group: func(s *awscloud.GroupSpec) {
				ref := &at.LaunchTemplateSpecification{LaunchTemplateId: aws.String(s.Template.ID)}
				s.Template = awscloud.TemplateRef{}
				s.Mixed = &at.MixedInstancesPolicy{
					LaunchTemplate:        &at.LaunchTemplate{LaunchTemplateSpecification: ref},
					InstancesDistribution: &at.InstancesDistribution{OnDemandPercentageAboveBaseCapacity: aws.Int32(50)},
				}
			},
			want: "LaunchInstances supports mixed instances policies only with fully On-Demand or fully Spot purchase options",
		},
		"while Launch is suspended": {
			group: func(s *awscloud.GroupSpec) { s.Suspended = []string{"Launch"} },
			want:  "LaunchInstances is not possible while the Launch process is suspended",
		},
		"a token with a blank": {
			call: func(in *as.LaunchInstancesInput) { in.ClientToken = aws.String("a b") },
			want: `1 validation error detected: Value 'a b' at 'clientToken' failed to satisfy constraint: Member must satisfy regular expression pattern: ^[A-Za-z0-9\-_/]{1,64}$`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, template := start(t, shortTimes())
			addGroup(t, c, template, []int{1, 1, 1}, tc.group)
			in := inputToLaunchIn(zoneA, 1, "t")
			if tc.call != nil {
				tc.call(in)
			}
			_, err := scaling(c).LaunchInstances(t.Context(), in)
			equal(t, "message", wantCode(t, err, "ValidationError"), tc.want)
			equal(t, "desired", status(t, c).Desired, 3)
		})
	}
}

// TestRefusedLaunchDoesNotUseItsToken: a call with the token of a refused launch succeeds once the reason for the
// refusal is gone.
func TestRefusedLaunchDoesNotUseItsToken(t *testing.T) {
	c, template := start(t, shortTimes())
	addGroup(t, c, template, []int{1, 1, 1}, func(s *awscloud.GroupSpec) { s.Max = 3 })
	_, err := scaling(c).LaunchInstances(t.Context(), inputToLaunchIn(zoneA, 1, "t"))
	wantCode(t, err, "ValidationError")
	must(scaling(c).UpdateAutoScalingGroup(t.Context(), &as.UpdateAutoScalingGroupInput{AutoScalingGroupName: aws.String("g"), MaxSize: aws.Int32(4)}))(t)
	must(scaling(c).LaunchInstances(t.Context(), inputToLaunchIn(zoneA, 1, "t")))(t)
	equal(t, "desired", status(t, c).Desired, 4)
}

func TestLaunchFailsWithoutFreeAddress(t *testing.T) {
	c, template := start(t, shortTimes())
	addGroup(t, c, template, []int{1, 1, 1}, func(s *awscloud.GroupSpec) { s.Suspended = append(s.Suspended, "Terminate") })
	c.SetFreeAddresses(zoneC, 1)
	free := func() int32 {
		out := must(compute(c).DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{
			Filters: []et.Filter{{Name: aws.String("availability-zone"), Values: []string{zoneC}}},
		}))(t)
		return *out.Subnets[0].AvailableIpAddressCount
	}
	equal(t, "free", free(), 1)
	out := must(scaling(c).LaunchInstances(t.Context(), inputToLaunchIn(zoneC, 2, "t")))(t)
	equal(t, "error", *out.Errors[0].ErrorCode, "InsufficientFreeAddressesInSubnet")
	equal(t, "free", free(), 0)
}

func TestLaunchInstancesAcceptsSubnetOrZoneID(t *testing.T) {
	c, template := start(t, shortTimes())
	addGroup(t, c, template, []int{1, 1, 1}, nil)
	byID := inputToLaunchIn("", 1, "id")
	byID.AvailabilityZones, byID.AvailabilityZoneIds = nil, []string{"use1-az2"}
	first := must(scaling(c).LaunchInstances(t.Context(), byID))(t)
	bySubnet := inputToLaunchIn("", 1, "subnet")
	bySubnet.AvailabilityZones, bySubnet.SubnetIds = nil, []string{*first.Instances[0].SubnetId}
	second := must(scaling(c).LaunchInstances(t.Context(), bySubnet))(t)
	equal(t, "zones", [2]string{*first.Instances[0].AvailabilityZone, *second.Instances[0].AvailabilityZone}, [2]string{zoneB, zoneB})
}
