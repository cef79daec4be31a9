package aws_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	at "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodemark"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/awscloud"
)

// dropNextAnswer lets the next call of the operation take effect, and closes the connection without an answer.
func (s *site) dropNextAnswer(operation string) {
	s.InjectFault(awscloud.Fault{Operation: operation, AfterEffect: true})
}

func TestSetRevisionPointsGroupAtTemplateVersion(t *testing.T) {
	s := start(t, instantOptions())
	s.addWorkers()
	g := s.observe("workers", "1")
	if g.Wanted.ID == g.Pointed.ID || g.Instances[0].Outdated {
		t.Fatalf("wanted %s, pointed %s, instance outdated %v", g.Wanted.ID, g.Pointed.ID, g.Instances[0].Outdated)
	}
	s.requests()
	s.mustDo(nodegroup.SetRevision{To: g.Wanted, Token: "t"})
	s.mustDo(nodegroup.SetRevision{To: g.Wanted, Token: "t"})
	if got := s.changes(); !slices.Equal(got, []string{"UpdateAutoScalingGroup"}) {
		t.Errorf("sent %v, want one update", got)
	}
	now := s.observe("workers", "1")
	if now.Pointed != g.Wanted || now.Wanted != g.Wanted {
		t.Errorf("pointed %+v, want %+v", now.Pointed, g.Wanted)
	}
	s.mustDo(nodegroup.SetRevision{To: g.Pointed, Token: "back"})
	if back := s.observe("workers", ""); back.Pointed != g.Pointed {
		t.Errorf("pointed %+v, want %+v as before", back.Pointed, g.Pointed)
	}
}

func TestSetRevisionKeepsLatestAlias(t *testing.T) {
	s := start(t, instantOptions())
	s.addWorkers(func(g *awscloud.GroupSpec) { g.Template.Version = "$Latest" })
	g := s.observe("workers", "2")
	s.requests()
	s.mustDo(nodegroup.SetRevision{To: g.Wanted})
	if got := s.changes(); len(got) > 0 {
		t.Errorf("sent %v to a group that launches from version 2 already", got)
	}
}

// TestSetRevisionAddsTemplateVersionWithImage checks EKS E02. The group then launches from the new version (EKS E03).
func TestSetRevisionAddsTemplateVersionWithImage(t *testing.T) {
	cases := map[string]struct {
		group   func(*awscloud.GroupSpec)
		lost    string
		changes []string
	}{
		"number":  {changes: []string{"CreateLaunchTemplateVersion", "UpdateAutoScalingGroup"}},
		"$Latest": {group: func(g *awscloud.GroupSpec) { g.Template.Version = "$Latest" }, changes: []string{"CreateLaunchTemplateVersion"}},
		"$Default": {
			group:   func(g *awscloud.GroupSpec) { g.Template.Version = "$Default" },
			changes: []string{"CreateLaunchTemplateVersion", "UpdateAutoScalingGroup"},
		},
		"the answer of the first call is lost": {
			lost:    "CreateLaunchTemplateVersion",
			changes: []string{"CreateLaunchTemplateVersion", "CreateLaunchTemplateVersion", "UpdateAutoScalingGroup"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := start(t, instantOptions())
			id := s.addWorkers(func(g *awscloud.GroupSpec) {
				if c.group != nil {
					c.group(g)
				}
			})
			before := s.observe("workers", "ami-3")
			if before.Wanted.ID != id+"@ami-3" || before.Wanted.Name != "workers@ami-3" || !before.Instances[0].Outdated || before.Refusal != "" {
				t.Fatalf("before: %+v", before)
			}
			s.requests()
			if c.lost != "" {
				s.dropNextAnswer(c.lost)
			}
			action := nodegroup.SetRevision{To: before.Wanted, Token: "run/revision/1"}
			s.mustDo(action)
			s.mustDo(action)
			if got := s.changes(); !slices.Equal(got, c.changes) {
				t.Errorf("sent %v, want %v", got, c.changes)
			}
			after := s.observe("workers", "ami-3")
			if after.Pointed.ID != before.Wanted.ID || after.Wanted.ID != before.Wanted.ID || !after.Instances[0].Outdated {
				t.Errorf("pointed %s, wanted %s, want both %s", after.Pointed.ID, after.Wanted.ID, before.Wanted.ID)
			}
			if latest := s.observe("workers", "latest"); latest.Wanted.Name != "workers:3" {
				t.Errorf("the newest version is %s: want one version added", latest.Wanted.Name)
			}
		})
	}
}

