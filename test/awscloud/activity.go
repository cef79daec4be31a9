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

// causeSentence returns one sentence for the cause of a scaling activity.
func causeSentence(now time.Time, format string, args ...any) string {
	return "At " + now.UTC().Format(activityTime) + " " + fmt.Sprintf(format, args...)
}

// beginActivity adds a scaling activity in progress to the group and returns its id.
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

// endActivity sets an activity to Successful or, if failure is not "", to Failed.
func (g *group) endActivity(id string, now time.Time, failure string) {
	i := slices.IndexFunc(g.activities, func(a at.Activity) bool { return *a.ActivityId == id })
	if i < 0 {
		return
	}
	g.activities = slices.Clone(g.activities) // views share the old slice
	a := &g.activities[i]
	a.EndTime, a.Progress, a.StatusCode = aws.Time(now), aws.Int32(100), at.ScalingActivityStatusCodeSuccessful
	if failure != "" {
		a.StatusCode, a.StatusMessage = at.ScalingActivityStatusCodeFailed, aws.String(failure)
	}
}

// recordFailedLaunch adds a scaling activity for a failed launch.
func (r *region) recordFailedLaunch(g *group, now time.Time, why string) {
	why += " Launching EC2 instance failed."
	id := r.beginActivity(g, now, "Launching a new EC2 instance.  Status Reason: "+why, g.takeCause())
	g.endActivity(id, now, why)
}

// sortActivities returns activities in the order of DescribeScalingActivities: first those in progress, then the others, each
// the newest first.
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
