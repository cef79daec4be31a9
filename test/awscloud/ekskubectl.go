package awscloud

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
)

// nodeManager is the name of the Kubernetes user as which EKS changes nodes.
const nodeManager = "eks:node-manager"

// oldNodeTaint is the taint that EKS puts on old nodes according to the older texts (EKS E30).
func oldNodeTaint() corev1.Taint {
	return corev1.Taint{Key: "eks.amazonaws.com/nodegroup", Value: "unschedulable", Effect: corev1.TaintEffectNoSchedule}
}

// KubectlDrainer returns a Drainer for the Nodes of a real API server. kubectl is the path of the program with which it drains.
// The program uses the kubeconfig and runs as eks:node-manager.
func KubectlDrainer(client kubernetes.Interface, kubectl, kubeconfig string) Drainer {
	return kubectlDrainer{client, kubectl, kubeconfig}
}

type kubectlDrainer struct {
	client              kubernetes.Interface
	kubectl, kubeconfig string
}

func (d kubectlDrainer) IsReady(ctx context.Context, node string, labels map[string]string) (bool, error) {
	n, err := d.client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading node %q: %w", node, err)
	}
	ready := slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
	return ready && hasLabels(n.Labels, labels), nil
}

func (d kubectlDrainer) Fence(ctx context.Context, node string, taint bool) error {
	if err := d.setCordonAndLabel(ctx, node, !taint, "true"); err != nil || !taint {
		return err
	}
	return d.setTaint(ctx, node, true)
}

func (d kubectlDrainer) Unfence(ctx context.Context, node string) error {
	if err := d.setCordonAndLabel(ctx, node, false, nil); err != nil {
		return err
	}
	return d.setTaint(ctx, node, false)
}

// setCordonAndLabel cordons or uncordons the node, and sets the label that removes the node from load balancers (EKS E46). If
// exclude is nil, it removes the label.
func (d kubectlDrainer) setCordonAndLabel(ctx context.Context, node string, cordon bool, exclude any) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"labels": map[string]any{corev1.LabelNodeExcludeBalancers: exclude}},
		"spec":     map[string]any{"unschedulable": cordon},
	})
	if err != nil {
		return fmt.Errorf("encoding the patch of node %q: %w", node, err)
	}
	_, err = d.client.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("marking node %q: %w", node, err)
	}
	return nil
}

// setTaint adds the taint of old nodes to the node or removes it.
func (d kubectlDrainer) setTaint(ctx context.Context, node string, on bool) error {
	old := oldNodeTaint()
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		n, err := d.client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
		if err != nil {
			return err
		}
		others := slices.DeleteFunc(slices.Clone(n.Spec.Taints), func(t corev1.Taint) bool { return t.MatchTaint(&old) })
		if on {
			others = append(others, old)
		}
		if len(others) == len(n.Spec.Taints) {
			return nil
		}
		n.Spec.Taints = others
		_, err = d.client.CoreV1().Nodes().Update(ctx, n, metav1.UpdateOptions{})
		return err
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("tainting node %q: %w", node, err)
	}
	return nil
}

func (d kubectlDrainer) Drain(ctx context.Context, node string, limit time.Duration) error {
	return d.drain(ctx, node, limit)
}

func (d kubectlDrainer) DeletePods(ctx context.Context, node string, limit time.Duration) error {
	return d.drain(ctx, node, limit, "--disable-eviction")
}

// drain runs kubectl drain until it succeeds or the limit is reached. One run is not enough, because kubectl exits if the API
// server gives an unexpected answer or none.
func (d kubectlDrainer) drain(ctx context.Context, node string, limit time.Duration, more ...string) error {
	late := time.Now().Add(limit)
	for {
		err := d.drainOnce(ctx, node, max(time.Until(late), time.Second/2), more...)
		if err == nil || time.Until(late) < time.Second || sleep(ctx, time.Second) != nil {
			return err
		}
	}
}

func (d kubectlDrainer) drainOnce(ctx context.Context, node string, limit time.Duration, more ...string) error {
	args := append([]string{
		"drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=" + limit.String(),
		"--kubeconfig=" + d.kubeconfig, "--cache-dir=" + filepath.Join(filepath.Dir(d.kubeconfig), "kubectl-cache"),
		"--as=" + nodeManager, "--as-group=system:masters",
	}, more...)
	out, err := exec.CommandContext(ctx, d.kubectl, args...).CombinedOutput()
	if err == nil {
		return nil
	}
	if _, gone := d.client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{}); apierrors.IsNotFound(gone) {
		return nil
	}
	return errors.Join(fmt.Errorf("kubectl drain %s: %w", node, err), errors.New(string(out)))
}
