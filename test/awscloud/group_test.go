package awscloud_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	as "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	at "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/awscloud"
)

// counts returns the numbers of instances in zones a, b and c that count towards the capacity.
func counts(s awscloud.GroupStatus) [3]int {
	return [3]int{s.Zones[zoneA], s.Zones[zoneB], s.Zones[zoneC]}
}

func ofVersion(s awscloud.GroupStatus, version string) (out []awscloud.InstanceStatus) {
	for _, i := range s.Instances {
		if i.TemplateVersion == version {
			out = append(out, i)
		}
	}
	return out
}

func TestGroupIsDescribedAsAdded(t *testing.T) {
	host := &recorder{}
	o := shortTimes()
	o.Nodes = host
	c, template := start(t, o)
	addGroup(t, c, template, []int{2, 1}, nil)

	out := must(scaling(c).DescribeAutoScalingGroups(t.Context(), &as.DescribeAutoScalingGroupsInput{
		Filters: []at.Filter{{Name: aws.String("tag:kubernetes.io/cluster/shop"), Values: []string{"owned"}}},
	}))(t)
	if len(out.AutoScalingGroups) != 1 {
		t.Fatalf("got %d groups, want 1", len(out.AutoScalingGroups))
	}
	g := out.AutoScalingGroups[0]
	equal(t, "sizes", [3]int32{*g.MinSize, *g.MaxSize, *g.DesiredCapacity}, [3]int32{0, 20, 3})
	equal(t, "zones", g.AvailabilityZones, []string{zoneA, zoneB, zoneC})
	equal(t, "template", *g.LaunchTemplate.Version, "2")
	equal(t, "suspended", *g.SuspendedProcesses[0].ProcessName, "AZRebalance")
	if len(g.Instances) != 3 || *g.Instances[0].LaunchTemplate.Version != "1" || g.Instances[0].LifecycleState != at.LifecycleStateInService {
		t.Fatalf("got instances %+v, want three of version 1 in service", g.Instances)
	}

	i := status(t, c).Instances[0]
	m, _ := host.machine(i.Node)
	equal(t, "provider id", m.ProviderID, "aws:///"+zoneA+"/"+i.ID)
	equal(t, "kubelet", m.KubeletVersion, "v1.32.1")
	equal(t, "labels", m.Labels, map[string]string{"pool": "workers", "eks.amazonaws.com/nodegroup-image": "ami-old"})
	if m.ReadyAfter != 0 || m.Name != "ip-10-0-0-4.ec2.internal" {
		t.Errorf("got machine %+v, want ip-10-0-0-4.ec2.internal ready at once", m)
	}
}

func TestGroupLaunchesInTheEmptiestZone(t *testing.T) {
	host := &recorder{}
	o := shortTimes()
	o.Nodes = host
	c, template := start(t, o)
	addGroup(t, c, template, []int{2, 1, 0}, nil)
	before := time.Now()
	must(scaling(c).SetDesiredCapacity(t.Context(), &as.SetDesiredCapacityInput{AutoScalingGroupName: aws.String("g"), DesiredCapacity: aws.Int32(6)}))(t)
	s := await(t, c, "six in service", inService(6))
	if took := time.Since(before); took < o.Boot {
		t.Errorf("in service after %v, before the boot delay of %v", took, o.Boot)
	}
	equal(t, "zones", counts(s), [3]int{2, 2, 2})
	fresh := ofVersion(s, "2")
	if len(fresh) != 3 {
		t.Fatalf("got %d instances of version 2, want 3", len(fresh))
	}
	await(t, c, "its node", func(awscloud.GroupStatus) bool { _, ok := host.machine(fresh[0].Node); return ok })
	m, _ := host.machine(fresh[0].Node)
	equal(t, "ready after", m.ReadyAfter, o.NodeReady)
}

func TestTerminateWithoutShrinkingReplacesInTheEmptiestZone(t *testing.T) {
	host := &recorder{}
	o := shortTimes()
	o.Nodes = host
	c, template := start(t, o)
	addGroup(t, c, template, []int{1, 1, 1}, nil)
	old := status(t, c).Instances[1]
	out := must(scaling(c).TerminateInstanceInAutoScalingGroup(t.Context(), &as.TerminateInstanceInAutoScalingGroupInput{
		InstanceId: aws.String(old.ID), ShouldDecrementDesiredCapacity: aws.Bool(false),
	}))(t)
	equal(t, "activity", out.Activity.StatusCode, at.ScalingActivityStatusCodeInProgress)
	equal(t, "description", *out.Activity.Description, "Terminating EC2 instance: "+old.ID)
	s := await(t, c, "the replacement", func(s awscloud.GroupStatus) bool { return inService(3)(s) && len(ofVersion(s, "2")) == 1 })
	equal(t, "zones", counts(s), [3]int{1, 1, 1})
	equal(t, "zone of the replacement", ofVersion(s, "2")[0].Zone, zoneB)
	await(t, c, "the node's end", func(awscloud.GroupStatus) bool { return len(host.callsFor(old.Node)) == 3 })
	equal(t, "what the node went through", host.callsFor(old.Node), []string{"boot", "stop", "delete"})
}

