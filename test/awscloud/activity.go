package awscloud

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	at "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
)

// activityTime is the format of times in the cause of a scaling activity.
const activityTime = "2006-01-02T15:04:05Z"

// causeSentence returns one sentence of a cause.
func causeSentence(now time.Time, format string, args ...any) string {
	return "At " + now.UTC().Format(activityTime) + " " + fmt.Sprintf(format, args...)
}

// requestUpdate records a scaling activity of the group and returns its id.
func (r *region) beginActivity(g *group, now time.Time, description, cause string) string {
	id := r.uuid()
	g.activities = append(slices.Clip(g.activities), at.Activity{
		ActivityId:           aws.String(id),
		AutoScalingGroupName: aws.String(g.name),
		AutoScalingGroupARN:  aws.String(g.arn),
		Description:          aws.String(description),
		Cause:                aws.String(cause),
		Details:              aws.String("{}"),
		StartTime:            aws.Time(now),
		StatusCode:           at.ScalingActivityStatusCodeInProgress,
		Progress:             aws.Int32(50),
	})
	return id
}

// endActivity closes an activity: Successful, or Failed with a message.
func (g *group) endActivity(id string, now time.Time, failure string) {
	i := slices.IndexFunc(g.activities, func(a at.Activity) bool { return *a.ActivityId == id })
	if i < 0 {
		return
	}
	g.activities = slices.Clone(g.activities) // snapshots share the old one
	a := &g.activities[i]
	a.EndTime, a.Progress, a.StatusCode = aws.Time(now), aws.Int32(100), at.ScalingActivityStatusCodeSuccessful
	if failure != "" {
		a.StatusCode, a.StatusMessage = at.ScalingActivityStatusCodeFailed, aws.String(failure)
	}
}

// recordFailedLaunch records a failed launch.
func (r *region) recordFailedLaunch(g *group, now time.Time, why string) {
	why += " Launching EC2 instance failed."
	id := r.beginActivity(g, now, "Launching a new EC2 instance.  Status Reason: "+why, g.takeCause())
	g.endActivity(id, now, why)
}

// sortActivities lists activities as DescribeScalingActivities does: those in progress first, then the newest.
func sortActivities(all []at.Activity) []at.Activity {
	out := slices.Clone(all)
	slices.Reverse(out)
	slices.SortStableFunc(out, func(a, b at.Activity) int {
		return cmp.Compare(progressRank(a), progressRank(b))
	})
	return out
}

func progressRank(a at.Activity) int {
	if a.StatusCode == at.ScalingActivityStatusCodeInProgress {
		return 0
	}
	return 1
}
