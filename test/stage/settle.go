package stage

import (
	"context"
	"fmt"
	"slices"
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
		found, err := s.unsettled(ctx)
		if err != nil {
			return false, err // the last one of a wait that is over tells nothing of its own
		}
		why = found
		return why == "", nil
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

const (
	apiServer = "kube-apiserver"
	// resting is how much CPU time an API server with nothing to do may use within a second, restingNode how much more for each node.
	resting     = 250 * time.Millisecond
	restingNode = 2 * time.Millisecond
)

// Rest waits until the API server of so many nodes has come to rest, for what setting up has left behind is no part of what is
// measured. It reports whether it has within [StartupLimit], and true at once where that is not known.
func (s *Stage) Rest(ctx context.Context, nodes int) (bool, error) {
	last := s.Cluster.CPU()[apiServer]
	err := wait.PollUntilContextTimeout(ctx, time.Second, StartupLimit, false, func(context.Context) (bool, error) {
		used, known := s.Cluster.CPU()[apiServer]
		spent := used - last
		last = used
		return !known || spent < resting+time.Duration(nodes)*restingNode, nil
	})
	if err != nil && ctx.Err() == nil {
		return false, nil
	}
	return err == nil, err
}

// AwaitNodes waits until the label selector, "" for every node, selects n nodes and all of them take pods. The error
// says what it saw last.
func (s *Stage) AwaitNodes(ctx context.Context, selector string, n int) error {
	seen, fit := 0, 0
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, StartupLimit, true, func(ctx context.Context) (bool, error) {
		nodes, err := s.Cluster.Client().CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: selector})
		if err != nil {
			return false, err
		}
		seen, fit = len(nodes.Items), 0
		for i := range nodes.Items {
			if takesPods(&nodes.Items[i]) {
				fit++
			}
		}
		return seen == n && fit == n, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for %d nodes with labels %q: %w: there are %d, of which %d take pods", n, selector, err, seen, fit)
	}
	return nil
}

// takesPods tells of a Ready node whose taint is gone, too: it goes a moment later, and until then pods go elsewhere.
func takesPods(node *corev1.Node) bool {
	return len(node.Spec.Taints) == 0 && slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// Nodes lists the nodes, by name.
func (s *Stage) Nodes(ctx context.Context) ([]corev1.Node, error) {
	list, err := s.Cluster.Client().CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}