func TestInvalidTerminationsAreRefused(t *testing.T) {
	c, template := start(t, shortTimes())
	addGroup(t, c, template, []int{1, 1, 1}, func(s *awscloud.GroupSpec) { s.Min = 3 })
	id := status(t, c).Instances[0].ID
	for name, tc := range map[string]struct {
		in      as.TerminateInstanceInAutoScalingGroupInput
		message string
	}{
		"below the minimum": {
			as.TerminateInstanceInAutoScalingGroupInput{InstanceId: aws.String(id), ShouldDecrementDesiredCapacity: aws.Bool(true)},
			"Currently, desiredSize equals minSize (3). Terminating instance without replacement will violate group's min size constraint. Either set shouldDecrementDesiredCapacity flag to false or lower group's min size.",
		},
		"an instance of no group": {
			as.TerminateInstanceInAutoScalingGroupInput{InstanceId: aws.String("i-00000000000000000"), ShouldDecrementDesiredCapacity: aws.Bool(false)},
			"Instance Id not found - No managed instance found for instance ID: i-00000000000000000",
		},
		"several ids without a group": {
			as.TerminateInstanceInAutoScalingGroupInput{InstanceIds: []string{id}, ShouldDecrementDesiredCapacity: aws.Bool(false)},
			"AutoScalingGroupName is required when using InstanceIds.",
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := scaling(c).TerminateInstanceInAutoScalingGroup(t.Context(), &tc.in)
			equal(t, "message", wantCode(t, err, "ValidationError"), tc.message)
			if !inService(3)(status(t, c)) {
				t.Error("the group changed")
			}
		})
	}
}

func TestTerminationOfTwoInstancesShrinksGroup(t *testing.T) {
	c, template := start(t, shortTimes())
	addGroup(t, c, template, []int{2, 1, 1}, nil)
	s := status(t, c)
	out := must(scaling(c).TerminateInstanceInAutoScalingGroup(t.Context(), &as.TerminateInstanceInAutoScalingGroupInput{
		AutoScalingGroupName: aws.String("g"), InstanceIds: []string{s.Instances[0].ID, s.Instances[1].ID}, ShouldDecrementDesiredCapacity: aws.Bool(true),
	}))(t)
	if len(out.Activities) != 2 || out.Activity != nil {
		t.Errorf("got %+v, want two activities", out)
	}
	s = await(t, c, "the smaller group", inService(2))
	equal(t, "desired", s.Desired, 2)
	equal(t, "zones", counts(s), [3]int{0, 1, 1})
}

// AWS does not document whether a repeated call for the same instance shrinks the group again. In the stand-in it does, so that
// a client that repeats the call fails its tests.
func TestRepeatedTerminateShrinksGroupAgain(t *testing.T) {
	c, template := start(t, shortTimes())
	addGroup(t, c, template, []int{1, 1, 1}, func(s *awscloud.GroupSpec) { s.TerminatingHook = time.Hour })
	in := &as.TerminateInstanceInAutoScalingGroupInput{
		InstanceId: aws.String(status(t, c).Instances[0].ID), ShouldDecrementDesiredCapacity: aws.Bool(true),
	}
	must(scaling(c).TerminateInstanceInAutoScalingGroup(t.Context(), in))(t)
	must(scaling(c).TerminateInstanceInAutoScalingGroup(t.Context(), in))(t)
	equal(t, "desired", status(t, c).Desired, 1)
}

