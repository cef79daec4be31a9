// Package aws upgrades self-managed Auto Scaling groups, and asks EKS to upgrade its managed node
// groups. It uses aws-sdk-go-v2.
//
// Requests and decisions are in separate files. These files send requests to AWS: provider.go, read.go, do.go, point.go,
// rights.go, simulate.go, survey.go and balancers.go; and for managed node groups managedread.go, parameters.go and delegate.go.
// These files have only pure functions over the SDK's types: spec.go, judge.go, refuse.go, describe.go, image.go, node.go,
// rightchecks.go and errors.go; and for managed node groups managed.go, managedtarget.go, release.go and explain.go.
//
// # Which requests an observation sends
//
// Observe of an Auto Scaling group sends DescribeAutoScalingGroups and DescribeInstanceRefreshes.
// In some cases it also sends
//
//   - DescribeLaunchTemplates if the group or the target names $Latest or $Default;
//   - DescribeLaunchTemplateVersions for each template whose image is an SSM parameter;
//   - DescribeScalingActivities while the group has fewer instances than it asks for;
//   - DescribeAutoScalingGroups for all groups of the region while an AMI is the target and
//     the group does not launch from it yet.
//
// Observe of a managed node group sends DescribeAutoScalingGroups (the first time twice) and
// DescribeNodegroup. It sends DescribeUpdate for the running update or, without one, ListUpdates.
// In some cases it also sends DescribeScalingActivities as above, DescribeLaunchTemplates for
// $Latest and $Default of the user's template, and DescribeUpdate for each new update. Groups reads
// the updates only if EKS reports the node group as UPDATING.
//
// A Provider reads facts that cannot change only once: the images of template versions (DescribeLaunchTemplateVersions, one for
// each template), the AMIs (DescribeImages), and the AMI of an instance if its template version does not show it
// (DescribeInstances, one for 200 instances). For managed node groups these facts are the AMI of each instance, each update
// that has ended (one DescribeUpdate for each at the first Observe), the published releases (GetParameters, one for each
// target), and the control plane's version if the target is for another Kubernetes version (DescribeCluster).
package aws
