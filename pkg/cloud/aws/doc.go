// Package aws drives self-managed Auto Scaling groups, and has EKS upgrade its managed node groups,
// through aws-sdk-go-v2.
//
// What is read and what is decided are kept apart. provider.go, read.go, do.go, point.go, rights.go
// and simulate.go talk to AWS, and for managed node groups managedread.go and delegate.go; spec.go,
// judge.go, refuse.go, describe.go, image.go, node.go, rightchecks.go and errors.go are pure
// functions over the SDK's types, and so are managed.go, managedtarget.go, release.go and
// explain.go.
//
// # What an observation costs
//
// Observe of an Auto Scaling group sends DescribeAutoScalingGroups and DescribeInstanceRefreshes,
// and beside them
//
//   - DescribeLaunchTemplates when the group or the target names $Latest or $Default;
//   - DescribeLaunchTemplateVersions for each template whose image is an SSM parameter;
//   - DescribeScalingActivities while capacity that was asked for is missing;
//   - DescribeAutoScalingGroups for all groups of the region while an AMI is the target and
//     the group does not launch from it yet.
//
// Observe of a managed node group sends DescribeAutoScalingGroups, twice for the first time,
// DescribeNodegroup, and DescribeUpdate of the update under way or, without one, ListUpdates. What
// is beside them once in a while is DescribeScalingActivities as above, DescribeLaunchTemplates for
// $Latest and $Default of the user's template, and DescribeUpdate for each update that began since.
// Groups leaves the updates out where EKS calls the node group anything but UPDATING.
//
// What cannot change is asked for once in the life of a Provider: the images of template versions
// (DescribeLaunchTemplateVersions, one for each template), what an AMI is (DescribeImages), and
// from which AMI an instance runs where that is not plain from its template version
// (DescribeInstances, one for 200 instances). Of managed node groups these are from which AMI each
// instance runs, each update that is over, one DescribeUpdate for each at the first Observe, which
// releases there are (GetParameters, one for each target), and the control plane's version where
// the target is for another Kubernetes version (DescribeCluster).
package aws