func TestInstanceRunsDuringTerminatingHook(t *testing.T) {
	c, template := start(t, shortTimes())
	addGroup(t, c, template, []int{1}, func(s *awscloud.GroupSpec) { s.TerminatingHook = time.Hour })
	terminateFirst(t, c)
	settle(t, c)
	if i := status(t, c).Instances[0]; i.State != at.LifecycleStateTerminatingWait || i.Stopped {
		t.Errorf("got %+v, want it running in Terminating:Wait", i)
	}
	hooks := must(scaling(c).DescribeLifecycleHooks(t.Context(), &as.DescribeLifecycleHooksInput{AutoScalingGroupName: aws.String("g")}))(t)
	equal(t, "transition", *hooks.LifecycleHooks[0].LifecycleTransition, "autoscaling:EC2_INSTANCE_TERMINATING")
	equal(t, "heartbeat", *hooks.LifecycleHooks[0].HeartbeatTimeout, 3600)
}

func TestInstanceEndsAfterTerminatingHook(t *testing.T) {
	o := shortTimes()
	c, template := start(t, o)
	const hook = 200 * time.Millisecond
	addGroup(t, c, template, []int{1}, func(s *awscloud.GroupSpec) { s.TerminatingHook = hook })
	before := time.Now()
	terminateFirst(t, c)
	await(t, c, "the end of the hook", inService(0))
	if took := time.Since(before); took < hook+o.Terminate {
		t.Errorf("gone after %v, want at least %v", took, hook+o.Terminate)
	}
}

// terminateFirst terminates the group's first instance, reduces the desired capacity and returns the instance's id.
func terminateFirst(t *testing.T, c *awscloud.Cloud) (id string) {
	t.Helper()
	id = status(t, c).Instances[0].ID
	must(scaling(c).TerminateInstanceInAutoScalingGroup(t.Context(), &as.TerminateInstanceInAutoScalingGroupInput{
		InstanceId: aws.String(id), ShouldDecrementDesiredCapacity: aws.Bool(true),
	}))(t)
	return id
}

func TestUpdateGroupChecksSizes(t *testing.T) {
	for name, tc := range map[string]struct {
		in     as.UpdateAutoScalingGroupInput
		want   [3]int // min, max, desired
		reason string
	}{
		"max and desired together":                         {in: as.UpdateAutoScalingGroupInput{MaxSize: aws.Int32(8), DesiredCapacity: aws.Int32(8)}, want: [3]int{1, 8, 8}},
		"a minimum above desired raises it without a word": {in: as.UpdateAutoScalingGroupInput{MinSize: aws.Int32(5)}, want: [3]int{5, 6, 5}},
		"a maximum below desired lowers it without a word": {in: as.UpdateAutoScalingGroupInput{MaxSize: aws.Int32(2)}, want: [3]int{1, 2, 2}},
		"desired above the maximum": {
			in: as.UpdateAutoScalingGroupInput{DesiredCapacity: aws.Int32(7)}, want: [3]int{1, 6, 3},
			reason: "Desired capacity:7 must be between the specified min size:1 and max size:6",
		},
		"a maximum below the minimum": {
			in: as.UpdateAutoScalingGroupInput{MinSize: aws.Int32(5), MaxSize: aws.Int32(3)}, want: [3]int{1, 6, 3},
			reason: "Max bound, 3, must be greater than or equal to min bound, 5",
		},
		"a template that does not exist": {
			in: as.UpdateAutoScalingGroupInput{LaunchTemplate: &at.LaunchTemplateSpecification{LaunchTemplateId: aws.String("lt-0")}}, want: [3]int{1, 6, 3},
			reason: "You must use a valid fully-formed launch template. The specified launch template, with template ID lt-0, does not exist.",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, template := start(t, shortTimes())
			addGroup(t, c, template, []int{1, 1, 1}, func(s *awscloud.GroupSpec) { s.Min, s.Max = 1, 6 })
			tc.in.AutoScalingGroupName = aws.String("g")
			_, err := scaling(c).UpdateAutoScalingGroup(t.Context(), &tc.in)
			if tc.reason == "" && err != nil {
				t.Fatal(err)
			}
			if tc.reason != "" {
				equal(t, "message", wantCode(t, err, "ValidationError"), tc.reason)
			}
			s := status(t, c)
			equal(t, "min, max, desired", [3]int{s.Min, s.Max, s.Desired}, tc.want)
		})
	}
}

func TestUpdateGroupRefusesUnmodelledMembers(t *testing.T) {
	c, template := start(t, shortTimes())
	addGroup(t, c, template, nil, nil)
	_, err := scaling(c).UpdateAutoScalingGroup(t.Context(), &as.UpdateAutoScalingGroupInput{
		AutoScalingGroupName: aws.String("g"), HealthCheckType: aws.String("ELB"),
	})
	if m := wantCode(t, err, "NotModelled"); !strings.Contains(m, "HealthCheckType") {
		t.Errorf("got %q, want it to name HealthCheckType", m)
	}
}

