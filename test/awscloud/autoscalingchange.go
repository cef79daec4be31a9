package awscloud

import (
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	as "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	at "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
)

// groupToChange returns the group for a request that changes it. It fails if only the group's operator may change the group.
func (r *region) groupToChange(name *string) (*group, error) {
	g, err := r.group(name)
	if err != nil {
		return nil, err
	}
	if g.spec.Operator != "" {
		// The API reference says that only the operator may change the group. The error code is a guess.
		return nil, &apiError{
			Code: "AccessDenied", Status: http.StatusForbidden,
			Message: fmt.Sprintf("AutoScalingGroup %s is managed by %s", g.name, g.spec.Operator),
		}
	}
	return g, nil
}

// checkGroupSizes returns an error if the desired size is not between minimum and maximum.
func checkGroupSizes(minimum, maximum, desired int) error {
	if maximum < minimum {
		return validationError("Max bound, %d, must be greater than or equal to min bound, %d", maximum, minimum)
	}
	if desired < minimum || desired > maximum {
		return validationError("Desired capacity:%d must be between the specified min size:%d and max size:%d", desired, minimum, maximum)
	}
	return nil
}

// checkLaunchSource returns an error unless exactly one of template, policy and launch configuration is given, and it is valid.
func (r *region) checkLaunchSource(t *at.LaunchTemplateSpecification, m *at.MixedInstancesPolicy, config string) error {
	if !isExactlyOneTrue(t != nil, m != nil, config != "") {
		return validationError("Valid requests must contain either launchTemplate, LaunchConfigurationName, InstanceId or MixedInstancesPolicy parameter.")
	}
	if m != nil && (m.LaunchTemplate == nil || m.LaunchTemplate.LaunchTemplateSpecification == nil) {
		return validationError("You must use a valid fully-formed launch template. A launch template is required in the mixed instances policy.")
	}
	if _, ok := r.configs[config]; config != "" && !ok {
		return validationError("Launch configuration name not found - Launch configuration %s not found", config)
	}
	for _, s := range templatesUsed(t, m) {
		if _, _, err := r.templateVersion(s); err != nil {
			return err
		}
	}
	return nil
}

func isExactlyOneTrue(ways ...bool) bool {
	n := 0
	for _, w := range ways {
		if w {
			n++
		}
	}
	return n == 1
}

// templatesUsed lists every launch template version that a group may launch.
func templatesUsed(t *at.LaunchTemplateSpecification, m *at.MixedInstancesPolicy) (out []at.LaunchTemplateSpecification) {
	if t != nil {
		out = append(out, *t)
	}
	if m == nil {
		return out
	}
	out = append(out, *m.LaunchTemplate.LaunchTemplateSpecification)
	for _, o := range m.LaunchTemplate.Overrides {
		if o.LaunchTemplateSpecification != nil {
			out = append(out, *o.LaunchTemplateSpecification)
		}
	}
	return out
}

// updateGroup carries out UpdateAutoScalingGroup. If the request has no DesiredCapacity, the desired capacity is moved between
// the new MinSize and MaxSize.
func (r *region) updateGroup(in *as.UpdateAutoScalingGroupInput, now time.Time) (*as.UpdateAutoScalingGroupOutput, error) {
	g, err := r.groupToChange(in.AutoScalingGroupName)
	if err != nil {
		return nil, err
	}
	if name := unmodelledMember(*in); name != "" {
		return nil, notModelledError("%s of UpdateAutoScalingGroup", name)
	}
	smallest, largest := valueOr(g.min, in.MinSize), valueOr(g.max, in.MaxSize)
	desired := max(smallest, min(largest, g.desired))
	if in.DesiredCapacity != nil {
		desired = int(*in.DesiredCapacity)
	}
	if smallest < 0 {
		return nil, validationError("Invalid min size %d", smallest)
	}
	if err := checkGroupSizes(smallest, largest, desired); err != nil {
		return nil, err
	}
	if config := aws.ToString(in.LaunchConfigurationName); in.LaunchTemplate != nil || in.MixedInstancesPolicy != nil || config != "" {
		if err := r.checkLaunchSource(in.LaunchTemplate, in.MixedInstancesPolicy, config); err != nil {
			return nil, err
		}
		g.template, g.mixed, g.config = in.LaunchTemplate, in.MixedInstancesPolicy, config
	}
	g.min, g.max = smallest, largest
	g.setDesired(desired, now, fmt.Sprintf("a user request update of AutoScalingGroup constraints to min: %d, max: %d, desired: %d", smallest, largest, desired))
	return &as.UpdateAutoScalingGroupOutput{}, nil
}

