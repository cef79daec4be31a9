package aws

import (
	"errors"
	"reflect"
	"regexp"
	"strings"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	at "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"pgregory.net/rapid"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// outcome returns the outcome of an error, OutcomeDone for nil.
func outcome(t *testing.T, err error) nodegroup.Outcome {
	t.Helper()
	if err == nil {
		return nodegroup.OutcomeDone
	}
	var sorted *cloud.Error
	if !errors.As(err, &sorted) {
		t.Fatalf("%v is not a *cloud.Error", err)
	}
	return sorted.Outcome
}

func TestMaxIsRaisedOnlyFromExpectedValue(t *testing.T) {
	cases := map[string]struct {
		max     int
		due     bool
		outcome nodegroup.Outcome
	}{
		"as decided on":      {6, true, nodegroup.OutcomeDone},
		"raised already":     {9, false, nodegroup.OutcomeDone},
		"raised further":     {12, false, nodegroup.OutcomeDone},
		"changed by another": {7, false, nodegroup.OutcomeMoved},
		"lowered by another": {5, false, nodegroup.OutcomeMoved},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			due, err := groupSizes{desired: 3, max: c.max}.checkMaxChange(6, 9)
			if got := outcome(t, err); due != c.due || got != c.outcome {
				t.Errorf("due %v, %s", due, got)
			}
		})
	}
}

func TestMaxIsLoweredOnlyFromExpectedValue(t *testing.T) {
	cases := map[string]struct {
		now     groupSizes
		due     bool
		outcome nodegroup.Outcome
	}{
		"as decided on":           {groupSizes{desired: 6, max: 9}, true, nodegroup.OutcomeDone},
		"lowered already":         {groupSizes{desired: 6, max: 6}, false, nodegroup.OutcomeDone},
		"lowered further":         {groupSizes{desired: 3, max: 4}, false, nodegroup.OutcomeDone},
		"changed by another":      {groupSizes{desired: 6, max: 10}, false, nodegroup.OutcomeMoved},
		"grown by an autoscaler":  {groupSizes{desired: 7, max: 9}, false, nodegroup.OutcomeMoved},
		"shrunk by an autoscaler": {groupSizes{desired: 2, max: 9}, true, nodegroup.OutcomeDone},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			due, err := c.now.checkMaxChange(9, 6)
			if got := outcome(t, err); due != c.due || got != c.outcome {
				t.Errorf("due %v, %s", due, got)
			}
		})
	}
}

func TestCapacityIsAddedOnlyToUnchangedSizes(t *testing.T) {
	action := nodegroup.AddCapacity{N: 2, Desired: 3, Max: 6}
	if got, err := (groupSizes{desired: 3, max: 6}).afterAdding(action); err != nil || got != (groupSizes{desired: 5, max: 8}) {
		t.Errorf("got %+v, %v", got, err)
	}
	for _, now := range []groupSizes{{desired: 4, max: 6}, {desired: 3, max: 7}} {
		_, err := now.afterAdding(action)
		if got := outcome(t, err); got != nodegroup.OutcomeMoved {
			t.Errorf("sizes of %+v are %s", now, got)
		}
	}
}

// acceptedToken matches the client tokens that EC2 Auto Scaling accepts (API reference, LaunchInstances).
var acceptedToken = regexp.MustCompile(`^[A-Za-z0-9/_-]{1,64}$`)

// TestClientTokensHaveTheFormThatAWSAccepts checks that AWS accepts the form of all client tokens. Different tokens must stay
// different, and valid tokens must not change.
func TestClientTokensHaveTheFormThatAWSAccepts(t *testing.T) {
	if got := clientToken("run-us-east-1a-1"); got != "run-us-east-1a-1" {
		t.Errorf("a valid token was changed to %s", got)
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.String().Draw(t, "a"), rapid.StringN(60, 70, -1).Draw(t, "b")
		for _, token := range []string{a, b} {
			if got := clientToken(token); !acceptedToken.MatchString(got) {
				t.Fatalf("%q became %q", token, got)
			}
		}
		if (a == b) != (clientToken(a) == clientToken(b)) {
			t.Fatalf("%q and %q", a, b)
		}
	})
}