func TestNewInstancesUseUpdatedTemplate(t *testing.T) {
	c, template := start(t, shortTimes())
	addGroup(t, c, template, []int{1}, func(s *awscloud.GroupSpec) { s.Template.Version = "1" })
	must(scaling(c).UpdateAutoScalingGroup(t.Context(), &as.UpdateAutoScalingGroupInput{
		AutoScalingGroupName: aws.String("g"), DesiredCapacity: aws.Int32(2),
		LaunchTemplate: &at.LaunchTemplateSpecification{LaunchTemplateId: aws.String(template), Version: aws.String("$Latest")},
	}))(t)
	s := await(t, c, "the second instance", inService(2))
	equal(t, "versions", [2]string{s.Instances[0].TemplateVersion, s.Instances[1].TemplateVersion}, [2]string{"1", "2"})
}

func TestSetDesiredCapacityRefusesSizesOutOfBounds(t *testing.T) {
	c, template := start(t, shortTimes())
	addGroup(t, c, template, []int{1, 1, 1}, func(s *awscloud.GroupSpec) { s.Min, s.Max = 2, 4 })
	for n, want := range map[int]string{
		1: "New SetDesiredCapacity value 1 is below min value 2 for the AutoScalingGroup.",
		5: "New SetDesiredCapacity value 5 is above max value 4 for the AutoScalingGroup.",
	} {
		_, err := scaling(c).SetDesiredCapacity(t.Context(), &as.SetDesiredCapacityInput{AutoScalingGroupName: aws.String("g"), DesiredCapacity: aws.Int32(int32(n))})
		equal(t, "message", wantCode(t, err, "ValidationError"), want)
		if err := c.SetDesired("g", n); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("SetDesired: got %v, want %q", err, want)
		}
	}
	_, err := scaling(c).SetDesiredCapacity(t.Context(), &as.SetDesiredCapacityInput{AutoScalingGroupName: aws.String("x"), DesiredCapacity: aws.Int32(2)})
	equal(t, "message", wantCode(t, err, "ValidationError"), "AutoScalingGroup name not found - AutoScalingGroup x not found")
}

func TestShrinkingObeysTheDefaultPolicyAndProtection(t *testing.T) {
	c, template := start(t, shortTimes())
	addGroup(t, c, template, []int{2, 2, 1}, nil)
	s := status(t, c)
	must(scaling(c).SetInstanceProtection(t.Context(), &as.SetInstanceProtectionInput{
		AutoScalingGroupName: aws.String("g"), InstanceIds: []string{s.Instances[0].ID, s.Instances[1].ID}, ProtectedFromScaleIn: aws.Bool(true),
	}))(t)
	if err := c.SetDesired("g", 3); err != nil {
		t.Fatal(err)
	}
	s = await(t, c, "three in service", inService(3))
	equal(t, "zones", counts(s), [3]int{2, 0, 1})
}

func TestSetInstanceProtectionRefusesForeignAndLeavingInstances(t *testing.T) {
	c, template := start(t, shortTimes())
	addGroup(t, c, template, []int{1}, func(s *awscloud.GroupSpec) { s.TerminatingHook = time.Hour })
	protect := func(id string) string {
		_, err := scaling(c).SetInstanceProtection(t.Context(), &as.SetInstanceProtectionInput{
			AutoScalingGroupName: aws.String("g"), InstanceIds: []string{id}, ProtectedFromScaleIn: aws.Bool(true),
		})
		return wantCode(t, err, "ValidationError")
	}
	equal(t, "of a stranger", protect("i-1"), "The instance i-1 is not part of Auto Scaling group g.")
	id := status(t, c).Instances[0].ID
	must(scaling(c).TerminateInstanceInAutoScalingGroup(t.Context(), &as.TerminateInstanceInAutoScalingGroupInput{InstanceId: aws.String(id), ShouldDecrementDesiredCapacity: aws.Bool(true)}))(t)
	equal(t, "on the way out", protect(id), "The instance "+id+" is not in InService or EnteringStandby or Standby.")
}

