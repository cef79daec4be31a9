package aws

import (
	"cmp"
	"fmt"
	"slices"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	at "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/shell"
)

// refusalReason returns why the group must not be upgraded, with the remedy; "" if it may be upgraded. The instances must have
// been judged. refresh is the status of the newest instance refresh.
func refusalReason(g *at.AutoScalingGroup, instances []nodegroup.Instance, refresh at.InstanceRefreshStatus) string {
	return cmp.Or(refuseDeleted(g), refuseOtherManagers(g, refresh), refuseCapacityUnits(g), refuseSuspended(g), refuseWarmPool(g), refuseProtected(g, instances))
}

func refuseDeleted(g *at.AutoScalingGroup) string {
	if status := sdk.ToString(g.Status); status != "" {
		return fmt.Sprintf("it is being deleted (%s)", status)
	}
	return ""
}

// refuseOtherManagers refuses a group that another AWS service manages, or whose instances an active instance refresh replaces.
func refuseOtherManagers(g *at.AutoScalingGroup, refresh at.InstanceRefreshStatus) string {
	if g.Operator != nil {
		return fmt.Sprintf("%s manages it, and no other tool may change it: upgrade it there", sdk.ToString(g.Operator.Principal))
	}
	switch refresh {
	case at.InstanceRefreshStatusPending, at.InstanceRefreshStatusInProgress, at.InstanceRefreshStatusCancelling,
		at.InstanceRefreshStatusRollbackInProgress, at.InstanceRefreshStatusBaking:
		return fmt.Sprintf("an instance refresh is active (%s) and replaces the same nodes: wait until it has finished, or run %s",
			refresh, withGroupOption("aws autoscaling cancel-instance-refresh", g))
	}
	return ""
}

// refuseCapacityUnits refuses groups whose sizes are not counts of instances.
func refuseCapacityUnits(g *at.AutoScalingGroup) string {
	const remedy = "its sizes count capacity units, not nodes: "
	if unit := sdk.ToString(g.DesiredCapacityType); unit != "" && unit != "units" {
		return remedy + "set its desired capacity type to units"
	}
	weighted := slices.ContainsFunc(g.Instances, func(i at.Instance) bool { return sdk.ToString(i.WeightedCapacity) != "" })
	if mixedTemplate(g) != nil {
		weighted = weighted || slices.ContainsFunc(g.MixedInstancesPolicy.LaunchTemplate.Overrides, func(o at.LaunchTemplateOverrides) bool {
			return sdk.ToString(o.WeightedCapacity) != ""
		})
	}
	if weighted {
		return remedy + "remove the weights from its mixed instances policy"
	}
	return ""
}

// refuseSuspended refuses groups with a suspended process that is needed to launch or terminate nodes.
func refuseSuspended(g *at.AutoScalingGroup) string {
	for _, process := range suspendedProcesses(g) {
		if process == "Launch" || process == "Terminate" || process == "AddToLoadBalancer" {
			return fmt.Sprintf("its process %s is suspended: run %s %s", process, withGroupOption("aws autoscaling resume-processes", g), shell.Option("--scaling-processes", process))
		}
	}
	return ""
}

// refuseWarmPool refuses groups with a warm pool. The group does not list the pool's instances, and
// they may be outdated.
func refuseWarmPool(g *at.AutoScalingGroup) string {
	if g.WarmPoolConfiguration == nil {
		return ""
	}
	return fmt.Sprintf("it has a warm pool, and instances of the pool may be outdated when they go into service: run %s",
		withGroupOption("aws autoscaling delete-warm-pool", g))
}

// refuseProtected refuses groups that protect outdated instances from scale-in. AWS would terminate such instances, because the
// protection does not apply to TerminateInstanceInAutoScalingGroup.
func refuseProtected(g *at.AutoScalingGroup, instances []nodegroup.Instance) string {
	var protected []string
	for _, i := range instances {
		if i.Outdated && i.Protected && i.State != nodegroup.InstanceLeaving {
			protected = append(protected, i.ID)
		}
	}
	if len(protected) == 0 {
		return ""
	}
	const shown = 3
	which := "outdated instances are protected from scale-in"
	if len(protected) > shown {
		which = fmt.Sprintf("%d %s; this command is for the first %d", len(protected), which, shown)
	}
	return which + ": " + shell.Command(withGroupOption("aws autoscaling set-instance-protection --no-protected-from-scale-in", g)+" --instance-ids", protected[:min(shown, len(protected))]...)
}

// withGroupOption returns the command of the AWS CLI with the option that names the group.
func withGroupOption(command string, g *at.AutoScalingGroup) string {
	return command + " " + shell.Option("--auto-scaling-group-name", sdk.ToString(g.AutoScalingGroupName))
}