func TestErrorsInLaunchAnswersAreClassified(t *testing.T) {
	answer := func(codes ...string) *autoscaling.LaunchInstancesOutput {
		out := &autoscaling.LaunchInstancesOutput{}
		for _, code := range codes {
			out.Errors = append(out.Errors, at.LaunchInstancesError{ErrorCode: sdk.String(code), ErrorMessage: sdk.String("sorry.")})
		}
		return out
	}
	cases := map[string]struct {
		answer  *autoscaling.LaunchInstancesOutput
		outcome nodegroup.Outcome
		says    string
	}{
		"launched":        {answer(), nodegroup.OutcomeDone, ""},
		"no capacity":     {answer("InsufficientInstanceCapacity"), nodegroup.OutcomeExhausted, "sorry (InsufficientInstanceCapacity)"},
		"unknown":         {answer("Unsupported"), nodegroup.OutcomeExhausted, "sorry (Unsupported)"},
		"first one tells": {answer("VcpuLimitExceeded", "Invented"), nodegroup.OutcomeExhausted, "VcpuLimitExceeded"},
		"denied":          {answer("UnauthorizedOperation"), nodegroup.OutcomeUnsupported, "IAM action autoscaling:LaunchInstances"},
		"throttled":       {answer("RequestLimitExceeded"), nodegroup.OutcomeLater, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			err := launchError("launching", c.answer)
			if got := outcome(t, err); got != c.outcome || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %v", got, err)
			}
		})
	}
}

func TestUpdateRequestPointsGroupAtNewRevision(t *testing.T) {
	arm := at.LaunchTemplateOverrides{InstanceType: sdk.String("m6g.large"), LaunchTemplateSpecification: template("lt-0b", "3")}
	intel := at.LaunchTemplateOverrides{InstanceType: sdk.String("m6i.large"), ImageId: sdk.String("ami-o")}
	byID := func(id, version string) *at.LaunchTemplateSpecification {
		return &at.LaunchTemplateSpecification{LaunchTemplateId: sdk.String(id), Version: sdk.String(version)}
	}
	segmented := newGroup(mixed("7"))
	segmented.MixedInstancesPolicy.InstancesDistribution.DistributionSegments = []at.DistributionSegment{{}}
	cases := map[string]struct {
		group *at.AutoScalingGroup
		to    revisionPointer
		want  autoscaling.UpdateAutoScalingGroupInput
	}{
		"template": {newGroup(), revisionPointer{Template: "lt-0a", Version: 8}, autoscaling.UpdateAutoScalingGroupInput{LaunchTemplate: byID("lt-0a", "8")}},
		"the whole policy, one template by ID alone": {
			newGroup(mixed("7", arm, intel)),
			revisionPointer{Template: "lt-0a", Version: 8},
			autoscaling.UpdateAutoScalingGroupInput{MixedInstancesPolicy: &at.MixedInstancesPolicy{
				InstancesDistribution: &at.InstancesDistribution{OnDemandPercentageAboveBaseCapacity: sdk.Int32(100)},
				LaunchTemplate: &at.LaunchTemplate{
					LaunchTemplateSpecification: byID("lt-0a", "8"),
					Overrides:                   []at.LaunchTemplateOverrides{{InstanceType: sdk.String("m6g.large"), LaunchTemplateSpecification: byID("lt-0b", "3")}, intel},
				},
			}},
		},
		"segments are kept": {
			segmented,
			revisionPointer{Template: "lt-0a", Version: 8},
			autoscaling.UpdateAutoScalingGroupInput{MixedInstancesPolicy: &at.MixedInstancesPolicy{
				InstancesDistribution: &at.InstancesDistribution{DistributionSegments: []at.DistributionSegment{{}}},
				LaunchTemplate:        &at.LaunchTemplate{LaunchTemplateSpecification: byID("lt-0a", "8")},
			}},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			c.want.AutoScalingGroupName = sdk.String("workers")
			got, err := newUpdateInput(c.group, c.to)
			if err != nil || !reflect.DeepEqual(*got, c.want) {
				t.Errorf("got %+v, %v, want %+v", got, err, c.want)
			}
		})
	}
	if *arm.LaunchTemplateSpecification.LaunchTemplateName != "arm" || *segmented.MixedInstancesPolicy.InstancesDistribution.OnDemandPercentageAboveBaseCapacity != 100 {
		t.Error("the input changed the group that was read")
	}
	if _, err := newUpdateInput(newGroup(), revisionPointer{}); err == nil {
		t.Error("a pointer without a template version was accepted")
	}
}
