package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/controlplane"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/fixture"
)

const (
	// pool is the name of the pool, which is in the labels of all nodes.
	pool             = "gaps"
	oldImage         = "old"
	newImage         = "new"
	window           = 4 // as many nodes at a time as xargs -P 4
	fillingTaint     = "test.kubectl-nodeupgrade/filling"
	fillingPollEvery = 50 * time.Millisecond
)

func poolOf(image string, nodes int) fixture.Pool {
	return fixture.Pool{Name: pool, Image: image, Nodes: nodes, Zones: []string{"us-east-1a", "us-east-1b", "us-east-1c"}}
}

func newFixture(ctx context.Context) (*fixture.Fixture, error) {
	// The machine is busy, and a late heartbeat must not make a node NotReady.
	return fixture.New(ctx, fixture.Options{Log: os.Stderr, Cluster: controlplane.Options{NodeMonitorGrace: time.Minute}})
}

// setUp creates the old nodes and the pods, each on its node of the layout, and then the new nodes.
func (l *layout) setUp(ctx context.Context, s *fixture.Fixture) error {
	old := poolOf(oldImage, l.nodes)
	old.Taints = []corev1.Taint{{Key: fillingTaint, Effect: corev1.TaintEffectNoSchedule}}
	if err := s.AddPool(ctx, old); err != nil {
		return err
	}
	for _, w := range l.workloads {
		if err := s.Add(ctx, w); err != nil {
			return err
		}
	}
	if err := l.bindPods(ctx, s, old); err != nil {
		return err
	}
	for i := range l.nodes {
		if err := s.ChangeNode(ctx, old.NodeName(i), removeFillingTaint); err != nil {
			return err
		}
	}
	if err := s.Settle(ctx); err != nil {
		return err
	}
	if err := s.AddPool(ctx, poolOf(newImage, l.nodes)); err != nil {
		return err
	}
	if err := s.AwaitNodes(ctx, "pool="+pool, 2*l.nodes); err != nil {
		return err
	}
	_, err := s.WaitUntilIdle(ctx, 2*l.nodes)
	return err
}

func removeFillingTaint(node *corev1.Node) {
	node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == fillingTaint })
}

// bindPods binds each pod to its node of the layout. The scheduler would choose at random among equal nodes, and every way must begin
// with the same layout. A taint keeps the scheduler from binding the pods.
func (l *layout) bindPods(ctx context.Context, s *fixture.Fixture, old fixture.Pool) error {
	client := s.Cluster.Client().CoreV1().Pods(s.Namespace)
	placed, all := map[string]int{}, 0
	err := wait.PollUntilContextTimeout(ctx, fillingPollEvery, fixture.StartupLimit, true, func(ctx context.Context) (bool, error) {
		pods, err := client.List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName="})
		if err != nil {
			return false, err
		}
		for i := range pods.Items {
			pod := &pods.Items[i]
			app := pod.Labels["app"]
			binding := &corev1.Binding{
				ObjectMeta: metav1.ObjectMeta{Name: pod.Name, UID: pod.UID},
				Target:     corev1.ObjectReference{Kind: "Node", Name: old.NodeName(l.places[app][placed[app]])},
			}
			if err := client.Bind(ctx, binding, metav1.CreateOptions{}); err != nil {
				return false, fmt.Errorf("binding pod %q: %w", pod.Name, err)
			}
			placed[app]++
			all++
		}
		return all == l.countPods(), nil
	})
	if err != nil {
		return fmt.Errorf("placing %d pods: %d have a node: %w", l.countPods(), all, err)
	}
	return nil
}
