package awscloud

import (
	"context"
	"net/http"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	as "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	at "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
)

// launchCall is an earlier or running LaunchInstances call. region.launches contains it by its client token.
type launchCall struct {
	in  as.LaunchInstancesInput
	out *as.LaunchInstancesOutput // nil while the call is in progress
}

// launchOperation returns the operation LaunchInstances. The operation waits without the lock, so that a second call with the
// same token meets the first call in progress. It continues when its client disconnects.
func launchOperation() operation {
	return operation{mutating: true, decode: func(form url.Values) (handler, error) {
		in := &as.LaunchInstancesInput{}
		return func(ctx context.Context, r *region) (any, error) { return r.launchInstances(ctx, in) }, decodeQuery(form, in)
	}}
}

// launchInstances carries out LaunchInstances. The caller must not hold the lock.
func (r *region) launchInstances(ctx context.Context, in *as.LaunchInstancesInput) (out *as.LaunchInstancesOutput, err error) {
	err = r.update(func(time.Time) error {
		out, err = r.beginLaunch(in)
		return err
	})
	if err != nil || out != nil {
		return out, err
	}
	if r.opts.LaunchCall > 0 && sleep(ctx, r.opts.LaunchCall) != nil {
		return nil, &apiError{Code: "ServiceUnavailable", Message: "the stand-in has stopped", Status: http.StatusServiceUnavailable}
	}
	err = r.update(func(now time.Time) error {
		out, err = r.finishLaunch(in, now)
		return err
	})
	return out, err
}

// beginLaunch checks a call and records its token. If the call repeats the token of an earlier call, it
// returns the output of that call.
func (r *region) beginLaunch(in *as.LaunchInstancesInput) (*as.LaunchInstancesOutput, error) {
	if err := checkToken(in.ClientToken); err != nil {
		return nil, err
	}
	if before, ok := r.launches[*in.ClientToken]; ok {
		switch {
		case !reflect.DeepEqual(before.in, *in):
			return nil, clientError("IdempotentParameterMismatch", "The client token %s was used before with other parameters", *in.ClientToken)
		case before.out == nil:
			return nil, clientError("IdempotentCallInProgress", "A call with the client token %s is in progress", *in.ClientToken)
		}
		return before.out, nil
	}
	if _, _, err := r.checkLaunchInstances(in); err != nil {
		return nil, err
	}
	r.launches[*in.ClientToken] = &launchCall{in: *in}
	return nil, nil
}

// clientToken matches the client tokens that the API accepts (API reference, LaunchInstances).
var clientToken = regexp.MustCompile(`^[A-Za-z0-9\-_/]{1,64}$`)

func checkToken(token *string) error {
	if !clientToken.MatchString(aws.ToString(token)) {
		return validationError("1 validation error detected: Value '%s' at 'clientToken' failed to satisfy constraint: Member must satisfy regular expression pattern: %s", aws.ToString(token), clientToken)
	}
	return nil
}

// checkLaunchInstances returns the group and the zone of the launch, or the error with which the API refuses the call.
func (r *region) checkLaunchInstances(in *as.LaunchInstancesInput) (g *group, zone string, err error) {
	g, err = r.groupToChange(in.AutoScalingGroupName)
	if err != nil {
		return nil, "", err
	}
	n := int(aws.ToInt32(in.RequestedCapacity))
	mixed := g.mixed
	switch {
	case n < 1:
		return nil, "", validationError("1 validation error detected: Value '%d' at 'requestedCapacity' failed to satisfy constraint: Member must have value greater than or equal to 1", n)
	case n > 100:
		return nil, "", validationError("LaunchInstances launches at most 100 instances")
	case g.config != "":
		return nil, "", validationError("LaunchInstances is not supported for Auto Scaling groups that use launch configurations")
	case g.spec.WarmPool != nil:
		return nil, "", validationError("LaunchInstances is not supported for Auto Scaling groups with a warm pool")
	case mixed != nil && !isAllSpot(mixed.InstancesDistribution) && !isAllOnDemand(mixed.InstancesDistribution):
		return nil, "", validationError("LaunchInstances supports mixed instances policies only with fully On-Demand or fully Spot purchase options")
	case g.isSuspended(processLaunch):
		return nil, "", validationError("LaunchInstances is not possible while the Launch process is suspended")
	case g.desired+n > g.max:
		return nil, "", validationError("The requested capacity %d would bring the desired capacity %d above max value %d for the AutoScalingGroup.", n, g.desired, g.max)
	}
	zone, err = requestedZone(g.spec.Zones, in)
	return g, zone, err
}

