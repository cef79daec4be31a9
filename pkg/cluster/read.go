package cluster

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/trim"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
)

// Read takes a View in one list per kind, without a watch; it may be some milliseconds old. It returns an error when a kind cannot be read.
func Read(ctx context.Context, client kubernetes.Interface) (upgrade.View, error) {
	x, core, sharer := newIndex(), client.CoreV1().RESTClient(), trim.NewSharer()
	var nodes []*corev1.Node
	var pods []*corev1.Pod
	var budgets []*policyv1.PodDisruptionBudget
	var namespaces []*corev1.Namespace
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return list(ctx, core, "nodes", appendTo(&nodes)) })
	g.Go(func() error {
		return list(ctx, core, "pods", func(pod *corev1.Pod) {
			trim.Object(pod)
			sharer.Pod(pod)
			pods = append(pods, pod)
		})
	})
	g.Go(func() error { return list(ctx, core, "namespaces", appendTo(&namespaces)) })
	g.Go(func() error {
		return list(ctx, client.PolicyV1().RESTClient(), "poddisruptionbudgets", appendTo(&budgets))
	})
	if err := g.Wait(); err != nil {
		return upgrade.View{}, err
	}
	for _, node := range nodes {
		x.nodes[node.Name] = node
	}
	for _, pod := range pods {
		x.putPod(pod)
	}
	for _, budget := range budgets {
		x.putBudget(budget, time.Now())
	}
	for _, namespace := range namespaces {
		x.putNamespace(namespace)
	}
	return x.view(), nil
}

// appendTo keeps objects, trimmed.
func appendTo[P any](into *[]P) func(P) {
	return func(object P) {
		trim.Object(object)
		*into = append(*into, object)
	}
}

// Nodes lists the nodes alone.
func Nodes(ctx context.Context, client kubernetes.Interface) ([]*corev1.Node, error) {
	nodes := []*corev1.Node{}
	err := list(ctx, client.CoreV1().RESTClient(), "nodes", appendTo(&nodes))
	return nodes, err
}
