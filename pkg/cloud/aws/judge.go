package aws

import (
	"fmt"
	"strconv"
	"strings"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	at "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// instanceStateOf maps a lifecycle state of EC2 Auto Scaling. The states of warm pools and of root volume replacement, and
// states that AWS adds later, become InstanceUnknown (EC2 Auto Scaling API, Instance.LifecycleState).
func instanceStateOf(s at.LifecycleState) nodegroup.InstanceState {
	name, _, _ := strings.Cut(string(s), ":")
	switch at.LifecycleState(name) {
	case at.LifecycleStatePending:
		return nodegroup.InstancePending
	case at.LifecycleStateInService:
		return nodegroup.InstanceInService
	case at.LifecycleStateStandby, at.LifecycleStateEnteringStandby:
		return nodegroup.InstanceStandby
	case at.LifecycleStateTerminating, at.LifecycleStateTerminated, at.LifecycleStateDetaching, at.LifecycleStateDetached:
		return nodegroup.InstanceLeaving
	default:
		return nodegroup.InstanceUnknown
	}
}

// launchOf returns how the instance was launched, as its group reports it. The group reports an image only if it differs from
// the template's image: after an AMI override or a root volume replacement.
func launchOf(i at.Instance) launch {
	l := launch{configuration: sdk.ToString(i.LaunchConfigurationName), image: sdk.ToString(i.ImageId)}
	if i.LaunchTemplate != nil {
		l.template, l.name = sdk.ToString(i.LaunchTemplate.LaunchTemplateId), sdk.ToString(i.LaunchTemplate.LaunchTemplateName)
		l.version, _ = strconv.ParseInt(sdk.ToString(i.LaunchTemplate.Version), 10, 64) // no instance matches a version that is not a number
	}
	return l
}

// candidateLaunches lists the launches from which the source may launch an instance of the type: the override for this type, or
// else the base and every override without a type.
func (s *launchSource) candidateLaunches(instanceType string) []launch {
	out := []launch{s.base}
	for _, o := range s.overrides {
		switch o.instanceType {
		case instanceType:
			return []launch{o.launch}
		case "":
			out = append(out, o.launch)
		}
	}
	return out
}

// judgeInstance reports whether an instance of the type that was launched by l is outdated, and how it differs from the source.
// If the image is not known yet, only the rest is compared. EC2 may not know a new instance for a moment, and a current node
// must not be judged outdated.
func (s *launchSource) judgeInstance(l launch, instanceType string) (outdated bool, why string) {
	candidates := s.candidateLaunches(instanceType)
	for _, want := range candidates {
		if l.differenceFrom(want, s.imageOnly) == "" {
			return false, ""
		}
	}
	return true, l.differenceFrom(candidates[0], s.imageOnly)
}

// differenceFrom returns how an instance that was launched by l differs from want, "" if it is current.
func (l launch) differenceFrom(want launch, imageOnly bool) string {
	switch {
	case want.configuration != "" && l.configuration == want.configuration:
		return ""
	case l.configuration != "":
		return fmt.Sprintf("launch configuration %s, wanted %s", l.configuration, want.displayName())
	case l.template == "":
		return fmt.Sprintf("template unknown, wanted %s", want.displayName())
	case l.template != want.template:
		return fmt.Sprintf("template %s, wanted %s", l.displayName(), want.displayName())
	case !imageOnly && l.version != want.version:
		return fmt.Sprintf("template version %d, wanted %d", l.version, want.version)
	case l.image != "" && want.image != "" && l.image != want.image:
		return fmt.Sprintf("image %s, wanted %s", l.image, want.image)
	default:
		return ""
	}
}
