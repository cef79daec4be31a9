package stage

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
)

// Settle waits until every pod of the namespace is ready, every workload whole and every budget's status up to date.
func (s *Stage) Settle(ctx context.Context) error {
	var why string
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, StartupLimit, true, func(ctx context.Context) (bool, error) {
		var err error
		why, err = s.unsettled(ctx)
		return why == "", err
	})
	if err != nil {
		return fmt.Errorf("waiting for the cluster to settle: %w: %s", err, why)
	}
	return nil
}

// unsettled says what is not as it should be, "" when everything is.
func (s *Stage) unsettled(ctx context.Context) (string, error) {
	client := s.Cluster.Client()
	deployments, err := client.AppsV1().Deployments(s.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	for i := range deployments.Items {
		d := &deployments.Items[i]
		if d.Status.ReadyReplicas != *d.Spec.Replicas || d.Status.ObservedGeneration != d.Generation {
			return fmt.Sprintf("deployment %s has %d of %d pods ready", d.Name, d.Status.ReadyReplicas, *d.Spec.Replicas), nil
		}
	}
	sets, err := client.AppsV1().StatefulSets(s.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	for i := range sets.Items {
		if set := &sets.Items[i]; set.Status.ReadyReplicas != *set.Spec.Replicas {
			return fmt.Sprintf("stateful set %s has %d of %d pods ready", set.Name, set.Status.ReadyReplicas, *set.Spec.Replicas), nil
		}
	}
	return s.unsettledBudget(ctx)
}

func (s *Stage) unsettledBudget(ctx context.Context) (string, error) {
	budgets, err := s.Cluster.Client().PolicyV1().PodDisruptionBudgets(s.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	for i := range budgets.Items {
		b := &budgets.Items[i]
		if b.Status.ObservedGeneration != b.Generation || b.Status.ExpectedPods == 0 || b.Status.CurrentHealthy < b.Status.ExpectedPods {
			return fmt.Sprintf("budget %s sees %d of %d pods healthy", b.Name, b.Status.CurrentHealthy, b.Status.ExpectedPods), nil
		}
	}
	pods, err := s.Cluster.Client().CoreV1().Pods(s.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	var waiting []string
	for i := range pods.Items {
		if pod := &pods.Items[i]; !drain.Ready(pod) || pod.DeletionTimestamp != nil {
			waiting = append(waiting, pod.Name)
		}
	}
	if len(waiting) > 0 {
		return "pods are not ready: " + strings.Join(waiting, ", "), nil
	}
	return "", nil
}

// Nodes lists the nodes, by name.
func (s *Stage) Nodes(ctx context.Context) ([]corev1.Node, error) {
	list, err := s.Cluster.Client().CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}