func TestSuspendedProcessesDoNotRun(t *testing.T) {
	c, template := start(t, shortTimes())
	addGroup(t, c, template, []int{1, 1, 1}, nil)
	name := aws.String("g")
	suspend := func(p string) {
		must(scaling(c).SuspendProcesses(t.Context(), &as.SuspendProcessesInput{AutoScalingGroupName: name, ScalingProcesses: []string{p}}))(t)
	}
	resume := func(p string) {
		must(scaling(c).ResumeProcesses(t.Context(), &as.ResumeProcessesInput{AutoScalingGroupName: name, ScalingProcesses: []string{p}}))(t)
	}
	suspend("Launch")
	if err := c.SetDesired("g", 4); err != nil {
		t.Fatal(err)
	}
	settle(t, c)
	equal(t, "instances while Launch is suspended", len(status(t, c).Instances), 3)
	resume("Launch")
	await(t, c, "the fourth instance", inService(4))

	suspend("Terminate")
	if err := c.SetDesired("g", 3); err != nil {
		t.Fatal(err)
	}
	settle(t, c)
	if !inService(4)(status(t, c)) {
		t.Error("the group shrank while Terminate was suspended")
	}
	equal(t, "suspended", status(t, c).Suspended, []string{"AZRebalance", "Terminate"})
	resume("Terminate")
	await(t, c, "three instances", inService(3))

	_, err := scaling(c).SuspendProcesses(t.Context(), &as.SuspendProcessesInput{AutoScalingGroupName: name, ScalingProcesses: []string{"Everything"}})
	wantCode(t, err, "ValidationError")
}

// settle waits for a few ticks, so that immediate changes have been made.
func settle(t *testing.T, c *awscloud.Cloud) {
	t.Helper()
	n := 0
	await(t, c, "a few ticks", func(awscloud.GroupStatus) bool { n++; return n > 20 })
}

func TestRebalanceMovesInstancesWithoutADrain(t *testing.T) {
	host := &recorder{}
	o := shortTimes()
	o.Nodes = host
	c, template := start(t, o)
	addGroup(t, c, template, []int{5, 1, 0}, func(s *awscloud.GroupSpec) { s.Suspended, s.Max = nil, 6 })
	s := await(t, c, "balance", func(s awscloud.GroupStatus) bool { return inService(6)(s) && counts(s) == [3]int{2, 2, 2} })
	if len(ofVersion(s, "2")) != 3 {
		t.Errorf("got %d new instances, want 3", len(ofVersion(s, "2")))
	}
	for _, size := range c.Timeline("g") {
		live := size.Zones[zoneA] + size.Zones[zoneB] + size.Zones[zoneC]
		if live < 6 || live > 7 {
			t.Errorf("at %v the group has %d instances, want 6 and never more than one above the maximum", size.At, live)
		}
	}
}

func TestSuspendedRebalanceMovesNothing(t *testing.T) {
	c, template := start(t, shortTimes())
	addGroup(t, c, template, []int{7, 3, 2}, nil)
	before := status(t, c)
	deadline := time.Now().Add(4 * shortTimes().Rebalance)
	await(t, c, "time for a rebalance", func(awscloud.GroupStatus) bool { return time.Now().After(deadline) })
	equal(t, "the group", status(t, c), before)
}

func TestInstanceIsLaunchedInZoneWithCapacity(t *testing.T) {
	c, template := start(t, shortTimes())
	addGroup(t, c, template, []int{1, 1, 0}, nil)
	c.LimitCapacity(zoneC, 0)
	if err := c.SetDesired("g", 3); err != nil {
		t.Fatal(err)
	}
	s := await(t, c, "the third instance elsewhere", inService(3))
	equal(t, "zones", counts(s), [3]int{2, 1, 0})
	failed := must(scaling(c).DescribeScalingActivities(t.Context(), &as.DescribeScalingActivitiesInput{
		AutoScalingGroupName: aws.String("g"), Filters: []at.Filter{{Name: aws.String("Status"), Values: []string{"Failed"}}},
	}))(t)
	if len(failed.Activities) != 1 {
		t.Fatalf("got %d failed activities, want 1", len(failed.Activities))
	}
	a := failed.Activities[0]
	want := "We currently do not have sufficient m5.large capacity in the Availability Zone you requested (us-east-1c). Our system will be working on provisioning additional capacity. Launching EC2 instance failed."
	equal(t, "status message", *a.StatusMessage, want)
	equal(t, "description", *a.Description, "Launching a new EC2 instance.  Status Reason: "+want)
	if !strings.Contains(*a.Cause, "a user request explicitly set group desired capacity changing the desired capacity from 2 to 3.") {
		t.Errorf("got cause %q", *a.Cause)
	}

	c.LimitCapacity(zoneA, 0)
	c.LimitCapacity(zoneB, 0)
	if err := c.SetDesired("g", 4); err != nil {
		t.Fatal(err)
	}
	settle(t, c)
	equal(t, "instances without any capacity", len(status(t, c).Instances), 3)
	c.LimitCapacity(zoneC, -1)
	s = await(t, c, "the fourth instance", inService(4))
	equal(t, "zones", counts(s), [3]int{2, 1, 1})
}