// TestImageTargetContinuesAfterACrash simulates a crash between adding the new template version and pointing the group at it.
// Another process continues with the same token.
func TestImageTargetContinuesAfterACrash(t *testing.T) {
	s := start(t, instantOptions())
	s.addWorkers()
	action := nodegroup.SetRevision{To: s.observe("workers", "ami-3").Wanted, Token: "t"}
	s.InjectFault(awscloud.Fault{Operation: "UpdateAutoScalingGroup", Code: "AccessDenied", Message: "not authorized to perform: ec2:RunInstances on resource: x"})
	s.wantOutcome(s.do(action), nodegroup.OutcomeFatal, "IAM action ec2:RunInstances")
	s.mustDo(action)
	if g := s.observe("workers", "latest"); g.Wanted.Name != "workers:3" || g.Pointed.Name != "workers:3" {
		t.Errorf("newest %s, pointed %s, want workers:3 for both", g.Wanted.Name, g.Pointed.Name)
	}
}

func TestImageIsNotAddedToSharedTemplate(t *testing.T) {
	s := start(t, instantOptions())
	id := s.addWorkers()
	action := nodegroup.SetRevision{To: s.observe("workers", "ami-3").Wanted, Token: "t"}
	s.addGroup(awscloud.GroupSpec{Name: "rival", Zones: []string{"us-east-1a"}, Max: 1, Template: awscloud.TemplateRef{ID: id, Version: "$Latest"}})
	s.requests()
	s.wantOutcome(s.do(action), nodegroup.OutcomeFatal, "Auto Scaling group rival")
	if got := s.changes(); len(got) > 0 {
		t.Errorf("sent %v", got)
	}
}

func TestSetRevisionKeepsRestOfMixedPolicy(t *testing.T) {
	s := start(t, instantOptions())
	arm := s.AddTemplate("arm", awscloud.TemplateVersion{Image: "ami-arm", InstanceType: "m6g.large"})
	policy := func(id string) *at.MixedInstancesPolicy {
		byID := func(id, version string) *at.LaunchTemplateSpecification {
			return &at.LaunchTemplateSpecification{LaunchTemplateId: sdk.String(id), Version: sdk.String(version)}
		}
		return &at.MixedInstancesPolicy{
			InstancesDistribution: &at.InstancesDistribution{OnDemandPercentageAboveBaseCapacity: sdk.Int32(0)},
			LaunchTemplate: &at.LaunchTemplate{LaunchTemplateSpecification: byID(id, "2"), Overrides: []at.LaunchTemplateOverrides{
				{InstanceType: sdk.String("m6i.large")}, {InstanceType: sdk.String("m6g.large"), LaunchTemplateSpecification: byID(arm, "1")},
			}},
		}
	}
	s.addWorkers(func(g *awscloud.GroupSpec) {
		g.Mixed, g.Template, g.InitialVersion = policy(g.Template.ID), awscloud.TemplateRef{}, 0
	})
	g := s.observe("workers", "1")
	if !g.Can.NameZone || !strings.Contains(g.Wanted.ID, ",m6g.large="+arm+":1:ami-arm") {
		t.Errorf("zonal %v, wanted %s", g.Can.NameZone, g.Wanted.ID)
	}
	s.requests()
	s.mustDo(nodegroup.SetRevision{To: g.Wanted})
	sent := s.requests()
	for key, want := range map[string]string{
		"MixedInstancesPolicy.LaunchTemplate.LaunchTemplateSpecification.Version":                             "1",
		"MixedInstancesPolicy.LaunchTemplate.Overrides.member.1.InstanceType":                                 "m6i.large",
		"MixedInstancesPolicy.LaunchTemplate.Overrides.member.2.LaunchTemplateSpecification.LaunchTemplateId": arm,
		"MixedInstancesPolicy.InstancesDistribution.OnDemandPercentageAboveBaseCapacity":                      "0",
	} {
		if got := sent[len(sent)-1].Params[key]; got != want {
			t.Errorf("sent %s=%q, want %q", key, got, want)
		}
	}
	if now := s.observe("workers", ""); now.Pointed != g.Wanted || !now.Can.NameZone {
		t.Errorf("pointed %+v, want %+v; zonal %v", now.Pointed, g.Wanted, now.Can.NameZone)
	}
}