func valueOr(n int, with *int32) int {
	if with != nil {
		return int(*with)
	}
	return n
}

// unmodelledMember returns the name of a member of the request that updateGroup does not model, "" if there is none.
func unmodelledMember(in as.UpdateAutoScalingGroupInput) string {
	v := reflect.ValueOf(in)
	for i := range v.NumField() {
		f := v.Type().Field(i)
		switch f.Name {
		case "AutoScalingGroupName", "MinSize", "MaxSize", "DesiredCapacity", "LaunchTemplate", "MixedInstancesPolicy",
			"LaunchConfigurationName":
			continue
		}
		if f.IsExported() && !v.Field(i).IsZero() {
			return f.Name
		}
	}
	return ""
}

func (r *region) setDesiredCapacity(in *as.SetDesiredCapacityInput, now time.Time) (*as.SetDesiredCapacityOutput, error) {
	g, err := r.groupToChange(in.AutoScalingGroupName)
	if err != nil {
		return nil, err
	}
	if in.DesiredCapacity == nil {
		return nil, missingMemberError("desiredCapacity")
	}
	busy := slices.IndexFunc(g.activities, func(a at.Activity) bool { return progressRank(a) == 0 })
	if aws.ToBool(in.HonorCooldown) && busy >= 0 {
		return nil, clientError("ScalingActivityInProgress", "Scaling activity %s is in progress and blocks this action", *g.activities[busy].ActivityId)
	}
	return &as.SetDesiredCapacityOutput{}, r.setDesired(g.name, int(*in.DesiredCapacity), now)
}

func missingMemberError(member string) *apiError {
	return validationError("1 validation error detected: Value null at '%s' failed to satisfy constraint: Member must not be null", member)
}

// processesOrAll returns the processes that a request names, or all processes if it names none.
func processesOrAll(names []string) ([]string, error) {
	for _, p := range names {
		if !slices.Contains(suspendableProcesses(), p) {
			return nil, validationError("%s is not a valid scaling process", p)
		}
	}
	if len(names) == 0 {
		return suspendableProcesses(), nil
	}
	return names, nil
}

func (r *region) suspendProcesses(in *as.SuspendProcessesInput, now time.Time) (*as.SuspendProcessesOutput, error) {
	g, err := r.groupToChange(in.AutoScalingGroupName)
	if err != nil {
		return nil, err
	}
	names, err := processesOrAll(in.ScalingProcesses)
	if err != nil {
		return nil, err
	}
	g.suspend(names, now)
	return &as.SuspendProcessesOutput{}, nil
}

func (r *region) resumeProcesses(in *as.ResumeProcessesInput, _ time.Time) (*as.ResumeProcessesOutput, error) {
	g, err := r.groupToChange(in.AutoScalingGroupName)
	if err != nil {
		return nil, err
	}
	names, err := processesOrAll(in.ScalingProcesses)
	if err != nil {
		return nil, err
	}
	g.resume(names)
	return &as.ResumeProcessesOutput{}, nil
}

