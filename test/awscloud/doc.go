// Package awscloud is a stand-in for the parts of AWS that manage a node group: Auto Scaling groups, EC2 instances and
// launch templates, EKS managed node groups, target groups of load balancers, SSM parameters. It is an HTTP server on
// loopback that speaks the wire protocols of aws-sdk-go-v2, so that an unmodified program reaches it through
// AWS_ENDPOINT_URL.
//
// It simulates AWS's behaviour over time. A group keeps its desired capacity, launches in the zone with the fewest instances,
// replaces lost instances, shrinks by the default termination policy and rebalances its zones without draining anything, as the
// real one does. Instances boot and stop over time, and each is backed by a Kubernetes Node through [NodeHost]. The stand-in
// refuses what AWS refuses, with the same code and message. It also refuses what it does not model (code NotModelled).
//
// Where the behaviour of AWS is not documented, the stand-in takes the behaviour that is hardest for a client:
//
//   - LaunchInstances is refused above MaxSize, and while the Launch process is suspended;
//   - TerminateInstanceInAutoScalingGroup with ShouldDecrementDesiredCapacity lowers the desired capacity again when it
//     is repeated for an instance that is already terminating;
//   - an instance that terminates stops counting at once, so that its replacement is launched beside it;
//   - after a failed update, a managed node group keeps its raised size, its fenced old nodes and its
//     launches on the new revision, while the version and release that are shown stay the old ones;
//   - an update that names no Kubernetes version keeps the node group's own;
//   - for the rest, EKSOptions choose between two behaviours.
//
// How it is built: the state of a region is a small set of values under one lock. [age], [chooseLaunchZone], [victim] and
// [chooseRebalanceZones] are pure functions over values, without lock or clock. A ticker applies them. The protocol files (query.go,
// ec2.go, eks.go, ssm.go) turn requests into calls on the state and decide nothing. Before such a call, the IAM policies of the
// access key's [Caller] decide whether the request is allowed. IAM's simulator reads the same policies. An update of a managed
// node group is a goroutine of its own (eksupdate.go). It empties nodes through a [Drainer], and the Auto Scaling group does the
// rest.
package awscloud