func TestLaunchOfAnUnknownImageFails(t *testing.T) {
	c, _ := start(t, shortTimes())
	bad := c.AddTemplate("bad", awscloud.TemplateVersion{Image: "ami-gone", InstanceType: "m5.large"})
	addGroup(t, c, bad, nil, func(s *awscloud.GroupSpec) { s.Template.Version = "1" })
	if err := c.SetDesired("g", 1); err != nil {
		t.Fatal(err)
	}
	settle(t, c)
	out := must(scaling(c).DescribeScalingActivities(t.Context(), &as.DescribeScalingActivitiesInput{AutoScalingGroupName: aws.String("g")}))(t)
	if len(out.Activities) == 0 {
		t.Fatal("got no activity")
	}
	equal(t, "status", out.Activities[0].StatusCode, at.ScalingActivityStatusCodeFailed)
	equal(t, "message", *out.Activities[0].StatusMessage, "The image id '[ami-gone]' does not exist Launching EC2 instance failed.")
}

func TestKilledInstanceIsReplaced(t *testing.T) {
	host := &recorder{}
	o := shortTimes()
	o.Nodes = host
	c, template := start(t, o)
	addGroup(t, c, template, []int{1, 1}, nil)
	victim := status(t, c).Instances[0]
	if err := c.KillInstance(victim.ID); err != nil {
		t.Fatal(err)
	}
	s := await(t, c, "the replacement", func(s awscloud.GroupStatus) bool { return inService(2)(s) && len(ofVersion(s, "2")) == 1 })
	equal(t, "zone of the replacement", ofVersion(s, "2")[0].Zone, zoneA)
	equal(t, "desired", s.Desired, 2)
	await(t, c, "the node's end", func(awscloud.GroupStatus) bool { return len(host.callsFor(victim.Node)) == 3 })
	equal(t, "what the node went through", host.callsFor(victim.Node), []string{"boot", "stop", "delete"})
	if err := c.KillInstance(victim.ID); err == nil {
		t.Error("an instance was killed twice")
	}
}

func TestKilledInstanceIsNotNoticedAtOnce(t *testing.T) {
	o := shortTimes()
	o.HealthCheck = time.Hour
	c, template := start(t, o)
	addGroup(t, c, template, []int{1}, nil)
	if err := c.KillInstance(status(t, c).Instances[0].ID); err != nil {
		t.Fatal(err)
	}
	settle(t, c)
	if i := status(t, c).Instances[0]; i.State != at.LifecycleStateInService || !i.Stopped || i.Unhealthy {
		t.Errorf("got %+v, want a stopped machine that the group has not noticed", i)
	}
}

func TestKilledInstanceStaysWhileReplaceUnhealthyIsSuspended(t *testing.T) {
	c, template := start(t, shortTimes())
	addGroup(t, c, template, []int{1}, func(s *awscloud.GroupSpec) { s.Suspended = []string{"ReplaceUnhealthy"} })
	id := status(t, c).Instances[0].ID
	if err := c.KillInstance(id); err != nil {
		t.Fatal(err)
	}
	await(t, c, "the health check", func(s awscloud.GroupStatus) bool { return s.Instances[0].Unhealthy })
	settle(t, c)
	out := must(scaling(c).DescribeAutoScalingInstances(t.Context(), &as.DescribeAutoScalingInstancesInput{InstanceIds: []string{id, "i-1"}}))(t)
	if len(out.AutoScalingInstances) != 1 || *out.AutoScalingInstances[0].HealthStatus != "UNHEALTHY" || *out.AutoScalingInstances[0].LifecycleState != "InService" {
		t.Errorf("got %+v, want the one known instance, InService and UNHEALTHY", out.AutoScalingInstances)
	}
}

