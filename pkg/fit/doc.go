// Package fit answers one question: does this node take this pod, and if not, why? It answers like the filters of
// kube-scheduler's default profile (k8s.io/kubernetes, pkg/scheduler/framework/plugins), in their order and words. It
// covers the checks that need only one node and its pods: cordon, taints, node affinity, host ports, resources,
// volumes, attach limits and devices. Topology spread and inter-pod affinity need other nodes; package simulate
// checks these.
//
// test/schedulerfit compares the answers with kube-scheduler's.
package fit
