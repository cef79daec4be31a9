// Package schedulerfit compares the simulator's scheduler with that of Kubernetes: on random
// clusters both say, node by node, why a pod is refused. It is a module of its own because
// k8s.io/kubernetes needs replace lines.
package schedulerfit