func TestTimelineContainsEachSizeOfGroup(t *testing.T) {
	c, template := start(t, shortTimes())
	addGroup(t, c, template, []int{1}, nil)
	if err := c.SetDesired("g", 2); err != nil {
		t.Fatal(err)
	}
	await(t, c, "two instances", inService(2))
	if err := c.SetDesired("g", 1); err != nil {
		t.Fatal(err)
	}
	await(t, c, "one instance", inService(1))
	var got [][4]int
	line := c.Timeline("g")
	for _, s := range line {
		got = append(got, [4]int{s.Desired, s.Zones[zoneA] + s.Zones[zoneB], s.InService, s.Terminating})
	}
	equal(t, "desired, live, in service, terminating", got, [][4]int{{1, 1, 1, 0}, {2, 1, 1, 0}, {2, 2, 1, 0}, {2, 2, 2, 0}, {1, 2, 2, 0}, {1, 1, 1, 1}, {1, 1, 1, 0}})
	if !slices.IsSortedFunc(line, func(a, b awscloud.Size) int { return int(a.At - b.At) }) {
		t.Error("the timeline is not in order")
	}
}

func TestGroupLaunchesFromLaunchConfiguration(t *testing.T) {
	c, _ := start(t, shortTimes())
	c.AddLaunchConfiguration("lc-1", version("ami-old"))
	addGroup(t, c, "", []int{1}, func(s *awscloud.GroupSpec) {
		s.Template, s.InitialVersion, s.LaunchConfiguration = awscloud.TemplateRef{}, 0, "lc-1"
	})
	out := must(scaling(c).DescribeAutoScalingInstances(t.Context(), &as.DescribeAutoScalingInstancesInput{}))(t)
	if i := out.AutoScalingInstances[0]; aws.ToString(i.LaunchConfigurationName) != "lc-1" || i.LaunchTemplate != nil {
		t.Errorf("got %+v, want an instance of lc-1 without a template", i)
	}
	must(scaling(c).UpdateAutoScalingGroup(t.Context(), &as.UpdateAutoScalingGroupInput{
		AutoScalingGroupName: aws.String("g"), LaunchTemplate: &at.LaunchTemplateSpecification{LaunchTemplateName: aws.String("workers")},
	}))(t)
	must(scaling(c).UpdateAutoScalingGroup(t.Context(), &as.UpdateAutoScalingGroupInput{
		AutoScalingGroupName: aws.String("g"), LaunchConfigurationName: aws.String("lc-1"),
	}))(t)
	groups := must(scaling(c).DescribeAutoScalingGroups(t.Context(), &as.DescribeAutoScalingGroupsInput{}))(t)
	if g := groups.AutoScalingGroups[0]; aws.ToString(g.LaunchConfigurationName) != "lc-1" || g.LaunchTemplate != nil {
		t.Errorf("got %+v, want the group back at lc-1", g)
	}
	configs := must(scaling(c).DescribeLaunchConfigurations(t.Context(), &as.DescribeLaunchConfigurationsInput{LaunchConfigurationNames: []string{"lc-1", "lc-2"}}))(t)
	if len(configs.LaunchConfigurations) != 1 || *configs.LaunchConfigurations[0].ImageId != "ami-old" {
		t.Errorf("got %+v, want lc-1 with ami-old", configs.LaunchConfigurations)
	}
}

func TestMixedGroupLaunchesWeightedInstancesFromOverride(t *testing.T) {
	c, template := start(t, shortTimes())
	special := c.AddTemplate("special", version("ami-new"))
	addGroup(t, c, "", []int{1}, func(s *awscloud.GroupSpec) {
		s.Template, s.InitialVersion = awscloud.TemplateRef{}, 0
		s.Mixed = &at.MixedInstancesPolicy{LaunchTemplate: &at.LaunchTemplate{
			LaunchTemplateSpecification: &at.LaunchTemplateSpecification{LaunchTemplateId: aws.String(template), Version: aws.String("$Default")},
			Overrides: []at.LaunchTemplateOverrides{{
				InstanceType: aws.String("m5.xlarge"), WeightedCapacity: aws.String("2"),
				LaunchTemplateSpecification: &at.LaunchTemplateSpecification{LaunchTemplateName: aws.String("special")},
			}},
		}}
		s.Desired = 4
	})
	await(t, c, "two instances of two units each", inService(2))
	out := must(scaling(c).DescribeAutoScalingGroups(t.Context(), &as.DescribeAutoScalingGroupsInput{}))(t)
	g := out.AutoScalingGroups[0]
	if g.LaunchTemplate != nil || g.MixedInstancesPolicy == nil {
		t.Errorf("got template %v, policy %v: want the policy only", g.LaunchTemplate, g.MixedInstancesPolicy)
	}
	i := g.Instances[1]
	equal(t, "type, weight, template, version",
		[4]string{*i.InstanceType, *i.WeightedCapacity, *i.LaunchTemplate.LaunchTemplateId, *i.LaunchTemplate.Version},
		[4]string{"m5.xlarge", "2", special, "1"})
}

