package aws

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	at "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/smithy-go"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// Do implements cloud.Provider. All its errors are *cloud.Error.
func (p *Provider) Do(ctx context.Context, group string, action nodegroup.Action) error {
	switch a := action.(type) {
	case nodegroup.SetRevision:
		return p.setRevision(ctx, group, a)
	case nodegroup.Quiesce:
		return p.suspendProcesses(ctx, group, a)
	case nodegroup.Resume:
		return p.resumeProcesses(ctx, group, a)
	case nodegroup.RaiseMax:
		return p.setMaxSize(ctx, group, a.From, a.Max)
	case nodegroup.LowerMax:
		return p.setMaxSize(ctx, group, a.From, a.Max)
	case nodegroup.AddCapacity:
		if a.Zone == "" {
			return p.addCapacity(ctx, group, a)
		}
		return p.launchInZone(ctx, group, a)
	case nodegroup.Terminate:
		return p.terminateInstance(ctx, group, a)
	case nodegroup.Delegate:
		return p.managed.requestUpgrade(ctx, group, a)
	default:
		return cloud.Unsupported(providerName, action)
	}
}

// withoutRetries makes the SDK send a request only once. It is for requests that have no token and must not take effect twice.
func withoutRetries(o *autoscaling.Options) { o.Retryer = sdk.NopRetryer{} }

func (p *Provider) suspendProcesses(ctx context.Context, group string, a nodegroup.Quiesce) error {
	_, err := p.autoscaling.SuspendProcesses(ctx, &autoscaling.SuspendProcessesInput{
		AutoScalingGroupName: sdk.String(group), ScalingProcesses: a.Processes,
	})
	return explainError(fmt.Sprintf("suspending %s of Auto Scaling group %q", strings.Join(a.Processes, ", "), group), err)
}

func (p *Provider) resumeProcesses(ctx context.Context, group string, a nodegroup.Resume) error {
	_, err := p.autoscaling.ResumeProcesses(ctx, &autoscaling.ResumeProcessesInput{
		AutoScalingGroupName: sdk.String(group), ScalingProcesses: a.Processes,
	})
	return explainError(fmt.Sprintf("resuming %s of Auto Scaling group %q", strings.Join(a.Processes, ", "), group), err)
}

// groupSizes contains a group's desired and maximum size in instances.
type groupSizes struct{ desired, max int }

func sizesOf(g *at.AutoScalingGroup) groupSizes {
	return groupSizes{desired: int(sdk.ToInt32(g.DesiredCapacity)), max: int(sdk.ToInt32(g.MaxSize))}
}

// checkMaxChange reports whether the maximum must still be changed. It returns a movedError if another process has changed the
// maximum since the action was decided on. It also returns a movedError if the desired size is above the new maximum, because
// AWS would terminate instances of its own choice without draining them.
func (s groupSizes) checkMaxChange(from, to int) (needed bool, err error) {
	switch raise := to > from; {
	case raise && s.max >= to, !raise && s.max <= to:
		return false, nil
	case s.max != from:
		return false, movedError("the maximum changed to %d from %d", s.max, from)
	case s.desired > to:
		return false, movedError("the desired size is %d, which is more than the new maximum of %d", s.desired, to)
	default:
		return true, nil
	}
}

// afterAdding returns the sizes after the action. It returns a movedError if the sizes have changed since the action was
// decided on.
func (s groupSizes) afterAdding(a nodegroup.AddCapacity) (groupSizes, error) {
	switch {
	case s.desired != a.Desired:
		return groupSizes{}, movedError("the desired size changed to %d from %d", s.desired, a.Desired)
	case s.max != a.Max:
		return groupSizes{}, movedError("the maximum changed to %d from %d", s.max, a.Max)
	}
	return groupSizes{desired: s.desired + a.N, max: s.max + a.N}, nil
}

// setMaxSize sets the maximum if that is still needed. It reads the group first, because AWS lowers the desired size together
// with the maximum. The API has no precondition. If an autoscaler raises the desired size between the read and the update, AWS
// still lowers it.
func (p *Provider) setMaxSize(ctx context.Context, group string, from, to int) error {
	g, err := p.readForUpdate(ctx, group)
	if err != nil {
		return err
	}
	if needed, err := sizesOf(g).checkMaxChange(from, to); !needed || err != nil {
		return err
	}
	_, err = p.autoscaling.UpdateAutoScalingGroup(ctx, &autoscaling.UpdateAutoScalingGroupInput{
		AutoScalingGroupName: sdk.String(group), MaxSize: sdk.Int32(int32(to)),
	}, withoutRetries)
	return explainError(fmt.Sprintf("setting the maximum size of Auto Scaling group %q to %d", group, to), err)
}

