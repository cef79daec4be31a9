package cluster

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/trim"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
)

// ReadView takes a View but for its pods in one list per kind, without a watch; it may be some
// milliseconds old. now is the clock by which it tells times. It returns an error when a kind cannot
// be read.
func ReadView(ctx context.Context, client kubernetes.Interface, now func() time.Time) (upgrade.View, error) {
	x, core := newClusterIndex(), client.CoreV1().RESTClient()
	var nodes []*corev1.Node
	var budgets []*policyv1.PodDisruptionBudget
	var namespaces []*corev1.Namespace
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return listObjects(ctx, core, "nodes", trimInto(&nodes)) })
	g.Go(func() error { return listObjects(ctx, core, "namespaces", trimInto(&namespaces)) })
	g.Go(func() error {
		return listObjects(ctx, client.PolicyV1().RESTClient(), "poddisruptionbudgets", trimInto(&budgets))
	})
	if err := g.Wait(); err != nil {
		return upgrade.View{}, err
	}
	for _, node := range nodes {
		x.storeNode(node)
	}
	for _, budget := range budgets {
		x.storeBudget(budget, now())
	}
	for _, namespace := range namespaces {
		x.storeNamespace(namespace)
	}
	return x.buildView(), nil
}

const (
	// fewNodes are so many that their pods are asked for node by node, which the API server finds
	// by an index (registry/core/pod/strategy.go, Indexers); the pods of more are picked from those
	// of the whole cluster.
	fewNodes = 64
	// parallelLists is how many of these are asked at once.
	parallelLists = 8
)

// ListPods lists the cluster's pods by the name of their node, "" for those without; they may be
// some milliseconds old.
func ListPods(ctx context.Context, client kubernetes.Interface) (map[string][]*corev1.Pod, error) {
	return listPods(ctx, client, func(*corev1.Pod) bool { return true })
}

// PodsOn lists the pods of the nodes, by the name of their node; they may be some milliseconds old.
func PodsOn(ctx context.Context, client kubernetes.Interface, nodes []string) (map[string][]*corev1.Pod, error) {
	wanted := make(map[string]bool, len(nodes))
	for _, node := range nodes {
		wanted[node] = true
	}
	if len(wanted) > fewNodes {
		return listPods(ctx, client, func(pod *corev1.Pod) bool { return wanted[pod.Spec.NodeName] })
	}
	byNode := make(map[string][]*corev1.Pod, len(nodes))
	var mu sync.Mutex
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallelLists)
	for node := range wanted {
		g.Go(func() error {
			var own []*corev1.Pod
			selector := fields.OneTermEqualSelector("spec.nodeName", node).String()
			err := readListing(ctx, listing{client: client.CoreV1().RESTClient(), kind: "pods", selector: selector, drop: prunedPodFields()}, trimInto(&own))
			mu.Lock()
			defer mu.Unlock()
			byNode[node] = own
			return err
		})
	}
	return byNode, g.Wait()
}

func listPods(ctx context.Context, client kubernetes.Interface, wanted func(*corev1.Pod) bool) (map[string][]*corev1.Pod, error) {
	byNode, sharer := map[string][]*corev1.Pod{}, trim.NewSharer()
	err := readListing(ctx, listing{client: client.CoreV1().RESTClient(), kind: "pods", drop: prunedPodFields()}, func(pod *corev1.Pod) {
		if wanted(pod) {
			trim.Object(pod)
			sharer.Pod(pod)
			byNode[pod.Spec.NodeName] = append(byNode[pod.Spec.NodeName], pod)
		}
	})
	return byNode, err
}

// trimInto keeps objects, trimmed.
func trimInto[P any](into *[]P) func(P) {
	return func(object P) {
		trim.Object(object)
		*into = append(*into, object)
	}
}

// ListNodes lists the nodes alone.
func ListNodes(ctx context.Context, client kubernetes.Interface) ([]*corev1.Node, error) {
	nodes := []*corev1.Node{}
	err := listObjects(ctx, client.CoreV1().RESTClient(), "nodes", trimInto(&nodes))
	return nodes, err
}
