// Package aws drives self-managed Auto Scaling groups through aws-sdk-go-v2. EKS managed node
// groups are listed and judged like any other, and refused: EKS itself must upgrade them.
//
// What is read and what is decided are kept apart. provider.go, read.go, do.go and point.go talk to
// AWS; spec.go, judge.go, refuse.go, describe.go, image.go, node.go and errors.go are pure
// functions over the SDK's types.
//
// # What an observation costs
//
// Observe sends DescribeAutoScalingGroups and DescribeInstanceRefreshes, and beside them
//
//   - DescribeLaunchTemplates when the group or the target names $Latest or $Default;
//   - DescribeLaunchTemplateVersions for each template whose image is an SSM parameter;
//   - DescribeScalingActivities while capacity that was asked for is missing;
//   - DescribeAutoScalingGroups for all groups of the region while an AMI is the target and
//     the group does not launch from it yet.
//
// What cannot change is asked for once in the life of a Provider: the images of template versions
// (DescribeLaunchTemplateVersions, one for each template), what an AMI is (DescribeImages), and
// from which AMI an instance runs where that is not plain from its template version
// (DescribeInstances, one for 200 instances).
package aws