func TestResumeKeepsProcessesThatUserSuspended(t *testing.T) {
	s := start(t, instantOptions())
	s.addWorkers(func(g *awscloud.GroupSpec) { g.Suspended = []string{"ScheduledActions"} })
	s.mustDo(nodegroup.Quiesce{Processes: s.observe("workers", "").Quiesce})
	if got := s.observe("workers", "").Suspended; !slices.Equal(got, []string{"AZRebalance", "ScheduledActions"}) {
		t.Errorf("suspended %v", got)
	}
	s.mustDo(nodegroup.Resume{Processes: []string{"AZRebalance"}})
	if got := s.observe("workers", "").Suspended; !slices.Equal(got, []string{"ScheduledActions"}) {
		t.Errorf("suspended %v after resuming ours", got)
	}
}

func TestMaximumSizeIsRaisedAndLowered(t *testing.T) {
	s := start(t, instantOptions())
	s.addWorkers()
	s.mustDo(nodegroup.RaiseMax{From: 6, Max: 9})
	s.mustDo(nodegroup.RaiseMax{From: 6, Max: 9})
	s.wantOutcome(s.do(nodegroup.LowerMax{From: 8, Max: 6}), nodegroup.OutcomeMoved, "maximum changed to 9")
	if err := s.SetDesired("workers", 7); err != nil {
		t.Fatal(err)
	}
	s.wantOutcome(s.do(nodegroup.LowerMax{From: 9, Max: 6}), nodegroup.OutcomeMoved, "desired size is 7")
	if err := s.SetDesired("workers", 5); err != nil {
		t.Fatal(err)
	}
	s.mustDo(nodegroup.LowerMax{From: 9, Max: 6})
	s.mustDo(nodegroup.LowerMax{From: 9, Max: 6})
	if got := s.status(); got.Max != 6 || got.Desired != 5 || got.Min != 1 {
		t.Errorf("sizes are %d/%d/%d", got.Min, got.Desired, got.Max)
	}
	if got := s.changes(); !slices.Equal(got, []string{"UpdateAutoScalingGroup", "UpdateAutoScalingGroup"}) {
		t.Errorf("sent %v, want one update a change", got)
	}
}

func TestCapacityIsAddedOnceInNamedZone(t *testing.T) {
	s := start(t, instantOptions())
	s.addWorkers()
	add := nodegroup.AddCapacity{Zone: "us-east-1b", N: 1, Token: "run-us-east-1b-1"}
	s.dropNextAnswer("LaunchInstances")
	s.mustDo(add)
	s.mustDo(add)
	if got := s.status(); got.Desired != 4 || got.Zones["us-east-1b"] != 2 {
		t.Errorf("desired %d, zones %v, want one more in us-east-1b", got.Desired, got.Zones)
	}
	s.LimitCapacity("us-east-1a", 0)
	s.wantOutcome(s.do(nodegroup.AddCapacity{Zone: "us-east-1a", N: 1, Token: "run-us-east-1a-1"}), nodegroup.OutcomeExhausted,
		`launching 1 in zone us-east-1a for Auto Scaling group "workers"`, "InsufficientInstanceCapacity")
	s.wantOutcome(s.do(nodegroup.AddCapacity{Zone: "us-east-1b", N: 2, Token: add.Token}), nodegroup.OutcomeFatal, "token")
	s.wantOutcome(s.do(nodegroup.AddCapacity{Zone: "us-east-1b", N: 3, Token: "run-us-east-1b-2"}), nodegroup.OutcomeMoved, "above max value")
	s.InjectFault(awscloud.Fault{Operation: "LaunchInstances", Code: "IdempotentCallInProgress"})
	s.wantOutcome(s.do(add), nodegroup.OutcomeLater)
}

