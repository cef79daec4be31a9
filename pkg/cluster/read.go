package cluster

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/pager"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
)

// pageSize is how many objects one page of a list holds.
const pageSize = 1000

// Read takes a View in one paged list per kind, without a watch. It returns an error when a kind cannot be read.
func Read(ctx context.Context, client kubernetes.Interface) (upgrade.View, error) {
	x := newIndex()
	nodes, pods, budgets, namespaces := []*corev1.Node{}, []*corev1.Pod{}, []*policyv1.PodDisruptionBudget{}, []*corev1.Namespace{}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		return list(ctx, "nodes", func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return client.CoreV1().Nodes().List(ctx, o)
		}, &nodes)
	})
	g.Go(func() error {
		return list(ctx, "pods", func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return client.CoreV1().Pods("").List(ctx, o)
		}, &pods)
	})
	g.Go(func() error {
		return list(ctx, "poddisruptionbudgets", func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return client.PolicyV1().PodDisruptionBudgets("").List(ctx, o)
		}, &budgets)
	})
	g.Go(func() error {
		return list(ctx, "namespaces", func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return client.CoreV1().Namespaces().List(ctx, o)
		}, &namespaces)
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

// list appends every object of a kind to into, trimmed as its page arrives.
func list[T runtime.Object](ctx context.Context, kind string, page pager.ListPageFunc, into *[]T) error {
	p := pager.New(page)
	p.PageSize = pageSize
	err := p.EachListItem(ctx, metav1.ListOptions{}, func(object runtime.Object) error {
		o, ok := object.(T)
		if !ok {
			return fmt.Errorf("an object of type %T among %s", object, kind)
		}
		if _, err := trim(o); err != nil {
			return err
		}
		*into = append(*into, o)
		return nil
	})
	if err != nil {
		return fmt.Errorf("listing %s: %w", kind, err)
	}
	return nil
}

// Nodes lists the nodes alone.
func Nodes(ctx context.Context, client kubernetes.Interface) ([]*corev1.Node, error) {
	nodes := []*corev1.Node{}
	err := list(ctx, "nodes", func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		return client.CoreV1().Nodes().List(ctx, o)
	}, &nodes)
	return nodes, err
}
