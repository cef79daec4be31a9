// Package schedulerfit compares the simulator's scheduler with that of Kubernetes. On random clusters, both give for each node the
// reason why it refuses a pod. It is a separate module because k8s.io/kubernetes needs replace lines.
package schedulerfit