// addCapacity raises maximum and desired size in one request, without retries. A late retry would overwrite a size that an
// autoscaler has set in the meantime.
func (p *Provider) addCapacity(ctx context.Context, group string, a nodegroup.AddCapacity) error {
	g, err := p.readForUpdate(ctx, group)
	if err != nil {
		return err
	}
	to, err := sizesOf(g).afterAdding(a)
	if err != nil {
		return err
	}
	_, err = p.autoscaling.UpdateAutoScalingGroup(ctx, &autoscaling.UpdateAutoScalingGroupInput{
		AutoScalingGroupName: sdk.String(group), MaxSize: sdk.Int32(int32(to.max)), DesiredCapacity: sdk.Int32(int32(to.desired)),
	}, withoutRetries)
	return explainError(fmt.Sprintf("raising the desired size of Auto Scaling group %q to %d", group, to.desired), err)
}

// readForUpdate reads a group before it is changed. It returns a movedError if the group does not exist.
func (p *Provider) readForUpdate(ctx context.Context, group string) (*at.AutoScalingGroup, error) {
	g, err := p.readGroup(ctx, group, false)
	if errors.Is(err, cloud.ErrNotFound) {
		return nil, movedError("%w", err)
	}
	return g, err
}

// launchInZone adds instances in one zone. A repetition with the same token launches nothing more.
func (p *Provider) launchInZone(ctx context.Context, group string, a nodegroup.AddCapacity) error {
	doing := fmt.Sprintf("launching %d in zone %s for Auto Scaling group %q", a.N, a.Zone, group)
	out, err := p.autoscaling.LaunchInstances(ctx, &autoscaling.LaunchInstancesInput{
		AutoScalingGroupName: sdk.String(group), AvailabilityZones: []string{a.Zone}, RequestedCapacity: sdk.Int32(int32(a.N)),
		ClientToken: sdk.String(clientToken(a.Token)), RetryStrategy: at.RetryStrategyNone,
	})
	if err != nil {
		return markUnsupportedZone(explainError(doing, err), err)
	}
	return launchError(doing, out)
}

// markUnsupportedZone sets OutcomeUnsupported if the refusal means that the user cannot launch in a named zone at all. Either
// the endpoint or region lacks the operation, or the credentials lack the permission. Such a refusal does not mean that
// capacity is missing.
func markUnsupportedZone(explained, cause error) error {
	var api smithy.APIError
	var answered *cloud.Error
	if !errors.As(cause, &api) || !errors.As(explained, &answered) {
		return explained
	}
	if code := api.ErrorCode(); isDeniedCode(code) || code == "InvalidAction" || code == "UnsupportedOperation" {
		answered.Outcome = nodegroup.OutcomeUnsupported
	}
	return explained
}

// launchError returns the error that an answer of LaunchInstances contains, nil if all instances were launched. An unknown
// error counts as a lack of capacity in the zone.
func launchError(doing string, out *autoscaling.LaunchInstancesOutput) error {
	if len(out.Errors) == 0 {
		return nil
	}
	first := out.Errors[0]
	api := &smithy.GenericAPIError{Code: sdk.ToString(first.ErrorCode), Message: sdk.ToString(first.ErrorMessage)}
	err := explainError(doing, &smithy.OperationError{ServiceID: autoscaling.ServiceID, OperationName: "LaunchInstances", Err: api})
	if answered, ok := errors.AsType[*cloud.Error](err); ok && answered.Outcome == nodegroup.OutcomeFatal && !isDeniedCode(api.Code) {
		answered.Outcome = nodegroup.OutcomeExhausted
	}
	return markUnsupportedZone(err, api)
}

// isClientToken reports whether EC2 Auto Scaling accepts a client token: 1 to 64 letters, digits, hyphens, underscores and slashes
// (API reference, LaunchInstances). EC2 accepts more. A regular expression with this count would take 1 ms to compile.
func isClientToken(token string) bool {
	const accepted = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_/"
	return token != "" && len(token) <= 64 && strings.Trim(token, accepted) == ""
}

// clientToken returns the token if AWS accepts it, and otherwise its SHA-256.
func clientToken(token string) string {
	if isClientToken(token) {
		return token
	}
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// terminateInstance terminates an instance that was in the group at the last read. Without this check AWS would terminate any
// Auto Scaling instance of the account, because the request does not name the group. A request with Shrink is not retried. The
// API has no token, and AWS does not document whether a retry shrinks the group twice.
func (p *Provider) terminateInstance(ctx context.Context, group string, a nodegroup.Terminate) error {
	if p.seen.get(a.Instance).group != group {
		return movedError("terminating instance %q of Auto Scaling group %q: the group has no such instance", a.Instance, group)
	}
	var options []func(*autoscaling.Options)
	if a.Shrink {
		options = append(options, withoutRetries)
	}
	_, err := p.autoscaling.TerminateInstanceInAutoScalingGroup(ctx, &autoscaling.TerminateInstanceInAutoScalingGroupInput{
		InstanceId: sdk.String(a.Instance), ShouldDecrementDesiredCapacity: sdk.Bool(a.Shrink),
	}, options...)
	return explainError(fmt.Sprintf("terminating instance %q of Auto Scaling group %q", a.Instance, group), err)
}
