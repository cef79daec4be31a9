package aws

import (
	"fmt"
	"strconv"
	"strings"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	at "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// instanceStateOf maps a lifecycle state. The states of a warm pool, of root volume replacement and states
// that AWS adds later are unknown. (EC2 Auto Scaling API, Instance.LifecycleState.)
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

// launchOf returns how the instance was launched, according to its group. The group reports the
// image only after an AMI override or a root volume replacement, when the template's image no
// longer applies.
func launchOf(i at.Instance) launch {
	l := launch{configuration: sdk.ToString(i.LaunchConfigurationName), image: sdk.ToString(i.ImageId)}
	if i.LaunchTemplate != nil {
		l.template, l.name = sdk.ToString(i.LaunchTemplate.LaunchTemplateId), sdk.ToString(i.LaunchTemplate.LaunchTemplateName)
		l.version, _ = strconv.ParseInt(sdk.ToString(i.LaunchTemplate.Version), 10, 64) // no instance matches a version that is not a number
	}
	return l
}

// candidateLaunches lists the launches that an instance of the type may come from: the override of
// its type, or else the base and every override that names requirements.
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

// judgeInstance reports whether an instance of the type that was launched by l is outdated, and how
// it differs from the source. If the image is not known yet, only the rest is compared. EC2 may
// take a moment to know a new instance, and a current node must not be mistaken for an outdated
// one.
func (s *launchSource) judgeInstance(l launch, instanceType string) (outdated bool, why string) {
	candidates := s.candidateLaunches(instanceType)
	for _, want := range candidates {
		if l.differenceFrom(want, s.imageOnly) == "" {
			return false, ""
		}
	}
	return true, l.differenceFrom(candidates[0], s.imageOnly)
}

// differenceFrom returns why an instance launched by l is not current, "" if it is.
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
