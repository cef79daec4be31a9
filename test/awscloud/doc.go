// Package awscloud is a stand-in for the parts of AWS that hold a node group: Auto Scaling groups, EC2 instances and
// launch templates, EKS managed node groups, target groups of load balancers, SSM parameters. It is an HTTP server on
// loopback that speaks the wire protocols of aws-sdk-go-v2, so that an unmodified program reaches it through
// AWS_ENDPOINT_URL.
//
// It behaves rather than answers. A group keeps its desired capacity, launches in the zone with the fewest instances,
// replaces what it loses, shrinks by the default termination policy and rebalances its zones without draining anything,
// as the real one does. Instances boot and stop over time, and each is backed by a Kubernetes Node through [NodeHost].
// What AWS refuses it refuses, with the same code and the same words; what it does not model it refuses too (code
// NotModelled), rather than ignore it.
//
// Where the behaviour of AWS is not documented, the stand-in takes the answer that a careful client has to survive:
//
//   - LaunchInstances is refused above MaxSize, and while the Launch process is suspended;
//   - TerminateInstanceInAutoScalingGroup with ShouldDecrementDesiredCapacity lowers the desired capacity again when it
//     is repeated for an instance that is already terminating;
//   - an instance that terminates stops counting at once, so that its replacement is launched beside it;
//   - a failed update of a managed node group leaves its size raised, its old nodes fenced and its
//     launches on the new revision, while the version and release that are shown stay the old ones;
//   - an update that names no Kubernetes version keeps the node group's own;
//   - EKSOptions choose between two ways to behave for the rest.
//
// How it is built: the state of a region is a handful of values under one lock; [age], [launchZone], [victim] and
// [rebalanceZones] decide over values and know neither lock nor clock; a ticker applies them; the protocol files
// (query.go, ec2.go, eks.go, ssm.go) turn requests into calls on the state and decide nothing. What an access key may
// do is decided before them, by the IAM policies of its [Caller], which IAM's simulator reads, too. An
// update of a managed node group is a goroutine of its own (eksupdate.go), which empties nodes by a
// [Drainer] and leaves the rest to the Auto Scaling group.
package awscloud
