package awscloud_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	lb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	lt "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/awscloud"
)

// TestDeregisteredTargetsDrain checks that a target that was deregistered through the API drains for the delay and is unused after that.
func TestDeregisteredTargetsDrain(t *testing.T) {
	c, _ := start(t, shortTimes())
	client := lb.NewFromConfig(config(c))
	arn := c.AddTargetGroup(awscloud.TargetGroupSpec{Name: "web", IP: true, DeregistrationDelay: 500 * time.Millisecond, ShownDeregistrationDelay: 5 * time.Minute})
	attributes := must(client.DescribeTargetGroupAttributes(t.Context(), &lb.DescribeTargetGroupAttributesInput{TargetGroupArn: &arn}))(t)
	if !slices.ContainsFunc(attributes.Attributes, func(a lt.TargetGroupAttribute) bool {
		return *a.Key == "deregistration_delay.timeout_seconds" && *a.Value == "300"
	}) {
		t.Errorf("attributes are %v", attributes.Attributes)
	}
	a, b := lt.TargetDescription{Id: aws.String("10.0.0.7")}, lt.TargetDescription{Id: aws.String("10.0.0.8"), Port: aws.Int32(8080)}
	look := func(targets ...lt.TargetDescription) (states []string) {
		t.Helper()
		out := must(client.DescribeTargetHealth(t.Context(), &lb.DescribeTargetHealthInput{TargetGroupArn: &arn, Targets: targets}))(t)
		for _, d := range out.TargetHealthDescriptions {
			states = append(states, fmt.Sprintf("%s:%d %s", *d.Target.Id, *d.Target.Port, d.TargetHealth.State))
		}
		return states
	}
	must(client.RegisterTargets(t.Context(), &lb.RegisterTargetsInput{TargetGroupArn: &arn, Targets: []lt.TargetDescription{a, b}}))(t)
	equal(t, "registered", look(), []string{"10.0.0.7:80 healthy", "10.0.0.8:8080 healthy"})
	began := time.Now()
	must(client.DeregisterTargets(t.Context(), &lb.DeregisterTargetsInput{TargetGroupArn: &arn, Targets: []lt.TargetDescription{a}}))(t)
	equal(t, "taken out", look(a, b), []string{"10.0.0.7:80 draining", "10.0.0.8:8080 healthy"})
	for len(look()) > 1 {
		if time.Since(began) > 10*time.Second {
			t.Fatal("the target still drains after its delay")
		}
	}
	if took := time.Since(began); took < 500*time.Millisecond {
		t.Errorf("the target drained for %s", took)
	}
	equal(t, "drained", look(a), []string{"10.0.0.7:80 unused"})
	var states []string
	for _, e := range c.TargetEvents() {
		states = append(states, e.ID+" "+e.State)
	}
	equal(t, "events", states, []string{"10.0.0.7 healthy", "10.0.0.8 healthy", "10.0.0.7 draining", "10.0.0.7 gone"})
}

// TestForeignOrMissingTargetGroupIsRefused checks the errors for target groups that do not exist or belong to another account.
func TestForeignOrMissingTargetGroupIsRefused(t *testing.T) {
	c, _ := start(t, shortTimes())
	client := lb.NewFromConfig(config(c))
	theirs := c.AddTargetGroup(awscloud.TargetGroupSpec{Name: "theirs", Account: "999999999999", DeregistrationDelay: time.Second})
	for arn, code := range map[string]string{theirs: "AccessDenied", theirs + "0": "TargetGroupNotFound"} {
		_, err := client.DescribeTargetHealth(t.Context(), &lb.DescribeTargetHealthInput{TargetGroupArn: &arn})
		wantCode(t, err, code)
	}
}