func TestCapacityWithoutZoneIsAddedOnlyOnce(t *testing.T) {
	s := start(t, instantOptions())
	s.addWorkers()
	add := nodegroup.AddCapacity{N: 2, Desired: 3, Max: 6, Token: "t"}
	s.dropNextAnswer("UpdateAutoScalingGroup")
	s.wantOutcome(s.do(add), nodegroup.OutcomeUnclear)
	if got := s.status(); got.Desired != 5 || got.Max != 8 {
		t.Errorf("desired %d, max %d, want both raised by 2", got.Desired, got.Max)
	}
	if got := s.changes(); !slices.Equal(got, []string{"UpdateAutoScalingGroup"}) {
		t.Errorf("sent %v, want it sent once", got)
	}
	s.wantOutcome(s.do(add), nodegroup.OutcomeMoved, "desired size changed to 5 from 3")
	if got := s.changes(); len(got) > 0 {
		t.Errorf("sent %v though the group has moved", got)
	}
}

// TestInstanceIsTerminatedThroughAutoScalingGroup checks EKS E48 with and without a lower size of the group.
func TestInstanceIsTerminatedThroughAutoScalingGroup(t *testing.T) {
	cases := map[string]struct {
		shrink  bool
		fault   awscloud.Fault
		min     int
		outcome nodegroup.Outcome
		sent    int
		desired int
		says    string
	}{
		"replaced":                            {min: 3, outcome: nodegroup.OutcomeDone, sent: 1, desired: 3},
		"shrunk":                              {shrink: true, outcome: nodegroup.OutcomeDone, sent: 1, desired: 2},
		"shrunk below the minimum":            {shrink: true, min: 3, outcome: nodegroup.OutcomeExhausted, sent: 1, desired: 3, says: "equals minSize"},
		"shrunk, answer lost":                 {shrink: true, fault: awscloud.Fault{AfterEffect: true}, outcome: nodegroup.OutcomeUnclear, sent: 1, desired: 2},
		"shrunk, server at fault":             {shrink: true, fault: awscloud.Fault{AfterEffect: true, Code: "InternalFailure"}, outcome: nodegroup.OutcomeUnclear, sent: 1, desired: 2},
		"shrunk, throttled":                   {shrink: true, fault: awscloud.Fault{Code: "Throttling"}, outcome: nodegroup.OutcomeLater, sent: 1, desired: 3},
		"shrunk, other activity in the way":   {shrink: true, fault: awscloud.Fault{Code: "ScalingActivityInProgress"}, outcome: nodegroup.OutcomeLater, sent: 1, desired: 3},
		"shrunk, contention":                  {shrink: true, fault: awscloud.Fault{Code: "ResourceContention"}, outcome: nodegroup.OutcomeLater, sent: 1, desired: 3},
		"replaced, throttled: sent again":     {fault: awscloud.Fault{Code: "Throttling"}, outcome: nodegroup.OutcomeDone, sent: 2, desired: 3},
		"replaced, answer lost: sent again":   {fault: awscloud.Fault{AfterEffect: true}, outcome: nodegroup.OutcomeDone, sent: 2, desired: 3},
		"replaced, other activity in the way": {fault: awscloud.Fault{Code: "ScalingActivityInProgress"}, outcome: nodegroup.OutcomeLater, sent: 1, desired: 3},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := start(t, awscloud.Options{Terminate: time.Hour})
			s.addWorkers(func(g *awscloud.GroupSpec) { g.Min = c.min })
			s.observe("workers", "") // only an instance that was seen in the group may be terminated
			if c.fault != (awscloud.Fault{}) {
				c.fault.Operation = "TerminateInstanceInAutoScalingGroup"
				s.InjectFault(c.fault)
			}
			err := s.do(nodegroup.Terminate{Instance: s.status().Instances[0].ID, Shrink: c.shrink})
			if c.outcome == nodegroup.OutcomeDone {
				if err != nil {
					t.Error(err)
				}
			} else {
				s.wantOutcome(err, c.outcome, "terminating instance", c.says)
			}
			if got := s.changes(); len(got) != c.sent {
				t.Errorf("sent %v, want it sent %d times", got, c.sent)
			}
			if got := s.status().Desired; got != c.desired {
				t.Errorf("desired %d, want %d", got, c.desired)
			}
		})
	}
}

