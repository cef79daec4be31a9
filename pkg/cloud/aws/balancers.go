package aws

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	awsarn "github.com/aws/aws-sdk-go-v2/aws/arn"
	at "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	lt "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
	"github.com/aws/smithy-go"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

var _ cloud.Balancer = (*Provider)(nil)

const (
	// delayAttribute is the attribute of a target group that contains its deregistration delay in seconds. defaultDelay is its
	// default (Elastic Load Balancing, "Edit target group attributes").
	delayAttribute = "deregistration_delay.timeout_seconds"
	defaultDelay   = 300 * time.Second
	// rereadAfter is the age at which a reading of a target group is read again even if it has none of the wanted targets.
	rereadAfter = time.Minute
)

// balancers reads the target groups of load balancers.
type balancers struct {
	elb *elasticloadbalancingv2.Client
	// delays contains the deregistration delays, and readings contains the last readings. Both are by ARN.
	delays   cache[string, time.Duration]
	readings cache[string, targetReading]
}

// targetReading contains the targets of one target group at one moment.
type targetReading struct {
	at      time.Time
	targets []nodegroup.Target
}

// TargetGroups implements cloud.Balancer with one DescribeAutoScalingGroups and, once for each target group, a
// DescribeTargetGroupAttributes and a DescribeTargetHealth. It stops when AWS denies a read, because AWS would also deny the
// other reads.
func (p *Provider) TargetGroups(ctx context.Context, group *nodegroup.Group, bound []string) (cloud.TargetGroups, error) {
	var found cloud.TargetGroups
	asg, err := p.readGroup(ctx, group.Name, false)
	if err != nil {
		return found, err
	}
	account := accountInARN(sdk.ToString(asg.AutoScalingGroupARN))
	all := append(attachedTargetGroups(asg), bound...)
	slices.Sort(all)
	for _, arn := range slices.Compact(all) {
		if other := accountInARN(arn); other != account {
			found.Skipped = append(found.Skipped, fmt.Sprintf("%s of account %s", targetGroupName(arn), other))
			continue
		}
		found.Groups = append(found.Groups, nodegroup.TargetGroup{ID: arn, Name: targetGroupName(arn), Bound: slices.Contains(bound, arn)})
	}
	found.Groups, err = p.balancers.readDelays(ctx, found.Groups)
	if err == nil {
		_, err = p.Targets(ctx, found.Groups, nil)
	}
	if answer, ok := errors.AsType[smithy.APIError](err); ok && isDeniedCode(answer.ErrorCode()) {
		found.Groups, found.Denied = nil, []string{deniedIAMAction(answer.ErrorMessage(), err)}
		return found, nil
	}
	return found, err
}

// attachedTargetGroups lists the target groups in which the Auto Scaling group registers its instances. Before the group
// terminates an instance, it deregisters the instance and waits until the target is drained (EC2 Auto Scaling user guide,
// "Attach a target group").
func attachedTargetGroups(asg *at.AutoScalingGroup) []string {
	arns := slices.Clone(asg.TargetGroupARNs)
	for _, source := range asg.TrafficSources {
		if sdk.ToString(source.Type) == "elbv2" {
			arns = append(arns, sdk.ToString(source.Identifier))
		}
	}
	return arns
}

// accountInARN returns the account in an ARN, "" if there is none.
func accountInARN(arn string) string {
	parsed, _ := awsarn.Parse(arn) // zero if it is not an ARN
	return parsed.AccountID
}

// targetGroupName returns the name in a target group's ARN:
// arn:…:targetgroup/NAME/0123456789abcdef.
func targetGroupName(arn string) string {
	parts := strings.Split(arn, "/")
	if len(parts) < 3 {
		return arn
	}
	return parts[1]
}

