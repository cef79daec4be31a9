// Package fit answers one question: does this node take this pod, and if not, why? It answers as
// the filters of kube-scheduler's default profile do (k8s.io/kubernetes, pkg/scheduler/framework/
// plugins), in their order and words, as far as they look at one node and the pods on it: cordon,
// taints, node affinity, host ports, resources, volumes, attach limits and devices. What they look
// at of other nodes, the spread of pods and the affinity to other pods, package simulate knows.
//
// test/schedulerfit compares the answers with kube-scheduler's.
package fit