func TestActionOnMissingInstanceOrGroupHasOutcomeMoved(t *testing.T) {
	s := start(t, instantOptions())
	s.wantOutcome(s.do(nodegroup.Terminate{Instance: "i-0123456789abcdef0", Shrink: true}), nodegroup.OutcomeMoved, "i-0123456789abcdef0")
	for _, action := range []nodegroup.Action{
		nodegroup.Quiesce{Processes: []string{"AZRebalance"}},
		nodegroup.RaiseMax{From: 1, Max: 2},
		nodegroup.LowerMax{From: 2, Max: 1},
		nodegroup.AddCapacity{N: 1},
		nodegroup.AddCapacity{N: 1, Zone: "us-east-1a", Token: "t"},
		nodegroup.SetRevision{To: nodegroup.Revision{Spec: "{}"}},
	} {
		s.wantOutcome(s.do(action), nodegroup.OutcomeMoved, `"workers"`)
	}
}

func TestAWSProviderRejectsActionsOnNodeObjects(t *testing.T) {
	s := start(t, instantOptions())
	s.addWorkers()
	s.wantOutcome(s.do(nodemark.Fence{NodeVersion: nodemark.NodeVersion{Node: "n"}}), nodegroup.OutcomeFatal, "provider aws cannot fence node n")
	s.wantOutcome(s.do(nodegroup.SetRevision{To: nodegroup.Revision{Spec: "nonsense"}}), nodegroup.OutcomeFatal)
	if got := s.changes(); len(got) > 0 {
		t.Errorf("sent %v", got)
	}
}

// TestRecordMayOnlyRestoreVersionsOfOwnTemplate uses pointers that only a forged record contains. The group may return to a
// version of its own template. Every other revision from a record is refused (S36).
func TestRecordMayOnlyRestoreVersionsOfOwnTemplate(t *testing.T) {
	s := start(t, instantOptions())
	own := s.addWorkers()
	s.addGroup(awscloud.GroupSpec{Name: "elsewhere", Zones: []string{"us-east-1a"}, Max: 1, Template: awscloud.TemplateRef{ID: s.AddTemplate("miner", awscloud.TemplateVersion{Image: "ami-1", InstanceType: "m6i.large"}), Version: "1"}})
	foreign := s.observe("elsewhere", "").Pointed
	s.requests()
	for name, spec := range map[string]string{
		"a template of another group":      foreign.Spec,
		"an image of another template":     `{"launchTemplate":"lt-elsewhere","image":"ami-3"}`,
		"a launch configuration":           `{"launchConfiguration":"miner"}`,
		"an image nobody was asked about":  `{"launchTemplate":"` + own + `","image":"ami-3"}`,
		"no template at all":               `{}`,
		"a version of no template of ours": `{"version":1}`,
	} {
		s.wantOutcome(s.do(nodegroup.SetRevision{To: nodegroup.Revision{Name: name, Spec: spec}, Recorded: true}), nodegroup.OutcomeFatal, name)
	}
	if got := s.changes(); len(got) > 0 {
		t.Errorf("sent %v", got)
	}
	s.mustDo(nodegroup.SetRevision{To: nodegroup.Revision{Spec: `{"launchTemplate":"` + own + `","version":1}`}, Recorded: true})
	if g := s.observe("workers", ""); g.Pointed.Name != "workers:1" {
		t.Errorf("the group is at %s", g.Pointed.Name)
	}
}

// TestTerminateRejectsInstancesOfOtherGroups checks that no instance of another group is terminated. The request to AWS does
// not name the group, so AWS would terminate it.
func TestTerminateRejectsInstancesOfOtherGroups(t *testing.T) {
	s := start(t, instantOptions())
	id := s.addWorkers()
	s.addGroup(awscloud.GroupSpec{Name: "database", Zones: []string{"us-east-1a"}, Counts: []int{1}, Min: 1, Max: 1, Template: awscloud.TemplateRef{ID: id, Version: "2"}})
	other := s.observe("database", "").Instances[0].ID
	s.observe("workers", "")
	s.requests()
	for _, shrink := range []bool{true, false} {
		s.wantOutcome(s.do(nodegroup.Terminate{Instance: other, Shrink: shrink}), nodegroup.OutcomeMoved, other, "the group has no such instance")
	}
	if got := s.changes(); len(got) > 0 {
		t.Errorf("sent %v", got)
	}
}