// requestedZone returns the zone that a request specifies by name, id or subnet. It fails if the request does not specify
// exactly one zone.
func requestedZone(zones []string, in *as.LaunchInstancesInput) (string, error) {
	if len(in.AvailabilityZones) > 1 || len(in.AvailabilityZoneIds) > 1 || len(in.SubnetIds) > 1 {
		return "", validationError("LaunchInstances takes one Availability Zone or subnet")
	}
	if len(in.AvailabilityZones)+len(in.AvailabilityZoneIds) > 1 {
		return "", validationError("You cannot specify both AvailabilityZones and AvailabilityZoneIds")
	}
	fits := slices.DeleteFunc(slices.Clone(zones), func(z string) bool {
		return !isEmptyOrContains(in.AvailabilityZones, z) || !isEmptyOrContains(in.AvailabilityZoneIds, zoneID(z)) || !isEmptyOrContains(in.SubnetIds, subnetID(z))
	})
	switch len(fits) {
	case 0:
		return "", validationError("The Availability Zone or subnet is not part of the Auto Scaling group")
	case 1:
		return fits[0], nil
	}
	return "", validationError("AvailabilityZones or SubnetIds must be specified for groups with multiple Availability Zones")
}

// finishLaunch launches as many instances as it can and stores the answer for the token. A refusal is not stored.
func (r *region) finishLaunch(in *as.LaunchInstancesInput, now time.Time) (*as.LaunchInstancesOutput, error) {
	g, zone, err := r.checkLaunchInstances(in)
	if err != nil {
		delete(r.launches, *in.ClientToken)
		return nil, err
	}
	before, asked := g.desired, int(*in.RequestedCapacity)
	out := &as.LaunchInstancesOutput{
		AutoScalingGroupName: aws.String(g.name), ClientToken: in.ClientToken,
		Instances: []at.InstanceCollection{}, Errors: []at.LaunchInstancesError{},
	}
	launched, failure := r.launchUnits(g, zone, asked, now)
	if len(launched) > 0 {
		out.Instances = append(out.Instances, instanceCollection(launched))
	}
	if failure != nil {
		out.Errors = append(out.Errors, launchError(failure, zone))
	}
	g.desired = before + totalUnits(launched)
	if in.RetryStrategy == at.RetryStrategyRetryWithGroupConfiguration {
		g.desired = before + asked
	}
	r.launches[*in.ClientToken].out = out
	return out, nil
}

// launchUnits launches instances in one zone until they have the requested capacity units. It stops at the first failure.
func (r *region) launchUnits(g *group, zone string, asked int, now time.Time) (launched []instance, failure *apiError) {
	for totalUnits(launched) < asked {
		i, err := r.launchInstance(g, zone, now, causeSentence(now, "a user request launched instances synchronously."))
		if err != nil {
			e := asAPIError(err)
			r.recordFailedLaunch(g, now, e.Message)
			return launched, e
		}
		launched = append(launched, i)
	}
	return launched, nil
}

func instanceCollection(launched []instance) at.InstanceCollection {
	first := launched[0]
	c := at.InstanceCollection{
		AvailabilityZone:   aws.String(first.zone),
		AvailabilityZoneId: aws.String(zoneID(first.zone)),
		InstanceType:       aws.String(first.spec.kind),
		MarketType:         aws.String(marketType(first.spec.spot)),
		SubnetId:           aws.String(first.subnet),
	}
	for _, i := range launched {
		c.InstanceIds = append(c.InstanceIds, i.id)
	}
	return c
}

func marketType(spot bool) string {
	if spot {
		return "Spot"
	}
	return "OnDemand"
}

func launchError(e *apiError, zone string) at.LaunchInstancesError {
	return at.LaunchInstancesError{
		AvailabilityZone:   aws.String(zone),
		AvailabilityZoneId: aws.String(zoneID(zone)),
		SubnetId:           aws.String(subnetID(zone)),
		ErrorCode:          aws.String(e.Code),
		ErrorMessage:       aws.String(e.Message),
	}
}
