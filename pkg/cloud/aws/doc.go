// Package aws drives self-managed Auto Scaling groups through aws-sdk-go-v2. EKS managed
// node groups are listed and judged like any other, and refused: EKS itself must upgrade them.
//
// What is read and what is decided are kept apart. read.go asks AWS; spec.go, judge.go,
// refuse.go, describe.go, image.go and errors.go are pure functions over the SDK's types.
//
// # What an observation costs
//
// Observe sends DescribeAutoScalingGroups and DescribeInstanceRefreshes. It adds
// DescribeLaunchTemplates when the group follows $Latest or $Default or is to, one
// DescribeLaunchTemplateVersions per template that names its image through an SSM
// parameter, and DescribeScalingActivities while capacity asked for is missing.
// What cannot change is asked for once in the life of a Provider: the image of a
// template version, the properties of an image, the image of an instance.
package aws