func TestReplacedRootVolumeChangesImageOfInstance(t *testing.T) {
	c, template := start(t, shortTimes())
	addGroup(t, c, template, []int{1}, nil)
	id := status(t, c).Instances[0].ID
	if err := c.ReplaceRootVolume(id, "ami-new"); err != nil {
		t.Fatal(err)
	}
	out := must(scaling(c).DescribeAutoScalingInstances(t.Context(), &as.DescribeAutoScalingInstancesInput{}))(t)
	i := out.AutoScalingInstances[0]
	equal(t, "version and image", [2]string{*i.LaunchTemplate.Version, *i.ImageId}, [2]string{"1", "ami-new"})
}

func TestGroupManagedByEKSRejectsNewDesiredCapacity(t *testing.T) {
	c, template := start(t, shortTimes())
	addGroup(t, c, template, []int{1}, func(s *awscloud.GroupSpec) { s.Operator = "eks.amazonaws.com" })
	_, err := scaling(c).SetDesiredCapacity(t.Context(), &as.SetDesiredCapacityInput{AutoScalingGroupName: aws.String("g"), DesiredCapacity: aws.Int32(2)})
	wantCode(t, err, "AccessDenied")
}

func TestWarmPoolsAndInstanceRefreshesAreDescribed(t *testing.T) {
	c, template := start(t, shortTimes())
	addGroup(t, c, template, nil, func(s *awscloud.GroupSpec) {
		s.WarmPool = &at.WarmPoolConfiguration{MinSize: aws.Int32(2), PoolState: at.WarmPoolStateStopped}
		s.Refreshes = []at.InstanceRefresh{{InstanceRefreshId: aws.String("r-1"), Status: at.InstanceRefreshStatusInProgress}}
	})
	pool := must(scaling(c).DescribeWarmPool(t.Context(), &as.DescribeWarmPoolInput{AutoScalingGroupName: aws.String("g")}))(t)
	equal(t, "pool size", *pool.WarmPoolConfiguration.MinSize, 2)
	refreshes := must(scaling(c).DescribeInstanceRefreshes(t.Context(), &as.DescribeInstanceRefreshesInput{AutoScalingGroupName: aws.String("g")}))(t)
	equal(t, "refresh", refreshes.InstanceRefreshes[0].Status, at.InstanceRefreshStatusInProgress)
	_, err := scaling(c).DescribeWarmPool(t.Context(), &as.DescribeWarmPoolInput{AutoScalingGroupName: aws.String("x")})
	wantCode(t, err, "ValidationError")
}

func TestAddGroupRejectsInvalidSpecs(t *testing.T) {
	c, template := start(t, shortTimes())
	addGroup(t, c, template, nil, nil)
	good := awscloud.GroupSpec{Name: "h", Zones: []string{zoneA}, Max: 2, Template: awscloud.TemplateRef{ID: template, Version: "1"}}
	for name, tc := range map[string]struct {
		change func(*awscloud.GroupSpec)
		want   string
	}{
		"a name that is taken":      {func(s *awscloud.GroupSpec) { s.Name = "g" }, "AlreadyExists"},
		"a zone of another region":  {func(s *awscloud.GroupSpec) { s.Zones = []string{"eu-west-1a"} }, "not in region us-east-1"},
		"more counts than zones":    {func(s *awscloud.GroupSpec) { s.Counts = []int{1, 1} }, "at most one count a zone"},
		"sizes that contradict":     {func(s *awscloud.GroupSpec) { s.Counts = []int{3} }, "Desired capacity:3 must be between"},
		"a process of no such name": {func(s *awscloud.GroupSpec) { s.Suspended = []string{"Everything"} }, "none of Launch"},
		"nothing to launch":         {func(s *awscloud.GroupSpec) { s.Template = awscloud.TemplateRef{} }, "Valid requests must contain"},
		"no such version":           {func(s *awscloud.GroupSpec) { s.Template.Version = "9" }, "Could not find the specified version 9"},
		"no such configuration": {func(s *awscloud.GroupSpec) {
			s.Template, s.LaunchConfiguration = awscloud.TemplateRef{}, "lc"
		}, "Launch configuration lc not found"},
	} {
		t.Run(name, func(t *testing.T) {
			spec := good
			tc.change(&spec)
			if err := c.AddGroup(spec); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}