// readDelays returns the target groups with their deregistration delays. Each delay is read once. Target groups that do not
// exist are left out.
func (b *balancers) readDelays(ctx context.Context, groups []nodegroup.TargetGroup) ([]nodegroup.TargetGroup, error) {
	err := forEachParallel(len(groups), func(i int) (err error) {
		g := &groups[i]
		if g.Delay = b.delays.get(g.ID); g.Delay == 0 {
			g.Delay, err = b.readDelay(ctx, g)
		}
		return err
	})
	return slices.DeleteFunc(groups, func(g nodegroup.TargetGroup) bool { return g.Delay < 0 }), err
}

// readDelay reads the deregistration delay of the target group. It returns a negative delay if the target group does not exist.
func (b *balancers) readDelay(ctx context.Context, g *nodegroup.TargetGroup) (time.Duration, error) {
	out, err := b.elb.DescribeTargetGroupAttributes(ctx, &elasticloadbalancingv2.DescribeTargetGroupAttributesInput{TargetGroupArn: sdk.String(g.ID)})
	if _, gone := errors.AsType[*lt.TargetGroupNotFoundException](err); gone {
		return -1, nil
	}
	if err != nil {
		return 0, explainError(fmt.Sprintf("reading the deregistration delay of target group %q", g.Name), err)
	}
	delay := defaultDelay
	for _, a := range out.Attributes {
		if seconds, err := strconv.Atoi(sdk.ToString(a.Value)); err == nil && sdk.ToString(a.Key) == delayAttribute {
			delay = time.Duration(seconds) * time.Second
		}
	}
	b.delays.add(map[string]time.Duration{g.ID: delay})
	return delay, nil
}

// Targets implements cloud.Balancer. It sends one DescribeTargetHealth for each target group whose last reading contains one of
// the IDs or is older than a minute.
func (p *Provider) Targets(ctx context.Context, groups []nodegroup.TargetGroup, ids []string) ([]nodegroup.Target, error) {
	read := make([][]nodegroup.Target, len(groups))
	err := forEachParallel(len(groups), func(i int) (err error) {
		last := p.balancers.readings.get(groups[i].ID)
		asked := func(t nodegroup.Target) bool { return slices.Contains(ids, t.ID) }
		if read[i] = last.targets; time.Since(last.at) < rereadAfter && !slices.ContainsFunc(last.targets, asked) {
			return nil
		}
		read[i], err = p.balancers.readTargets(ctx, groups[i])
		return err
	})
	if err != nil {
		return nil, err
	}
	return slices.Concat(read...), nil
}

func (b *balancers) readTargets(ctx context.Context, group nodegroup.TargetGroup) ([]nodegroup.Target, error) {
	began := time.Now()
	out, err := b.elb.DescribeTargetHealth(ctx, &elasticloadbalancingv2.DescribeTargetHealthInput{TargetGroupArn: sdk.String(group.ID)})
	if _, gone := errors.AsType[*lt.TargetGroupNotFoundException](err); gone {
		out, err = &elasticloadbalancingv2.DescribeTargetHealthOutput{}, nil
	}
	if err != nil {
		return nil, explainError(fmt.Sprintf("reading the targets of target group %q", group.Name), err)
	}
	targets := describeTargets(group, out.TargetHealthDescriptions)
	b.readings.add(map[string]targetReading{group.ID: {began, targets}})
	return targets, nil
}

// describeTargets lists the targets that receive requests or are still draining. A machine has one target for each of its
// registered ports.
func describeTargets(group nodegroup.TargetGroup, described []lt.TargetHealthDescription) []nodegroup.Target {
	var targets []nodegroup.Target
	for _, d := range described {
		if d.Target == nil || d.TargetHealth == nil || d.TargetHealth.State == lt.TargetHealthStateEnumUnused {
			continue // no load balancer uses the target group, or the target was already removed
		}
		targets = append(targets, nodegroup.Target{
			Group: group, ID: sdk.ToString(d.Target.Id), Draining: d.TargetHealth.State == lt.TargetHealthStateEnumDraining,
		})
	}
	return targets
}
