package cluster

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/inventory"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/trim"
)

// ReadView returns a View without pods. It sends one list request for each kind and no watch. The
// View may be some milliseconds old. now is the clock for its times. ReadView returns an error if a
// kind cannot be read.
func ReadView(ctx context.Context, client kubernetes.Interface, now func() time.Time) (drain.Snapshot, error) {
	o, err := ReadObjects(ctx, client, inventory.ForViews)
	if err != nil {
		return drain.Snapshot{}, err
	}
	x := newClusterIndex()
	for _, node := range o.Nodes {
		x.storeNode(node)
	}
	for _, budget := range o.Budgets {
		x.storeBudget(budget, now())
	}
	for _, namespace := range o.Namespaces {
		x.storeNamespace(namespace)
	}
	return x.buildView(), nil
}

const (
	// maxListedNodes is the maximum number of nodes whose pods are listed node by node. The API server
	// finds these by an index (registry/core/pod/strategy.go, Indexers). For more nodes, all pods
	// of the cluster are listed and filtered.
	maxListedNodes = 64
	// parallelLists is how many of these lists run concurrently.
	parallelLists = 8
)

// ListPods returns the cluster's pods by the name of their node, "" for pods without a node. They
// may be some milliseconds old.
func ListPods(ctx context.Context, client kubernetes.Interface) (map[string][]*corev1.Pod, error) {
	return listPodsWhere(ctx, client, func(*corev1.Pod) bool { return true })
}

// ListPodsOfNodes returns the pods of the nodes by the name of their node. They may be some milliseconds
// old.
func ListPodsOfNodes(ctx context.Context, client kubernetes.Interface, nodes []string) (map[string][]*corev1.Pod, error) {
	wanted := make(map[string]bool, len(nodes))
	for _, node := range nodes {
		wanted[node] = true
	}
	if len(wanted) > maxListedNodes {
		return listPodsWhere(ctx, client, func(pod *corev1.Pod) bool { return wanted[pod.Spec.NodeName] })
	}
	byNode := make(map[string][]*corev1.Pod, len(nodes))
	var mu sync.Mutex
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallelLists)
	kind := inventory.FindKind("pods")
	for node := range wanted {
		g.Go(func() error {
			var own inventory.Objects
			selector := fields.OneTermEqualSelector("spec.nodeName", node).String()
			list := listing{client: client.CoreV1().RESTClient(), kind: &kind, selector: selector, drop: prunedPodFields()}
			err := list.read(ctx, func(pod metav1.Object) {
				trim.Object(pod)
				kind.Keep(&own, pod)
			})
			mu.Lock()
			defer mu.Unlock()
			byNode[node] = own.Pods
			return err
		})
	}
	return byNode, g.Wait()
}

func listPodsWhere(ctx context.Context, client kubernetes.Interface, wanted func(*corev1.Pod) bool) (map[string][]*corev1.Pod, error) {
	byNode, sharer, kind := map[string][]*corev1.Pod{}, trim.NewSharer(), inventory.FindKind("pods")
	list := listing{client: client.CoreV1().RESTClient(), kind: &kind, drop: prunedPodFields()}
	err := list.read(ctx, func(object metav1.Object) {
		if pod, ok := object.(*corev1.Pod); ok && wanted(pod) {
			trim.Object(pod)
			sharer.Pod(pod)
			byNode[pod.Spec.NodeName] = append(byNode[pod.Spec.NodeName], pod)
		}
	})
	return byNode, err
}

// ListNodes returns all nodes. It reads nothing else.
func ListNodes(ctx context.Context, client kubernetes.Interface) ([]*corev1.Node, error) {
	o, kind := &inventory.Objects{Nodes: []*corev1.Node{}}, inventory.FindKind("nodes")
	err := readKind(ctx, client.CoreV1().RESTClient(), &kind, inventory.ForViews, o)
	return o.Nodes, err
}