func (r *region) setInstanceProtection(in *as.SetInstanceProtectionInput, _ time.Time) (*as.SetInstanceProtectionOutput, error) {
	g, err := r.groupToChange(in.AutoScalingGroupName)
	if err != nil {
		return nil, err
	}
	if len(in.InstanceIds) == 0 || len(in.InstanceIds) > 50 || in.ProtectedFromScaleIn == nil {
		return nil, validationError("1 validation error detected: 'instanceIds' takes 1 to 50 ids, with 'protectedFromScaleIn'")
	}
	for _, id := range in.InstanceIds {
		switch i, ok := r.instances[id]; {
		case !ok || i.group != g.name || i.left:
			return nil, validationError("The instance %s is not part of Auto Scaling group %s.", id, g.name)
		case i.state != at.LifecycleStateInService:
			return nil, validationError("The instance %s is not in InService or EnteringStandby or Standby.", id)
		}
	}
	for _, id := range in.InstanceIds {
		i := r.instances[id]
		i.protected = *in.ProtectedFromScaleIn
		r.instances[id] = i
	}
	return &as.SetInstanceProtectionOutput{}, nil
}

// terminateInstance carries out TerminateInstanceInAutoScalingGroup, for one instance or for up to 100 instances of one group.
// It ignores scale-in protection and a suspended Terminate process, as AWS does.
func (r *region) terminateInstance(in *as.TerminateInstanceInAutoScalingGroupInput, now time.Time) (*as.TerminateInstanceInAutoScalingGroupOutput, error) {
	ids := in.InstanceIds
	switch {
	case in.ShouldDecrementDesiredCapacity == nil:
		return nil, missingMemberError("shouldDecrementDesiredCapacity")
	case (in.InstanceId == nil) == (len(ids) == 0):
		return nil, validationError("Valid requests must contain either InstanceId or InstanceIds.")
	case len(ids) > 100:
		return nil, validationError("The number of instance ids that may be passed in is limited to 100")
	case len(ids) > 0 && in.AutoScalingGroupName == nil:
		return nil, validationError("AutoScalingGroupName is required when using InstanceIds.")
	case in.InstanceId != nil:
		ids = []string{*in.InstanceId}
	}
	g, err := r.groupOfInstances(ids, in.AutoScalingGroupName)
	if err != nil {
		return nil, err
	}
	activities, err := r.terminateAll(g, ids, *in.ShouldDecrementDesiredCapacity, now)
	if err != nil {
		return nil, err
	}
	if in.InstanceId != nil {
		return &as.TerminateInstanceInAutoScalingGroupOutput{Activity: &activities[0]}, nil
	}
	return &as.TerminateInstanceInAutoScalingGroupOutput{Activities: activities}, nil
}

// groupOfInstances returns the group that contains all the instances. It fails if there is no such group.
func (r *region) groupOfInstances(ids []string, name *string) (*group, error) {
	var g *group
	for _, id := range ids {
		i, ok := r.instances[id]
		if !ok || i.left || name != nil && *name != i.group {
			return nil, validationError("Instance Id not found - No managed instance found for instance ID: %s", id)
		}
		var err error
		if g, err = r.groupToChange(&i.group); err != nil {
			return nil, err
		}
	}
	return g, nil
}

// terminateAll terminates instances of the group. With decrement, it also lowers the desired capacity.
func (r *region) terminateAll(g *group, ids []string, decrement bool, now time.Time) ([]at.Activity, error) {
	less := 0
	for _, id := range ids {
		less += r.instances[id].weight
	}
	if decrement && g.desired-less < g.min {
		return nil, validationError("Currently, desiredSize equals minSize (%d). Terminating instance without replacement will violate group's min size constraint. Either set shouldDecrementDesiredCapacity flag to false or lower group's min size.", g.min)
	}
	var out []at.Activity
	for _, id := range ids {
		i := r.instances[id]
		cause := causeSentence(now, "instance %s was taken out of service in response to a user request", id)
		if decrement {
			cause += fmt.Sprintf(", shrinking the capacity from %d to %d", g.desired, g.desired-i.weight)
			g.desired -= i.weight
		}
		out = append(out, r.ensureTerminating(g, i, now, cause+"."))
	}
	return out, nil
}

// ensureTerminating terminates an instance, unless it is already terminating, and returns the activity of the termination.
func (r *region) ensureTerminating(g *group, i instance, now time.Time, cause string) at.Activity {
	if n := slices.IndexFunc(g.activities, func(a at.Activity) bool { return *a.ActivityId == i.activity }); !isLive(i) && n >= 0 {
		return g.activities[n]
	}
	return r.terminate(g, i, now, cause)
}
