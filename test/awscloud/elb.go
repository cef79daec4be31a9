package awscloud

import (
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	lb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	lt "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
)

func elbOperations() map[string]operation {
	return map[string]operation{
		"DescribeTargetGroupAttributes": readOperation((*region).describeTargetGroupAttributes),
		"DescribeTargetHealth":          readOperation((*region).describeTargetHealth),

		"RegisterTargets":   changeOperation((*region).registerTargets),
		"DeregisterTargets": changeOperation((*region).deregisterTargets),
	}
}

// targetGroup returns the target group that a request names. It fails for a target group of another account, which the
// credentials may not read.
func (r *region) targetGroup(arn *string) (*targetGroup, error) {
	g, ok := r.balancers.groups[aws.ToString(arn)]
	switch {
	case !ok:
		return nil, clientError("TargetGroupNotFound", "One or more target groups not found")
	case g.spec.Account != r.opts.Account:
		return nil, &apiError{Code: "AccessDenied", Message: "User is not authorized to perform this operation on the target group of another account", Status: 403}
	}
	return g, nil
}

func (r *region) describeTargetGroupAttributes(in *lb.DescribeTargetGroupAttributesInput) (*lb.DescribeTargetGroupAttributesOutput, error) {
	g, err := r.targetGroup(in.TargetGroupArn)
	if err != nil {
		return nil, err
	}
	attribute := func(key, value string) lt.TargetGroupAttribute {
		return lt.TargetGroupAttribute{Key: aws.String(key), Value: aws.String(value)}
	}
	seconds := (g.spec.ShownDeregistrationDelay + time.Second - 1) / time.Second
	return &lb.DescribeTargetGroupAttributesOutput{Attributes: []lt.TargetGroupAttribute{
		attribute("stickiness.enabled", "false"), attribute("deregistration_delay.timeout_seconds", strconv.Itoa(int(seconds))),
	}}, nil
}

// describeTargetHealth describes all targets, or only the requested targets. A requested target that is not registered is shown
// as unused.
func (r *region) describeTargetHealth(in *lb.DescribeTargetHealthInput) (*lb.DescribeTargetHealthOutput, error) {
	g, err := r.targetGroup(in.TargetGroupArn)
	if err != nil {
		return nil, err
	}
	out := &lb.DescribeTargetHealthOutput{TargetHealthDescriptions: []lt.TargetHealthDescription{}}
	if len(in.Include) > 0 {
		return nil, notModelledError("Include of DescribeTargetHealth")
	}
	describe := func(t target, health *lt.TargetHealth) {
		out.TargetHealthDescriptions = append(out.TargetHealthDescriptions, lt.TargetHealthDescription{
			Target: &lt.TargetDescription{Id: aws.String(t.id), Port: aws.Int32(t.port)}, HealthCheckPort: aws.String("80"), TargetHealth: health,
		})
	}
	for _, t := range g.targets {
		if len(in.Targets) == 0 {
			describe(t, t.health())
		}
	}
	for _, asked := range in.Targets {
		t := target{id: aws.ToString(asked.Id), port: portOf(asked)}
		if i := g.findTarget(t.id, t.port); i >= 0 {
			describe(g.targets[i], g.targets[i].health())
		} else {
			describe(t, &lt.TargetHealth{State: lt.TargetHealthStateEnumUnused, Reason: lt.TargetHealthReasonEnumNotRegistered})
		}
	}
	return out, nil
}

// portOf returns the target's port. The default is 80, the port of every target group.
func portOf(t lt.TargetDescription) int32 {
	if t.Port == nil {
		return 80
	}
	return *t.Port
}

func (r *region) registerTargets(in *lb.RegisterTargetsInput, now time.Time) (*lb.RegisterTargetsOutput, error) {
	g, err := r.targetGroup(in.TargetGroupArn)
	if err != nil {
		return nil, err
	}
	for _, t := range in.Targets {
		g.register(target{id: aws.ToString(t.Id), port: portOf(t)}, now)
	}
	return &lb.RegisterTargetsOutput{}, nil
}

func (r *region) deregisterTargets(in *lb.DeregisterTargetsInput, now time.Time) (*lb.DeregisterTargetsOutput, error) {
	g, err := r.targetGroup(in.TargetGroupArn)
	if err != nil {
		return nil, err
	}
	for _, t := range in.Targets {
		g.deregister(target{id: aws.ToString(t.Id), port: portOf(t)}, now)
	}
	return &lb.DeregisterTargetsOutput{}, nil
}
