// Package awscloud simulates the parts of AWS that manage a node group: Auto Scaling groups, EC2 instances and launch
// templates, EKS managed node groups, target groups of load balancers, SSM parameters. This stand-in is an HTTP server on
// loopback that uses the wire protocols of aws-sdk-go-v2. An unmodified program reaches it through AWS_ENDPOINT_URL.
//
// It simulates AWS's behaviour over time. A group keeps its desired capacity, launches in the zone with the fewest instances
// and replaces lost instances. It shrinks by the default termination policy, and rebalances its zones without draining nodes.
// Instances boot and stop over time, and [NodeHost] creates a Kubernetes Node for each instance. The stand-in refuses the
// requests that AWS refuses, with the same code and message. It also refuses requests that it does not model (code
// NotModelled).
//
// If the behaviour of AWS is not documented, the stand-in has the behaviour that is hardest for a client:
//
//   - LaunchInstances is refused above MaxSize, and while the Launch process is suspended;
//   - TerminateInstanceInAutoScalingGroup with ShouldDecrementDesiredCapacity lowers the desired capacity again when it
//     is repeated for an instance that is already terminating;
//   - a terminating instance does not count towards the capacity, so its replacement is launched before it is gone;
//   - after a failed update, a managed node group keeps its raised size, its fenced old nodes and its
//     launches on the new revision, while the version and release that are shown stay the old ones;
//   - an update that names no Kubernetes version keeps the node group's own;
//   - for other undocumented behaviour, EKSOptions choose between two variants.
//
// How it is built: the state of a region is a small set of values under one lock. [advanceInstance], [chooseLaunchZone],
// [nextToTerminate] and [chooseRebalanceZones] are pure functions over values, without lock or clock. A ticker calls them. The
// protocol files (query.go, ec2.go, eks.go, ssm.go) convert requests to method calls on the region. Before such a call, the IAM
// policies of the access key's [Caller] decide whether the request is allowed. IAM's simulator uses the same policies. Each update
// of a managed node group runs in its own goroutine (eksupdate.go). It drains nodes through a [Drainer], and the Auto Scaling group
// terminates and replaces them.
package awscloud
