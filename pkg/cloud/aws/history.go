package aws

import (
	"context"
	"fmt"
	"strings"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	at "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	et "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

var _ cloud.Historian = (*Provider)(nil)

// historyLimit is how many instances and how many activities a group's past is read off: one
// request for each.
const historyLimit = 100

// History implements cloud.Historian with one DescribeInstances and one DescribeScalingActivities.
// Auto Scaling keeps activities for six weeks. What could be read is returned with an error, too.
func (p *Provider) History(ctx context.Context, group *nodegroup.Group) (cloud.History, error) {
	var h cloud.History
	if len(group.Instances) == 0 {
		return h, nil
	}
	ids := make([]string, 0, historyLimit)
	for _, i := range group.Instances[:min(historyLimit, len(group.Instances))] {
		ids = append(ids, i.ID)
	}
	machines, err := p.ec2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{
		Filters: []et.Filter{{Name: sdk.String("instance-id"), Values: ids}},
	})
	if err != nil {
		return h, explainError("reading when instances were launched", err)
	}
	h.Launched = launchTimes(machines.Reservations)
	past, err := p.autoscaling.DescribeScalingActivities(ctx, &autoscaling.DescribeScalingActivitiesInput{
		AutoScalingGroupName: sdk.String(p.managed.memory.autoscalingName(group.Name)), MaxRecords: sdk.Int32(historyLimit),
	})
	if err != nil {
		return h, explainError(fmt.Sprintf("reading the scaling activities of Auto Scaling group %q", group.Name), err)
	}
	h.Terminations = terminationTimes(past.Activities)
	return h, nil
}

// launchTimes is when each instance was launched, by ID.
func launchTimes(reservations []et.Reservation) map[string]time.Time {
	at := map[string]time.Time{}
	for _, r := range reservations {
		for _, i := range r.Instances {
			if i.LaunchTime != nil {
				at[sdk.ToString(i.InstanceId)] = *i.LaunchTime
			}
		}
	}
	return at
}

// terminationTimes are how long the terminations among activities took that came to their end.
func terminationTimes(activities []at.Activity) []time.Duration {
	var took []time.Duration
	for _, a := range activities {
		ended := a.StatusCode == at.ScalingActivityStatusCodeSuccessful && a.StartTime != nil && a.EndTime != nil
		if ended && strings.HasPrefix(sdk.ToString(a.Description), "Terminating") {
			took = append(took, a.EndTime.Sub(*a.StartTime))
		}
	}
	return took
}
