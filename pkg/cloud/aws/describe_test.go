package aws

import (
	"maps"
	"slices"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	at "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

func TestGroupSettingsDecideIfLaunchMayNameZone(t *testing.T) {
	purchase := func(d *at.InstancesDistribution) func(*at.AutoScalingGroup) {
		return func(g *at.AutoScalingGroup) {
			mixed("7")(g)
			g.MixedInstancesPolicy.InstancesDistribution = d
		}
	}
	cases := map[string]struct {
		group *at.AutoScalingGroup
		want  bool
	}{
		"template":                    {newGroup(), true},
		"launch configuration":        {newGroup(configured("v1")), false},
		"warm pool":                   {newGroup(func(g *at.AutoScalingGroup) { g.WarmPoolConfiguration = &at.WarmPoolConfiguration{} }), false},
		"mixed, default distribution": {newGroup(purchase(nil)), true},
		"mixed, no percentage":        {newGroup(purchase(&at.InstancesDistribution{})), true},
		"mixed, all On-Demand":        {newGroup(purchase(&at.InstancesDistribution{OnDemandPercentageAboveBaseCapacity: sdk.Int32(100), OnDemandBaseCapacity: sdk.Int32(2)})), true},
		"mixed, all Spot":             {newGroup(purchase(&at.InstancesDistribution{OnDemandPercentageAboveBaseCapacity: sdk.Int32(0)})), true},
		"mixed, Spot above a base":    {newGroup(purchase(&at.InstancesDistribution{OnDemandPercentageAboveBaseCapacity: sdk.Int32(0), OnDemandBaseCapacity: sdk.Int32(1)})), false},
		"mixed, half and half":        {newGroup(purchase(&at.InstancesDistribution{OnDemandPercentageAboveBaseCapacity: sdk.Int32(50)})), false},
		"mixed, segments":             {newGroup(purchase(&at.InstancesDistribution{DistributionSegments: []at.DistributionSegment{{}}})), false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := supportsZonalLaunch(c.group); got != c.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

// TestGroupsWithOnlySpotInstancesAreRecognised checks that Spot is true if the group's policy or its template asks only for
// Spot instances (GKE G23).
func TestGroupsWithOnlySpotInstancesAreRecognised(t *testing.T) {
	buying := func(percentage, base int32) func(*at.AutoScalingGroup) {
		return func(g *at.AutoScalingGroup) {
			mixed("7")(g)
			g.MixedInstancesPolicy.InstancesDistribution = &at.InstancesDistribution{
				OnDemandPercentageAboveBaseCapacity: sdk.Int32(percentage), OnDemandBaseCapacity: sdk.Int32(base),
			}
		}
	}
	cases := map[string]struct {
		group  *at.AutoScalingGroup
		market bool
		want   bool
	}{
		"On-Demand":                      {newGroup(), false, false},
		"a template that asks for Spot":  {newGroup(), true, true},
		"a policy of On-Demand alone":    {newGroup(buying(100, 0)), false, false},
		"a policy of Spot above a base":  {newGroup(buying(0, 1)), false, false},
		"a policy of Spot alone":         {newGroup(buying(0, 0)), false, true},
		"a policy that does not say one": {newGroup(mixed("7")), false, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			f := groupFacts{wanted: launchSource{base: launch{template: "lt-1", version: 7}}}
			f.fillImages(nil, map[versionKey]templateVersion{{"lt-1", 7}: {spot: c.market}})
			out := describeGroup(c.group)
			addGroupFacts(&out, c.group, &f)
			if out.Spot != c.want {
				t.Errorf("got %v", out.Spot)
			}
		})
	}
}

func TestGroupIsDescribedWithLabelsAndSuspendedProcesses(t *testing.T) {
	g := describeGroup(newGroup(
		tagged("k8s.io/cluster-autoscaler/node-template/label/pool", "a"),
		tagged("k8s.io/cluster-autoscaler/node-template/label/example.com/tier", ""),
		tagged("k8s.io/cluster-autoscaler/node-template/taint/x", "y"),
		tagged("Name", "workers"),
		func(g *at.AutoScalingGroup) {
			g.SuspendedProcesses = []at.SuspendedProcess{{ProcessName: sdk.String("ReplaceUnhealthy")}, {ProcessName: sdk.String("AZRebalance")}}
		},
	))
	if g.Name != "workers" || g.Provider != "aws" || g.Kind != "Auto Scaling group" || !g.Can.Resize {
		t.Errorf("got %+v", g)
	}
	if g.Min != 1 || g.Desired != 0 || g.Max != 6 {
		t.Errorf("sizes %d/%d/%d", g.Min, g.Desired, g.Max)
	}
	if want := []string{"us-east-1a", "us-east-1b"}; !slices.Equal(g.Zones, want) {
		t.Errorf("zones %v, want %v", g.Zones, want)
	}
	if want := []string{"AZRebalance", "ReplaceUnhealthy"}; !slices.Equal(g.Suspended, want) {
		t.Errorf("suspended %v, want %v", g.Suspended, want)
	}
	if want := []string{"AZRebalance"}; !slices.Equal(g.Quiesce, want) {
		t.Errorf("to quiesce %v, want %v", g.Quiesce, want)
	}
	if want := map[string]string{"pool": "a", "example.com/tier": ""}; !maps.Equal(g.WantedLabels, want) {
		t.Errorf("labels %v, want %v", g.WantedLabels, want)
	}
}

func TestInstancesAreDescribedWithStateAndRevision(t *testing.T) {
	g := describe(t, newGroup(withInstances(newInstance("i-2", protected), newInstance("i-1", launchedFrom("lt-0a", "6"), inState("Pending:Wait")))), awsAnswers{}, "")
	want := []nodegroup.Instance{
		{
			ID: "i-1", Zone: "us-east-1a", State: nodegroup.InstancePending, Outdated: true, Why: "template version 6, wanted 7",
			Revision: nodegroup.Revision{ID: "lt-0a:6:", Name: "workers:6", Spec: `{"launchTemplate":"lt-0a","version":6}`},
		},
		{
			ID: "i-2", Zone: "us-east-1a", State: nodegroup.InstanceInService, Protected: true,
			Revision: nodegroup.Revision{ID: "lt-0a:7:", Name: "workers:7", Spec: `{"launchTemplate":"lt-0a","version":7}`},
		},
	}
	if !slices.Equal(g.Instances, want) {
		t.Errorf("got %+v, want %+v", g.Instances, want)
	}
}

func TestImageIsReadOnlyForInstancesWithUnknownImage(t *testing.T) {
	g := newGroup(withInstances(
		newInstance("i-old", launchedFrom("lt-0a", "6")), newInstance("i-told", func(i *at.Instance) { i.ImageId = sdk.String("ami-9") }),
		newInstance("i-leaving", inState("Terminating")), newInstance("i-asked"), newInstance("i-ask"),
		newInstance("i-attached", func(i *at.Instance) { i.LaunchTemplate = nil }),
	))
	want := launch{template: "lt-0a", version: 7, image: "ami-9"}
	f := groupFacts{wanted: launchSource{base: want}, instanceImages: map[string]string{"i-asked": "ami-7"}}
	if got := f.instancesWithUnknownImage(g); !slices.Equal(got, []string{"i-ask"}) {
		t.Errorf("an alias: asks for %v", got)
	}
	f.plainImages = map[versionKey]string{{"lt-0a", 7}: "ami-9"}
	if got := f.instancesWithUnknownImage(g); got != nil {
		t.Errorf("an AMI in the template: asks for %v", got)
	}
	want.version = 0
	f.wanted = launchSource{base: want, imageOnly: true}
	if got := f.instancesWithUnknownImage(g); !slices.Equal(got, []string{"i-old"}) {
		t.Errorf("an AMI asked for: asks for %v", got)
	}
}

func TestGroupLacksInstancesBelowDesiredSize(t *testing.T) {
	asked := func(n int32) func(*at.AutoScalingGroup) {
		return func(g *at.AutoScalingGroup) { g.DesiredCapacity = sdk.Int32(n) }
	}
	cases := map[string]struct {
		group *at.AutoScalingGroup
		want  bool
	}{
		"all there":           {newGroup(withInstances(newInstance("i-1"), newInstance("i-2", inState("Pending")))), false},
		"one too few":         {newGroup(withInstances(newInstance("i-1")), asked(2)), true},
		"one on standby":      {newGroup(withInstances(newInstance("i-1"), newInstance("i-2", inState("Standby")))), true},
		"one leaving":         {newGroup(withInstances(newInstance("i-1"), newInstance("i-2", inState("Terminating")))), true},
		"more than asked for": {newGroup(withInstances(newInstance("i-1"), newInstance("i-2")), asked(1)), false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := lacksInstances(c.group); got != c.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestNewestFailedLaunchIsFound(t *testing.T) {
	at0 := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	activity := func(status at.ScalingActivityStatusCode, description, message string) at.Activity {
		return at.Activity{StatusCode: status, Description: sdk.String(description), StatusMessage: sdk.String(message), StartTime: sdk.Time(at0)}
	}
	got := newestLaunchFailure([]at.Activity{
		activity("InProgress", "Launching a new EC2 instance", "still on it"),
		activity("Failed", "Terminating EC2 instance: i-1", "no"),
		activity("Failed", "Launching a new EC2 instance.  Status Reason: no room", "no room. Launching EC2 instance failed."),
		activity("Failed", "Launching a new EC2 instance", "an older one"),
	})
	if want := (nodegroup.LaunchFailure{At: at0, Message: "no room. Launching EC2 instance failed"}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := newestLaunchFailure(nil); got != (nodegroup.LaunchFailure{}) {
		t.Errorf("no activities: got %+v", got)
	}
}

func TestDetachedInstanceNoLongerBelongsToGroup(t *testing.T) {
	p := &Provider{}
	node := newNode("aws:///us-east-1a/i-00000001", "")
	look := func(state at.LifecycleState) nodegroup.Group {
		asg := newGroup(withInstances(newInstance("i-00000001", inState(state))))
		g := describe(t, asg, awsAnswers{}, "")
		p.rememberInstances(asg, &g)
		return g
	}
	for _, state := range []at.LifecycleState{at.LifecycleStateInService, at.LifecycleStateTerminatingWait} {
		if g := look(state); !p.Belongs(&g, node) || p.Outdated(&g, node) {
			t.Errorf("%s: belongs %v, outdated %v", state, p.Belongs(&g, node), p.Outdated(&g, node))
		}
	}
	if g := look(at.LifecycleStateDetaching); p.Belongs(&g, node) || !p.Outdated(&g, node) {
		t.Errorf("detaching: belongs %v, outdated %v", p.Belongs(&g, node), p.Outdated(&g, node))
	}
}
